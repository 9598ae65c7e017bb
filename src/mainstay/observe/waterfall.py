"""Renders a trace as a waterfall for a terminal: one line per span, with a bar on a common time axis.

Names chosen by models, tools and users are passed through a `TextSanitiser`, which cuts them to a width and removes
terminal control sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec

from mainstay.observe.span_types import Span, Trace

TextSanitiser = Callable[[str, int], str]  # (text, width in columns) -> text that is safe to print
LineStyle = Literal["", "red", "yellow", "dim", "cyan"]

NAME_WIDTH_MIN, NAME_WIDTH_MAX = 12, 44  # columns
BAR_WIDTH_MIN = 10  # columns
WAIT_SHARE_MAX = 0.25  # of the axis at most, for waiting for people or for a restart of the process
WAIT_PREFIXES = ("approval ", "client ", "interrupted")  # how the names of such spans begin
EVENT_SIGNS = {  # of span events: sign, and its meaning in the legend
    "mainstay.approval.asked": ("?", "approval requested"),
    "mainstay.approval.answered": ("!", "answered"),
    "mainstay.turn.resumed": ("✗", "process stopped"),
    "mainstay.step.restarted": ("↻", "retried"),
    "mainstay.correction": ("~", "correction"),
    "mainstay.judge.failed": ("~", "rejected by judges"),
    "mainstay.guard": ("g", "guard"),
    "mainstay.note": ("n", "skill, pattern or hint"),
    "mainstay.steered": (">", "steered"),
    "mainstay.stopped": ("x", "stopped"),
}


class WaterfallLine(msgspec.Struct, frozen=True):
    text: str
    style: LineStyle = ""


class TimeAxis:
    """Maps times to columns. Long waits are compressed, so that the other spans remain visible."""

    def __init__(self, trace: Trace, columns: int) -> None:
        self._start = trace.root.start
        self._columns = columns
        self._wait_periods = _merge_periods(
            [(span.start, span.end) for span in trace.spans if span.name.startswith(WAIT_PREFIXES)]
        )
        whole = max(trace.root.end - trace.root.start, 1)
        waited = sum(end - start for start, end in self._wait_periods)
        active = whole - waited
        self.is_compressed = active > 0 and waited > whole * WAIT_SHARE_MAX
        drawn = active * WAIT_SHARE_MAX / (1 - WAIT_SHARE_MAX)
        self._wait_factor = drawn / waited if self.is_compressed else 1.0
        self._drawn_ms = active + waited * self._wait_factor

    def column(self, at: int) -> int:
        waited = sum(max(0, min(at, end) - start) for start, end in self._wait_periods if start < at)
        passed = at - self._start - waited + waited * self._wait_factor
        return max(0, min(round(passed / self._drawn_ms * self._columns), self._columns))


def render_waterfall(trace: Trace, width: int, sanitise: TextSanitiser) -> Iterator[WaterfallLine]:
    """Yield the lines of the waterfall, at most `width` columns each."""
    rows = list(_walk_tree(trace))
    cells = [(_format_duration(span), _format_tokens(span), _format_cost(span)) for span, _ in rows]
    widths = [max(len(cell[n]) for cell in cells) for n in range(3)]
    name_width = min(max(len("  " * depth + _short_name(span)) for span, depth in rows), NAME_WIDTH_MAX)
    name_width = max(min(name_width, width - sum(widths) - 8 - BAR_WIDTH_MIN), NAME_WIDTH_MIN)
    bar_width = max(width - name_width - sum(widths) - 8, BAR_WIDTH_MIN)
    axis = TimeAxis(trace, bar_width)
    yield WaterfallLine(_headline(trace, width, sanitise))
    for (span, depth), (seconds, tokens, cost) in zip(rows, cells, strict=True):
        name = sanitise("  " * depth + _short_name(span), name_width).ljust(name_width)
        figures = f"{seconds:>{widths[0]}}  {tokens:>{widths[1]}}  {cost:>{widths[2]}}".rstrip()
        yield WaterfallLine(f"{name} {_draw_bar(span, axis, bar_width)} {figures}"[:width].rstrip(), _line_style(span))
        if span.error_type:
            error = f"{span.error_type}: {span.error_message}" if span.error_message else span.error_type
            yield WaterfallLine(sanitise("  " * (depth + 1) + error, width), "red")
    yield from _legend(trace, axis, width)


def _headline(trace: Trace, width: int, sanitise: TextSanitiser) -> str:
    root = trace.root
    status = "running" if root.is_open else str(root.attributes.get("mainstay.outcome", "ended"))
    facts = [status, _format_duration(root), *filter(None, (_format_tokens(root), _format_cost(root)))]
    return sanitise(f"turn {trace.turn} of {trace.session} · {' · '.join(facts)} · trace {trace.id}", width)


def _legend(trace: Trace, axis: TimeAxis, width: int) -> Iterator[WaterfallLine]:
    names = {mark.name for span in trace.spans for mark in span.events}
    signs = dict.fromkeys(f"{sign} {meaning}" for name, (sign, meaning) in EVENT_SIGNS.items() if name in names)
    text = "  ".join(signs) + ("  waiting times are drawn shorter" if axis.is_compressed else "")
    if text:
        yield WaterfallLine(text.strip()[:width], "dim")


def _walk_tree(trace: Trace) -> Iterator[tuple[Span, int]]:
    """Yield each span with its depth, children after their parent in the order of time."""
    children: dict[str, list[Span]] = {}
    for span in trace.spans[1:]:
        children.setdefault(span.parent_id, []).append(span)

    def walk(span: Span, depth: int) -> Iterator[tuple[Span, int]]:
        yield span, depth
        for child in sorted(children.pop(span.id, ()), key=lambda child: (child.start, child.end)):
            yield from walk(child, depth + 1)

    yield from walk(trace.root, 0)


def _short_name(span: Span) -> str:
    """Return a span's name without the operation where the rest of the name makes it clear."""
    for operation in ("execute_tool ", "invoke_agent "):
        if span.name.startswith(operation):
            return span.name.removeprefix(operation)
    return span.name


def _draw_bar(span: Span, axis: TimeAxis, columns: int) -> str:
    start, end = axis.column(span.start), axis.column(span.end)
    start = min(start, columns - 1)
    sign = "░" if span.name.startswith(WAIT_PREFIXES) else "▒" if span.is_open else "█"
    cells = [" "] * columns
    cells[start : max(end, start + 1)] = sign * (max(end, start + 1) - start)
    for mark in span.events:
        if mark.name in EVENT_SIGNS:
            cells[min(axis.column(mark.at), columns - 1)] = EVENT_SIGNS[mark.name][0]
    return "".join(cells)


def _line_style(span: Span) -> LineStyle:
    if span.error_type:
        return "red"
    if span.name.startswith(WAIT_PREFIXES):
        return "yellow"
    return "cyan" if span.is_open else ""


def _format_duration(span: Span) -> str:
    ms = span.end - span.start
    suffix = "…" if span.is_open else ""
    if ms < 1000:
        return f"{ms} ms{suffix}"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s{suffix}"
    minutes, seconds = divmod(ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min{suffix}" if hours else f"{minutes} min {seconds} s{suffix}"


def _format_tokens(span: Span) -> str:
    tokens_in, tokens_out = (span.attributes.get(f"gen_ai.usage.{kind}_tokens") for kind in ("input", "output"))
    return f"{tokens_in:,} → {tokens_out:,}" if isinstance(tokens_in, int) and isinstance(tokens_out, int) else ""


def _format_cost(span: Span) -> str:
    cost = span.attributes.get("mainstay.cost")
    if not isinstance(cost, float) or not cost:
        return ""
    return f"${cost:,.2f}" if cost >= 1 else f"${cost:.4f}" if cost >= 0.0001 else "<$0.0001"


def _merge_periods(periods: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(periods):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged
