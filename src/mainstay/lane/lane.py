"""Lane of one session: makes inputs durable, runs the turns in order, and isolates the session's failures."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from functools import partial
from typing import Literal, TypeVar

import msgspec

from mainstay.context.token_budget import journal_bytes_for_window
from mainstay.core.errors import (
    AgentClosed,
    HomeUnusable,
    InputRefused,
    MainstayError,
    StaleWriter,
    StoreCorrupt,
    StoreError,
    StoreFailed,
    StoreTooNew,
)
from mainstay.core.events import (
    ApprovalAnswered,
    Event,
    Received,
    StepRestarted,
    TurnResumed,
    TurnSetAside,
    TurnStarted,
    Waiting,
)
from mainstay.core.input_envelope import InputEnvelope, check_envelope
from mainstay.core.journal_wording import CURRENT_VERSION
from mainstay.core.messages import parts_text
from mainstay.core.open_turn import OpenTurn
from mainstay.core.outcome import Aborted, Failed, Outcome, Paused
from mainstay.core.ports import IdempotencyKey
from mainstay.core.session import Session
from mainstay.core.supervision import must_end_task
from mainstay.lane.approvals import check_answer, deny_with_input, expire_if_due
from mainstay.lane.context_compiler import LaneContextCompiler
from mainstay.lane.inputs import (
    InputCoalescer,
    build_blocked_error,
    build_received,
    check_mailbox,
    extract_trusted_text,
    join_prompt_text,
)
from mainstay.lane.journal_writer import JournalWriter
from mainstay.lane.replies import (
    PendingReplies,
    PendingReply,
    build_closing_events,
    build_reply,
    find_reply,
    needs_missing_tool,
)
from mainstay.lane.services import LaneServices
from mainstay.lane.turn_attempt import (
    AGENT_CLOSED,
    RUNTIME_FAILED,
    add_location,
    attempt_turn,
    log_store_failure,
    run_with_location,
    settle_lost_reservations,
)
from mainstay.turn.control import TurnControl
from mainstay.turn.dependencies import AnswerValidator

log = logging.getLogger("mainstay.lane")

T = TypeVar("T")
STALE_ATTEMPTS_MAX = 5  # how often a write is attempted while the session is changed outside its lane


class Lane:
    """Created on a session's first message and dropped when idle; an idle lane has no task and no timer."""

    __slots__ = (
        "_aborted_turn",
        "_close_reason",
        "_coalescer",
        "_context_compiler",
        "_control",
        "_intake_lock",
        "_is_after_restart",
        "_is_closed",
        "_is_outdated",
        "_loading",
        "_pending_replies",
        "_services",
        "_started_turn",
        "_task",
        "_turn_ended",
        "_writer",
        "active_at",
        "key",
    )  # fmt: skip

    def __init__(self, key: str, services: LaneServices) -> None:
        self.key = key
        self._services = services
        self._writer: JournalWriter | None = None
        self._loading: asyncio.Future[JournalWriter] | None = None
        self._task: asyncio.Task[None] | None = None
        self._control: TurnControl | None = None
        self._turn_ended: asyncio.Event | None = None
        self._aborted_turn = 0  # number of the aborted turn until its end is on disk; 0: none
        self._pending_replies = PendingReplies()
        self._context_compiler = LaneContextCompiler(services)
        self._intake_lock = asyncio.Lock()
        self._coalescer = InputCoalescer()
        self._started_turn = (
            0  # number of a turn that was recorded together with its input and has not run yet; 0: none
        )
        self._is_after_restart = False  # its open turn was left by an earlier process and is not resumed yet
        self._is_closed = False
        self._close_reason: MainstayError | None = None  # None: the agent was closed
        self._is_outdated = False
        self.active_at = 0.0

    @property
    def is_busy(self) -> bool:
        if self.tasks or self._pending_replies or self._loading is not None:
            return True
        return self._writer is not None and self._writer.has_pending_writes

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def tasks(self) -> list[asyncio.Task[object]]:
        """Running tasks: the turns, and a fold in the background."""
        return [task for task in (self._task, self._context_compiler.fold_runner.running_task) if task is not None]

    @property
    def control(self) -> TurnControl | None:
        """Control of the running turn, for the watchdog; None: no turn runs."""
        return self._control

    # --- inputs ----------------------------------------------------------------------------------

    async def accept(self, envelope: InputEnvelope, validate_answer: AnswerValidator | None = None) -> PendingReply:
        """Accept a prompt; returns when it is on disk. Raises LaneFull, SessionArchived or InputRefused."""
        return await self._accept_input(envelope, "prompt", validate_answer)

    async def steer(self, envelope: InputEnvelope) -> PendingReply:
        """Put an input into the running turn at its next boundary; a prompt if no turn runs."""
        if self._control is None:
            return await self.accept(envelope)
        pending = await self._accept_input(envelope, "steer")
        if self._control is not None and self._writer is not None and pending.seq in self._writer.session.queued_inputs:
            self._control.steer(pending.seq)
        return pending

    async def overhear(self, envelope: InputEnvelope) -> bool:
        """Record a message that starts no turn; the model sees it with the next prompt. False if it is a duplicate."""
        envelope = check_envelope(envelope, self._services.limits)
        async with self._intake_lock:
            if await self._services.store.find_input(self.key, envelope.id) is not None:
                return False
            key, event = IdempotencyKey(envelope.id, envelope.digest), build_received(envelope, "overheard")
            await self._write(lambda writer: writer.record_once(key, event))
            return True

    async def abort(self) -> bool:
        """Cancel the open turn; False if there is none. Waiting prompts still run. Raises StoreFailed."""
        writer = self._writer if self._is_closed else await self._load_writer()
        if writer is None or (turn := writer.session.open_turn) is None:
            return False
        if self._task is None:  # it is paused for an approval
            await self._close_turn(writer, Aborted())
            return True
        self._aborted_turn = turn.turn  # kept even if a failing store prevents recording the end now
        if self._control is not None and self._turn_ended is not None:
            self._control.abort()
            await self._turn_ended.wait()
            if self._aborted_turn and not self._is_closed:
                raise StoreFailed("the turn was stopped, but its end cannot be stored yet; storing it is retried")
        return True

    async def answer_approval(self, answer: ApprovalAnswered) -> PendingReply:
        """Record the answer to the pending approval and resume the turn. Raises ApprovalUnknown or InputRefused."""
        pending = await self._write(lambda writer: self._record_answer(writer, answer))
        self.wake()
        return pending

    async def _record_answer(self, writer: JournalWriter, answer: ApprovalAnswered) -> PendingReply:
        tools = self._services.tools.with_client_tools(writer.session.client_tools)
        answer = check_answer(writer.session, answer, self._services.clock.now_ms(), tools)
        turn = writer.session.open_turn
        assert turn is not None
        pending = self._pending_replies.get(turn.inputs[-1]) or self._add_pending(turn.inputs[-1], None)
        pending.turn = turn.turn
        await writer.record(answer)
        self._services.approvals.set_pending(self.key, None)
        return pending

    async def record_changes(self, *events: Event) -> None:
        """Record events other than inputs: settings, imported history, a fold."""
        await self._write(lambda writer: writer.record(*events))
        self.wake()

    async def load_session(self) -> Session:
        return (await self._load_writer()).session

    async def load_context_compiler(self) -> LaneContextCompiler:
        """Return the context compiler, bound to the session as it is now."""
        writer = await self._load_writer()
        return self._context_compiler.bind_session(
            writer, self._services.provider_for(writer.session.model).model(), self._control
        )

    def wake(self) -> None:
        """Start working on unfinished turns and waiting inputs, unless that is already running."""
        loop = asyncio.get_running_loop()
        self.active_at = loop.time()
        if self._task is None and not self._is_closed:
            work = run_with_location(self._run_turns, self.key, lambda: self._writer)
            self._task = loop.create_task(work, name=f"lane {self.key}")

    def resume_after_restart(self) -> None:
        """Resume what an earlier process left unfinished."""
        self._is_after_restart = self._task is None
        self.wake()

    async def release(self, *, fail: bool = False) -> None:
        """Release a turn that was set aside: run it again or, with `fail`, end it. Raises InputRefused if none was."""
        await self._write(partial(self._release_turn, fail=fail))
        self.wake()

    async def _release_turn(self, writer: JournalWriter, *, fail: bool) -> None:
        turn = writer.session.open_turn
        if turn is None or not turn.is_set_aside:
            raise InputRefused(f"session {self.key!r} has no turn that was set aside")
        if fail:
            sentence = f"This turn was ended: {turn.crashes} processes in a row ended while they ran it."
            await self._close_turn(writer, Failed(sentence, turn=turn.turn))
        else:
            await writer.record(TurnResumed(turn=turn.turn, released=True))

    async def mark_stopping(self) -> None:
        """Note that the process was told to stop while the turn runs: its end is not blamed on the turn."""
        writer = self._writer
        if self._control is None or writer is None or writer.session.open_turn is None:
            return
        writer.session.stopped_turn = writer.session.open_turn.turn
        try:
            await writer.save_session_info()
        except MainstayError as error:
            log.warning("session %s: the shutdown could not be noted: %s", self.key, error)

    def refresh(self) -> None:
        """Reload the session from the store after the running turn; until then no fold of the old view is recorded."""
        self._is_outdated = self._context_compiler.fold_runner.is_suspended = True
        if self._task is None:
            self._drop_view()
        elif self._control is None:
            self._writer = None

    def _drop_view(self) -> None:
        if self._writer is not None:  # a running fold may still hold it
            self._writer.failure = StaleWriter("the session was changed outside its lane")
        self._writer = None
        self._is_outdated = self._context_compiler.fold_runner.is_suspended = False

    async def end(self, reason: MainstayError) -> None:
        """Abort the running turn and close the lane for good; pending replies fail with `reason`."""
        self._is_closed = True
        self._close_reason = reason
        await self.abort()
        await self.close(reason)

    async def close(self, reason: MainstayError | None = None) -> None:
        """Stop without ending the turn; the next process that opens the home resumes it."""
        self._is_closed = True
        if self._task is not None:
            await self.mark_stopping()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        await self._context_compiler.fold_runner.close()
        if self._writer is not None:
            try:
                await self._writer.flush()
            except StoreError as error:
                log.warning("session %s could not be flushed: %s", self.key, error)
        self._pending_replies.fail_all(add_location(reason or AgentClosed(AGENT_CLOSED), self.key, self._writer))

    # --- loading, and storing inputs -------------------------------------------------------------

    async def _load_writer(self) -> JournalWriter:
        """Return the journal writer; loads the session if it is not loaded or the last writer failed."""
        if self._is_closed:
            raise self._closed_error()
        if self._writer is not None and self._writer.failure is None:
            return self._writer
        if self._loading is None:
            self._loading = asyncio.ensure_future(self._open_writer())
            self._loading.add_done_callback(self._end_loading)
        return await asyncio.shield(self._loading)

    def _end_loading(self, loading: asyncio.Future[JournalWriter]) -> None:
        """Forget a finished load, also if every caller left meanwhile: the lane could not be dropped as idle."""
        if self._loading is loading:
            self._loading = None
        if not loading.cancelled():
            loading.exception()  # retrieved: if no caller is left, it is not logged as never retrieved

    def _closed_error(self) -> MainstayError:
        reason = self._close_reason
        return AgentClosed("the agent is closed") if reason is None else type(reason)(*reason.args)

    async def _write(self, write: Callable[[JournalWriter], Awaitable[T]]) -> T:
        """Call `write` with the journal writer. If the session was changed outside its lane meanwhile, nothing was
        stored: the session is loaded again and `write` is repeated. Raises StaleWriter after `STALE_ATTEMPTS_MAX`."""
        for _ in range(STALE_ATTEMPTS_MAX - 1):
            writer = await self._load_writer()
            try:
                return await write(writer)
            except StaleWriter as error:
                log.info("session %s is loaded again: %s", self.key, error)
        return await write(await self._load_writer())

    async def _open_writer(self) -> JournalWriter:
        services = self._services
        tail = await services.store.load_tail(
            self.key, journal_bytes_for_window(services.provider_for("").model(), services.context_rules)
        )
        session = Session.from_tail(tail) if tail is not None else Session(self.key)
        session.has_unread_history = tail is not None and not tail.complete
        limits = services.limits
        self._writer = JournalWriter(
            session, services.store, services.clock, limits.ride_along_s, services.hub, services.on_stored
        )
        return self._writer

    def _add_pending(self, seq: int, validate_answer: AnswerValidator | None) -> PendingReply:
        if self._is_closed:  # closed while the session was being loaded
            raise self._closed_error()
        return self._pending_replies.add(seq, validate_answer)

    async def _accept_input(
        self, envelope: InputEnvelope, kind: Literal["prompt", "steer"], validate_answer: AnswerValidator | None = None
    ) -> PendingReply:
        envelope = check_envelope(envelope, self._services.limits)
        event = build_received(envelope, kind)
        if not envelope.id:
            return await self._write(partial(self._record_input, event, None, validate_answer))
        async with self._intake_lock:  # one at a time, so that a duplicate id finds the first input
            if (await self._load_writer()).session.head:
                known = await self._find_duplicate(envelope, validate_answer)
                if known is not None:
                    return known
            key = IdempotencyKey(envelope.id, envelope.digest)
            return await self._write(partial(self._record_input, event, key, validate_answer))

    async def _record_input(
        self,
        event: Received,
        idempotency_key: IdempotencyKey | None,
        validate_answer: AnswerValidator | None,
        writer: JournalWriter,
    ) -> PendingReply:
        if event.kind == "prompt":
            check_mailbox(writer.session, self._services.limits)
        pending = self._add_pending(writer.session.head + 1, validate_answer)
        received, *started = self._build_input_events(writer.session, event, pending)
        screen = self._services.scan_input
        finding = screen(parts_text(event.parts)) if screen is not None else None
        events = (received, *([finding] if finding is not None else []), *started)
        try:
            await (writer.record(*events) if idempotency_key is None else writer.record_once(idempotency_key, *events))
        except BaseException as error:
            self._pending_replies.pop(pending.seq, None)
            if isinstance(error, StaleWriter):  # the turn that was to start with this input was not stored
                self._started_turn = 0
            if isinstance(error, asyncio.CancelledError):  # the input may be on disk all the same, and then it runs
                self.wake()
            raise
        self._coalescer.record_arrival(pending.seq)
        self.wake()
        return pending

    def _build_input_events(self, session: Session, event: Received, pending: PendingReply) -> tuple[Event, ...]:
        """Return the events for an input; if the lane is idle, its turn starts in the same write."""
        if session.pending_approval is not None:
            return deny_with_input(session, event)
        idle = (
            session.open_turn is None and not session.has_prompt and self._task is None and session.status != "paused"
        )
        if event.kind == "steer" or not idle or self._services.limits.coalesce_window_s > 0:
            return (event,)
        pending.turn = self._started_turn = session.turns + 1
        return event, *self._build_start_events(
            session, (*session.queued_inputs, pending.seq), extract_trusted_text(event.parts)
        )

    def _build_start_events(self, session: Session, inputs: tuple[int, ...], prompt: str) -> tuple[Event, ...]:
        model = session.model or self._services.provider_for("").model().name
        return self._context_compiler.build_start_events(
            session, TurnStarted(inputs, turn=session.turns + 1, model=model, wording=CURRENT_VERSION), prompt
        )

    async def _find_duplicate(
        self, envelope: InputEnvelope, validate_answer: AnswerValidator | None
    ) -> PendingReply | None:
        """Return the pending reply of an input that was accepted before under the same id; None if the id is new."""
        seen = await self._services.store.find_input(self.key, envelope.id)
        if seen is None:
            return None
        seq, digest = seen
        if digest != envelope.digest:
            raise InputRefused(f"the id {envelope.id!r} was already used for a different message")
        if (pending := self._pending_replies.get(seq)) is not None:
            return pending
        pending = self._add_pending(seq, validate_answer)  # before reading the journal: its turn may end meanwhile
        session = self._writer.session if self._writer is not None else None
        if session is not None and (turn := session.open_turn) is not None and seq in turn.inputs:
            pending.turn = turn.turn
        if (reply := await find_reply(self._services.store, self.key, seq)) is not None:
            self._pending_replies.resolve((seq,), reply)
        else:
            self.wake()
        return pending

    # --- turns -----------------------------------------------------------------------------------

    async def _run_turns(self) -> None:
        failures = 0
        try:
            while not self._is_closed:
                try:
                    if not await self._run_next_turn(is_store_working=failures == 0):
                        break
                    failures = 0
                except (StoreCorrupt, StoreTooNew) as error:  # a retry does not repair a file
                    log.error("session %s cannot continue: %s", self.key, error)
                    self._pending_replies.fail_all(add_location(error, self.key, self._writer))
                    break
                except (StoreError, HomeUnusable) as error:
                    failures += 1
                    await self._wait_for_store(error, failures)
                except InputRefused as error:
                    await self._end_unstorable_turn(error)
        except BaseException as error:  # a bug of ours: pending replies fail, other lanes go on
            if must_end_task(error):
                raise
            log.exception("lane %s failed", self.key)
            self._pending_replies.fail_all(add_location(MainstayError(RUNTIME_FAILED), self.key, self._writer))
        finally:
            self._task = None
            self.active_at = asyncio.get_running_loop().time()

    async def _run_next_turn(self, *, is_store_working: bool) -> bool:
        """Run one turn, an unfinished one first; False if there is nothing to do. Unless `is_store_working`, the model
        is not called before a write has succeeded."""
        writer = await self._load_writer()
        session = writer.session
        turn = session.open_turn
        if session.pending_approval is not None:
            if (expired := expire_if_due(session, self._services.clock.now_ms())) is None:
                self._services.approvals.set_pending(self.key, session.pending_approval)
                if turn is not None:  # callers that sent the same input again, also after a restart
                    self._pending_replies.resolve(
                        turn.inputs, build_reply(session, Paused(session.pending_approval.id))
                    )
                return False
            await writer.record(expired)
        if turn is not None and turn.is_set_aside:
            self._pending_replies.fail_all(add_location(build_blocked_error(session), self.key, writer))
            return False
        is_answered = turn is not None and turn.last_answered_seq == session.head
        if turn is not None and (turn.turn == self._started_turn or (is_answered and not self._is_after_restart)):
            self._started_turn = 0
        elif turn is not None and not self._pending_replies and needs_missing_tool(turn, self._services.tools):
            log.warning("session %s is not resumed: its turn needs a tool that this process does not have", self.key)
            return False
        elif turn is not None:
            await self._resume_turn(writer, turn, was_running=not is_answered)
            return True
        elif not session.has_prompt or session.status == "paused":
            return False
        else:
            inputs = await self._choose_inputs(session)
            if not inputs:
                return True
            started = self._build_start_events(session, inputs, join_prompt_text(session, inputs))
            if is_store_working:
                writer.record_nowait(*started, flush_soon=True)
            else:
                await writer.record(*started)
        await self._run_turn(writer, resumed=False)
        return True

    async def _resume_turn(self, writer: JournalWriter, turn: OpenTurn, *, was_running: bool) -> None:
        """Resume a turn, or set it aside after too many crashes. The last attempts of sub-agents run within those of
        their parents."""
        session, limits = writer.session, self._services.limits
        crashed = self._is_after_restart and was_running and session.stopped_turn != turn.turn
        crashes = turn.crashes + crashed
        if crashed and crashes > limits.resumes_max:
            settle_lost_reservations(writer, self._context_compiler)
            await writer.record(TurnSetAside(crashes=crashes, turn=turn.turn))
            self._is_after_restart = False
            log.error("%s", build_blocked_error(session))
            return
        is_last = crashes == limits.resumes_max and session.spawned is None
        async with self._services.last_attempts.begin(self._services.clock, limits) if is_last else nullcontext():
            # on disk before the turn runs: counts the turns that end their process
            await writer.record(TurnResumed(turn=turn.turn, after_crash=crashed))
            self._is_after_restart = False
            if turn.has_streamed:  # it was streaming: watchers discard the partial output
                reason = "the process that ran this turn stopped"
                restarted = StepRestarted(reason, session=self.key, turn=turn.turn, step=turn.step + 1)
                writer(restarted)
            await self._run_turn(writer, resumed=True)

    async def _choose_inputs(self, session: Session) -> tuple[int, ...]:
        """Return the next input, with what the same sender adds to it within the coalescing window."""
        window_s = self._services.limits.coalesce_window_s
        if window_s > 0:
            await self._coalescer.wait_until_quiet(window_s, self._services.clock)
        return self._coalescer.take_next(session.queued_inputs.values(), window_s)

    async def _run_turn(self, writer: JournalWriter, *, resumed: bool) -> None:
        session = writer.session
        turn = session.open_turn
        assert turn is not None
        waiting = [self._pending_replies[seq] for seq in turn.inputs if seq in self._pending_replies]
        for pending in waiting:
            pending.turn = turn.turn
        control = self._control = TurnControl()
        over = self._turn_ended = asyncio.Event()
        try:
            if resumed or turn.approval_answers:  # steers that a crash or a pause kept from the turn
                control.pending_steers += [
                    queued.seq for queued in session.queued_inputs.values() if queued.event.kind == "steer"
                ]
            control.aborted = self._aborted_turn == turn.turn
            review = next((pending.validate_answer for pending in waiting if pending.validate_answer), None)
            outcome = await attempt_turn(self._services, self._context_compiler, writer, control, review)
            await self._close_turn(writer, outcome)
        finally:
            self._control = None
            over.set()
        if self._is_outdated:
            self._drop_view()
        else:
            self._context_compiler.start_early_fold()

    async def _close_turn(self, writer: JournalWriter, outcome: Outcome) -> None:
        session, turn = writer.session, writer.session.open_turn
        assert turn is not None
        reply = build_reply(session, outcome)
        if isinstance(outcome, Failed):
            writer(msgspec.structs.replace(outcome, session=self.key))
        self._services.approvals.set_pending(
            self.key, session.pending_approval if isinstance(outcome, Paused) else None
        )
        if not isinstance(outcome, Paused):
            await writer.record(*build_closing_events(session, outcome))
        self._aborted_turn = 0
        # else the approval was answered meanwhile
        if not isinstance(outcome, Paused) or session.pending_approval is not None:
            self._pending_replies.resolve(turn.inputs, reply)

    async def _end_unstorable_turn(self, error: InputRefused) -> None:
        """End the turn as failed: an event of it holds a value that cannot be stored, so that a retry would fail, too.
        The session is loaded again, without that event."""
        log.error("the turn of session %s ends: %s", self.key, error)
        writer = await self._load_writer()
        if writer.session.open_turn is not None:
            await self._close_turn(writer, Failed(str(error), turn=writer.session.open_turn.turn))

    async def _wait_for_store(self, error: StoreError | HomeUnusable, failures: int) -> None:
        """Fail pending replies at once, then wait with exponential backoff; the turn itself is retried."""
        log_store_failure(self.key, error, failures)
        self._pending_replies.fail_all(add_location(error, self.key, self._writer))
        limits = self._services.limits
        seconds = min(0.5 * 2 ** min(failures - 1, 20), limits.store_retry_max_s)
        self._services.hub.emit(self.key, Waiting(str(error), seconds, session=self.key))
        await self._services.clock.sleep(seconds)
