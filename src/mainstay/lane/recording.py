"""Recording of a session for replay: an event recorder that compares events with the journal instead of writing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    TurnSetAside,
)
from mainstay.core.journal import Record, encode_event
from mainstay.core.memory_tiers import RUNTIME
from mainstay.core.messages import ToolResult, Usage, parts_text
from mainstay.core.outcome import Aborted, Exhausted, Failed, Outcome
from mainstay.core.session import Session
from mainstay.turn.control import TurnControl


class ReplayDiffers(Exception):
    """The replay produced an event that differs from the recorded one."""


class RecordingEnded(Exception):
    """The recording ends within a turn, as that of a running session does."""


class RecordedCrash(Exception):
    """The recorded process stopped at this point."""


class StopReplayedTurn(Exception):
    """The recorded turn ended at this point, for an external reason."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome


class Recording:
    """The recorded events with a read position; implements `EventRecorder` by comparing instead of writing."""

    _EXTERNAL_EVENTS = (
        *(Received, SessionChanged, Relieved, Folded, Blanked, StepCheckpointed),
        *(ApprovalAsked, ApprovalAnswered, Guarded, Spawned, Delivered, Reserved, Settled),
    )

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records
        self.position = 0
        self.session = Session("replay")
        self.control = TurnControl()
        self.started = {r.event.call_id for r in records if isinstance(r.event, ToolStarted)}
        self.results = {r.event.result.call_id: r.event for r in records if isinstance(r.event, ToolFinished)}
        self.concurrent = _find_concurrent_calls(records)

    def peek(self) -> Event | None:
        """Return the next event that the runtime produced, None at the end; external events before it are applied."""
        while self.position < len(self._records):
            event = self._records[self.position].event
            imported = isinstance(event, MessageAdded) and (
                not event.turn
                or event.role == "user"
                or (event.role == "system" and event.parts[0].origin != RUNTIME)  # a contributor's note
            )
            if not imported and not isinstance(event, self._EXTERNAL_EVENTS):
                return event
            self.apply_next()
        return None

    def apply_next(self) -> None:
        """Apply the next recorded event to the session and move past it."""
        record = self._records[self.position]
        self.session.apply(record.seq, record.at, record.event)
        self.position += 1

    def apply_recorded_control(self) -> None:
        """Steer or abort the replayed turn if the next recorded event shows that this happened."""
        if (turn := self.session.open_turn) is None:
            return
        wording = turn.wording
        match self.peek():
            case Steered():
                self._steer()
            case ToolFinished(result=ToolResult(content=content, is_error=True)) if content == wording.skipped:
                self._steer()
            case TurnEnded(outcome=Aborted()):
                self.control.aborted = True
            case ToolFinished(result=ToolResult(content=content, is_error=True)) if content == wording.not_started:
                self.control.aborted = True

    def _steer(self) -> None:
        steered = self.find_steered_inputs()
        self.control.pending_steers += [seq for seq in steered if seq not in self.control.pending_steers]

    def find_steered_inputs(self) -> tuple[int, ...]:
        """Return the inputs of the next `Steered` event; a placeholder if the recording ends before it."""
        following = self._records[self.position :]
        return next((r.event.inputs for r in following if isinstance(r.event, Steered)), (0,))

    def read_attempt(self) -> Iterator[Event]:
        """Yield the events from here to the turn's next end or restart, with that one."""
        for record in self._records[self.position :]:
            yield record.event
            if isinstance(record.event, TurnEnded | TurnResumed | TurnSetAside | Forked):
                return

    @property
    def is_judged(self) -> bool:
        """True if answers were judged, or about to be, before the turn's next end or restart."""
        for event in self.read_attempt():
            match event:
                case Judged() | MessageAdded(provisional="held" | "shown"):
                    return True
        return False

    def find_budget_refusal(self) -> Exhausted | None:
        """Return the outcome if the next message is the runtime's own answer for an exhausted budget."""
        for record in self._records[self.position + 1 :]:
            if not isinstance(record.event, self._EXTERNAL_EVENTS):
                outcome = record.event.outcome if isinstance(record.event, TurnEnded) else None
                return outcome if isinstance(outcome, Exhausted) and outcome.budget else None
        return None

    def find_correction(self) -> str | None:
        """Return the recorded correction of an invalid answer; None if there was none."""
        match self.peek():
            case MessageAdded(role="system", parts=parts):
                return parts_text(parts)
            case TurnEnded(outcome=Failed() as outcome):
                raise StopReplayedTurn(outcome)
        return None

    # --- EventRecorder ---------------------------------------------------------------------------

    async def record(self, *events: Event) -> None:
        self.record_nowait(*events)

    def record_nowait(self, *events: Event, flush_soon: bool = False) -> None:
        for event in events:
            if not isinstance(event, StepCheckpointed):
                self._compare_event(event)

    def _compare_event(self, event: Event) -> None:
        recorded = self.peek()
        if recorded is None:
            raise RecordingEnded
        event = _copy_charges(event, recorded)
        if encode_event(recorded) == encode_event(event):
            if isinstance(event, Steered):
                self.check_inputs(event.inputs)
            self.apply_next()
            self.apply_recorded_control()
            return
        match recorded:
            case TurnResumed() | TurnSetAside() | Forked():
                raise RecordedCrash
            case TurnEnded(outcome=Failed() as outcome) if not isinstance(event, TurnEnded):
                raise StopReplayedTurn(outcome)
        raise self.build_difference(f"the replay produced {encode_event(event).decode()}")

    def check_inputs(self, inputs: tuple[int, ...]) -> None:
        """Check that the inputs of a turn were received before it and are in no other turn."""
        for seq in inputs:
            if seq not in self.session.queued_inputs:
                raise self.build_difference(f"record {seq} is not a waiting input")

    def build_difference(self, deviation: str) -> ReplayDiffers:
        record = self._records[self.position]
        return ReplayDiffers(f"record {record.seq} is {encode_event(record.event).decode()}, but {deviation}")


def _find_concurrent_calls(records: Sequence[Record]) -> set[str]:
    """Return the ids of calls that ran beside others: one of these was recorded as started before the other's result,
    although results are recorded in the order of the calls."""
    found: set[str] = set()
    running: set[str] = set()
    for record in records:
        match record.event:
            case ToolStarted(call_id=id):
                running.add(id)
            case ToolFinished(result=ToolResult(call_id=id)):
                running.discard(id)
                if running:
                    found |= {id, *running}
    return found


def _copy_charges(event: Event, recorded: Event) -> Event:
    """Copy recorded charges that a replay cannot compute: the calls a result stands for, and an interrupted answer's
    usage."""
    match event, recorded:
        case ToolFinished(), ToolFinished(calls=calls):
            return msgspec.structs.replace(event, calls=calls)
        case MessageAdded(role="assistant", usage=None), MessageAdded(role="assistant", usage=Usage() as usage):
            return msgspec.structs.replace(event, usage=usage, cost=recorded.cost)
    return event
