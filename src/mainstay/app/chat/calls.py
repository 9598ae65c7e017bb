"""A tool call and its result in a few lines."""

from __future__ import annotations

import json

from mainstay.app.chat.safe import safe, visible
from mainstay.app.chat.words import count

VALUE_CHARS_MAX = 60
LINE_CHARS_MAX = 160
RESULT_LINES_MAX = 4


def call_line(name: str, input: str) -> str:
    """`● add(a=2, b=3)`; every control character in it is written out."""
    return f"● {visible(name, LINE_CHARS_MAX)}({visible(_arguments(input), LINE_CHARS_MAX)})"


def _arguments(input: str) -> str:
    try:
        given = json.loads(input or "{}")
    except ValueError:
        return input
    if not isinstance(given, dict):
        return input
    return ", ".join(f"{key}={_value(value)}" for key, value in given.items())


def _value(value: object) -> str:
    return visible(json.dumps(value, ensure_ascii=False), VALUE_CHARS_MAX)


def result_lines(content: str, ms: int | None = None, lines_max: int = RESULT_LINES_MAX) -> list[str]:
    """`  └ 5`, at most a few lines of it, with how long it took behind the first."""
    lines = [line.rstrip() for line in safe(content).expandtabs(4).splitlines() if line.strip()] or ["(nothing)"]
    shown = [visible(line, LINE_CHARS_MAX) for line in lines[:lines_max]]
    if len(lines) > lines_max:
        shown.append(f"… {count(len(lines) - lines_max, 'more line')}")
    if ms is not None:
        shown[0] += f"  {ms} ms"
    return [f"  {'└' if number == 0 else ' '} {line}" for number, line in enumerate(shown)]
