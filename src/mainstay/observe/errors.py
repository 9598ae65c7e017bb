"""What went wrong, from the journals: turns that failed, tools, judges, guards and deliveries that did."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mainstay.core.error_list import ErrorList, Kind, Mishap, digest, told
from mainstay.core.events import Delivered, Event, Judged, ToolFinished, TurnEnded
from mainstay.core.following import Stretch
from mainstay.core.journal import Record
from mainstay.core.messages import ToolResult
from mainstay.core.outcome import Failed
from mainstay.core.tracing import trace_id

# How results begin that are somebody's decision: nothing failed.
DECIDED = ("Not run: ", "Not allowed: ", "Cancelled: ", "Skipped: ")
TELLING = (TurnEnded, ToolFinished, Judged, Delivered)  # events in which something may have failed
UNCHECKED = "Withheld: "  # a guard could not look at it
UNKNOWN = "It is not known whether this arrived; it is not sent again."


class ErrorReader:
    """Of one workspace. `clean` takes secrets out of a text: a journal has none of the configuration, but others."""

    name = "errors"

    def __init__(self, errors: ErrorList, workspace: str, clean: Callable[[str], str]) -> None:
        self._errors = errors
        self._workspace = workspace
        self._clean = clean

    async def positions(self) -> dict[str, int]:
        return await self._errors.positions(self._workspace)

    async def take(self, stretch: Stretch) -> None:
        telling = [record for record in stretch.records if isinstance(record.event, TELLING)]
        found = [one for record in telling for one in self._mishaps(stretch, record)]
        await self._errors.follow(self._workspace, stretch.standing.key, stretch.records[-1].seq, found)

    def _mishaps(self, stretch: Stretch, record: Record) -> Iterator[Mishap]:
        match record.event:
            case TurnEnded(outcome=Failed(sentence=sentence, details=details)):
                yield self._mishap(stretch, record, "turn", place_of(details), f"{sentence}\n{details}".strip())
            case ToolFinished(result=ToolResult(is_error=True, name=name, content=content)):
                if not content.startswith(DECIDED):
                    kind: Kind = "guard" if content.startswith(UNCHECKED) else "tool"
                    yield self._mishap(stretch, record, kind, name, content)
            case Judged(scores=scores):
                for score in scores:
                    if score.error:
                        yield self._mishap(stretch, record, "judge", score.judge, score.error)
            case Delivered(state="failed" | "unknown" as state, to=to, note=note):
                said = note or (UNKNOWN if state == "unknown" else "It was not delivered.")
                yield self._mishap(stretch, record, "delivery", to.channel, said)

    def _mishap(self, stretch: Stretch, record: Record, kind: Kind, place: str, text: str) -> Mishap:
        standing, event = stretch.standing, record.event
        turn, step, trace = _where(event)
        trace = trace or (trace_id(standing.key, standing.created, turn) if turn else "")
        sentence, details = told(self._clean(text))
        of_turn = kind == "turn" and trace
        return Mishap(
            id=id_of_turn(trace) if of_turn else digest(self._workspace, standing.key, record.seq, kind, place),
            at=record.at,
            kind=kind,
            place=place,
            sentence=sentence,
            details=details,
            workspace=self._workspace,
            session=standing.key,
            turn=turn,
            step=step,
            trace=trace,
            record=record.seq,
            call=event.result.call_id if isinstance(event, ToolFinished) else "",
        )


def id_of_turn(trace: str) -> str:
    """Of the failure of a turn, which whoever else tells of it knows too."""
    return digest("turn", trace)


def place_of(details: str) -> str:
    """The error that ended a turn, if its details begin with the name of one."""
    name = details.partition(":")[0].strip()
    return name if name.isidentifier() else "model"


def _where(event: Event) -> tuple[int, int, str]:
    if isinstance(event, TurnEnded) and isinstance(event.outcome, Failed):
        failed = event.outcome
        return failed.turn or event.turn, failed.step, failed.trace
    return event.turn, event.step, ""
