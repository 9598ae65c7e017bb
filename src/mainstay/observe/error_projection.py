"""Projection of the journals into error reports: failed turns, tools, judges, guards and deliveries."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mainstay.core.error_reports import ErrorKind, ErrorReport, ErrorStore, short_digest, split_error_text
from mainstay.core.events import Delivered, Event, Judged, ToolFinished, TurnEnded
from mainstay.core.journal import Record
from mainstay.core.messages import ToolResult
from mainstay.core.outcome import Failed
from mainstay.core.projection_ports import JournalBatch
from mainstay.core.turn_location import trace_id

# How tool results begin that are a decision of a person or a rule: nothing failed.
DECISION_PREFIXES = ("Not run: ", "Not run or not finished: ", "Not allowed: ", "Cancelled: ", "Skipped: ")
ERROR_EVENTS = (TurnEnded, ToolFinished, Judged, Delivered)  # events that can contain an error
UNCHECKED_PREFIX = "Withheld: "  # how a tool result begins that a guard could not check
UNKNOWN_DELIVERY_TEXT = "It is not known whether the message arrived; it is not sent again."


class ErrorProjection:
    """Writes the error reports of one workspace's journals. `redact` removes secrets from a text: a journal has no
    secrets of the configuration, but may have others."""

    name = "errors"

    def __init__(self, store: ErrorStore, workspace: str, redact: Callable[[str], str]) -> None:
        self._store = store
        self._workspace = workspace
        self._redact = redact

    async def positions(self) -> dict[str, int]:
        return await self._store.positions(self._workspace)

    async def apply(self, batch: JournalBatch) -> None:
        records = [record for record in batch.records if isinstance(record.event, ERROR_EVENTS)]
        reports = [report for record in records for report in self._record_reports(batch, record)]
        await self._store.add_from_journal(self._workspace, batch.info.key, batch.records[-1].seq, reports)

    def _record_reports(self, batch: JournalBatch, record: Record) -> Iterator[ErrorReport]:
        match record.event:
            case TurnEnded(outcome=Failed(sentence=sentence, details=details)):
                yield self._build_report(
                    batch, record, "turn", turn_error_place(details), f"{sentence}\n{details}".strip()
                )
            case ToolFinished(result=ToolResult(is_error=True, name=name, content=content)):
                if not content.startswith(DECISION_PREFIXES):
                    kind: ErrorKind = "guard" if content.startswith(UNCHECKED_PREFIX) else "tool"
                    yield self._build_report(batch, record, kind, name, content)
            case Judged(scores=scores):
                for score in scores:
                    if score.error:
                        yield self._build_report(batch, record, "judge", score.judge, score.error)
            case Delivered(state="failed" | "unknown" as state, to=to, note=note):
                text = note or (UNKNOWN_DELIVERY_TEXT if state == "unknown" else "The message was not delivered.")
                yield self._build_report(batch, record, "delivery", to.channel, text)

    def _build_report(self, batch: JournalBatch, record: Record, kind: ErrorKind, place: str, text: str) -> ErrorReport:
        info, event = batch.info, record.event
        turn, step, trace = _event_location(event)
        trace = trace or (trace_id(info.key, info.created, turn) if turn else "")
        sentence, details = split_error_text(self._redact(text))
        of_turn = kind == "turn" and trace
        return ErrorReport(
            id=turn_report_id(trace) if of_turn else short_digest(self._workspace, info.key, record.seq, kind, place),
            at=record.at,
            kind=kind,
            place=place,
            sentence=sentence,
            details=details,
            workspace=self._workspace,
            session=info.key,
            turn=turn,
            step=step,
            trace=trace,
            record=record.seq,
            call=event.result.call_id if isinstance(event, ToolFinished) else "",
        )


def turn_report_id(trace: str) -> str:
    """Return the id of the report about a failed turn, so that the journal's and the log's report are one."""
    return short_digest("turn", trace)


def turn_error_place(details: str) -> str:
    """Return the class of the error that ended a turn if its details begin with one, else "model"."""
    name = details.partition(":")[0].strip()
    return name if name.isidentifier() else "model"


def _event_location(event: Event) -> tuple[int, int, str]:
    """Return turn, step and trace id; the trace id is empty if the event does not have it."""
    if isinstance(event, TurnEnded) and isinstance(event.outcome, Failed):
        failed = event.outcome
        return failed.turn or event.turn, failed.step, failed.trace
    return event.turn, event.step, ""
