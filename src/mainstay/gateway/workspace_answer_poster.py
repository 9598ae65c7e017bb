"""Posts the result of every turn to the session's chat room, whatever interface prompted it; one per workspace.

Live events say which sessions are active; their turns are then read from the journal, so that a slow reader misses
nothing. After a restart, and periodically, all sessions are checked for turns that were not delivered.
"""

from __future__ import annotations

import asyncio
import logging

from mainstay.core.channels import ChannelQueue, Delivery
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.errors import MainstayError, SessionUnknown
from mainstay.core.events import Delivered, Event, Lagged, Received
from mainstay.core.input_envelope import SINGLE_SESSION_KEY
from mainstay.core.ports import Clock, SessionInfo
from mainstay.core.supervision import start_supervised_task
from mainstay.gateway.delivery import Deliverer
from mainstay.gateway.draft_message import DraftMessageEditor, LiveAnswer
from mainstay.gateway.opened_threads import record_opening
from mainstay.gateway.room_routing import ChannelRooms
from mainstay.gateway.session_answer_poster import (
    DELIVER_WITHIN_MS,
    AnswerPosterContext,
    SessionAnswerPoster,
    approval_delivery_key,
    closing,
    is_approval_request,
)
from mainstay.gateway.workspace import Workspace
from mainstay.operations.caller import load_session_info
from mainstay.operations.event_feed import read_records, watch_live

log = logging.getLogger("mainstay.delivery")

SWEEP_INTERVAL_S = 60.0
SWEEP_MARGIN_MS = 10 * 60 * 1000
PRUNE_EVERY_SWEEPS = 60  # sweeps
PAGE_SESSIONS = 500
CHECKED_SESSIONS_MAX = 10_000
ROOM_RECORDS_MAX = 50  # records that are read to find the room of a session
RETRY_S = 2.0
RETRY_MAX_S = 60.0
APPROVAL_OUTDATED = "it was answered before it could be posted"
PERSON_KEY_PREFIX = "user:"  # prefix of session keys if there is one session per person (core/envelope)


class WorkspaceAnswerPoster:
    """Runs the answer posters of one workspace."""

    def __init__(
        self, workspace: Workspace, channel_queue: ChannelQueue, rooms: ChannelRooms, deliverer: Deliverer, clock: Clock
    ) -> None:
        self._context = AnswerPosterContext(workspace, channel_queue, rooms, clock, self.deliver, self._start_draft)
        self._workspace = workspace
        self._channel_queue = channel_queue
        self._rooms = rooms
        self._deliverer = deliverer
        self._clock = clock
        self._poster_tasks: dict[str, asyncio.Task[None]] = {}
        self._newest_turns: dict[str, int] = {}  # by session with a poster: the newest turn that was seen
        self._live_answers: dict[str, LiveAnswer] = {}
        # by session: the last input's address, if it is not the session's key
        self._input_addresses: dict[str, ChatAddress] = {}
        self._checked_turns: dict[str, int] = {}  # by session: the last turn that is known to need no report
        self._sweep_since = 0  # ms: sessions that changed since then are swept; 0: those of the last days
        self._sweep_requested = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start to report turns; those that were not delivered yet come first."""
        name, watching = self._workspace.name, asyncio.Event()
        self._tasks = [
            start_supervised_task(f"answer poster of workspace {name!r}", lambda: self._watch_events(watching))
        ]
        await watching.wait()
        await self.post_undelivered()
        self._tasks.append(
            start_supervised_task(f"search for undelivered answers of workspace {name!r}", self._sweep_periodically)
        )

    async def post_undelivered(self) -> None:
        """Report turns and post deliveries that were left while the process or the channel was down."""
        await self._restore_direct_rooms()
        self._checked_turns.clear()
        self._sweep_since = 0
        await self._sweep_sessions()
        for delivery in await self._channel_queue.list_due():
            if delivery.text or delivery.files:  # else it is the draft of a turn that is not finished
                self.deliver(delivery)

    async def close(self) -> None:
        tasks = [*self._tasks, *self._poster_tasks.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._poster_tasks.clear()

    @property
    def is_busy(self) -> bool:
        return bool(self._poster_tasks)

    def session_address(self, session: str) -> ChatAddress | None:
        """Return the chat address of a session; None if it is in no room of this workspace."""
        last = self._input_addresses.get(session)
        if last is not None and self._rooms.workspace_of(last) == self._workspace.name:
            return last
        return self._rooms.session_address(self._workspace.name, session)

    # --- watching --------------------------------------------------------------------------------

    async def _watch_events(self, subscribed: asyncio.Event) -> None:
        while True:
            if subscribed.is_set():  # events may have been missed
                self._sweep_requested.set()
            try:
                async with closing(watch_live(self._workspace)) as events:
                    asyncio.get_running_loop().call_soon(subscribed.set)  # by then the loop below has subscribed
                    async for event in events:
                        self._handle_event(event)
                return  # the workspace is closed
            except MainstayError as error:
                log.warning("live events of the workspace %s cannot be read now: %s", self._workspace.name, error)
            await self._clock.sleep(RETRY_S)

    def _handle_event(self, event: Event) -> None:
        if isinstance(event, Lagged):
            self._sweep_requested.set()
            for live in self._live_answers.values():
                live.mark_gap()
            return
        session = event.session
        match event:
            case Received(kind="prompt" | "steer", heard=message) if (
                message and ChatAddress.parse(session) != message.address
            ):
                self._input_addresses[session] = message.address
        if not event.turn or isinstance(event, Delivered) or event.turn <= self._checked_turns.get(session, 0):
            return
        if session in self._poster_tasks:
            self._newest_turns[session] = max(event.turn, self._newest_turns.get(session, 0))
        elif self.session_address(session) is not None:
            self._start_poster(session)
        else:
            return
        self._live_answers[session].observe(event)

    def _start_poster(self, session: str) -> None:
        if session not in self._poster_tasks:
            self._live_answers[session] = LiveAnswer()
            self._poster_tasks[session] = start_supervised_task(
                f"answer poster of {session}", lambda: self._run_poster(session), is_isolated=True
            )

    async def _run_poster(self, session: str) -> None:
        """Report a session's turns until none is left."""
        tries = 0
        while True:
            try:
                poster = SessionAnswerPoster(self._context, session, lambda: self._newest_turns.get(session, 0))
                last_turn = await poster.run()
                if self._newest_turns.get(session, 0) <= last_turn:
                    self._mark_checked(session, last_turn - poster.is_paused)
                    break
            except SessionUnknown:
                break
            except MainstayError as error:
                log.warning("the answer in %s is retried: %s", session, error)
                tries += 1
                await self._clock.sleep(min(RETRY_S * 2 ** min(tries - 1, 10), RETRY_MAX_S))
        del self._poster_tasks[session], self._live_answers[session]
        self._newest_turns.pop(session, None)

    def _mark_checked(self, session: str, turn: int) -> None:
        """Remember that a session needs no report up to this turn."""
        self._checked_turns.pop(session, None)
        self._checked_turns[session] = turn
        while len(self._checked_turns) > CHECKED_SESSIONS_MAX:
            del self._checked_turns[next(iter(self._checked_turns))]

    # --- sweeping --------------------------------------------------------------------------------

    async def _sweep_periodically(self) -> None:
        sweeps = 0
        while True:
            try:
                async with asyncio.timeout(SWEEP_INTERVAL_S):
                    await self._sweep_requested.wait()
            except TimeoutError:
                pass
            self._sweep_requested.clear()
            try:
                await self._sweep_sessions()
                sweeps += 1
                if sweeps % PRUNE_EVERY_SWEEPS == 0:
                    await self._channel_queue.prune(self._clock.now_ms() - DELIVER_WITHIN_MS)
            except MainstayError as error:
                log.warning("undelivered answers of %s could not be searched for: %s", self._workspace.name, error)
            await self._clock.sleep(RETRY_S)  # a lagging reader may ask for a sweep again at once

    async def _sweep_sessions(self) -> None:
        """Start posters for sessions with undelivered turns that changed since the last sweep or in the last days."""
        now, offset = self._clock.now_ms(), 0
        since = self._sweep_since or now - DELIVER_WITHIN_MS
        while page := await (await self._workspace.runtime()).services.store.list_sessions(
            limit=PAGE_SESSIONS, offset=offset
        ):
            for info in page:
                if info.delivered < info.turns and await self._needs_report(info):
                    self._start_poster(info.key)
            offset += len(page)
            if page[-1].updated < since:
                break
        self._sweep_since = now - SWEEP_MARGIN_MS

    async def _needs_report(self, info: SessionInfo) -> bool:
        if info.spawned is not None or self._checked_turns.get(info.key, 0) >= info.turns:
            return False
        if info.key == SINGLE_SESSION_KEY or info.key.startswith(PERSON_KEY_PREFIX):  # the addresses are in its inputs
            return True
        address = ChatAddress.parse(info.key)
        if address is None or not self._rooms.has_channel(address.channel):
            return False
        if self._rooms.workspace_of(address) != self._workspace.name:
            await self._restore_direct_room(info.key)
        return self._rooms.workspace_of(address) == self._workspace.name

    async def _restore_direct_rooms(self) -> None:
        """Restore from the journals which direct-message rooms belong to this workspace, before another workspace can
        claim one."""
        if self._rooms.owns_all_channels(self._workspace.name):
            return
        checked: set[tuple[str, str]] = set()
        offset = 0
        while page := await (await self._workspace.runtime()).services.store.list_sessions(
            limit=PAGE_SESSIONS, offset=offset
        ):
            offset += len(page)
            for key in (info.key for info in page if info.spawned is None):
                address = ChatAddress.parse(key) or ChatAddress("")
                by_person = key == SINGLE_SESSION_KEY or key.startswith(PERSON_KEY_PREFIX)
                is_own = (
                    not self._rooms.has_channel(address.channel)
                    or self._rooms.workspace_of(address) == self._workspace.name
                )
                if by_person or not (is_own or (address.channel, address.room) in checked):
                    checked.add((address.channel, address.room))
                    await self._restore_direct_room(key)

    async def _restore_direct_room(self, session: str) -> None:
        """Restore the room of a session with direct messages. It belongs to the workspace of the person who wrote them,
        whatever the channel's workspace is; to this one if the account is not paired any more."""
        for record in await read_records(await self._workspace.runtime(), session, 0, ROOM_RECORDS_MAX):
            match record.event:
                case Received(heard=message) if message is not None and message.direct:
                    if self._rooms.has_channel(message.address.channel):
                        self._rooms.restore_direct_room(message.address, message.user, self._workspace.name)
                    return

    # --- delivery --------------------------------------------------------------------------------

    def deliver(self, delivery: Delivery) -> asyncio.Future[Delivery] | None:
        """Post a delivery that is in the channel queue. None if its channel is not connected: it stays in the queue."""
        channel = self._rooms.get_channel(delivery.to.channel)
        if channel is None or self._rooms.workspace_of(delivery.to) != self._workspace.name:
            return None
        outdated = self._find_outdated_reason if is_approval_request(delivery) else None
        return self._deliverer.deliver(delivery, channel, self._channel_queue, self._record_delivered, outdated)

    async def _find_outdated_reason(self, request: Delivery) -> str:
        """Return why an approval request need not be posted any more; "" if it is still pending. It may have been
        answered on another channel, or have expired, before it could be posted."""
        try:
            pending = (await load_session_info(self._workspace, request.session)).approval
        except SessionUnknown:
            pending = None
        if pending is not None and approval_delivery_key(self._workspace.name, pending.id) == request.key:
            return ""
        return APPROVAL_OUTDATED

    def _start_draft(self, delivery: Delivery, asker: str) -> DraftMessageEditor | None:
        channel = self._rooms.get_channel(delivery.to.channel)
        if channel is None:
            return None
        live = self._live_answers[delivery.session]
        draft = DraftMessageEditor(delivery, live, channel, self._channel_queue, self._deliverer, self._clock)
        draft.start(show_text=self._rooms.get_rules(channel.name).stream, asker=asker)
        return draft

    async def _record_delivered(self, delivery: Delivery) -> None:
        """Write the receipt of a finished delivery into its session's journal."""
        if not delivery.session:
            return
        if delivery.opened and not delivery.turn and delivery.ids and delivery.text:
            await record_opening(self._workspace, delivery)
        if delivery.turn and (await load_session_info(self._workspace, delivery.session)).delivered >= delivery.turn:
            return
        state = delivery.state
        assert state in ("sent", "unknown", "failed"), "the delivery is finished"
        result = "silent" if state == "sent" and not delivery.ids else state
        event = Delivered(delivery.key, delivery.to, delivery.ids, result, delivery.note, turn=delivery.turn)
        await (await self._workspace.runtime()).lanes.get(delivery.session).record_changes(event)
