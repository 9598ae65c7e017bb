"""A passage of a conversation as text: numbered lines for a model. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mainstay.core.messages import Binary, Message, Text, ToolCall, ToolResult

TEXT_CHARS_MAX = 6000  # what is shown of one message at most; less where there is less room
RESULT_CHARS_MAX = 1500
CALL_CHARS_MAX = 300
_SCALES = (1.0, 0.5, 0.25, 0.1, 0.04)
_OUTLINE_CHARS = 80
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")  # what splits lines is dealt with as such


def render(messages: Sequence[Message], bytes_max: int) -> str:
    """Each message on a line of its own, `[id] speaker: text`, its further lines indented: only we begin a line."""
    lines: list[str] = []
    for scale in _SCALES:
        lines = [line for message in messages if (line := _line(message, scale))]
        if sum(map(size, lines)) + len(lines) <= bytes_max:
            return "\n".join(lines)
    return _without_the_middle(lines, bytes_max)


def _without_the_middle(lines: list[str], bytes_max: int) -> str:
    """The caller gave far too much: the beginning and, twice as much, the end."""
    sizes = [size(line) + 1 for line in lines]
    room = max(0, bytes_max - 60)
    head, used = 0, 0
    while head < len(lines) and used + sizes[head] <= room / 3:
        used += sizes[head]
        head += 1
    tail = len(lines)
    while tail > head and used + sizes[tail - 1] <= room:
        used += sizes[tail - 1]
        tail -= 1
    gone = [f"(… {tail - head} messages are left out here …)"] if tail > head else []
    return "\n".join(lines[:head] + gone + lines[tail:])


def _line(message: Message, scale: float) -> str:
    said = [text for part in message.parts if (text := _said(part, scale))]
    if not said:
        return ""
    origins = sorted({part.origin for part in message.parts if part.origin})
    who = f"{message.role} ({', '.join(origins)[:80]})" if origins else message.role
    return f"[{message.id}] {_inline(who)}: {_indented(chr(10).join(said))}"


def _said(part: object, scale: float) -> str:
    match part:
        case Text(text=text):
            return shorten(text, int(TEXT_CHARS_MAX * scale)).strip()
        case ToolCall(name=name, input=input):
            return f"called {name}({shorten(input, int(CALL_CHARS_MAX * scale))})"
        case ToolResult(name=name, content=content, is_error=failed):
            return f"{name}{' failed' if failed else ''}: {shorten(content, int(RESULT_CHARS_MAX * scale))}"
        case Binary(mime=mime):
            return f"({mime})"
    return ""


def shorten(text: str, chars: int) -> str:
    """Beginning and end of a long text."""
    text = text.strip()
    if len(text) <= chars + 40:  # the note in between is not shorter than that
        return text
    head = chars * 2 // 3
    tail = chars - head
    return f"{text[:head].rstrip()} (… {len(text) - chars} characters …) {text[len(text) - tail :].lstrip()}"


def _indented(text: str) -> str:
    return "\n    ".join(_UNPRINTABLE.sub(" ", text).splitlines())


def _inline(text: str) -> str:
    return " ".join(_UNPRINTABLE.sub(" ", text).split())


def size(text: str) -> int:
    """In bytes: a third to a quarter as many tokens, whatever the script."""
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def join(parts: Sequence[str]) -> str:
    """Several summaries as one text, in order."""
    return "\n\n".join(text for part in parts if (text := part.strip()))
