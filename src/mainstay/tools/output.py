"""What commands say, as it can be read: without the marks meant for a terminal, short, and told as it comes."""

from __future__ import annotations

import asyncio
import codecs
import re
from typing import Literal

from mainstay.core.ports import ToolContext

LINES_MAX = 2_000
BYTES_MAX = 50 * 1024
KEPT_BYTES_MAX = 20 * 1024 * 1024
TOLD_EVERY_S = 0.1
TOLD_CHARS_MAX = 2_000

_ESCAPE = re.compile(
    "\x1b(?:\\[[0-?]*[ -/]*[@-~]?|[\\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)?|[ -/]*[0-~]?)|\x9b[0-?]*[ -/]*[@-~]?"
)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ODD = re.compile("[\x00-\x1f\x7f-\x9f]")  # something in here needs a closer look


def plain(text: str) -> str:
    """Without escapes and control characters; of a line that was written over and over, what stood there last."""
    text = text.replace("\r\n", "\n")
    if not _ODD.search(text.replace("\n", "").replace("\t", "")):
        return text
    text = _ESCAPE.sub("", text)
    if "\r" in text or "\b" in text:
        text = "\n".join(_settled(line) for line in text.split("\n"))
    return _CONTROL.sub("", text)


def _settled(line: str) -> str:
    if "\r" in line:
        line = next((part for part in reversed(line.split("\r")) if part), "")
    if "\b" not in line:
        return line
    kept: list[str] = []
    for char in line:
        if char != "\b":
            kept.append(char)
        elif kept:
            kept.pop()
    return "".join(kept)


def looks_binary(data: bytes) -> bool:
    head = data[:65536]
    if b"\x00" in head:
        return True
    bad = head[:65000].decode("utf-8", "replace").count("\ufffd")
    return bad * 4 > len(head)


def shortened(text: str, where: str, lines_max: int = LINES_MAX, bytes_max: int = BYTES_MAX) -> str:
    """The beginning and, longer, the end; how a command ended is at its end. `where` says where the rest is."""
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
    left = max(count - head.count("\n") - tail.count("\n") - 2, 0)
    lines = (
        f"{left} line{'' if left == 1 else 's'}"
        if left
        else f"{len(encoded) - len(head.encode()) - len(tail.encode())} bytes"
    )
    return f"{head}\n[… {lines} left out{where}]\n{tail}"


class Heard:
    """What a running command says, both streams as they come, up to a bound; told to whoever watches on the way."""

    def __init__(self, context: ToolContext) -> None:
        self._pieces: list[tuple[str, bytes]] = []
        self._size = 0
        self.cut = False
        self._decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}
        self._context = context
        self._untold = ""
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def take(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        room = KEPT_BYTES_MAX - self._size
        self.cut = self.cut or len(data) > room
        if room > 0:
            self._pieces.append((stream, data[:room]))
            self._size += min(len(data), room)
        self._untold = (self._untold + self._decoders[stream].decode(data))[-4 * TOLD_CHARS_MAX :]
        if self._timer is None and "\n" in self._untold:
            self._timer = self._loop.call_later(TOLD_EVERY_S, self._tell)

    def _tell(self) -> None:
        self._timer = None
        whole, _, self._untold = self._untold.rpartition("\n")
        if note := plain(whole).strip("\n")[-TOLD_CHARS_MAX:]:
            self._context.progress(note)

    def close(self) -> None:
        """Nothing more is told."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def raw(self) -> bytes:
        return b"".join(data for _, data in self._pieces)

    def text(self) -> str:
        """Line by line as they came. Each stream is read by itself: a line of one may have been cut by the other."""
        decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}
        begun = dict.fromkeys(decoders, "")
        whole: list[str] = []
        for stream, data in self._pieces:
            lines, end, rest = decoders[stream].decode(data).rpartition("\n")
            if end:
                whole += (begun[stream], lines, end)
                begun[stream] = rest
            else:
                begun[stream] += rest
        left = [begun[name] + decoder.decode(b"", final=True) for name, decoder in decoders.items()]
        return plain("".join(whole) + "\n".join(filter(None, left)))
