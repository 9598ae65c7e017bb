"""What is known of skills that attack: the expressions of attacks.txt, read on first use."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

Level = Literal["danger", "warning"]

_FILE = Path(__file__).with_name("attacks.txt")
_PART = re.compile(r"([A-Z_]+) =")
_HEAD = re.compile(r"(danger|warning|-) (danger|warning|-) (\S.*)")
_USED = re.compile(r"\{([A-Z_]+)\}")
_LEVELS: dict[str, Level | None] = {"danger": "danger", "warning": "warning", "-": None}


class Rule(msgspec.Struct, frozen=True):
    """One thing to be found, what is said about it, and how bad it is in a script and on a page."""

    what: str
    pattern: re.Pattern[str]
    near: tuple[str, ...]  # it is looked for around these words only
    script: Level | None = None
    page: Level | None = None


class Table(msgspec.Struct, frozen=True):
    rules: tuple[Rule, ...]
    named: dict[str, re.Pattern[str]]


@cache
def table() -> Table:
    entries = _entries(_FILE.read_text("utf-8"))
    parts = {part[1]: body for head, _, body in entries if (part := _PART.fullmatch(head))}
    rules: list[Rule] = []
    named: dict[str, re.Pattern[str]] = {}
    for head, near, body in entries:
        if head.startswith(":"):
            named[head[1:]] = _compiled(body, parts)
        elif (found := _HEAD.fullmatch(head)) is not None:
            rules.append(Rule(found[3], _compiled(body, parts), near, _LEVELS[found[1]], _LEVELS[found[2]]))
        else:
            assert _PART.fullmatch(head), head
    return Table(tuple(rules), named)


def named(name: str) -> re.Pattern[str]:
    return table().named[name]


def _compiled(lines: list[str], parts: dict[str, list[str]]) -> re.Pattern[str]:
    return re.compile(_written_out(lines, parts), re.IGNORECASE | re.MULTILINE)


def _written_out(lines: list[str], parts: dict[str, list[str]]) -> str:
    whole = "|".join(
        line.replace(" ?", r"\s{0,4}").replace(" ", r"\s{1,4}").replace("…", r"[^\n]{0,200}") for line in lines
    )
    return _USED.sub(lambda part: f"(?:{_written_out(parts[part[1]], parts)})", whole)


def _entries(text: str) -> list[tuple[str, tuple[str, ...], list[str]]]:
    """Heads, the words they are looked for near, and the lines of their expressions."""
    entries: list[tuple[str, tuple[str, ...], list[str]]] = []
    for line in text.splitlines():
        if line.startswith("    "):
            entries[-1][2].append(line[4:])
        elif line.startswith("  near "):
            head, near, body = entries[-1]
            entries[-1] = head, (*near, *msgspec.json.decode(line[7:], type=list[str])), body
        elif line and not line.startswith("#"):
            entries.append((line, (), []))
    return entries
