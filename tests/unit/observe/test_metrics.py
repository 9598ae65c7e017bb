"""Metrics of turns, and the text that Prometheus reads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.span_records import calls, child_turn, everything, finished, records, standing, started, tool_turn

from mainstay.core.events import Spawned, ToolFinished, TurnEnded
from mainstay.core.messages import ToolResult
from mainstay.core.outcome import Failed
from mainstay.core.projection_ports import JournalBatch
from mainstay.observe.metrics import (
    OTHER_LABEL,
    SERIES_MAX,
    Counter,
    Gauge,
    Histogram,
    MetricSample,
    render_metrics,
    safe_label,
)
from mainstay.observe.span_types import TelemetryOptions
from mainstay.observe.turn_metrics import MetricsProjection, TurnMetrics

parser: Any = pytest.importorskip("prometheus_client.parser")


def values(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample of a scrape, read by the official reader."""
    found = {}
    for family in parser.text_string_to_metric_families(text):
        assert family.documentation, family.name
        assert family.type in ("counter", "gauge", "histogram"), family.name
        for sample in family.samples:
            found[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return found


async def counted(*stretches: JournalBatch) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    counts = TurnMetrics()
    reader = MetricsProjection(counts, TelemetryOptions(), {})
    for stretch in stretches:
        await reader.apply(stretch)
    return values(render_metrics(counts.metrics()))


MODEL = (("gen_ai_operation_name", "chat"), ("gen_ai_provider_name", "openai"), ("gen_ai_request_model", "gpt-9"))


async def test_turns_calls_tokens_and_money_are_counted_with_how_long_they_took() -> None:
    found = await counted(JournalBatch(standing(), tool_turn()))
    assert found["mainstay_turns_total", (("agent", "main"), ("outcome", "answered"))] == 1
    assert found["mainstay_turn_duration_seconds_sum", (("agent", "main"), ("outcome", "answered"))] == 1.51
    assert found["gen_ai_client_operation_duration_seconds_count", MODEL] == 2
    assert found["gen_ai_client_operation_duration_seconds_sum", MODEL] == pytest.approx(1.2)
    assert found["gen_ai_client_token_usage_sum", (*MODEL, ("gen_ai_token_type", "input"))] == 230
    assert found["mainstay_tokens_total", (("kind", "turn"), ("type", "output"))] == 25
    assert found["mainstay_cost_dollars_total", (("kind", "turn"),)] == pytest.approx(0.003)
    assert found["mainstay_tool_calls_total", (("result", "ok"), ("tool", "write"))] == 1
    tool = (("gen_ai_operation_name", "execute_tool"), ("gen_ai_provider_name", ""), ("gen_ai_request_model", ""))
    assert found["gen_ai_client_operation_duration_seconds_sum", tool] == pytest.approx(0.29)


async def test_a_turn_that_comes_in_pieces_is_counted_as_one_that_comes_whole() -> None:
    told = everything()
    whole = await counted(JournalBatch(standing(), told))
    for cut in range(1, len(told)):
        parts = JournalBatch(standing(), told[:cut]), JournalBatch(standing(), told[cut:], told[:cut])
        assert await counted(*parts) == whole, cut


async def test_everything_that_can_happen_in_a_turn_has_its_counter() -> None:
    errand = standing("s/call_1_1_2", spawned=Spawned("s", "call_1_1_2"))
    found = await counted(JournalBatch(standing(), everything()), JournalBatch(errand, child_turn()))
    assert found["mainstay_turns_total", (("agent", "sub"), ("outcome", "answered"))] == 1
    assert found["mainstay_turns_resumed_total", ()] == 1
    assert found["mainstay_steps_restarted_total", ()] == 1
    assert found["mainstay_approvals_total", (("verdict", "approved"),)] == 1
    assert found["mainstay_guard_actions_total", (("action", "flagged"), ("stage", "tool"))] == 1
    assert found["mainstay_judgements_total", (("result", "failed"),)] == 1
    assert found["mainstay_folds_total", ()] == 1
    assert found["mainstay_tokens_total", (("kind", "judge"), ("type", "input"))] == 100
    assert found["mainstay_tool_calls_total", (("result", "error"), ("tool", "bash"))] == 1
    tool = (("gen_ai_operation_name", "execute_tool"), ("gen_ai_provider_name", ""), ("gen_ai_request_model", ""))
    assert found["gen_ai_client_operation_duration_seconds_sum", tool] == pytest.approx(0.05 + 4.09 + 0.79 + 0.05)


async def test_events_before_this_process_are_not_counted_again() -> None:
    assert await MetricsProjection(TurnMetrics(), TelemetryOptions(), {"old": 7}).positions() == {"old": 7}


async def test_names_that_a_model_made_up_do_not_become_labels() -> None:
    strange = ('rm -rf "/"\n# HELP x', "ünïcode", "x" * 500, "")
    told = [*started()]
    named = [(f"call_1_1_{n}", name) for n, name in enumerate(strange)]
    told += [calls(5, *named), *(finished(9, *one, error=True) for one in named)]
    found = await counted(JournalBatch(standing(), records(*told)))
    assert found["mainstay_tool_calls_total", (("result", "error"), ("tool", OTHER_LABEL))] == len(strange)
    assert {safe_label(name) for name in strange} == {OTHER_LABEL}
    assert safe_label("mcp.github:search-code") == "mcp.github:search-code"


async def test_an_unknown_tool_counts_as_unknown_with_any_name() -> None:
    one = ("call_1_1_0", "ann@example.com")
    none = ToolFinished(ToolResult(*one, "There is no tool 'ann@example.com'. Available: none.", is_error=True), turn=1)
    found = await counted(JournalBatch(standing(), records(*started(), calls(5, one), (9, none))))
    assert found["mainstay_tool_calls_total", (("result", "error"), ("tool", "unknown"))] == 1
    assert "ann@" not in str(found)


async def test_counted_records_are_not_counted_again_when_the_position_is_read() -> None:
    reader = MetricsProjection(TurnMetrics(), TelemetryOptions(), {"old": 7})
    told = tool_turn()
    await reader.apply(JournalBatch(standing(), told))
    assert await reader.positions() == {"old": 7, "s": len(told)}


def test_a_missing_number_is_reported_as_missing() -> None:
    samples = tuple(MetricSample(float(one), {"x": one}) for one in ("nan", "inf", "-inf"))
    found = values(render_metrics([Gauge("a", "A.", samples)]))
    assert str(found["a", (("x", "nan"),)]) == "nan"
    assert (found["a", (("x", "inf"),)], found["a", (("x", "-inf"),)]) == (float("inf"), float("-inf"))


async def test_no_name_of_a_person_is_in_the_metrics() -> None:
    person = standing("web:ann:private-matters", person="ann", workspace="anns")
    failed = TurnEnded(Failed("ann's secret plan broke"), turn=1)
    counts = TurnMetrics()
    await MetricsProjection(counts, TelemetryOptions(workspace="anns"), {}).apply(
        JournalBatch(person, records(*started(), (9, failed)))
    )
    text = render_metrics(counts.metrics())
    assert 'outcome="failed"' in text
    assert "ann" not in text


def test_a_metric_has_only_so_many_series_however_many_labels_come() -> None:
    counter, histogram = Counter("a_total", "A.", ("x",)), Histogram("b_seconds", "B.", (1, 2), ("x",))
    for n in range(5_000):
        counter.add(f"v{n}")
        histogram.observe(0.5, f"v{n}")
    found = values(render_metrics((counter, histogram)))
    assert len([one for one in found if one[0] == "a_total"]) == SERIES_MAX + 1
    assert found["a_total", (("x", OTHER_LABEL),)] == 5_000 - SERIES_MAX
    assert found["b_seconds_count", (("x", OTHER_LABEL),)] == 5_000 - SERIES_MAX


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1e6), max_size=30), st.text(max_size=30))
def test_a_histogram_says_how_many_were_at_most_so_large(numbers: list[float], name: str) -> None:
    edges = (0.1, 1.0, 10.0, 1000.0)
    histogram = Histogram("h_seconds", "H.", edges, ("name",))
    for number in numbers:
        histogram.observe(number, name)
    found = values(render_metrics([histogram]))
    if not numbers:
        assert found == {}
        return
    for edge in edges:
        below = sum(number <= edge for number in numbers)
        key = (("le", str(int(edge)) if edge >= 1 else str(edge)), ("name", name))
        assert found["h_seconds_bucket", key] == below
    assert found["h_seconds_bucket", (("le", "+Inf"), ("name", name))] == len(numbers)
    assert found["h_seconds_sum", (("name", name),)] == pytest.approx(sum(numbers))


def test_labels_are_escaped_so_that_any_text_reads_back() -> None:
    wild = 'a "b" \\ c\nd'
    found = values(render_metrics([Gauge("g", "G.", (MetricSample(1.5, {"x": wild}),))]))
    assert found == {("g", (("x", wild),)): 1.5}


def test_the_names_of_metrics_follow_the_rules_of_prometheus() -> None:
    for metric in TurnMetrics().metrics():
        assert metric.name.startswith(("mainstay_", "gen_ai_client_"))
        assert metric.name == metric.name.lower()
        if isinstance(metric, Counter):
            assert metric.name.endswith("_total")
        else:
            assert metric.name.endswith(("_seconds", "_usage"))
