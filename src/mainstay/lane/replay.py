"""Deterministic replay: runs a recorded session again, without model and tools, and compares every event.

External events (inputs, settings, model and tool answers, crashes) are taken from the journal, and so are the limits of
a turn; the runtime's own events are produced again by the real turn loop and compared byte for byte.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Literal

import msgspec

from mainstay.core.client_tools import ClientTool
from mainstay.core.errors import BudgetExhausted, ContextTooLong, ProviderError, RequestRefused, StreamBroken
from mainstay.core.events import (
    Event,
    Forked,
    Judged,
    MessageAdded,
    Steered,
    StepRestarted,
    TurnEnded,
    TurnResumed,
    TurnSetAside,
    TurnStarted,
)
from mainstay.core.journal import Record, ReplayResult
from mainstay.core.journal_wording import JournalWording
from mainstay.core.json_types import JsonObject
from mainstay.core.judges import CORRECTIONS_MAX, JudgeBudget, JudgeInput
from mainstay.core.limits import Limits
from mainstay.core.memory_tiers import is_untrusted
from mainstay.core.messages import Finish, FinishReason, Text, Thinking, ToolCall, ToolResult, Usage, parts_text
from mainstay.core.outcome import Aborted, Failed, Outcome
from mainstay.core.ports import (
    Context,
    Effect,
    EventRecorder,
    ModelInfo,
    Options,
    Piece,
    StreamFinished,
    TextPiece,
    ThinkingPiece,
    Tool,
    ToolCallPiece,
    ToolContext,
)
from mainstay.lane.recorded_limits import find_recorded_limits
from mainstay.lane.recording import RecordedCrash, Recording, RecordingEnded, ReplayDiffers, StopReplayedTurn
from mainstay.lane.replies import build_closing_events
from mainstay.turn.change_answers import AnsweredChanges
from mainstay.turn.control import TurnControl
from mainstay.turn.dependencies import TrustServices, TurnDependencies
from mainstay.turn.loop import MODEL_FAILED_PREFIX, run_turn
from mainstay.turn.toolbox import PreparedCall


async def replay_journal(records: Sequence[Record]) -> ReplayResult:
    """Replay a whole journal, from its first record."""
    for number, record in enumerate(records, start=1):
        if record.seq != number:
            return ReplayResult(number - 1, 0, f"record {number} is missing: record {record.seq} is in its place")
    recording = Recording(records)
    dependencies = TurnDependencies(
        RecordedProvider(recording),
        ReplayTools(recording),
        Limits(),  # replaced in each attempt by those that it was recorded with
        ReplayContextCompiler(recording),
        validate_answer=lambda text: recording.find_correction(),
        # Untrusted skills show in the recorded message origins.
        trust=TrustServices(untrusted_skills=lambda session, before: ()),
    )
    turns = 0
    try:
        while (event := recording.peek()) is not None:
            match event:
                case TurnStarted(inputs=inputs):
                    recording.check_inputs(inputs)
                    recording.apply_next()
                    turns += 1
                    await _replay_turn(recording, dependencies)
                case Forked():
                    recording.apply_next()
                case _:
                    raise recording.build_difference("no turn was open")
    except ReplayDiffers as difference:
        return ReplayResult(recording.position, turns, str(difference))
    except RecordingEnded:
        pass
    return ReplayResult(len(records), turns)


async def _replay_turn(recording: Recording, dependencies: TurnDependencies) -> None:
    """Replay one turn, with all its crashes and restarts."""
    while True:
        try:
            await _replay_attempt(recording, dependencies)
        except RecordedCrash:
            if isinstance(recording.peek(), TurnSetAside):
                recording.apply_next()
                recording.apply_recorded_control()
                if not isinstance(recording.peek(), TurnResumed | Forked | None):
                    return _replay_end_without_attempt(recording)
            if not isinstance(recording.peek(), TurnResumed):  # the session was forked within the turn
                return None
            recording.apply_next()
        else:
            return None


async def _replay_attempt(recording: Recording, dependencies: TurnDependencies) -> None:
    """Replay the part of a turn that one process ran."""
    recording.control = control = TurnControl()
    turn = recording.session.open_turn
    assert turn is not None
    limits = find_recorded_limits(recording.read_attempt(), turn.wording)
    dependencies = msgspec.structs.replace(dependencies, limits=limits)
    recording.apply_recorded_control()
    if recording.is_judged:
        dependencies = msgspec.structs.replace(dependencies, judges=ReplayJudgePanel(recording))
    try:
        if isinstance(ended := recording.peek(), TurnEnded) and isinstance(ended.outcome, Failed):
            outcome: Outcome = ended.outcome
        else:
            outcome = _copy_trace(
                await run_turn(recording.session, dependencies, control, recording, _null_emit), recording.peek()
            )
    except StopReplayedTurn as end:
        outcome = end.outcome
    _replay_end(recording, outcome)


def _replay_end_without_attempt(recording: Recording) -> None:
    """Replay the end of a turn that was set aside; a fork may have copied a part of it."""
    ends = (event.outcome for event in recording.read_attempt() if isinstance(event, TurnEnded))
    try:
        _replay_end(recording, next(ends, Failed("")))
    except RecordedCrash:
        return


def _replay_end(recording: Recording, outcome: Outcome) -> None:
    for event in build_closing_events(recording.session, outcome):
        recording.record_nowait(event)


def _copy_trace(outcome: Outcome, recorded: Event | None) -> Outcome:
    """Copy the recorded trace id, which depends on the session's key and differs in a replay."""
    if isinstance(outcome, Failed) and isinstance(recorded, TurnEnded) and isinstance(recorded.outcome, Failed):
        return msgspec.structs.replace(outcome, trace=recorded.outcome.trace)
    return outcome


class _NullEmit:
    has_watchers = False

    def __call__(self, event: Event) -> None: ...


_null_emit = _NullEmit()


class ReplayContextCompiler:
    """Context compiler of a replay; the recorded provider ignores the context."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    async def compile(self, recorder: EventRecorder) -> Context:
        return Context("", self._recording.session.messages)

    def prompt_tokens(self) -> int:
        return 0

    def count_tokens(self, text: str) -> int:
        return 0

    def ignore_reported_usage(self) -> None: ...

    def shrink_window(self, error: ContextTooLong) -> bool:
        return False

    def drop_tools(self, error: RequestRefused) -> bool:
        return False


class ReplayJudgePanel:
    """Judge panel of a replay: verdicts and corrections are taken from the recording."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    @property
    def corrections_max(self) -> int:
        """0 if the recorded answer was the last attempt; the recorded message shows that."""
        match self._recording.peek():
            case MessageAdded(role="assistant", provisional=""):
                return 0
        return CORRECTIONS_MAX

    @property
    def streaming(self) -> Literal["hold", "draft"]:
        match self._recording.peek():
            case MessageAdded(provisional="shown"):
                return "draft"
        return "hold"

    async def judge(self, judge_input: JudgeInput, attempt: int, budget: JudgeBudget) -> Judged:
        match recorded := self._recording.peek():
            case Judged():
                return msgspec.structs.replace(recorded, attempt=attempt, turn=judge_input.turn, step=judge_input.step)
            case None:
                raise RecordingEnded
            case TurnResumed() | TurnSetAside() | Forked():
                raise RecordedCrash
            case TurnEnded(outcome=Failed() as outcome):
                raise StopReplayedTurn(outcome)
        raise self._recording.build_difference("the answer was judged")

    def correction_message(self, judged: Judged) -> str:
        match self._recording.peek():
            case MessageAdded(role="system", parts=parts):
                return parts_text(parts)
        return ""


class ReplayTools:
    """Tools of a replay: results are taken from the recording. A call with a `ToolStarted` event was not pure."""

    agent_tools: tuple[Tool, ...] = ()
    local_tools: tuple[Tool, ...] = ()
    callable_tools: tuple[Tool, ...] = ()

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    @property
    def has_external_descriptions(self) -> bool:
        """Tools are not recorded; whether the model had read external descriptions shows in its message's origin."""
        match self._recording.peek():
            case MessageAdded(role="assistant", parts=(*_, last)):
                return is_untrusted(last.origin)
        return False

    def find_tool(self, name: str) -> Tool | None:
        return None

    def select_for_request(self, *, memory: bool, inline: bool, keep_local: bool = False) -> tuple[Tool, ...]:
        return ()

    def restrict_to(self, names: tuple[str, ...], result_bytes_max: int | None = None) -> ReplayTools:
        return self

    def with_client_tools(self, client_tools: tuple[ClientTool, ...]) -> ReplayTools:
        return self

    def build_client_result(
        self, call: ToolCall, prepared: PreparedCall, context: ToolContext, content: str
    ) -> ToolResult:
        return self._recorded_result(call)

    def prepare(self, call: ToolCall) -> PreparedCall | ToolResult:
        if call.id not in self._recording.results and call.id not in self._recording.started:
            raise RecordedCrash if self._recording.peek() is not None else RecordingEnded
        is_started = call.id in self._recording.started
        if call.id in self._recording.concurrent:
            return PreparedCall(_concurrent_tool if is_started else _concurrent_pure_tool, None)
        return PreparedCall(_recorded_tool, None) if is_started else self._recorded_result(call)

    async def execute(
        self,
        call: ToolCall,
        prepared: PreparedCall,
        context: ToolContext,
        control: TurnControl,
        *,
        is_resumed: bool,
        wording: JournalWording,
    ) -> ToolResult:
        if call.id not in self._recording.results:
            raise RecordedCrash if self._recording.peek() is not None else RecordingEnded
        finished = self._recording.results[call.id]
        context.usage, context.cost, context.sub_agent_calls = finished.usage, finished.cost, finished.calls - 1
        return self._recorded_result(call)

    async def settle_changes(
        self,
        call: ToolCall,
        prepared: PreparedCall,
        context: ToolContext,
        control: TurnControl,
        changes: AnsweredChanges,
    ) -> ToolResult:
        if call.id not in self._recording.results:
            raise RecordedCrash if self._recording.peek() is not None else RecordingEnded
        return self._recorded_result(call)

    def _recorded_result(self, call: ToolCall) -> ToolResult:
        """Return the recorded result of this call."""
        return msgspec.structs.replace(self._recording.results[call.id].result, name=call.name)


class _RecordedTool:
    name = description = "recorded"
    schema: JsonObject = {}
    effect: Effect = "unsafe"
    timeout_s: float | None = None
    untrusted = False
    sink: bool | tuple[str, ...] = False
    capabilities: tuple[str, ...] = ()
    parallel = False

    def parse(self, input: str) -> None: ...

    async def run(self, arguments: object, context: ToolContext) -> str:
        raise AssertionError("a recorded call is answered from the recording")

    async def reconcile(self, arguments: object, context: ToolContext) -> str | None:
        raise AssertionError("a recorded call is answered from the recording")


class _ConcurrentTool(_RecordedTool):
    """A tool whose calls run beside each other."""

    parallel = True


class _ConcurrentPureTool(_ConcurrentTool):
    effect: Effect = "pure"


_recorded_tool, _concurrent_tool, _concurrent_pure_tool = _RecordedTool(), _ConcurrentTool(), _ConcurrentPureTool()


class _ReplayModelInfo(ModelInfo, frozen=True, kw_only=True):
    """Model info whose cost is the recorded cost: prices are external."""

    recorded_cost: float = 0.0

    def cost(self, usage: Usage) -> float:
        return self.recorded_cost

    def check_usage(self, usage: Usage) -> Usage:
        return usage  # it was checked when it was recorded


class RecordedProvider:
    """Provider of a replay: streams the recorded answers, and is interrupted where they were interrupted."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def model(self) -> ModelInfo:
        recorded = self._recording.peek()
        return _ReplayModelInfo(
            name="replay", recorded_cost=recorded.cost if isinstance(recorded, MessageAdded) else 0.0
        )

    async def close(self) -> None: ...

    async def stream(self, context: Context, options: Options) -> AsyncIterator[Piece]:
        recorded = self._recording.peek()
        match recorded:
            case None:
                raise RecordingEnded
            case TurnResumed() | TurnSetAside() | Forked():
                raise RecordedCrash
            case TurnEnded(outcome=Failed() as outcome):
                raise _build_recorded_failure(outcome)
            case TurnEnded(outcome=Aborted()):  # before any output
                await self._interrupt(None)
            case StepRestarted(reason=reason):
                yield TextPiece("")  # there had been output
                raise StreamBroken(reason)
            case Steered(inputs=inputs):
                await self._interrupt(inputs)
            case MessageAdded() if (spent := self._recording.find_budget_refusal()) is not None:
                raise BudgetExhausted(spent.bound, budget=spent.budget, frees_at=spent.frees_at)
            case MessageAdded(parts=parts, usage=usage, model=model, cost=cost):
                reason = FinishReason.END
                for number, part in enumerate(parts):
                    match part:
                        case Text(text=text, origin=""):
                            yield TextPiece(text)
                        case Thinking(text=text, signature=signature):
                            yield ThinkingPiece(text, signature)
                        case ToolCall(name=name, input=input):
                            yield ToolCallPiece(number, name, input)
                        case Finish(reason=reason):
                            pass
                if reason in (FinishReason.ABORTED, FinishReason.STEERED):
                    await self._interrupt(
                        None if reason is FinishReason.ABORTED else self._recording.find_steered_inputs()
                    )
                yield StreamFinished(
                    reason, usage or Usage(), _ReplayModelInfo(name=model, recorded_cost=cost) if model else None
                )
            case _:
                raise self._recording.build_difference("the model was called")

    async def _interrupt(self, inputs: tuple[int, ...] | None) -> None:
        """Abort (None) or steer the turn here, as recorded."""
        if inputs is None:
            self._recording.control.abort()
        else:
            for seq in inputs:
                self._recording.control.steer(seq)
        await asyncio.Event().wait()


def _build_recorded_failure(outcome: Failed) -> Exception:
    """Return the error that makes the loop fail as recorded, or the recorded outcome if it was not a model failure."""
    if (sentence := outcome.sentence.removeprefix(MODEL_FAILED_PREFIX)) != outcome.sentence:
        error: ProviderError = RequestRefused(sentence, details=outcome.details)
        return error
    return StopReplayedTurn(outcome)
