"""Run a session again from what was recorded, with no model and no tools, and see that it comes out the same.

What came from outside (inputs, settings, model and tool answers, crashes) is taken from the journal; what
the runtime made of it is made again by the real turn loop and compared byte for byte.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal

import msgspec

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
    TurnStarted,
)
from mainstay.core.guests import GuestTool
from mainstay.core.journal import Record
from mainstay.core.judging import CORRECTIONS_MAX, Exhibit, Spending
from mainstay.core.limits import Limits
from mainstay.core.messages import Finish, FinishReason, Text, Thinking, ToolCall, ToolResult, Usage, text_of
from mainstay.core.outcome import Aborted, Failed, Outcome
from mainstay.core.ports import (
    CallPiece,
    Context,
    Effect,
    Finished,
    ModelInfo,
    Options,
    Piece,
    Scribe,
    TextPiece,
    ThinkingPiece,
    Tool,
    ToolContext,
)
from mainstay.core.recall import is_untrusted
from mainstay.lane.ending import closing_events
from mainstay.lane.tape import Crash, Differs, RecordedEnd, Tape, TapeEnds
from mainstay.turn.control import Control
from mainstay.turn.loop import MODEL_FAILED, run_turn
from mainstay.turn.means import Means, Trust
from mainstay.turn.toolbox import Prepared


class Replayed(msgspec.Struct, frozen=True):
    """`difference` names the first record that came out otherwise; empty if none did."""

    records: int
    turns: int
    difference: str = ""

    @property
    def identical(self) -> bool:
        return not self.difference


async def replay(records: Sequence[Record], limits: Limits | None = None) -> Replayed:
    for place, record in enumerate(records, start=1):
        if record.seq != place:
            return Replayed(place - 1, 0, f"record {place} is missing: where it should stand is record {record.seq}")
    tape = Tape(records)
    means = Means(
        TapeProvider(tape),
        TapeTools(tape),
        limits or Limits(),
        TapeContexts(tape),
        review=lambda text: tape.complaint(),
        trust=Trust(told=lambda session, before: ()),  # as the tools have it: what was said then says so
    )
    turns = 0
    try:
        while (event := tape.peek()) is not None:
            match event:
                case TurnStarted(inputs=inputs):
                    tape.check_inputs(inputs)
                    tape.take()
                    turns += 1
                    await _turn(tape, means)
                case Forked():
                    tape.take()
                case _:
                    raise tape.differs("no turn was under way")
    except Differs as difference:
        return Replayed(tape.position, turns, str(difference))
    except TapeEnds:
        pass
    return Replayed(len(records), turns)


async def _turn(tape: Tape, means: Means) -> None:
    """One recorded turn, through as many crashes as it had."""
    while True:
        try:
            await _life(tape, means)
        except Crash:
            if not isinstance(tape.peek(), TurnResumed):  # a fork left the turn behind
                return
            tape.take()
        else:
            return


async def _life(tape: Tape, means: Means) -> None:
    """A turn, or what is left of it, as far as one process came with it."""
    tape.control = control = Control()
    tape.cue()
    if tape.is_judged:
        means = msgspec.structs.replace(means, panel=TapePanel(tape))
    try:
        if isinstance(ended := tape.peek(), TurnEnded) and isinstance(ended.outcome, Failed):
            outcome: Outcome = ended.outcome
        else:
            outcome = _traced(await run_turn(tape.session, means, control, tape, _silent), tape.peek())
    except RecordedEnd as end:
        outcome = end.outcome
    for event in closing_events(tape.session, outcome):
        tape.note(event)


def _traced(outcome: Outcome, recorded: Event | None) -> Outcome:
    """A turn's trace comes of the session's name, which is none of a recording's business."""
    if isinstance(outcome, Failed) and isinstance(recorded, TurnEnded) and isinstance(recorded.outcome, Failed):
        return msgspec.structs.replace(outcome, trace=recorded.outcome.trace)
    return outcome


class _Silent:
    wanted = False

    def __call__(self, event: Event) -> None: ...


_silent = _Silent()


class TapeContexts:
    """What the model saw does not matter to a model that only repeats itself."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    async def compile(self, scribe: Scribe) -> Context:
        return Context("", self._tape.session.messages)

    def prompt_tokens(self) -> int:
        return 0

    def count(self, text: str) -> int:
        return 0

    def unreported(self) -> None: ...

    def tighten(self, error: ContextTooLong) -> bool:
        return False

    def do_without_tools(self, error: RequestRefused) -> bool:
        return False


class TapePanel:
    """Judges answers as they were judged: verdicts, and what was said of them to the model, come from outside."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    @property
    def corrections(self) -> int:
        """Which answer was the last that could be tried stands with it."""
        match self._tape.peek():
            case MessageAdded(role="assistant", provisional=""):
                return 0
        return CORRECTIONS_MAX

    @property
    def streaming(self) -> Literal["hold", "draft"]:
        match self._tape.peek():
            case MessageAdded(provisional="shown"):
                return "draft"
        return "hold"

    async def judge(self, exhibit: Exhibit, attempt: int, spending: Spending) -> Judged:
        match recorded := self._tape.peek():
            case Judged():
                return msgspec.structs.replace(recorded, attempt=attempt, turn=exhibit.turn, step=exhibit.step)
            case None:
                raise TapeEnds
            case TurnResumed() | Forked():
                raise Crash
            case TurnEnded(outcome=Failed() as outcome):
                raise RecordedEnd(outcome)
        raise self._tape.differs("its answer was judged")

    def correction(self, judged: Judged) -> str:
        match self._tape.peek():
            case MessageAdded(role="system", parts=parts):
                return text_of(parts)
        return ""


class TapeTools:
    """Answers calls from the recording. A call that was recorded as started is one that was not pure."""

    own: tuple[Tool, ...] = ()
    ours: tuple[Tool, ...] = ()
    offered: tuple[Tool, ...] = ()

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    @property
    def foreign(self) -> bool:
        """Which tools there were is in no record; that the model read others' words stands with what it said then."""
        match self._tape.peek():
            case MessageAdded(role="assistant", parts=(*_, last)):
                return is_untrusted(last.origin)
        return False

    def offer(self, *, memory: bool, inline: bool, ours: bool = False) -> tuple[Tool, ...]:
        return ()

    def narrowed(self, names: tuple[str, ...], result_bytes: int | None = None) -> TapeTools:
        return self

    def joined(self, guests: tuple[GuestTool, ...]) -> TapeTools:
        return self

    def handed(self, call: ToolCall, prepared: Prepared, context: ToolContext, content: str) -> ToolResult:
        return self._result(call)

    def prepare(self, call: ToolCall) -> Prepared | ToolResult:
        if call.id not in self._tape.results and call.id not in self._tape.started:
            raise Crash if self._tape.peek() is not None else TapeEnds
        if call.id in self._tape.started:
            return Prepared(_recorded_tool, None)
        return self._result(call)

    async def execute(
        self, call: ToolCall, prepared: Prepared, context: ToolContext, control: Control, *, again: bool
    ) -> ToolResult:
        if call.id not in self._tape.results:
            raise Crash if self._tape.peek() is not None else TapeEnds
        finished = self._tape.results[call.id]
        context.usage, context.cost, context.calls = finished.usage, finished.cost, finished.calls - 1
        return self._result(call)

    def _result(self, call: ToolCall) -> ToolResult:
        """What was recorded, as an answer to this very call."""
        return msgspec.structs.replace(self._tape.results[call.id].result, name=call.name)


class _RecordedTool:
    name = description = "recorded"
    schema: dict[str, Any] = {}
    effect: Effect = "unsafe"
    timeout_s: float | None = None
    untrusted = False
    sink: bool | tuple[str, ...] = False
    capabilities: tuple[str, ...] = ()

    def parse(self, input: str) -> None: ...

    async def run(self, arguments: object, context: ToolContext) -> str:
        raise AssertionError("a recorded call is answered by the tape")

    async def reconcile(self, arguments: object, context: ToolContext) -> str | None:
        raise AssertionError("a recorded call is answered by the tape")


_recorded_tool = _RecordedTool()


class _TapeModel(ModelInfo, frozen=True, kw_only=True):
    """Prices come from outside: what a step cost is what it was recorded to have cost."""

    recorded: float = 0.0

    def cost(self, usage: Usage) -> float:
        return self.recorded


class TapeProvider:
    """Says what the model said, and is cut off where it was cut off."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def model(self) -> ModelInfo:
        recorded = self._tape.peek()
        return _TapeModel(name="replay", recorded=recorded.cost if isinstance(recorded, MessageAdded) else 0.0)

    async def close(self) -> None: ...

    async def stream(self, context: Context, options: Options) -> AsyncIterator[Piece]:
        recorded = self._tape.peek()
        match recorded:
            case None:
                raise TapeEnds
            case TurnResumed() | Forked():
                raise Crash
            case TurnEnded(outcome=Failed() as outcome):
                raise _recorded_failure(outcome)
            case TurnEnded(outcome=Aborted()):  # before the model had said anything
                await self._cut(None)
            case StepRestarted(reason=reason):
                yield TextPiece("")  # something had been said
                raise StreamBroken(reason)
            case Steered(inputs=inputs):
                await self._cut(inputs)
            case MessageAdded() if (spent := self._tape.refused()) is not None:
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
                            yield CallPiece(number, name, input)
                        case Finish(reason=reason):
                            pass
                if reason in (FinishReason.ABORTED, FinishReason.STEERED):
                    await self._cut(None if reason is FinishReason.ABORTED else self._tape.steered())
                yield Finished(reason, usage or Usage(), _TapeModel(name=model, recorded=cost) if model else None)
            case _:
                raise self._tape.differs("the model was asked")

    async def _cut(self, inputs: tuple[int, ...] | None) -> None:
        """The generation ends here, as it did then."""
        if inputs is None:
            self._tape.control.abort()
        else:
            for seq in inputs:
                self._tape.control.steer(seq)
        await asyncio.Event().wait()


def _recorded_failure(outcome: Failed) -> Exception:
    """A failure that came from the model is made again by the loop; any other is taken as recorded."""
    if (sentence := outcome.sentence.removeprefix(MODEL_FAILED)) != outcome.sentence:
        error: ProviderError = RequestRefused(sentence, details=outcome.details)
        return error
    return RecordedEnd(outcome)
