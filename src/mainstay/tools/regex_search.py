"""Regex search in a separate process, so that a slow pattern (ReDoS) can be stopped.

A regular expression blocks the interpreter until it is done, so a thread could not be stopped from outside. A process
can: it is killed at its deadline, and resource limits of the kernel stop it too.
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

from mainstay.tools.base import ToolRefused

LINE_CHARS_MAX = 500  # of a shown line
_LITERAL_PATTERN = re.compile(r"(?:[^\\.^$*+?{}\[\]|()\r\n\ufffd]|\\[^\w\s])+")
_GRACE_S = 2
_POLL_S = 0.05
T = TypeVar("T")


class LineMatches(msgspec.Struct, frozen=True):
    """The number of matching lines, and these lines with their context: number, text, whether it matches."""

    count: int
    lines: list[tuple[int, str, bool]] = []


# data, encoding, matches max, context lines (-1: count only)
LineSearcher = Callable[[bytes, str, int, int], LineMatches]

# The helper imports nothing of this package. It reads a pattern and then texts, and writes the matching line numbers.
_HELPER_SOURCE = r"""
import json, re, resource, signal, struct, sys
source, answer = sys.stdin.buffer, sys.stdout.buffer
def tell(value):
    data = json.dumps(value).encode()
    answer.write(struct.pack("<Q", len(data)) + data)
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
def open_searcher(
    pattern: str, *, ignore_case: bool, deadline: float, should_stop: Callable[[], bool]
) -> Iterator[LineSearcher]:
    """Yield a search function. After `deadline` (monotonic clock), or once `should_stop`, it raises ToolRefused."""
    if not ignore_case and _LITERAL_PATTERN.fullmatch(pattern):
        literal = re.sub(r"\\(.)", r"\1", pattern)
        yield lambda data, encoding, most, around: _collect_matches(
            data, encoding, _find_literal_lines(data, encoding, literal, most), around
        )
        return
    helper = _RegexProcess(deadline, should_stop)
    try:
        helper.compile_pattern(pattern, ignore_case=ignore_case)
        yield lambda data, encoding, most, around: _collect_matches(
            data, encoding, helper.search_text(data, encoding, most), around
        )
    finally:
        helper.close()


class _RegexProcess:
    """The helper process that runs the regular expression."""

    def __init__(self, deadline: float, should_stop: Callable[[], bool]) -> None:
        self._deadline = deadline
        self._should_stop = should_stop
        if not sys.executable:
            raise ToolRefused("Only plain text can be searched for here: there is no interpreter for patterns.")
        environment = {
            name: os.environ[name] for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH") if name in os.environ
        }
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _HELPER_SOURCE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )

    def compile_pattern(self, pattern: str, *, ignore_case: bool) -> None:
        seconds = max(int(self._deadline - time.monotonic()), 1) + _GRACE_S
        request = msgspec.json.encode([pattern, ignore_case, seconds])
        error = self._exchange(struct.pack("<Q", len(request)), request, str)
        if error:
            raise ToolRefused(f"The pattern is not a regular expression: {error}. Escape what is meant literally.")

    def search_text(self, data: bytes, encoding: str, matches_max: int) -> list[int]:
        return self._exchange(struct.pack("<QQB", len(data), matches_max, _ENCODINGS.index(encoding)), data, list[int])

    def _exchange(self, head: bytes, body: bytes, kind: type[T]) -> T:
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
            if self._should_stop() or time.monotonic() > self._deadline:
                raise ToolRefused(
                    "The search was stopped: the pattern takes too long. Make it simpler, or narrow the path."
                )
            if select.select([pipe], [], [], _POLL_S)[0]:
                piece = os.read(pipe, size - len(data))
                if not piece:
                    raise OSError("it has ended")
                data += piece
        return data

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:  # unwritten data for the killed process
                pass


def _find_literal_lines(data: bytes, encoding: str, literal: str, matches_max: int) -> list[int]:
    """Return the line numbers (from 0) that contain a literal text, in linear time."""
    if encoding.startswith("utf-16"):
        data, encoding = data.decode(encoding, "replace").encode(errors="replace"), "utf-8"
    try:
        needle = literal.encode(encoding)
    except UnicodeEncodeError:
        return []
    lines: list[int] = []
    at, line, counted = data.find(needle), 0, 0
    while at >= 0 and len(lines) < matches_max:
        line += data.count(b"\n", counted, at)
        lines.append(line)
        counted = data.find(b"\n", at)
        at = data.find(needle, counted) if counted >= 0 else -1
    return lines


def _collect_matches(data: bytes, encoding: str, hits: list[int], context_lines: int) -> LineMatches:
    if not hits or context_lines < 0:
        return LineMatches(len(hits))
    lines = data.decode(encoding, "replace").split("\n")
    matching = set(hits)
    line_indexes = {
        at for hit in hits for at in range(max(hit - context_lines, 0), min(hit + context_lines + 1, len(lines)))
    }
    if lines and not lines[-1]:
        line_indexes.discard(len(lines) - 1)
    return LineMatches(len(hits), [(at + 1, _shorten_line(lines[at]), at in matching) for at in sorted(line_indexes)])


def _shorten_line(line: str) -> str:
    line = line.removesuffix("\r")
    return line if len(line) <= LINE_CHARS_MAX else f"{line[:LINE_CHARS_MAX]} [cut: {len(line)} characters]"
