"""Run a session again from what was recorded, with no model and no tools, and see that it comes out the same.

What came from outside (inputs, settings, model and tool answers, crashes) is taken from the journal; what
the runtime made of it is made again by the real turn loop and compared byte for byte.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from mainstay.core.errors import ContextTooLong, ProviderError, RequestRefused, StreamBroken
from mainstay.core.events import (
    Blanked,
    Event,
    Folded,
    Forked,
    MessageAdded,
    Received,
    Relieved,
    SessionChanged,
    Steered,
    StepCheckpointed,
    StepRestarted,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnResumed,
    TurnStarted,
)
from mainstay.core.journal import Record, encode
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
from mainstay.core.session import Session
from mainstay.lane.contexts import NOTE
from mainstay.lane.ending import closing_events
from mainstay.turn import toolbox
from mainstay.turn.control import Control
from mainstay.turn.loop import MODEL_FAILED, Means, run_turn
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
    except _Differs as difference:
        return Replayed(tape.position, turns, str(difference))
    except _TapeEnds:
        pass
    return Replayed(len(records), turns)


async def _turn(tape: Tape, means: Means) -> None:
    """One recorded turn, through as many crashes as it had."""
    while True:
        try:
            await _life(tape, means)
        except _Crash:
            if not isinstance(tape.peek(), TurnResumed):  # a fork left the turn behind
                return
            tape.take()
        else:
            return


async def _life(tape: Tape, means: Means) -> None:
    """A turn, or what is left of it, as far as one process came with it."""
    tape.control = control = Control()
    tape.cue()
    try:
        if isinstance(ended := tape.peek(), TurnEnded) and isinstance(ended.outcome, Failed):
            outcome: Outcome = ended.outcome
        else:
            outcome = await run_turn(tape.session, means, control, tape, _silent)
    except _RecordedEnd as end:
        outcome = end.outcome
    for event in closing_events(tape.session, outcome):
        tape.note(event)


class _Differs(Exception):
    pass


class _TapeEnds(Exception):
    """The journal stops in the middle of a turn, as a running session's does."""


class _Crash(Exception):
    """The process that made the recording died here."""


class _RecordedEnd(Exception):
    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome


class Tape:
    """The recording, and a `Scribe` that checks instead of writing."""

    _FROM_OUTSIDE = (Received, SessionChanged, Relieved, Folded, Blanked, StepCheckpointed)

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records
        self.position = 0
        self.session = Session("replay")
        self.control = Control()
        self.started = {r.event.call_id for r in records if isinstance(r.event, ToolStarted)}
        self.results = {r.event.result.call_id: r.event.result for r in records if isinstance(r.event, ToolFinished)}

    def peek(self) -> Event | None:
        """The next record that the runtime itself made; what came from outside is applied on the way."""
        while self.position < len(self._records):
            event = self._records[self.position].event
            imported = isinstance(event, MessageAdded) and (not event.turn or event.parts[0].origin == NOTE)
            if not imported and not isinstance(event, self._FROM_OUTSIDE):
                return event
            self.take()
        return None

    def take(self) -> None:
        record = self._records[self.position]
        self.session.apply(record.seq, record.at, record.event)
        self.position += 1

    def cue(self) -> None:
        """Let happen what the recording says happened next."""
        match self.peek():
            case Steered() | ToolFinished(result=ToolResult(content=toolbox.SKIPPED, is_error=True)):
                self.control.steers += [seq for seq in self.steered() if seq not in self.control.steers]
            case (
                TurnEnded(outcome=Aborted())
                | ToolFinished(result=ToolResult(content=toolbox.NOT_STARTED, is_error=True))
            ):
                self.control.aborted = True

    def steered(self) -> tuple[int, ...]:
        """What was put into the turn next; some number if the recording ends before it says what."""
        following = self._records[self.position :]
        return next((r.event.inputs for r in following if isinstance(r.event, Steered)), (0,))

    def complaint(self) -> str | None:
        match self.peek():
            case MessageAdded(role="system", parts=parts):
                return text_of(parts)
            case TurnEnded(outcome=Failed() as outcome):
                raise _RecordedEnd(outcome)
        return None

    # --- as the turn's scribe --------------------------------------------------------------------

    async def record(self, *events: Event) -> None:
        self.note(*events)

    def note(self, *events: Event, soon: bool = False) -> None:
        for event in events:
            if not isinstance(event, StepCheckpointed):
                self._check(event)

    def _check(self, event: Event) -> None:
        recorded = self.peek()
        if recorded is None:
            raise _TapeEnds
        if encode(recorded) == encode(event):
            if isinstance(event, Steered):
                self.check_inputs(event.inputs)
            self.take()
            self.cue()
            return
        match recorded:
            case TurnResumed() | Forked():
                raise _Crash
            case TurnEnded(outcome=Failed() as outcome) if not isinstance(event, TurnEnded):
                raise _RecordedEnd(outcome)
        raise self.differs(f"came out as {encode(event).decode()}")

    def check_inputs(self, inputs: tuple[int, ...]) -> None:
        """What a turn is made of must have come in before it, and be in no other."""
        for seq in inputs:
            if seq not in self.session.waiting:
                raise self.differs(f"record {seq} is no input that waits")

    def differs(self, how: str) -> _Differs:
        record = self._records[self.position]
        return _Differs(f"record {record.seq} is {encode(record.event).decode()} but {how}")


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

    def tighten(self, error: ContextTooLong) -> bool:
        return False

    def do_without_tools(self, error: RequestRefused) -> bool:
        return False


class TapeTools:
    """Answers calls from the recording. A call that was recorded as started is one that was not pure."""

    own: tuple[Tool, ...] = ()
    offered: tuple[Tool, ...] = ()

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def offer(self, *, memory: bool, inline: bool) -> tuple[Tool, ...]:
        return ()

    def prepare(self, call: ToolCall) -> Prepared | ToolResult:
        if call.id not in self._tape.results and call.id not in self._tape.started:
            raise _Crash if self._tape.peek() is not None else _TapeEnds
        if call.id in self._tape.started:
            return Prepared(_recorded_tool, None)
        return self._result(call)

    async def execute(
        self, call: ToolCall, prepared: Prepared, context: ToolContext, control: Control, *, again: bool
    ) -> ToolResult:
        if call.id not in self._tape.results:
            raise _Crash if self._tape.peek() is not None else _TapeEnds
        return self._result(call)

    def _result(self, call: ToolCall) -> ToolResult:
        """What was recorded, as an answer to this very call."""
        return msgspec.structs.replace(self._tape.results[call.id], name=call.name)


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
                raise _TapeEnds
            case TurnResumed() | Forked():
                raise _Crash
            case TurnEnded(outcome=Failed() as outcome):
                raise _recorded_failure(outcome)
            case TurnEnded(outcome=Aborted()):  # before the model had said anything
                await self._cut(None)
            case StepRestarted(reason=reason):
                yield TextPiece("")  # something had been said
                raise StreamBroken(reason)
            case Steered(inputs=inputs):
                await self._cut(inputs)
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
    return _RecordedEnd(outcome)
