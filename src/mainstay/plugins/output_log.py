"""Log file of a plugin's stdout and stderr: bounded in size and rate, redacted, one cleaned line each.

The output is only logged and quoted, never parsed. The file is out of the plugin's reach, which could otherwise replace
it with a link and have the host write to another file.
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

from mainstay.guards.line_escaping import one_line

LINE_CHARS_MAX = 4096
PARTIAL_LINE_BYTES_MAX = 4 * LINE_CHARS_MAX  # of a line whose end has not arrived
LAST_OUTPUT_LINES, LAST_OUTPUT_CHARS_MAX = 8, 600  # of the output that error messages quote
LINE_PREFIX_BYTES = 40  # prefix of each line: time and stream
KILLED_PREFIX = "[ended: "  # begins the line in which the sandbox says why it killed a process
REFILL_S = 60.0  # time in which a plugin may write as much as its file holds
# a line that names an exception
_EXCEPTION_LINE = re.compile(r"(?:Uncaught )?[\w.]*(?:Error|Exception)(?: \[\w+\])?: \S")
log = logging.getLogger("mainstay.plugins")

OutputStream = Literal["stdout", "stderr"]
LogSource = Literal["stdout", "stderr", "host"]


class PluginLog:
    """Writes to `path`; when it is full it becomes `path.1`. `redact` removes secrets."""

    def __init__(self, name: str, path: Path, bytes_max: int, redact: Callable[[str], str] = lambda text: text) -> None:
        self._name = name
        self._path = path
        self._bytes_max = bytes_max
        self._line_chars_max = min(LINE_CHARS_MAX, bytes_max // 4)
        self._redact = redact
        # unfinished lines
        self._partial_lines: dict[OutputStream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self._skipped_streams: set[OutputStream] = set()  # streams whose current line is too long: its rest is dropped
        self._bytes_allowed = float(bytes_max)
        self._refilled_at = time.monotonic()
        self._dropped_bytes = 0
        self._last_lines: deque[str] = deque(maxlen=LAST_OUTPUT_LINES)
        self._error_line = ""  # the last line that names an exception

    @property
    def kill_reason(self) -> str:
        """The line in which the sandbox says why it killed the process; empty if it did not."""
        return next((line for line in self._last_lines if line.startswith(KILLED_PREFIX)), "")

    @property
    def last_output(self) -> str:
        """The end of the output, on one line."""
        text = self.kill_reason or " | ".join(self._last_lines)  # a descendant may have written more after the kill
        return text if len(text) <= LAST_OUTPUT_CHARS_MAX else "…" + text[-LAST_OUTPUT_CHARS_MAX:]

    @property
    def error_summary(self) -> str:
        """The last line that names an exception, else the end of the output: a stack trace may follow such a line."""
        killed = any(line.startswith(KILLED_PREFIX) for line in self._last_lines)
        return self._error_line[:LAST_OUTPUT_CHARS_MAX] if self._error_line and not killed else self.last_output

    def begin_process(self) -> None:
        """A new process has started: forget the last output of the previous one."""
        self.flush()
        self._last_lines.clear()
        self._error_line = ""

    def append_output(self, stream: OutputStream, data: bytes) -> bool:
        """Append output; called by the sandbox. False asks it to read more slowly."""
        self._refill()
        if stream in self._skipped_streams:
            end = data.find(b"\n")
            self._dropped_bytes += len(data) if end < 0 else end
            if end < 0:
                return False
            self._skipped_streams.discard(stream)
            data = data[end + 1 :]
        part = self._partial_lines[stream]
        part += data
        end = part.rfind(b"\n") + 1
        if len(part) - end > PARTIAL_LINE_BYTES_MAX:  # log the beginning of the line, drop the rest
            self._skipped_streams.add(stream)
            self._dropped_bytes += len(part) - end - PARTIAL_LINE_BYTES_MAX
            end += PARTIAL_LINE_BYTES_MAX
        block = bytes(part[:end])
        if stream in self._skipped_streams:
            part.clear()
        else:
            del part[:end]
        self._append_block(stream, block)
        return self._bytes_allowed > 0 and stream not in self._skipped_streams

    def append_note(self, sentence: str) -> None:
        """Append a line of the host about the plugin. These may use a quarter more than the plugin's allowance, and are
        bounded too: a plugin can provoke any number of them."""
        self._refill()
        line = one_line(self._redact(sentence))[:LINE_CHARS_MAX]
        if self._bytes_allowed > -self._bytes_max / 4:
            self._bytes_allowed -= self._write_lines("host", [line])
        else:
            self._dropped_bytes += len(line)

    def flush(self) -> None:
        """Write out unfinished lines: no more output is expected."""
        for stream, part in self._partial_lines.items():
            self._append_block(stream, bytes(part))
            part.clear()
        self._skipped_streams.clear()
        self._log_dropped()

    def _append_block(self, stream: OutputStream, block: bytes) -> None:
        if not block:
            return
        if self._bytes_allowed <= 0:
            self._dropped_bytes += len(block)
            whole_lines = self._redact(block[-LAST_OUTPUT_CHARS_MAX * 2 :].decode(errors="replace")).split("\n")[1:]
            # to quote them if it dies now
            self._last_lines.extend(one_line(line) for line in whole_lines if line.strip())
            return
        # Redacted as one block, because a secret may span lines, and before cutting, because half a secret is one too.
        texts = self._redact(block.decode(errors="replace")).split("\n")
        bytes_left = self._bytes_allowed - len(texts)
        lines: list[str] = []
        for text in texts:
            if bytes_left <= 0:
                self._dropped_bytes += len(text) + 1
            elif text.strip():
                line = one_line(text)
                lines.append(line if len(line) <= self._line_chars_max else f"{line[: self._line_chars_max]}…")
                bytes_left -= len(lines[-1].encode(errors="replace")) + LINE_PREFIX_BYTES
        self._last_lines.extend(lines[-LAST_OUTPUT_LINES:])
        self._error_line = next((line for line in reversed(lines) if _EXCEPTION_LINE.match(line)), self._error_line)
        if lines:
            self._write_lines(stream, lines)
        self._bytes_allowed = bytes_left

    def _write_lines(self, source: LogSource, lines: list[str]) -> int:
        """Write lines to the file; return the number of bytes."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        data = "".join(f"{now} {source} {line}\n" for line in lines).encode(errors="replace")
        if log.isEnabledFor(logging.DEBUG):
            for line in lines:
                log.debug("%s %s: %s", self._name, source, line)
        try:
            self._append_bytes(data)
        except OSError as error:  # a full disk is no reason to stop the plugin
            log.warning("the log of %s cannot be written: %s", self._name, error.strerror or error)
        return len(data)

    def _append_bytes(self, data: bytes) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(file).st_size
            os.write(file, data)
        finally:
            os.close(file)
        if size + len(data) > self._bytes_max // 2:  # each of the two files has half
            os.replace(self._path, self._path.with_name(f"{self._path.name}.1"))

    def _refill(self) -> None:
        now = time.monotonic()
        gained = (now - self._refilled_at) * self._bytes_max / REFILL_S
        if gained > self._bytes_max / 8:  # in steps, so that a flood yields only a few lines about dropped output
            self._bytes_allowed = min(max(self._bytes_allowed, 0.0) + gained, float(self._bytes_max))
            self._refilled_at = now
            self._log_dropped()

    def _log_dropped(self) -> None:
        if self._dropped_bytes:
            dropped, self._dropped_bytes = self._dropped_bytes, 0
            self._write_lines("host", [f"… {format_size(dropped)} dropped: it writes more than its log holds"])


def format_size(size_bytes: int) -> str:
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if size_bytes >= size:
            return f"{size_bytes / size:.1f} {unit}"
    return f"{size_bytes} bytes"
