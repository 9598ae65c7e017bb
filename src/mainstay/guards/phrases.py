"""What attacks say, as expressions over normalised text: lower case, no accents, one space.

They stand in phrases/*.txt, each with a kind and a weight, and are read on first use.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import msgspec

from mainstay.guards.normalise import fold

_FOLDER = Path(__file__).parent / "phrases"
_HEAD = re.compile(r"([a-z -]+) (0\.\d+)( command)?")
_NAME = re.compile(r"([A-Z]+) =")


class Phrase(msgspec.Struct, frozen=True):
    kind: str
    weight: float  # how sure one can be of it alone
    expression: re.Pattern[str]
    near: tuple[str, ...]  # it is looked for around these only
    command: bool = False  # it counts where it is a command, and much less in a sentence about something


@cache
def phrases() -> tuple[Phrase, ...]:
    """All of them. Compiled once, which takes a moment: only a text that looks suspicious pays for it."""
    return (*_read("english.txt", folded=False), *_read("others.txt", folded=True))


def _read(name: str, *, folded: bool) -> list[Phrase]:
    found = []
    names: dict[str, str] = {}
    for head, near, body in _entries((_FOLDER / name).read_text("utf-8")):
        expression = "".join(body)
        for known, meaning in names.items():
            expression = expression.replace("{" + known + "}", meaning)
        if folded:
            expression = fold(expression)
        if "<>" in expression:
            one, other = expression.split("<>")
            expression = rf"{one}[^.\n]{{0,30}}?{other}|{other}[^.\n]{{0,30}}?{one}"
        if named := _NAME.fullmatch(head):
            names[named[1]] = expression
            continue
        parts = _HEAD.fullmatch(head)
        assert parts is not None, f"{name}: {head}"
        found.append(Phrase(parts[1], float(parts[2]), re.compile(expression), near, bool(parts[3])))
    return found


def _entries(text: str) -> list[tuple[str, tuple[str, ...], list[str]]]:
    """Heads, the stems they are looked for around, and the lines of their expressions."""
    entries: list[tuple[str, tuple[str, ...], list[str]]] = []
    for line in text.splitlines():
        if line.startswith("    "):
            entries[-1][2].append(line[4:])
        elif line.startswith("  near "):
            head, near, body = entries[-1]
            entries[-1] = head, (*near, *(fold(stem) for stem in msgspec.json.decode(line[7:], type=list[str]))), body
        elif line and not line.startswith("#"):
            entries.append((line, (), []))
    return entries
