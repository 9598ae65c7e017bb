"""A recorded session, and a scribe that checks instead of writing."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mainstay.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Blanked,
    Delivered,
    Event,
    Folded,
    Forked,
    Guarded,
    Judged,
    MessageAdded,
    Received,
    Relieved,
    Reserved,
    SessionChanged,
    Settled,
    Spawned,
    Steered,
    StepCheckpointed,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnResumed,
)
from mainstay.core.journal import Record, encode
from mainstay.core.messages import ToolResult, Usage, text_of
from mainstay.core.outcome import Aborted, Exhausted, Failed, Outcome
from mainstay.core.recall import RUNTIME
from mainstay.core.session import Session
from mainstay.turn import toolbox
from mainstay.turn.control import Control


class Differs(Exception):
    """Something came out otherwise."""


class TapeEnds(Exception):
    """The journal stops in the middle of a turn, as a running session's does."""


class Crash(Exception):
    """The process that made the recording died here."""


class RecordedEnd(Exception):
    """The turn ended here, for a reason that came from outside."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome


class Tape:
    """The recording, and a `Scribe` that checks instead of writing."""

    _FROM_OUTSIDE = (
        *(Received, SessionChanged, Relieved, Folded, Blanked, StepCheckpointed),
        *(ApprovalAsked, ApprovalAnswered, Guarded, Spawned, Delivered, Reserved, Settled),
    )

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records
        self.position = 0
        self.session = Session("replay")
        self.control = Control()
        self.started = {r.event.call_id for r in records if isinstance(r.event, ToolStarted)}
        self.results = {r.event.result.call_id: r.event for r in records if isinstance(r.event, ToolFinished)}

    def peek(self) -> Event | None:
        """The next record that the runtime itself made; what came from outside is applied on the way."""
        while self.position < len(self._records):
            event = self._records[self.position].event
            imported = isinstance(event, MessageAdded) and (
                not event.turn
                or event.role == "user"
                or (event.role == "system" and event.parts[0].origin != RUNTIME)  # a contributor said it
            )
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

    @property
    def is_judged(self) -> bool:
        """Somebody judged answers in what is left of this life of the turn, or was about to."""
        for record in self._records[self.position :]:
            match record.event:
                case Judged() | MessageAdded(provisional="held" | "shown"):
                    return True
                case TurnEnded() | TurnResumed() | Forked():
                    return False
        return False

    def refused(self) -> Exhausted | None:
        """The turn ended here because of a budget, which said so in the model's place."""
        for record in self._records[self.position + 1 :]:
            if not isinstance(record.event, self._FROM_OUTSIDE):
                outcome = record.event.outcome if isinstance(record.event, TurnEnded) else None
                return outcome if isinstance(outcome, Exhausted) and outcome.budget else None
        return None

    def complaint(self) -> str | None:
        match self.peek():
            case MessageAdded(role="system", parts=parts):
                return text_of(parts)
            case TurnEnded(outcome=Failed() as outcome):
                raise RecordedEnd(outcome)
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
            raise TapeEnds
        event = _charged(event, recorded)
        if encode(recorded) == encode(event):
            if isinstance(event, Steered):
                self.check_inputs(event.inputs)
            self.take()
            self.cue()
            return
        match recorded:
            case TurnResumed() | Forked():
                raise Crash
            case TurnEnded(outcome=Failed() as outcome) if not isinstance(event, TurnEnded):
                raise RecordedEnd(outcome)
        raise self.differs(f"came out as {encode(event).decode()}")

    def check_inputs(self, inputs: tuple[int, ...]) -> None:
        """What a turn is made of must have come in before it, and be in no other."""
        for seq in inputs:
            if seq not in self.session.waiting:
                raise self.differs(f"record {seq} is no input that waits")

    def differs(self, how: str) -> Differs:
        record = self._records[self.position]
        return Differs(f"record {record.seq} is {encode(record.event).decode()} but {how}")


def _charged(event: Event, recorded: Event) -> Event:
    """What was paid for a call is nothing that a replay finds out: how many calls it stands for, and what an answer
    took that was broken off."""
    match event, recorded:
        case ToolFinished(), ToolFinished(calls=calls):
            return msgspec.structs.replace(event, calls=calls)
        case MessageAdded(role="assistant", usage=None), MessageAdded(role="assistant", usage=Usage() as usage):
            return msgspec.structs.replace(event, usage=usage, cost=recorded.cost)
    return event
