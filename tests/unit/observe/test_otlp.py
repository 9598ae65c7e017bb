"""Traces on the wire: what the official messages read of our bytes, and what becomes of them on the way to a collector
that is well, slow, full, wrong or not there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.span_records import everything, standing

from mainstay.core.turn_location import span_id, trace_id
from mainstay.observe import span_exporter
from mainstay.observe.otlp_encoder import encode_request, encode_spans, is_sampled, traces_to_json
from mainstay.observe.span_exporter import CollectorResponse, SpanExporter
from mainstay.observe.span_types import Attributes, Span, SpanEvent, TelemetryOptions, Trace
from mainstay.observe.traces import build_trace
from mainstay.testing import virtual_run

proto: Any = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
json_format: Any = pytest.importorskip("google.protobuf.json_format")
ABOUT: Attributes = {"service.name": "mainstay"}


def read(body: bytes) -> Any:
    message = proto.ExportTraceServiceRequest()
    message.ParseFromString(body)
    return message


def plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return tuple(plain(one) for one in value.array_value.values)
    return getattr(value, kind)


def dict_of(attributes: Any) -> dict[str, Any]:
    return {one.key: plain(one.value) for one in attributes}


class Nothing:
    async def read_records(self, key: str, after: int = 0, limit: int = 1000) -> list[Any]:
        return []


async def some_trace() -> Trace:
    made = await build_trace(Nothing(), standing(), everything(), TelemetryOptions(include_content=True))
    assert made is not None
    return made


async def test_loom_012_the_official_messages_read_every_span_with_all_that_is_known_of_it() -> None:
    trace = await some_trace()
    (resource_spans,) = read(encode_request(ABOUT, "1.0", encode_spans(trace))).resource_spans
    assert dict_of(resource_spans.resource.attributes) == ABOUT
    (scope,) = resource_spans.scope_spans
    assert (scope.scope.name, scope.scope.version) == ("mainstay", "1.0")
    assert len(scope.spans) == len(trace.spans)
    for got, span in zip(scope.spans, trace.spans, strict=True):
        assert (got.trace_id.hex(), got.span_id.hex(), got.parent_span_id.hex()) == (trace.id, span.id, span.parent_id)
        assert (got.name, got.kind) == (span.name, 3 if span.kind == "client" else 1)
        assert got.start_time_unix_nano == span.start * 1_000_000
        assert got.end_time_unix_nano == span.end * 1_000_000
        assert dict_of(got.attributes) == span.attributes
        marks = [(one.time_unix_nano, one.name, dict_of(one.attributes)) for one in got.events]
        assert marks == [(one.at * 1_000_000, one.name, one.attributes) for one in span.events]
        assert (got.status.code, got.status.message) == ((2, span.error_message) if span.error_type else (0, ""))


async def test_the_json_of_a_trace_says_what_its_bytes_say() -> None:
    trace = await some_trace()
    document = msgspec.json.encode(traces_to_json(ABOUT, "1.0", [trace]))
    # ids are hexadecimal in OTLP's JSON, where the general mapping has base64
    spans = msgspec.json.decode(document)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert [one["traceId"] for one in spans] == [trace.id] * len(spans)
    assert [one["spanId"] for one in spans] == [span.id for span in trace.spans]
    for one in spans:
        for name in ("traceId", "spanId", "parentSpanId"):
            one.pop(name, None)
    whole = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    read_json = json_format.ParseDict(whole, proto.ExportTraceServiceRequest())
    by_bytes = read(encode_request({}, "", encode_spans(trace)))
    for other in by_bytes.resource_spans[0].scope_spans[0].spans:
        other.ClearField("trace_id")
        other.ClearField("span_id")
        other.ClearField("parent_span_id")
    assert list(read_json.resource_spans[0].scope_spans[0].spans) == list(
        by_bytes.resource_spans[0].scope_spans[0].spans
    )


VALUES = st.one_of(
    st.text(max_size=300),
    st.booleans(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(allow_nan=False),
    st.lists(st.text(max_size=20), max_size=5).map(tuple),
)


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.text(max_size=40), VALUES, max_size=12), st.text(max_size=200))
def test_any_attribute_and_name_arrives_as_it_was(attributes: Attributes, name: str) -> None:
    id = trace_id("s", 1, 1)
    mark = SpanEvent(5, name, attributes)
    span = Span(
        id=span_id(id, "x"), name=name, start=1, end=1 << 40, attributes=attributes, events=(mark,), error_type="e"
    )
    trace = Trace(id=id, session="s", turn=1, spans=(span,))
    (got,) = read(encode_request({}, "", encode_spans(trace))).resource_spans[0].scope_spans[0].spans
    assert got.name == name
    assert dict_of(got.attributes) == attributes
    assert dict_of(got.events[0].attributes) == attributes


def test_sampling_takes_its_share_of_ids_and_all_or_none_at_the_ends() -> None:
    ids = [trace_id("s", 1, turn) for turn in range(4000)]
    assert all(is_sampled(id, 1.0) for id in ids)
    assert not any(is_sampled(id, 0.0) for id in ids)
    assert 300 < sum(is_sampled(id, 0.1) for id in ids) < 500
    some = {id for id in ids if is_sampled(id, 0.1)}
    assert some <= {id for id in ids if is_sampled(id, 0.3)}, "a larger share keeps what a smaller one takes"


# --- sending -------------------------------------------------------------------------------------

Script = Callable[
    [int, list[bytes]], CollectorResponse | float
]  # what the nth request gets: an answer, or so many seconds of nothing


class Far:
    """A collector that does as it is told, in virtual time."""

    def __init__(self, script: Script) -> None:
        self.asked: list[list[bytes]] = []
        self.at: list[float] = []
        self._script = script
        self.exporter = SpanExporter(self._send, self._wrap)

    def _wrap(self, blocks: Sequence[bytes]) -> bytes:
        return b"|".join(blocks)

    async def _send(self, body: bytes) -> CollectorResponse:
        blocks = body.split(b"|")
        self.asked.append(blocks)
        self.at.append(asyncio.get_running_loop().time())
        said = self._script(len(self.asked), blocks)
        if isinstance(said, CollectorResponse):
            return said
        await asyncio.sleep(said)
        return CollectorResponse(200)


def test_spans_of_one_second_go_in_one_request_and_then_there_is_no_task() -> None:
    async def run() -> None:
        far = Far(lambda n, blocks: CollectorResponse(200))
        far.exporter.enqueue([b"a", b"b"])
        far.exporter.enqueue([b"c"])
        await asyncio.sleep(5)
        assert far.asked == [[b"a", b"b", b"c"]]
        assert (far.exporter.sent_count, far.exporter.dropped_counts) == (3, {})
        assert len(asyncio.all_tasks()) == 1, "an agent that is idle has nothing running for this"

    virtual_run(run())


def test_a_collector_that_is_down_is_asked_ever_more_seldom_and_gets_all_when_it_is_back() -> None:
    async def run() -> None:
        far = Far(lambda n, blocks: CollectorResponse(200 if n > 7 else 503))
        far.exporter.enqueue([b"a"])
        await asyncio.sleep(400)
        assert far.asked == [[b"a"]] * 8
        waits = [round(b - a) for a, b in zip(far.at, far.at[1:], strict=False)]
        assert waits == [1, 2, 4, 8, 16, 32, 60]
        assert far.exporter.sent_count == 1

    virtual_run(run())


def test_a_retry_after_of_the_collector_is_obeyed_within_limits() -> None:
    async def run() -> None:
        far = Far(
            lambda n, blocks: CollectorResponse(200) if n > 2 else CollectorResponse(429, 30.0 if n == 1 else 1e9)
        )
        far.exporter.enqueue([b"a"])
        await asyncio.sleep(400)
        assert [round(b - a) for a, b in zip(far.at, far.at[1:], strict=False)] == [30, 300]

    virtual_run(run())


@pytest.mark.parametrize("status", [400, 401, 404, 415, 500])
def test_a_rejected_batch_is_dropped_and_counted_and_blocks_no_other(status: int) -> None:
    async def run() -> None:
        far = Far(lambda n, blocks: CollectorResponse(200 if n > 1 else status))
        far.exporter.enqueue([b"a"])
        await asyncio.sleep(5)
        far.exporter.enqueue([b"b"])
        await asyncio.sleep(5)
        assert far.asked == [[b"a"], [b"b"]]
        assert (far.exporter.sent_count, far.exporter.dropped_counts) == (1, {"refused": 1})

    virtual_run(run())


def test_a_request_that_is_too_large_is_halved_until_it_is_not() -> None:
    async def run() -> None:
        far = Far(lambda n, blocks: CollectorResponse(413 if len(blocks) > 2 or b"huge" in blocks else 200))
        far.exporter.enqueue([b"a", b"b", b"c", b"huge", b"e"])
        await asyncio.sleep(5)
        assert (far.exporter.sent_count, far.exporter.dropped_counts) == (4, {"refused": 1})
        assert far.asked[-1] == [b"e"]

    virtual_run(run())


def test_a_collector_that_hangs_for_ever_costs_a_bounded_queue_and_no_more() -> None:
    async def run() -> None:
        far = Far(lambda n, blocks: 1e6)
        block = b"x" * 10_000
        for _ in range(2_000):
            far.exporter.enqueue([block])
            await asyncio.sleep(0.5)
        assert far.exporter.queued_bytes <= span_exporter.QUEUE_BYTES_MAX
        taken = max(len(one) for one in far.asked)
        assert far.exporter.dropped_counts["full"] >= 2_000 - span_exporter.QUEUE_BYTES_MAX // 10_000 - taken - 1
        began = asyncio.get_running_loop().time()
        await far.exporter.close()
        assert asyncio.get_running_loop().time() - began <= span_exporter.CLOSE_TIMEOUT_S + 0.1
        assert far.exporter.sent_count == 0
        assert sum(far.exporter.dropped_counts.values()) == 2_000, "nothing is lost without being counted"

    virtual_run(run())


def test_the_oldest_goes_first_when_too_much_waits() -> None:
    async def run() -> None:
        far = Far(lambda n, blocks: CollectorResponse(503 if n == 1 else 200))
        far.exporter.enqueue([b"first"])
        await asyncio.sleep(1.5)
        many = [b"%07d" % n + b"x" * 100_000 for n in range(60)]
        far.exporter.enqueue(many)
        await asyncio.sleep(60)
        arrived = [one for blocks in far.asked[1:] for one in blocks]
        assert arrived[-1] == many[-1]
        assert many[0] not in arrived
        assert far.exporter.sent_count + far.exporter.dropped_counts["full"] == 61

    virtual_run(run())


def test_at_the_end_what_waits_is_sent_at_once_and_what_comes_later_is_not_kept() -> None:
    async def run() -> None:
        far = Far(lambda n, blocks: CollectorResponse(200))
        far.exporter.enqueue([b"a"])
        await far.exporter.close()
        assert far.asked == [[b"a"]]
        assert asyncio.get_running_loop().time() < 0.5
        far.exporter.enqueue([b"b"])
        await far.exporter.close()
        assert far.exporter.dropped_counts == {"end": 1}

    virtual_run(run())


def test_an_error_of_a_collector_is_logged_once_until_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        far = Far(lambda n, blocks: CollectorResponse(200) if n > 5 else CollectorResponse(0, error="nobody is there"))
        far.exporter.enqueue([b"a"])
        await asyncio.sleep(100)

    with caplog.at_level("INFO", "mainstay.observe"):
        virtual_run(run())
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "the collector does not accept traces: nobody is there",
        "the collector accepts traces again",
    ]
