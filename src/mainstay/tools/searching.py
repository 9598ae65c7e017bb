"""Looking for a pattern in a text, in a process of its own where the pattern could take for ever.

A regular expression holds the interpreter until it is through, so no thread could be stopped from outside. A process
can: it is killed when its time is over, and the kernel sees to that too.
"""

from __future__ import annotations

import os
import re
import select
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import msgspec

from mainstay.tools.common import ToolRefused

LINE_CHARS = 500  # of a line that is shown
_PLAIN = re.compile(r"(?:[^\\.^$*+?{}\[\]|()\r\n\ufffd]|\\[^\w\s])+")
_GRACE_S = 2
_LOOK_S = 0.05
T = TypeVar("T")


class Found(msgspec.Struct, frozen=True):
    """How many lines match, and those lines with what stands around them: number, text, whether it matches."""

    count: int
    lines: list[tuple[int, str, bool]] = []


Searcher = Callable[[bytes, str, int, int], Found]  # a text, its encoding, at most so many, lines around (-1: no lines)

# The other process knows nothing of us. It is told a pattern and then texts, and answers with the lines that match.
_HELPER = r"""
import json, re, resource, signal, struct, sys
source, answer = sys.stdin.buffer, sys.stdout.buffer
def tell(value):
    told = json.dumps(value).encode()
    answer.write(struct.pack("<Q", len(told)) + told)
    answer.flush()
pattern, ignore_case, seconds = json.loads(source.read(struct.unpack("<Q", source.read(8))[0]))
signal.alarm(seconds)
for kind, most in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, 1 << 30)):
    try:
        resource.setrlimit(kind, (most, most))
    except (OSError, ValueError):
        pass
try:
    search = re.compile(pattern, re.IGNORECASE if ignore_case else 0).search
except (re.error, OverflowError, RecursionError, MemoryError) as error:
    tell(str(error) or type(error).__name__)
    raise SystemExit
tell("")
while head := source.read(17):
    size, most, encoding = struct.unpack("<QQB", head)
    lines = source.read(size).decode(("utf-8", "latin-1", "utf-16-le", "utf-16-be")[encoding], "replace").split("\n")
    if not lines[-1]:
        lines.pop()
    hits = []
    for at, line in enumerate(lines):
        if search(line[:-1] if line[-1:] == "\r" else line):
            hits.append(at)
            if len(hits) >= most:
                break
    tell(hits)
"""
_ENCODINGS = ("utf-8", "latin-1", "utf-16-le", "utf-16-be")


@contextmanager
def searcher(pattern: str, *, ignore_case: bool, until: float, stop: Callable[[], bool]) -> Iterator[Searcher]:
    """Searches texts until then, by the monotonic clock, or until it is to stop; then it raises ToolRefused."""
    if not ignore_case and _PLAIN.fullmatch(pattern):
        literal = re.sub(r"\\(.)", r"\1", pattern)
        yield lambda data, encoding, most, around: _assembled(
            data, encoding, _lines_of(data, encoding, literal, most), around
        )
        return
    helper = _Helper(until, stop)
    try:
        helper.begin(pattern, ignore_case=ignore_case)
        yield lambda data, encoding, most, around: _assembled(data, encoding, helper.ask(data, encoding, most), around)
    finally:
        helper.end()


class _Helper:
    """The other process."""

    def __init__(self, until: float, stop: Callable[[], bool]) -> None:
        self._until = until
        self._stop = stop
        if not sys.executable:
            raise ToolRefused("Only plain text can be searched for here: there is no interpreter for patterns.")
        kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH") if name in os.environ}
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _HELPER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=kept,
            start_new_session=True,
        )

    def begin(self, pattern: str, *, ignore_case: bool) -> None:
        seconds = max(int(self._until - time.monotonic()), 1) + _GRACE_S
        told = msgspec.json.encode([pattern, ignore_case, seconds])
        error = self._answer(struct.pack("<Q", len(told)), told, str)
        if error:
            raise ToolRefused(f"The pattern is no regular expression: {error}. Escape what is meant literally.")

    def ask(self, data: bytes, encoding: str, most: int) -> list[int]:
        return self._answer(struct.pack("<QQB", len(data), most, _ENCODINGS.index(encoding)), data, list[int])

    def _answer(self, head: bytes, body: bytes, kind: type[T]) -> T:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None, "it is a pipe"
        assert stdout is not None, "so is this"
        try:
            stdin.write(head)
            stdin.write(body)
            stdin.flush()
            (size,) = struct.unpack("<Q", self._read(stdout.fileno(), 8))
            return msgspec.json.decode(self._read(stdout.fileno(), size), type=kind)
        except (OSError, struct.error, msgspec.DecodeError):
            raise ToolRefused("The search could not be done: the pattern took too much memory or time.") from None

    def _read(self, pipe: int, size: int) -> bytes:
        data = b""
        while len(data) < size:
            if self._stop() or time.monotonic() > self._until:
                raise ToolRefused(
                    "The search was stopped: the pattern takes too long. Make it simpler, or narrow the path."
                )
            if select.select([pipe], [], [], _LOOK_S)[0]:
                piece = os.read(pipe, size - len(data))
                if not piece:
                    raise OSError("it has ended")
                data += piece
        return data

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:  # what was still to be written has nobody to read it
                pass


def _lines_of(data: bytes, encoding: str, literal: str, most: int) -> list[int]:
    """Of a text that is no pattern; in time that grows with the data alone."""
    if encoding.startswith("utf-16"):
        data, encoding = data.decode(encoding, "replace").encode(errors="replace"), "utf-8"
    try:
        wanted = literal.encode(encoding)
    except UnicodeEncodeError:
        return []
    found: list[int] = []
    at, line, counted = data.find(wanted), 0, 0
    while at >= 0 and len(found) < most:
        line += data.count(b"\n", counted, at)
        found.append(line)
        counted = data.find(b"\n", at)
        at = data.find(wanted, counted) if counted >= 0 else -1
    return found


def _assembled(data: bytes, encoding: str, hits: list[int], around: int) -> Found:
    if not hits or around < 0:
        return Found(len(hits))
    lines = data.decode(encoding, "replace").split("\n")
    matching = set(hits)
    wanted = {at for hit in hits for at in range(max(hit - around, 0), min(hit + around + 1, len(lines)))}
    if lines and not lines[-1]:
        wanted.discard(len(lines) - 1)
    return Found(len(hits), [(at + 1, _shown(lines[at]), at in matching) for at in sorted(wanted)])


def _shown(line: str) -> str:
    line = line.removesuffix("\r")
    return line if len(line) <= LINE_CHARS else f"{line[:LINE_CHARS]} [cut: {len(line)} characters]"
