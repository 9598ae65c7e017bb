"""A trace as lines for a terminal: one for each span, each with a bar on one axis of time.

Everything that others named goes through `show`, which cuts it to a width and leaves nothing for a terminal to obey.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec

from mainstay.observe.spans import Span, Trace

Show = Callable[[str, int], str]  # a text, and the columns that it may have
Style = Literal["", "red", "yellow", "dim", "cyan"]

NAME_MIN, NAME_MAX = 12, 44
BAR_MIN = 10
WAIT_SHARE = 0.25  # of the axis that waiting for people, or for a process, has at most
WAITS = ("approval ", "client ", "interrupted")
SIGNS = {  # of what happened at one moment, and what it is called below
    "mainstay.approval.asked": ("?", "asked"),
    "mainstay.approval.answered": ("!", "answered"),
    "mainstay.turn.resumed": ("✗", "the process stopped"),
    "mainstay.step.restarted": ("↻", "asked again"),
    "mainstay.correction": ("~", "correction"),
    "mainstay.evals.judges.failed": ("~", "not good enough"),
    "mainstay.guard": ("g", "guard"),
    "mainstay.steered": (">", "steered"),
    "mainstay.stopped": ("x", "stopped"),
}


class Line(msgspec.Struct, frozen=True):
    text: str
    style: Style = ""


class Axis:
    """From times to columns. Long waits are drawn shorter than they were, so that what was done can be seen."""

    def __init__(self, trace: Trace, columns: int) -> None:
        self._start = trace.root.start
        self._columns = columns
        self._waits = _merged([(span.start, span.end) for span in trace.spans if span.name.startswith(WAITS)])
        whole = max(trace.root.end - trace.root.start, 1)
        waited = sum(end - start for start, end in self._waits)
        active = whole - waited
        self.squeezed = active > 0 and waited > whole * WAIT_SHARE
        drawn = active * WAIT_SHARE / (1 - WAIT_SHARE)
        self._factor = drawn / waited if self.squeezed else 1.0
        self._whole = active + waited * self._factor

    def column(self, at: int) -> int:
        waited = sum(max(0, min(at, end) - start) for start, end in self._waits if start < at)
        passed = at - self._start - waited + waited * self._factor
        return max(0, min(round(passed / self._whole * self._columns), self._columns))


def waterfall(trace: Trace, width: int, show: Show) -> Iterator[Line]:
    """At most `width` columns each."""
    rows = list(_tree(trace))
    cells = [(_seconds(span), _tokens(span), _dollars(span)) for span, _ in rows]
    beside = [max(len(cell[n]) for cell in cells) for n in range(3)]
    name = min(max(len("  " * depth + _called(span)) for span, depth in rows), NAME_MAX)
    name = max(min(name, width - sum(beside) - 8 - BAR_MIN), NAME_MIN)
    bar = max(width - name - sum(beside) - 8, BAR_MIN)
    axis = Axis(trace, bar)
    yield Line(_headline(trace, width, show))
    for (span, depth), (seconds, tokens, cost) in zip(rows, cells, strict=True):
        called = show("  " * depth + _called(span), name).ljust(name)
        figures = f"{seconds:>{beside[0]}}  {tokens:>{beside[1]}}  {cost:>{beside[2]}}".rstrip()
        yield Line(f"{called} {_bar(span, axis, bar)} {figures}"[:width].rstrip(), _style(span))
        if span.error:
            said = f"{span.error}: {span.note}" if span.note else span.error
            yield Line(show("  " * (depth + 1) + said, width), "red")
    yield from _legend(trace, axis, width)


def _headline(trace: Trace, width: int, show: Show) -> str:
    root = trace.root
    how = "goes on" if root.open else str(root.attributes.get("mainstay.outcome", "ended"))
    facts = [how, _seconds(root), *filter(None, (_tokens(root), _dollars(root)))]
    return show(f"turn {trace.turn} of {trace.session} · {' · '.join(facts)} · trace {trace.id}", width)


def _legend(trace: Trace, axis: Axis, width: int) -> Iterator[Line]:
    seen = {mark.name for span in trace.spans for mark in span.marks}
    said = dict.fromkeys(f"{sign} {what}" for name, (sign, what) in SIGNS.items() if name in seen)
    text = "  ".join(said) + ("  waiting is drawn shorter than it was" if axis.squeezed else "")
    if text:
        yield Line(text.strip()[:width], "dim")


def _tree(trace: Trace) -> Iterator[tuple[Span, int]]:
    """Each span below what it belongs to, in the order of time."""
    below: dict[str, list[Span]] = {}
    for span in trace.spans[1:]:
        below.setdefault(span.parent, []).append(span)

    def walk(span: Span, depth: int) -> Iterator[tuple[Span, int]]:
        yield span, depth
        for one in sorted(below.pop(span.id, ()), key=lambda one: (one.start, one.end)):
            yield from walk(one, depth + 1)

    yield from walk(trace.root, 0)


def _called(span: Span) -> str:
    """The operation goes without saying where the name says it."""
    for operation in ("execute_tool ", "invoke_agent "):
        if span.name.startswith(operation):
            return span.name.removeprefix(operation)
    return span.name


def _bar(span: Span, axis: Axis, columns: int) -> str:
    start, end = axis.column(span.start), axis.column(span.end)
    start = min(start, columns - 1)
    sign = "░" if span.name.startswith(WAITS) else "▒" if span.open else "█"
    cells = [" "] * columns
    cells[start : max(end, start + 1)] = sign * (max(end, start + 1) - start)
    for mark in span.marks:
        if mark.name in SIGNS:
            cells[min(axis.column(mark.at), columns - 1)] = SIGNS[mark.name][0]
    return "".join(cells)


def _style(span: Span) -> Style:
    if span.error:
        return "red"
    if span.name.startswith(WAITS):
        return "yellow"
    return "cyan" if span.open else ""


def _seconds(span: Span) -> str:
    ms = span.end - span.start
    more = "…" if span.open else ""
    if ms < 1000:
        return f"{ms} ms{more}"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s{more}"
    minutes, seconds = divmod(ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min{more}" if hours else f"{minutes} min {seconds} s{more}"


def _tokens(span: Span) -> str:
    taken, given = (span.attributes.get(f"gen_ai.usage.{one}_tokens") for one in ("input", "output"))
    return f"{taken:,} → {given:,}" if isinstance(taken, int) and isinstance(given, int) else ""


def _dollars(span: Span) -> str:
    cost = span.attributes.get("mainstay.cost")
    if not isinstance(cost, float) or not cost:
        return ""
    return f"${cost:,.2f}" if cost >= 1 else f"${cost:.4f}" if cost >= 0.0001 else "<$0.0001"


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    made: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if made and start <= made[-1][1]:
            made[-1] = made[-1][0], max(made[-1][1], end)
        else:
            made.append((start, end))
    return made
