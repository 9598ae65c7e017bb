"""Draws the model's context window as a bar chart: how many tokens each section uses, and how many are free."""

from __future__ import annotations

from mainstay.context.compiler import ContextView
from mainstay.guards.terminal_sanitizer import escape_line
from mainstay.terminal.formatters import StyledLine, format_number

BAR_COLUMNS = 48  # columns of the bar, if the terminal is wide enough
BAR_COLUMNS_MIN = 12
# Each section has its own character, so that the bar can be read without colours.
_SECTION_STYLES = {
    "fixed": ("█", "blue"),
    "tools": ("▓", "magenta"),
    "profile": ("▚", "green"),
    "summary": ("▒", "yellow"),
    "recent": ("░", "cyan"),
}
_FREE_STYLE = ("·", "dim")
_SECTION_LABELS = {
    "fixed": "instructions",
    "tools": "tool definitions",
    "profile": "your profile and MEMORY.md",
    "summary": "summary of older turns",
    "recent": "recent messages",
    "free": "free space",
}


def draw_context_chart(context: ContextView, columns: int = 80) -> list[StyledLine]:
    """Return one bar for the whole token budget, and a legend of its sections below it."""
    used = context.tokens
    whole = max(context.budget, used, 1)
    rows = [(section.name, section.tokens) for section in context.sections] + [("free", max(context.budget - used, 0))]
    width = max(min(BAR_COLUMNS, columns - 5), BAR_COLUMNS_MIN)
    cells = _allocate_columns([tokens for _, tokens in rows], whole, width)
    styles = [_SECTION_STYLES.get(name, _FREE_STYLE) for name, _ in rows]
    bar = [(sign * columns_used, style) for (sign, style), columns_used in zip(styles, cells, strict=True)]
    budget, window = format_number(context.budget), format_number(context.window)
    head = f"{escape_line(context.model)}: {format_number(used)} of {budget} tokens, window {window}"
    legend: list[StyledLine] = []
    for (name, tokens), (sign, style) in zip(rows, styles, strict=True):
        facts = f" {escape_line(name):8} {format_number(tokens):>7} {tokens / whole:5.1%}"
        about = f"  {_SECTION_LABELS.get(name, '')}" if columns >= 60 else ""
        legend.append((("  ", ""), (sign, style), (facts, "default"), (about, "dim")))
    flow: list[StyledLine] = [((escape_line(context.flow), "yellow"),)] if context.flow else []
    return [((head, "bold"),), (("  ", ""), *bar), *legend, *flow]


def _allocate_columns(amounts: list[int], total: int, width: int) -> list[int]:
    """Return the columns for each amount: at least one for every amount above 0, and `width` together."""
    cells = [max(int(amount / total * width), 1 if amount else 0) for amount in amounts]
    while sum(cells) != width:
        largest = cells.index(max(cells))
        step = width - sum(cells)
        if not any(amounts):
            return [0] * len(cells)
        cells[largest] += step if step > 0 else -1
    return cells
