"""Builds traces of turns with their sub-agents from the journals, and the projection that exports them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from mainstay.core.errors import InputRefused
from mainstay.core.events import Folded, TurnEnded, TurnResumed, TurnStarted
from mainstay.core.journal import Record
from mainstay.core.outcome import Failed
from mainstay.core.ports import SessionInfo
from mainstay.core.projection_ports import JournalBatch
from mainstay.core.turn_location import span_id, trace_id
from mainstay.observe.otlp_encoder import encode_spans, is_sampled
from mainstay.observe.span_types import Span, TelemetryOptions, Trace, TraceContext, fold_attributes, group_by_turn
from mainstay.observe.turn_spans import build_turn_spans

PAGE_RECORDS = 512  # records per read
RECORDS_MAX = 20_000  # of one sub-agent
SPANS_MAX = 2_000  # of one trace
TURNS_MAX = 1_000  # of one session, where all its turns are shown
DEPTH_MAX = 8  # of nested sub-agents
SPAWN_TOOL = "spawn"  # the tool that runs sub-agents


class JournalReader(Protocol):
    """The part of a Store that traces need."""

    async def read_records(self, key: str, after: int = 0, limit: int = 1000) -> list[Record]: ...


class SpanSink(Protocol):
    """Receives encoded spans for export; never blocks."""

    def enqueue(self, encoded_spans: Sequence[bytes]) -> None: ...


def select_turns(records: Sequence[Record], turn_number: int | None, name: str) -> list[list[Record]]:
    """Return the records of one turn of a session's journal; None: of the last turn, 0: of each of the newest
    `TURNS_MAX` turns. Raises InputRefused if there is none; `name` is the session's in the sentence."""
    turns = {turn: turn_records for turn, turn_records in group_by_turn(records).items() if turn}
    if not turns:
        raise InputRefused(f"the session {name!r} has no turns yet")
    if turn_number and turn_number not in turns:
        raise InputRefused(f"there is no turn {turn_number}; {name!r} has {min(turns)} to {max(turns)}")
    chosen = list(turns)[-TURNS_MAX:] if turn_number == 0 else [turn_number or max(turns)]
    return [turns[turn] for turn in chosen]


async def build_trace(
    journal: JournalReader,
    info: SessionInfo,
    records: Sequence[Record],
    options: TelemetryOptions,
    now_ms: int | None = None,
) -> Trace | None:
    """Return the trace of the turn to which the records belong; None if they contain none.

    A turn that has not ended has a trace only with `now_ms`, as of that time.
    """
    numbers = (record.event.turn for record in records if isinstance(record.event, TurnStarted))
    turn = next(numbers, records[-1].event.turn if records else 0)
    id = trace_id(info.key, info.created, turn)
    spans = await _build_spans(journal, records, TraceContext(id, info.key), options, now_ms)
    return Trace(id=id, session=info.key, turn=turn, spans=tuple(spans[:SPANS_MAX])) if spans else None


def build_fold_trace(info: SessionInfo, record: Record, options: TelemetryOptions) -> Trace | None:
    """Return the trace of a fold between two turns, which belongs to neither. Its start is not known."""
    if not isinstance(record.event, Folded):
        return None
    id = trace_id(info.key, info.created, -record.event.version)
    attributes = fold_attributes(record.event, options) | {"gen_ai.conversation.id": info.key}
    span = Span(id=span_id(id, "fold"), name="fold", start=record.at, end=record.at, attributes=attributes)
    return Trace(id=id, session=info.key, turn=0, spans=(span,))


async def _build_spans(
    journal: JournalReader,
    records: Sequence[Record],
    context: TraceContext,
    options: TelemetryOptions,
    now_ms: int | None,
    depth: int = 0,
) -> list[Span]:
    spans = build_turn_spans(records, context, options, now_ms)
    for span in tuple(spans) if depth < DEPTH_MAX else ():
        if span.attributes.get("gen_ai.tool.name") != SPAWN_TOOL or span.name != f"execute_tool {SPAWN_TOOL}":
            continue
        child = context.for_sub_agent(str(span.attributes["gen_ai.tool.call.id"]), span.id)
        child_records = await _read_records(journal, child.session, RECORDS_MAX)
        for turn, turn_records in group_by_turn(child_records).items():
            if turn and (nested := await _build_spans(journal, turn_records, child, options, now_ms, depth + 1)):
                # error reports of a sub-agent have the trace id of its own session: this attribute makes it searchable
                nested[0].attributes["mainstay.trace"] = trace_id(child.session, child_records[0].at, turn)
                spans += nested
    return spans


async def _read_records(journal: JournalReader, key: str, records_max: int, after: int = 0) -> list[Record]:
    records: list[Record] = []
    while len(records) < records_max and (
        page := await journal.read_records(key, after, min(PAGE_RECORDS, records_max - len(records)))
    ):
        records += page
        after = page[-1].seq
    return records


class TraceProjection:
    """Exports the trace of a turn when it has ended, once, with its sub-agents.

    So sampling is one decision per trace, and failed turns are always exported (tail sampling).
    """

    name = "traces"

    def __init__(
        self,
        journal: JournalReader,
        sink: SpanSink,
        options: TelemetryOptions,
        sample_share: float,
        heads: Mapping[str, int],
    ) -> None:
        """`sample_share`: from 0 to 1. `heads`: last record of each session at the start of this process."""
        self._positions = dict(heads)  # only in memory: traces that were not exported when the process ends are lost
        self._journal = journal
        self._sink = sink
        self._options = options
        self._sample_share = sample_share

    async def positions(self) -> dict[str, int]:
        """Return positions from the start of the process on: earlier turns are not exported again."""
        return dict(self._positions)

    async def apply(self, batch: JournalBatch) -> None:
        if batch.info.spawned is None:  # a sub-agent's turns are exported with the turn that spawned it
            await self._export_batch(batch)
        self._positions[batch.info.key] = batch.records[-1].seq

    async def _export_batch(self, batch: JournalBatch) -> None:
        """Export the turns that ended in a batch. After a failure, a retry continues where this stopped."""
        key = batch.info.key
        exported = self._positions.get(key, 0)
        is_running = any(isinstance(record.event, TurnStarted) for record in batch.earlier)
        for record in batch.records:
            match record.event:
                case TurnStarted():
                    is_running = True
                case TurnEnded(outcome=outcome, turn=turn):
                    is_running = False
                    if record.seq > exported and (isinstance(outcome, Failed) or self._is_sampled(batch.info, turn)):
                        await self._export_turn(batch, record.seq)
                    self._positions[key] = max(record.seq, exported)
                case Folded(version=version) if (
                    not is_running and record.seq > exported and self._is_sampled(batch.info, -version)
                ):
                    if (trace := build_fold_trace(batch.info, record, self._options)) is not None:
                        self._sink.enqueue(encode_spans(trace))
                    self._positions[key] = record.seq

    def _is_sampled(self, info: SessionInfo, turn: int) -> bool:
        return is_sampled(trace_id(info.key, info.created, turn), self._sample_share)

    async def _export_turn(self, batch: JournalBatch, end_seq: int) -> None:
        records = [record for record in (*batch.earlier, *batch.records) if record.seq <= end_seq]
        begin = next((n for n, record in _enumerate_reversed(records) if isinstance(record.event, TurnStarted)), 0)
        turn = records[begin:]
        inputs = set(turn[0].event.inputs) if isinstance(turn[0].event, TurnStarted) else set()
        if any(isinstance(record.event, TurnResumed) for record in turn):  # a batch repeats no streaming checkpoints
            turn = await _read_records(self._journal, batch.info.key, end_seq - turn[0].seq + 1, turn[0].seq - 1)
        turn = [*(record for record in records[:begin] if record.seq in inputs), *turn]
        trace = await build_trace(self._journal, batch.info, turn, self._options)
        if trace is not None:
            self._sink.enqueue(encode_spans(trace))


def _enumerate_reversed(records: Sequence[Record]) -> list[tuple[int, Record]]:
    return [(n, records[n]) for n in range(len(records) - 1, -1, -1)]
