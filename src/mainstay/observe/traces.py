"""From journals to traces: whole turns with their sub-agents, for whoever looks and for a collector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from mainstay.core.events import Folded, TurnEnded, TurnResumed, TurnStarted
from mainstay.core.following import Stretch
from mainstay.core.journal import Record
from mainstay.core.outcome import Failed
from mainstay.core.ports import Standing
from mainstay.core.tracing import span_id, trace_id
from mainstay.observe.otlp import encode_spans, is_sampled
from mainstay.observe.spans import Lineage, Span, Telling, Trace, fold_attributes, turns_in
from mainstay.observe.turn_spans import turn_spans

PAGE = 512
RECORDS_MAX = 20_000  # of one sub-agent
SPANS_MAX = 2_000  # of one trace
DEPTH_MAX = 8
SENDS = "spawn"  # the tool that sends sub-agents


class Journals(Protocol):
    """Of a store: what is needed to read."""

    async def read(self, key: str, after: int = 0, limit: int = 1000) -> list[Record]: ...


class Sending(Protocol):
    """What a trace is handed to. Never waits."""

    def put(self, blocks: Sequence[bytes]) -> None: ...


async def trace_of(
    journals: Journals, standing: Standing, records: Sequence[Record], telling: Telling, now: int | None = None
) -> Trace | None:
    """Of the turn that these are the records of; None where nothing can be told of it. `now`: also if it goes on."""
    begun = (record.event.turn for record in records if isinstance(record.event, TurnStarted))
    turn = next(begun, records[-1].event.turn if records else 0)
    id = trace_id(standing.key, standing.created, turn)
    spans = await _with_children(journals, records, Lineage(id, standing.key), telling, now)
    return Trace(id=id, session=standing.key, turn=turn, spans=tuple(spans[:SPANS_MAX])) if spans else None


def fold_trace(standing: Standing, record: Record, telling: Telling) -> Trace | None:
    """Of a summary that was made between two turns: it belongs to neither. When it was begun, nobody knows."""
    if not isinstance(record.event, Folded):
        return None
    id = trace_id(standing.key, standing.created, -record.event.version)
    found = fold_attributes(record.event, telling) | {"gen_ai.conversation.id": standing.key}
    span = Span(id=span_id(id, "fold"), name="fold", start=record.at, end=record.at, attributes=found)
    return Trace(id=id, session=standing.key, turn=0, spans=(span,))


async def _with_children(
    journals: Journals, records: Sequence[Record], lineage: Lineage, telling: Telling, now: int | None, depth: int = 0
) -> list[Span]:
    spans = turn_spans(records, lineage, telling, now)
    for span in tuple(spans) if depth < DEPTH_MAX else ():
        if span.attributes.get("gen_ai.tool.name") != SENDS or span.name != f"execute_tool {SENDS}":
            continue
        child = lineage.child(str(span.attributes["gen_ai.tool.call.id"]), span.id)
        theirs = await _read(journals, child.session, RECORDS_MAX)
        for turn, some in turns_in(theirs).items():
            if turn and (found := await _with_children(journals, some, child, telling, now, depth + 1)):
                # errors of a sub-agent name the trace that its own session would have: it can be looked for
                found[0].attributes["mainstay.trace"] = trace_id(child.session, theirs[0].at, turn)
                spans += found
    return spans


async def _read(journals: Journals, key: str, most: int, after: int = 0) -> list[Record]:
    records: list[Record] = []
    while len(records) < most and (page := await journals.read(key, after, min(PAGE, most - len(records)))):
        records += page
        after = page[-1].seq
    return records


class TraceReader:
    """Hands a turn over to be sent when it has ended, once, whole and with its sub-agents: whether it is sampled is
    then one decision, and one that failed is sent in any case."""

    name = "traces"

    def __init__(
        self, journals: Journals, sending: Sending, telling: Telling, sample: float, heads: Mapping[str, int]
    ) -> None:
        """`heads`: where sessions stood before anything was done in this process."""
        self._places = dict(heads)  # in memory: what was not sent when the process ends is not sent
        self._journals = journals
        self._sending = sending
        self._telling = telling
        self._sample = sample

    async def positions(self) -> dict[str, int]:
        """From now on: what a collector was sent before is not sent again."""
        return dict(self._places)

    async def take(self, stretch: Stretch) -> None:
        if stretch.standing.errand is None:  # else it is told of with the turn that sent it
            await self._tell(stretch)
        self._places[stretch.standing.key] = stretch.records[-1].seq

    async def _tell(self, stretch: Stretch) -> None:
        """If this fails half-way, the rest of it is told when it is offered again."""
        key = stretch.standing.key
        told = self._places.get(key, 0)
        running = any(isinstance(record.event, TurnStarted) for record in stretch.earlier)
        for record in stretch.records:
            match record.event:
                case TurnStarted():
                    running = True
                case TurnEnded(outcome=outcome, turn=turn):
                    running = False
                    if record.seq > told and (isinstance(outcome, Failed) or self._wants(stretch.standing, turn)):
                        await self._hand_over(stretch, record.seq)
                    self._places[key] = max(record.seq, told)
                case Folded(version=version) if (
                    not running and record.seq > told and self._wants(stretch.standing, -version)
                ):
                    if (trace := fold_trace(stretch.standing, record, self._telling)) is not None:
                        self._sending.put(encode_spans(trace))
                    self._places[key] = record.seq

    def _wants(self, standing: Standing, turn: int) -> bool:
        return is_sampled(trace_id(standing.key, standing.created, turn), self._sample)

    async def _hand_over(self, stretch: Stretch, end: int) -> None:
        records = [record for record in (*stretch.earlier, *stretch.records) if record.seq <= end]
        begin = next((n for n, one in _backwards(records) if isinstance(one.event, TurnStarted)), 0)
        turn = records[begin:]
        taken = set(turn[0].event.inputs) if isinstance(turn[0].event, TurnStarted) else set()
        if any(isinstance(one.event, TurnResumed) for one in turn):  # what it had streamed is not told of again
            turn = await _read(self._journals, stretch.standing.key, end - turn[0].seq + 1, turn[0].seq - 1)
        turn = [*(one for one in records[:begin] if one.seq in taken), *turn]
        trace = await trace_of(self._journals, stretch.standing, turn, self._telling)
        if trace is not None:
            self._sending.put(encode_spans(trace))


def _backwards(records: Sequence[Record]) -> list[tuple[int, Record]]:
    return [(n, records[n]) for n in range(len(records) - 1, -1, -1)]
