"""Follows a turn for one client until the response is complete. If the client disconnects, the turn goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

from mainstay.agent.client import to_operation_inputs
from mainstay.core.asgi import Receive
from mainstay.core.errors import AgentClosed, MainstayError
from mainstay.core.events import ApprovalAsked, Event, Steered, TurnStarted
from mainstay.operations.caller import Caller, NotAllowed
from mainstay.operations.event_feed import Subscription, follow_session, follow_turn
from mainstay.operations.execute import execute
from mainstay.operations.turns import Steer
from mainstay.server.authentication import is_still_authorised
from mainstay.server.http_state import HttpServerState
from mainstay.server.openai.conversation_cache import StartedTurn
from mainstay.server.openai.ids import ResponsePosition
from mainstay.server.openai.turn_answer import OpenAIAnswer, closing_events
from mainstay.server.openai.turn_start import submit_result
from mainstay.server.pollable_iterator import PollableIterator

KEEP_ALIVE_S = 15.0
CHUNK_CHARS = 16 * 1024  # of text that is joined into one write
STOPPING_SENTENCE = "the server is being stopped; the turn continues when it is started again"

OnText = Callable[[str], Awaitable[None]]
OnIdle = Callable[[], Awaitable[None]]


class TurnFollower:
    """Follows one turn. Create it right after the prompt was accepted: it subscribes at once, so that no event is lost.

    `partial`: text deltas are wanted, not only journaled messages."""

    ends_with_turn = True  # it ends by itself: a graceful shutdown waits for it

    def __init__(self, caller: Caller, started: StartedTurn, *, partial: bool) -> None:
        self.started = started
        self.caller = caller
        self.answer = OpenAIAnswer(started.session, started.call_id, partial=partial, is_late=started.is_retry)
        self.error: MainstayError | None = None
        self.is_disconnected = False
        self._results = dict(started.results)
        self._iterator: PollableIterator[Event] = PollableIterator(self._follow_events())
        self._first_event = self._poll_first_event()
        self._state: HttpServerState | None = None
        self._task: asyncio.Task[object] | None = None
        self._ended_early = False
        self._on_idle: OnIdle | None = None
        self._idle_tasks: set[asyncio.Task[None]] = set()
        self._sent_at = 0.0
        self._sending = False

    def _poll_first_event(self) -> Event | None:
        try:
            return self._iterator.poll()
        except StopAsyncIteration:  # raised again by the next poll
            return None

    async def run(
        self, state: HttpServerState, receive: Receive, on_text: OnText | None = None, on_idle: OnIdle | None = None
    ) -> None:
        """Follow the turn to its end. `on_text` gets all text that is available, in one piece; `on_idle` is called when
        there is none for long. An error ends up in `error`."""
        self._state, self._on_idle = state, on_idle
        self._task = task = asyncio.current_task()
        assert task is not None
        self._sent_at = asyncio.get_running_loop().time()
        disconnect = asyncio.create_task(self._wait_for_disconnect(receive))
        state.add_stream(self, KEEP_ALIVE_S / 3)
        try:
            if self.started.user_parts:
                inputs = to_operation_inputs(self.started.user_parts)
                await execute(self.caller, Steer(session=self.started.session, parts=inputs))
            await self._collect_text(on_text)
        except asyncio.CancelledError:
            if not self._ended_early or task.uncancel():
                raise  # cancelled by another task
        except MainstayError as error:
            self.error = error
        finally:
            state.remove_stream(self)
            disconnect.cancel()
            await self._iterator.aclose()

    async def close(self) -> None:
        await self._iterator.aclose()

    async def _collect_text(self, on_text: OnText | None) -> None:
        buffer: list[str] = []
        size = 0
        event, self._first_event = self._first_event, None
        try:
            while True:
                if event is not None and (text := self.answer.handle_event(event)):
                    buffer.append(text)
                    size += len(text)
                event = self._iterator.poll() if size < CHUNK_CHARS else None
                if event is None and buffer:
                    await self._send_text(on_text, buffer)
                    size = 0
                elif event is None:
                    event = await self._iterator.wait_next()
        except StopAsyncIteration:
            buffer.append(self.answer.finish())
            await self._send_text(on_text, buffer)
        if not self.answer.is_complete and self.answer.approval is None:
            self.error = AgentClosed(STOPPING_SENTENCE)

    async def _send_text(self, on_text: OnText | None, buffer: list[str]) -> None:
        text = "".join(buffer)
        buffer.clear()
        if on_text is not None and text:
            self._sending = True
            await on_text(text)
            self._sending = False
            self._sent_at = asyncio.get_running_loop().time()

    async def _follow_events(self) -> AsyncGenerator[Event, None]:
        """Yield the events of the turn until the response is complete. Tool results that the client sent in advance are
        submitted when the model waits for them."""
        started, key = self.started, self.caller.session_key(self.started.session)
        while True:
            approval: ApprovalAsked | None = None
            subscription = started.subscription or Subscription(self.caller.current.services.hub, key)
            async with closing_events(
                follow_turn(self.caller, key, started.pending, subscription, include_drafts=False)
            ) as events:
                async for event in events:
                    yield event
                    if self.answer.is_complete:
                        approval = self.answer.approval
                        break
            if approval is None or approval.call_id not in self._results:
                return
            started = await submit_result(
                self.caller, started.session, approval.call_id, self._results.pop(approval.call_id)
            )
            self.answer.continue_after(approval.call_id)

    # --- OpenStream ------------------------------------------------------------------------------

    async def _wait_for_disconnect(self, receive: Receive) -> None:
        """Wait until the client disconnects: it sends nothing else."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self.is_disconnected = True
        self._end_early(None)

    def end_for_shutdown(self) -> None:
        self._end_early(AgentClosed(STOPPING_SENTENCE))

    def keep_alive(self, now: float) -> None:
        if self._state is not None and not is_still_authorised(self._state, self.caller.principal):
            self._end_early(NotAllowed("this API key is not valid any more"))
        if self._on_idle is None or self._sending or now - self._sent_at < KEEP_ALIVE_S:
            return
        self._sent_at = now
        task = asyncio.create_task(self._call_on_idle(self._on_idle))
        self._idle_tasks.add(task)
        task.add_done_callback(self._idle_tasks.discard)

    async def _call_on_idle(self, on_idle: OnIdle) -> None:
        if not self._sending and self._state is not None and self in self._state.open_streams:
            await on_idle()

    def _end_early(self, error: MainstayError | None) -> None:
        running = self._state is not None and self in self._state.open_streams
        if running and not self._ended_early and self._task is not None:
            self._ended_early, self.error = True, error
            self._task.cancel()


async def load_recorded_answer(caller: Caller, position: ResponsePosition) -> OpenAIAnswer:
    """Return the answer of an earlier response, as far as it is in the journal by now. Raises SessionUnknown."""
    answer = OpenAIAnswer(position.session, position.call_id, partial=False)
    key, info = await caller.find_session(position.session)
    head = info.head
    turn = 0
    async with closing_events(
        follow_session(caller, key, position.seq - 1, last_sequence=head, include_drafts=False)
    ) as events:
        async for event in events:
            if isinstance(event, TurnStarted | Steered) and position.seq in event.inputs:
                turn = event.turn
            if turn and event.turn == turn:
                answer.handle_event(event)
            if answer.is_complete or event.sequence >= head:
                break
    return answer
