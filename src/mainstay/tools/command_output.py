"""Command output for the model: without terminal escapes, shortened, and streamed as progress."""

from __future__ import annotations

import asyncio
import codecs
import re
from typing import Literal

from mainstay.core.ports import ToolContext

SHOWN_LINES_MAX = 2_000
SHOWN_BYTES_MAX = 50 * 1024
OUTPUT_BYTES_MAX = 20 * 1024 * 1024
PROGRESS_INTERVAL_S = 0.1
PROGRESS_CHARS_MAX = 2_000

_ESCAPE_SEQUENCE = re.compile(
    "\x1b(?:\\[[0-?]*[ -/]*[@-~]?|[\\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)?|[ -/]*[0-~]?)|\x9b[0-?]*[ -/]*[@-~]?"
)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NEEDS_CLEANING = re.compile("[\x00-\x1f\x7f-\x9f]")  # text without these needs no cleaning


def strip_terminal_codes(text: str) -> str:
    """Remove escape sequences and control characters; of an overwritten line (carriage return) keep the last state."""
    text = text.replace("\r\n", "\n")
    if not _NEEDS_CLEANING.search(text.replace("\n", "").replace("\t", "")):
        return text
    text = _ESCAPE_SEQUENCE.sub("", text)
    if "\r" in text or "\b" in text:
        text = "\n".join(_resolve_overwrites(line) for line in text.split("\n"))
    return _CONTROL.sub("", text)


def _resolve_overwrites(line: str) -> str:
    if "\r" in line:
        line = next((part for part in reversed(line.split("\r")) if part), "")
    if "\b" not in line:
        return line
    chars: list[str] = []
    for char in line:
        if char != "\b":
            chars.append(char)
        elif chars:
            chars.pop()
    return "".join(chars)


def looks_binary(data: bytes) -> bool:
    head = data[:65536]
    if b"\x00" in head:
        return True
    bad = head[:65000].decode("utf-8", "replace").count("\ufffd")
    return bad * 4 > len(head)


def shorten_output(
    text: str, rest_note: str, lines_max: int = SHOWN_LINES_MAX, bytes_max: int = SHOWN_BYTES_MAX
) -> str:
    """Cut out the middle; more of the end is kept, as it shows how a command ended. `rest_note` locates the rest."""
    encoded = text.encode(errors="replace")
    count = text.count("\n") + 1
    if len(encoded) <= bytes_max and count <= lines_max:
        return text
    head = encoded[: bytes_max // 5].decode(errors="ignore")
    tail = encoded[-(bytes_max - bytes_max // 5) :].decode(errors="ignore")
    if "\n" in head:
        head = "\n".join(head.split("\n")[:-1][: lines_max // 5])
    if "\n" in tail:
        tail = "\n".join(tail.split("\n")[1:][-(lines_max - lines_max // 5) :])
    lines_left = max(count - head.count("\n") - tail.count("\n") - 2, 0)
    omitted = (
        f"{lines_left} line{'' if lines_left == 1 else 's'}"
        if lines_left
        else f"{len(encoded) - len(head.encode()) - len(tail.encode())} bytes"
    )
    return f"{head}\n[… {omitted} left out{rest_note}]\n{tail}"


class CommandOutput:
    """Collects the output of a running command, both streams in order of arrival, up to a limit; reports progress."""

    def __init__(self, context: ToolContext) -> None:
        self._pieces: list[tuple[str, bytes]] = []
        self._size = 0
        self.is_truncated = False
        self._decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}
        self._context = context
        self._unreported = ""
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        room = OUTPUT_BYTES_MAX - self._size
        self.is_truncated = self.is_truncated or len(data) > room
        if room > 0:
            self._pieces.append((stream, data[:room]))
            self._size += min(len(data), room)
        self._unreported = (self._unreported + self._decoders[stream].decode(data))[-4 * PROGRESS_CHARS_MAX :]
        if self._timer is None and "\n" in self._unreported:
            self._timer = self._loop.call_later(PROGRESS_INTERVAL_S, self._report_progress)

    def _report_progress(self) -> None:
        self._timer = None
        whole, _, self._unreported = self._unreported.rpartition("\n")
        if note := strip_terminal_codes(whole).strip("\n")[-PROGRESS_CHARS_MAX:]:
            self._context.progress(note)

    def close(self) -> None:
        """Stop reporting progress."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def raw(self) -> bytes:
        return b"".join(data for _, data in self._pieces)

    def text(self) -> str:
        """Return the output line by line, in order of arrival. Streams are decoded separately: they may interleave."""
        decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}
        partial = dict.fromkeys(decoders, "")
        pieces: list[str] = []
        for stream, data in self._pieces:
            lines, end, rest = decoders[stream].decode(data).rpartition("\n")
            if end:
                pieces += (partial[stream], lines, end)
                partial[stream] = rest
            else:
                partial[stream] += rest
        unfinished = [partial[name] + decoder.decode(b"", final=True) for name, decoder in decoders.items()]
        return strip_terminal_codes("".join(pieces) + "\n".join(filter(None, unfinished)))
