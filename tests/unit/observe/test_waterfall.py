"""A trace in a terminal: rows that fit, bars where they belong, and nothing that a terminal would obey."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.span_records import BEGUN, calls, child_turn, everything, finished, records, standing, started, tool_turn

from mainstay.core.events import ApprovalAsked
from mainstay.core.journal import Record
from mainstay.guards.terminal_sanitizer import escape_line
from mainstay.observe.span_types import TelemetryOptions, Trace
from mainstay.observe.traces import build_trace
from mainstay.observe.waterfall import render_waterfall


class Journals:
    async def read_records(self, key: str, after: int = 0, limit: int = 1000) -> list[Record]:
        told = child_turn() if key == "s/call_1_1_2" else []
        return [one for one in told if one.seq > after][:limit]


async def traced(told: list[Record], now: int | None = None) -> Trace:
    made = await build_trace(
        Journals(), standing(), told, TelemetryOptions(workspace="w", include_error_messages=True), now
    )
    assert made is not None
    return made


def drawn(trace: Trace, width: int = 100) -> list[str]:
    return [line.text for line in render_waterfall(trace, width, escape_line)]


async def test_a_turn_is_drawn_with_a_row_for_each_span_and_what_it_took() -> None:
    trace = await traced(tool_turn())
    head, root, first, call, second = drawn(trace)
    assert head == f"turn 1 of s · answered · 1.5 s · 230 → 25 · $0.0030 · trace {trace.id}"
    assert re.fullmatch(r"w +█+ +1\.5 s +230 → 25 +\$0\.0030", root)
    assert re.fullmatch(r"  chat gpt-9 +█+ +400 ms +100 → 20 +\$0\.0020", first)
    assert re.fullmatch(r"  write +█+ +290 ms", call)
    assert re.fullmatch(r"  chat gpt-9 +█+ +800 ms +130 → 5 +\$0\.0010", second)
    ends = [line.rindex("█") for line in (first, call, second)]
    starts = [line.index("█") for line in (first, call, second)]
    assert starts == sorted(starts)
    assert ends == sorted(ends)
    assert starts[2] - ends[1] == 1, "the second call to the model begins where the tool ended"


async def test_approvals_crashes_restarts_and_errors_are_seen_and_sub_agents_stand_below_their_call() -> None:
    lines = drawn(await traced(everything()), 120)
    text = "\n".join(lines)
    for said in ("approval bash", "interrupted", "stream_broken: the stream broke off", "tool_error", "judge kind"):
        assert said in text
    assert lines[-1].startswith("? approval requested  ! answered  ✗ process stopped  ↻ retried")
    spawn = next(n for n, line in enumerate(lines) if line.startswith("  spawn"))
    assert lines[spawn + 1].startswith("    sub-agent")
    assert lines[spawn + 2].startswith("      chat gpt-9")
    assert "░" in next(line for line in lines if line.startswith("  approval bash"))


async def test_a_wait_of_days_leaves_room_for_what_was_done() -> None:
    asked = ApprovalAsked("a1", "call_1_1_0", "bash", "{}", turn=1, step=1)
    told = records(*started(), calls(1_000, ("call_1_1_0", "bash")), (1_010, asked))
    lines = drawn(await traced(told, BEGUN + 3 * 86_400_000), 100)
    (chat,) = (line for line in lines if line.startswith("  chat"))
    assert chat.count("█") > 20
    assert "72 h 0 min…" in lines[0]
    assert lines[-1].endswith("waiting times are drawn shorter")


@pytest.mark.parametrize("width", [60, 72, 80, 132, 200])
async def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    long = [("call_1_1_0", "a_tool_with_a_name_that_is_longer_than_any_column_should_be_" * 3)]
    told = records(*started(model="openai/" + "m" * 90), calls(5, *long), finished(9, *long[0], error=True))
    for trace in (await traced(everything()), await traced(told, BEGUN + 50)):
        lines = drawn(trace, width)
        assert all(len(line) <= width for line in lines)
        assert sum("█" in line or "▒" in line for line in lines) >= 2


@settings(max_examples=50, deadline=None)
@given(st.text(min_size=1, max_size=60), st.text(max_size=30))
async def test_nothing_that_a_model_named_reaches_the_terminal_as_an_order(name: str, more: str) -> None:
    evil = f"{name}\x1b]0;owned\x07\x1b[2J\r{more}\u202e"
    told = records(
        *started(model=f"openai/{evil}"), calls(5, ("call_1_1_0", evil)), finished(9, "call_1_1_0", evil, error=True)
    )
    for line in drawn(await traced(told, BEGUN + 50)):
        assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", line)
