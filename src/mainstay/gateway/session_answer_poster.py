"""Posts the answers and approval requests of one session to its chat room, turn by turn, from the session's journal."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec.structs import replace

from mainstay.core.channels import ChannelError, ChannelQueue, Delivery
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Delivered,
    Event,
    MessageAdded,
    Received,
    TurnEnded,
    TurnStarted,
)
from mainstay.core.ports import Clock, SessionInfo
from mainstay.gateway.approval_messages import format_approval_request
from mainstay.gateway.delivery import with_call_timeout
from mainstay.gateway.draft_message import DraftMessageEditor
from mainstay.gateway.room_routing import ChannelRooms
from mainstay.gateway.turn_answer import TurnAnswerBuilder
from mainstay.gateway.workspace import Workspace
from mainstay.lane.draft_filter import DraftFilter, filter_drafts
from mainstay.operations.caller import load_session_info
from mainstay.operations.event_feed import follow_journal, read_records

DELIVER_WITHIN_MS = 7 * 24 * 3600 * 1000  # older answers are not delivered any more
PAGE_RECORDS = 500
RECORDS_BACK_MAX = 20_000  # records that are read back to find the start of a turn
APPROVAL_KEY_KIND = "ask"  # prefix of the delivery keys of approval requests
REMOVED_DRAFT_TEXT = "…"  # replaces a draft that is no answer and cannot be deleted


class AnswerPosterContext(msgspec.Struct, frozen=True):
    """What the answer posters of a workspace share."""

    workspace: Workspace
    channel_queue: ChannelQueue
    rooms: ChannelRooms
    clock: Clock
    deliver: Callable[[Delivery], Any]
    start_draft: Callable[[Delivery, str], DraftMessageEditor | None]  # takes the user whose message is answered, too


def turn_delivery_key(workspace: str, session: str, turn: int) -> str:
    """Return the delivery key of a turn's answer."""
    return build_delivery_key("turn", workspace, session, str(turn))


def approval_delivery_key(workspace: str, id: str) -> str:
    """Return the delivery key of an approval request."""
    return build_delivery_key(APPROVAL_KEY_KIND, workspace, id)


def is_approval_request(delivery: Delivery) -> bool:
    return delivery.key.startswith(f"{APPROVAL_KEY_KIND}-")


def build_delivery_key(kind: str, *parts: str) -> str:
    """Return the idempotency key of a delivery: the same parts give the same key."""
    digest = hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()
    return f"{kind}-{digest[:32]}"


@asynccontextmanager
async def closing(events: AsyncIterator[Event]) -> AsyncIterator[AsyncIterator[Event]]:
    try:
        yield events
    finally:
        if isinstance(events, AsyncGenerator):
            await events.aclose()


class SessionAnswerPoster:
    """Posts the answers of one session; a session has one poster at a time. `newest_turn` returns the number of the
    last turn that has started."""

    def __init__(self, context: AnswerPosterContext, session: str, newest_turn: Callable[[], int]) -> None:
        self.is_paused = False  # the turn waits for an approval
        self._context = context
        self._session = session
        self._newest_turn = newest_turn
        self._answer_builder = TurnAnswerBuilder()
        self._turn = 0
        self._address: ChatAddress | None = None  # the address that this turn's answer goes to; None: none
        self._is_direct = False  # only the person who asked reads that address
        self._asker = ""  # the platform's id of the user who asked; empty: none there
        self._draft: DraftMessageEditor | None = None

    async def run(self) -> int:
        """Report turns until none is left to report now; return the last turn that was examined."""
        info = await load_session_info(self._context.workspace, self._session)
        if info.spawned is not None or info.delivered >= info.turns:
            return info.turns
        start = await self._find_start(info)
        if start is None:
            return info.turns
        try:
            filtered = filter_drafts(DraftFilter(), follow_journal(self._context.workspace, self._session, start))
            async with closing(filtered) as events:
                async for event in events:
                    if await self._handle_event(event) and self._turn >= max(info.turns, self._newest_turn()):
                        break
        finally:
            if self._draft is not None:
                self._draft.cancel()
        return self._turn

    async def _find_start(self, info: SessionInfo) -> int | None:
        """Return the sequence before the first turn to report; None if all of them are too old."""
        oldest = self._context.clock.now_ms() - DELIVER_WITHIN_MS
        first: int | None = None
        high = info.head
        while high > 0 and info.head - high < RECORDS_BACK_MAX:
            low = max(high - PAGE_RECORDS, 0)
            runtime = await self._context.workspace.runtime()
            page = await read_records(runtime, self._session, low, high - low)
            for record in reversed(page):
                if not isinstance(record.event, TurnStarted):
                    continue
                turn = record.event.turn
                under_way = info.unfinished and turn == info.turns
                if turn <= info.delivered or (record.at < oldest and not under_way):
                    return first
                first = record.seq - 1
            high = low
        return first

    async def _handle_event(self, event: Event) -> bool:
        """Handle an event; return True if the turn ended or waits for an approval."""
        if isinstance(event, Delivered):
            return False
        if isinstance(event, TurnStarted):
            await self._begin_turn(event)
        self._answer_builder.observe(event)
        match event:
            case ApprovalAsked():
                return await self._post_approval_request(event)
            case ApprovalAnswered():
                await self._start_draft()
            case MessageAdded(role="assistant", step=step) if self._draft is not None:
                self._draft.restore_text(step, self._answer_builder.text)
            case TurnEnded():
                await self._deliver_answer(event)
                return True
        return False

    # --- a turn ----------------------------------------------------------------------------------

    async def _begin_turn(self, started: TurnStarted) -> None:
        self._turn, self._address, self._is_direct = started.turn, None, False
        self._answer_builder = TurnAnswerBuilder()
        name = self._context.workspace.name
        inputs = await self._read_inputs(started.inputs)
        self._address = self._context.rooms.session_address(name, self._session) or self._find_input_address(inputs)
        last = inputs[-1].heard if inputs else None
        self._asker = last.user if last is not None else ""
        self._is_direct = bool(inputs) and all(input.heard is not None and input.heard.direct for input in inputs)
        await self._start_draft()

    async def _start_draft(self) -> None:
        """Start a draft (and the typing indicator) if the turn is running and has none."""
        info = await load_session_info(self._context.workspace, self._session)
        if self._address is None or self._draft is not None or info.turns != self._turn:
            return
        if info.unfinished and info.approval is None:
            delivery = await self._load_delivery(self._address)
            if delivery.state in ("pending", "sending") and not delivery.text:
                self._draft = draft = self._context.start_draft(delivery, self._asker)
                if draft is not None:
                    for step, text in self._answer_builder.texts.items():
                        draft.restore_text(step, text)

    async def _read_inputs(self, seqs: tuple[int, ...]) -> list[Received]:
        """Return the inputs of a turn, without those that were only overheard."""
        if not seqs:
            return []
        low, limit = min(seqs) - 1, max(seqs) - min(seqs) + 1
        runtime = await self._context.workspace.runtime()
        records = await read_records(runtime, self._session, low, min(limit, PAGE_RECORDS))
        events = [record.event for record in records if record.seq in seqs]
        return [event for event in events if isinstance(event, Received) and event.kind != "overheard"]

    def _find_input_address(self, inputs: Sequence[Received]) -> ChatAddress | None:
        """Return the address that the last of these inputs came from; None if it is no room of this workspace."""
        message = inputs[-1].heard if inputs else None
        return message.address if message is not None and self._is_own_room(message.address) else None

    async def _redact_for_room(self, text: str) -> str:
        """Return a text without secrets, unless only the person who asked reads it."""
        guards = (await self._context.workspace.runtime()).services.trust.guards
        return text if self._is_direct or guards is None else guards.redact_text(text)

    def _is_own_room(self, address: ChatAddress) -> bool:
        return self._context.rooms.workspace_of(address) == self._context.workspace.name

    async def _load_delivery(self, to: ChatAddress) -> Delivery:
        """Return the turn's delivery from the channel queue, or a new one that is not stored yet."""
        key = turn_delivery_key(self._context.workspace.name, self._session, self._turn)
        now = self._context.clock.now_ms()
        new = Delivery(key=key, to=to, session=self._session, turn=self._turn, at=now)
        return await self._context.channel_queue.find_delivery(key) or new

    async def _post_approval_request(self, approval: ApprovalAsked) -> bool:
        info = await load_session_info(self._context.workspace, self._session)
        is_pending = info.approval is not None and info.approval.id == approval.id
        if not is_pending or self._address is None:
            return False
        self.is_paused = True
        if self._draft is not None:
            await self._draft.finish_before_pause()
            self._draft = None
        if not approval.client:  # a client runs this call itself and was informed
            key = approval_delivery_key(self._context.workspace.name, approval.id)
            now = self._context.clock.now_ms()
            channel = self._context.rooms.get_channel(self._address.channel)
            message = format_approval_request(approval, has_files=channel is None or channel.capabilities.files)
            attached = [(name, await self._redact_for_room(text)) for name, text in message.attached]
            request = Delivery(
                key=key,
                to=self._address,
                session=self._session,
                text=await self._redact_for_room(message.text),
                attached=tuple(attached),
                at=now,
            )
            self._context.deliver(await self._context.channel_queue.add_delivery(request))
        return True

    async def _deliver_answer(self, ended: TurnEnded) -> None:
        self.is_paused = False
        to = self._address or self._answer_builder.input_address
        if to is None or not self._is_own_room(to):
            return
        posted_text = ""
        if self._draft is not None:
            draft, self._draft = self._draft, None
            delivery = await draft.finish()
            posted_text = draft.posted_text
        else:
            delivery = await self._load_delivery(to)
        answer = self._answer_builder.build_answer(ended, posted_text)
        if delivery.state in ("pending", "sending") and not delivery.text and not delivery.files:
            if not answer.text:
                await self._deliver_nothing(delivery, answer.note)
                return
            text = await self._redact_for_room(answer.text)
            delivery = await self._save_answer(replace(delivery, text=text))
        self._context.deliver(delivery)

    async def _save_answer(self, delivery: Delivery) -> Delivery:
        """Store the answer before any of it is posted; return the stored delivery, which may have a text already."""
        stored = await self._context.channel_queue.add_delivery(delivery)
        if stored == delivery or stored.text or stored.state not in ("pending", "sending"):
            return stored
        await self._context.channel_queue.update_delivery(delivery)
        return delivery

    async def _deliver_nothing(self, delivery: Delivery, note: str) -> None:
        """Remove the draft and record that the turn has no answer to post."""
        channel = self._context.rooms.get_channel(delivery.to.channel)
        if delivery.ids and channel is not None:
            try:
                if channel.capabilities.deletes:
                    await with_call_timeout(channel.delete(delivery.to, delivery.ids[0]))
                else:
                    await with_call_timeout(
                        channel.edit(delivery.to, delivery.ids[0], channel.format(REMOVED_DRAFT_TEXT))
                    )
            except ChannelError:  # the draft stays
                pass
        event = Delivered(delivery.key, delivery.to, (), "silent", note, turn=self._turn)
        await (await self._context.workspace.runtime()).lanes.get(self._session).record_changes(event)
        await self._context.channel_queue.update_delivery(replace(delivery, state="sent", draft=False))
