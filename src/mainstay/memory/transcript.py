"""Renders messages as a numbered transcript for the summarising model. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mainstay.core.messages import Binary, Message, Text, ToolCall, ToolResult

TEXT_CHARS_MAX = 6000  # of one message, before scaling down to fit
RESULT_CHARS_MAX = 1500
CALL_CHARS_MAX = 300
_SCALES = (1.0, 0.5, 0.25, 0.1, 0.04)
_CONTROL_CHARS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")  # line separators are handled by splitlines


def render_transcript(messages: Sequence[Message], bytes_max: int) -> str:
    """Render each message as `[id] speaker: text`, with its further lines indented.

    No message text can start a line, so a message cannot imitate another one.
    """
    lines: list[str] = []
    for scale in _SCALES:
        lines = [line for message in messages if (line := _render_message(message, scale))]
        if sum(map(size_bytes, lines)) + len(lines) <= bytes_max:
            return "\n".join(lines)
    return _omit_middle(lines, bytes_max)


def _omit_middle(lines: list[str], bytes_max: int) -> str:
    """Keep a third of the room for the first lines and the rest for the last ones."""
    sizes = [size_bytes(line) + 1 for line in lines]
    room = max(0, bytes_max - 60)
    head, used = 0, 0
    while head < len(lines) and used + sizes[head] <= room / 3:
        used += sizes[head]
        head += 1
    tail = len(lines)
    while tail > head and used + sizes[tail - 1] <= room:
        used += sizes[tail - 1]
        tail -= 1
    omitted = [f"(… {tail - head} messages are left out here …)"] if tail > head else []
    return "\n".join(lines[:head] + omitted + lines[tail:])


def _render_message(message: Message, scale: float) -> str:
    texts = [text for part in message.parts if (text := _render_part(part, scale))]
    if not texts:
        return ""
    origins = sorted({part.origin for part in message.parts if part.origin})
    speaker = f"{message.role} ({', '.join(origins)[:80]})" if origins else message.role
    return f"[{message.id}] {_to_line(speaker)}: {_indent_lines(chr(10).join(texts))}"


def _render_part(part: object, scale: float) -> str:
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


def shorten(text: str, chars_max: int) -> str:
    """Keep the beginning and the end of a long text."""
    text = text.strip()
    if len(text) <= chars_max + 40:  # the note in between takes about as much
        return text
    head = chars_max * 2 // 3
    tail = chars_max - head
    return f"{text[:head].rstrip()} (… {len(text) - chars_max} characters …) {text[len(text) - tail :].lstrip()}"


def _indent_lines(text: str) -> str:
    return "\n    ".join(_CONTROL_CHARS.sub(" ", text).splitlines())


def _to_line(text: str) -> str:
    return " ".join(_CONTROL_CHARS.sub(" ", text).split())


def size_bytes(text: str) -> int:
    """Return the size in UTF-8 bytes: three to four bytes per token in any script."""
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def join_summaries(parts: Sequence[str]) -> str:
    """Join several summaries into one text, in order."""
    return "\n\n".join(text for part in parts if (text := part.strip()))
