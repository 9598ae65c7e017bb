"""The window of a model, drawn: what fills it, and how much room is left."""

from __future__ import annotations

from mainstay.cli.chat.safe import visible
from mainstay.cli.chat.words import Line, short
from mainstay.context.compile import Shown

BAR = 48  # columns of the picture, where there is room for them
BAR_MIN = 12
# Each section has a sign of its own, so that it is seen without colours too.
_LOOKS = {
    "fixed": ("█", "blue"),
    "tools": ("▓", "magenta"),
    "profile": ("▚", "green"),
    "summary": ("▒", "yellow"),
    "recent": ("░", "cyan"),
}
_FREE = ("·", "dim")
_ABOUT = {
    "fixed": "instructions",
    "tools": "what it can call",
    "profile": "what it knows about you",
    "summary": "what was said long ago",
    "recent": "what was said since",
    "free": "room for more",
}


def picture(shown: Shown, columns: int = 80) -> list[Line]:
    """One bar, as long as the budget, and below it what its parts are."""
    used = shown.tokens
    whole = max(shown.budget, used, 1)
    rows = [(section.name, section.tokens) for section in shown.sections] + [("free", max(shown.budget - used, 0))]
    width = max(min(BAR, columns - 5), BAR_MIN)
    cells = _share([tokens for _, tokens in rows], whole, width)
    looks = [_LOOKS.get(name, _FREE) for name, _ in rows]
    bar = [(sign * many, style) for (sign, style), many in zip(looks, cells, strict=True)]
    head = f"{visible(shown.model)}: {short(used)} of {short(shown.budget)} tokens, window {short(shown.window)}"
    legend: list[Line] = []
    for (name, tokens), (sign, style) in zip(rows, looks, strict=True):
        facts = f" {visible(name):8} {short(tokens):>7} {tokens / whole:5.1%}"
        about = f"  {_ABOUT.get(name, '')}" if columns >= 60 else ""
        legend.append((("  ", ""), (sign, style), (facts, "default"), (about, "dim")))
    return [((head, "bold"),), (("  ", ""), *bar), *legend]


def _share(amounts: list[int], whole: int, width: int) -> list[int]:
    """So many columns for each: at least one for what is there at all, and all of them together the whole width."""
    cells = [max(int(amount / whole * width), 1 if amount else 0) for amount in amounts]
    while sum(cells) != width:
        largest = cells.index(max(cells))
        step = width - sum(cells)
        if not any(amounts):
            return [0] * len(cells)
        cells[largest] += step if step > 0 else -1
    return cells
