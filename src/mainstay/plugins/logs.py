"""What a plugin says on its output: lines in a file of bounded size, cleaned. It is never read as anything else.

The file lies where the plugin cannot reach it: a link in its place would have us write somewhere else.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from mainstay.trust.guards.lines import one_line

LINE_CHARS_MAX = 4096
UNENDED_BYTES_MAX = 4 * LINE_CHARS_MAX  # of a line
WORDS_LINES, WORDS_CHARS_MAX = 8, 600  # of what is quoted when it does not go well
STAMP_BYTES = 40  # before each line: when, and where it was said
ENDED = "[ended: "  # how the sandbox says why it put an end to something
REFILL_S = 60.0  # how long it takes to be allowed to fill its file once more
_ERROR = re.compile(r"(?:Uncaught )?[\w.]*(?:Error|Exception)(?: \[\w+\])?: \S")  # how programs name one
log = logging.getLogger("mainstay.plugins")

Said = Literal["stdout", "stderr"]
Stream = Literal["stdout", "stderr", "host"]


class PluginLog:
    """Two files: `path`, and what was in it before it was full. `redact` takes out what nobody should read."""

    def __init__(self, name: str, path: Path, bytes_max: int, redact: Callable[[str], str] = lambda text: text) -> None:
        self._name = name
        self._path = path
        self._bytes_max = bytes_max
        self._line_max = min(LINE_CHARS_MAX, bytes_max // 4)
        self._redact = redact
        self._parts: dict[Said, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}  # lines without an end yet
        self._skipping: set[Said] = set()  # in the midst of a line of which enough is known
        self._allowance = float(bytes_max)
        self._counted = time.monotonic()
        self._dropped = 0
        self._words: deque[str] = deque(maxlen=WORDS_LINES)
        self._error = ""  # the last line that names one

    @property
    def ended(self) -> str:
        """Why the sandbox put an end to it, if it did."""
        return next((line for line in self._words if line.startswith(ENDED)), "")

    @property
    def last_words(self) -> str:
        """The end of what it said, on one line."""
        said = self.ended or " | ".join(self._words)  # others may have gone on talking
        return said if len(said) <= WORDS_CHARS_MAX else "…" + said[-WORDS_CHARS_MAX:]

    @property
    def reason(self) -> str:
        """The line in which it named an error, if it did: what comes after is the tail of a stack."""
        ended = any(line.startswith(ENDED) for line in self._words)
        return self._error[:WORDS_CHARS_MAX] if self._error and not ended else self.last_words

    def begin(self) -> None:
        """A new instance speaks from here on."""
        self.finish()
        self._words.clear()
        self._error = ""

    def take(self, stream: Said, data: bytes) -> bool:
        """For the sandbox: False asks it to read more slowly."""
        self._refill()
        if stream in self._skipping:
            end = data.find(b"\n")
            self._dropped += len(data) if end < 0 else end
            if end < 0:
                return False
            self._skipping.discard(stream)
            data = data[end + 1 :]
        part = self._parts[stream]
        part += data
        end = part.rfind(b"\n") + 1
        if len(part) - end > UNENDED_BYTES_MAX:  # its beginning is enough; the rest is not waited for
            self._skipping.add(stream)
            self._dropped += len(part) - end - UNENDED_BYTES_MAX
            end += UNENDED_BYTES_MAX
        block = bytes(part[:end])
        if stream in self._skipping:
            part.clear()
        else:
            del part[:end]
        self._take_lines(stream, block)
        return self._allowance > 0 and stream not in self._skipping

    def note(self, sentence: str) -> None:
        """Something that the core has to say about it. What it does wrong may be a flood too, and has a share more."""
        self._refill()
        line = one_line(self._redact(sentence))[:LINE_CHARS_MAX]
        if self._allowance > -self._bytes_max / 4:
            self._allowance -= self._put("host", [line])
        else:
            self._dropped += len(line)

    def finish(self) -> None:
        """It says no more."""
        for stream, part in self._parts.items():
            self._take_lines(stream, bytes(part))
            part.clear()
        self._skipping.clear()
        self._tell_dropped()

    def _take_lines(self, stream: Said, block: bytes) -> None:
        if not block:
            return
        if self._allowance <= 0:
            self._dropped += len(block)
            whole_lines = self._redact(block[-WORDS_CHARS_MAX * 2 :].decode(errors="replace")).split("\n")[1:]
            self._words.extend(one_line(line) for line in whole_lines if line.strip())  # it may die of what comes next
            return
        # Together, as a key may have many lines; and before anything is cut, as half of one is a secret still.
        said = self._redact(block.decode(errors="replace")).split("\n")
        room = self._allowance - len(said)
        lines: list[str] = []
        for text in said:
            if room <= 0:
                self._dropped += len(text) + 1
            elif text.strip():
                line = one_line(text)
                lines.append(line if len(line) <= self._line_max else f"{line[: self._line_max]}…")
                room -= len(lines[-1].encode(errors="replace")) + STAMP_BYTES
        self._words.extend(lines[-WORDS_LINES:])
        self._error = next((line for line in reversed(lines) if _ERROR.match(line)), self._error)
        if lines:
            self._put(stream, lines)
        self._allowance = room

    def _put(self, stream: Stream, lines: list[str]) -> int:
        """The bytes that were written."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        data = "".join(f"{now} {stream} {line}\n" for line in lines).encode(errors="replace")
        if log.isEnabledFor(logging.DEBUG):
            for line in lines:
                log.debug("%s %s: %s", self._name, stream, line)
        try:
            self._append(data)
        except OSError as error:  # a full disk is no reason to stop the plugin
            log.warning("the log of %s cannot be written: %s", self._name, error.strerror or error)
        return len(data)

    def _append(self, data: bytes) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(file).st_size
            os.write(file, data)
        finally:
            os.close(file)
        if size + len(data) > self._bytes_max // 2:  # each of the two has half
            os.replace(self._path, self._path.with_name(f"{self._path.name}.1"))

    def _refill(self) -> None:
        now = time.monotonic()
        gained = (now - self._counted) * self._bytes_max / REFILL_S
        if gained > self._bytes_max / 8:  # in gulps: what was dropped of a flood is told of now and then only
            self._allowance = min(max(self._allowance, 0.0) + gained, float(self._bytes_max))
            self._counted = now
            self._tell_dropped()

    def _tell_dropped(self) -> None:
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            self._put("host", [f"… {amount(dropped)} dropped: it says more than its log holds"])


def amount(count: int) -> str:
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
