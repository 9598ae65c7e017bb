"""Starting a command, and ending it with everything that came of it.

What is started is either our keeper (keeper.py) or has one in it. It holds one end of `control`; when ours closes, by
our will or because we are dead, it ends the whole tree. So nothing outlives us, and there is one way to end things.
"""

from __future__ import annotations

import asyncio
import logging
import marshal
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec

from mainstay.core.workers import in_thread
from mainstay.sandbox.streams import write_all

PIPE_BYTES = 32 * 1024  # what a pipe takes at once, everywhere
STUCK_S = 10.0  # how long a killed process may take to go, before it is left to the kernel
log = logging.getLogger("mainstay.sandbox")


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """What to run, so that a command gets going."""

    words: list[str]
    env: dict[str, str]
    cwd: str
    files: tuple[int, ...] = ()  # open ones that go with it; closed here once they have
    kept: bool = True  # a keeper of ours says when it has started
    mortal: bool = False  # all of it dies with what we start, whatever its keeper does


class Streams(msgspec.Struct, frozen=True, kw_only=True):
    stdin: int
    stdout: int
    stderr: int


@cache
def keeper() -> bytes:
    """The keeper as code: it need not be read and compiled for each command."""
    path = Path(__file__).with_name("keeper.py")
    return marshal.dumps(compile(path.read_text(), "keeper", "exec", dont_inherit=True, optimize=2))


@cache
def interpreter() -> str:
    """The real one: that of a virtual environment would need more to start."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


@cache
def shell() -> tuple[str, ...]:
    """What a script is handed to: bash where there is one, for that is what models write."""
    for path in ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"):
        if os.access(path, os.X_OK):
            return (path, "--noprofile", "--norc", "-c")
    return ("/bin/sh", "-c")


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What a keeper is told."""

    control: int
    limits: dict[int, int]
    writable: tuple[str, ...] = ()
    watched: tuple[int, int, int, str]


def kept(bounds: Bounds, words: Sequence[str]) -> tuple[list[str], int]:
    """The words that start a keeper over `words`, and an open file that must go with them."""
    code = keeper()
    assert len(code) < PIPE_BYTES, "it would not fit, and we would wait for ever"
    reading, writing = os.pipe()
    os.write(writing, code)
    os.close(writing)
    told = f"Order({bounds.control}, {bounds.limits!r}, {[*bounds.writable]!r}, {bounds.watched!r})"
    begin = f"import marshal, os, sys; exec(marshal.loads(os.read({reading}, {PIPE_BYTES}))); os.close({reading})"
    return [interpreter(), "-I", "-S", "-c", f"{begin}; stand({told}, sys.argv[1:])", *words], reading


class Tree:
    """A running command and its descendants. To be made within a running loop."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, launch: Launch) -> None:
        self._loop = asyncio.get_running_loop()
        self._process = process
        self._control: socket.socket | None = control
        self._kept = launch.kept
        self._mortal = launch.mortal
        self._started = not launch.kept
        self.exited: asyncio.Future[int] = self._loop.create_future()
        control.setblocking(False)
        self._await_exit()

    def _await_exit(self) -> None:
        try:
            handle = os.pidfd_open(self._process.pid)
        except (AttributeError, OSError):  # macOS, or an old kernel
            waiting = in_thread(self._process.wait)
            waiting.add_done_callback(lambda _: self._gone())
            return

        def ready() -> None:
            self._loop.remove_reader(handle)
            os.close(handle)
            self._gone()

        self._loop.add_reader(handle, ready)

    def _gone(self) -> None:
        code = self._process.wait()
        if code < 0:  # killed from outside; what does not start ends by itself
            self._started = True
        if not self._started and self._control is not None:
            try:
                self._started = self._control.recv(16)[:1] == b"S"
            except OSError:
                pass
        self.end()
        if not self.exited.done():
            self.exited.set_result(code if code >= 0 else 128 - code)

    @property
    def started(self) -> bool:
        """Once it has exited: whether the command itself ever ran."""
        return self._started

    @property
    def feeds(self) -> bool:
        """Its input goes the way its control does."""
        return not self._kept

    async def feed(self, data: bytes) -> None:
        if data and self.feeds and self._control is not None:
            await write_all(self._control.fileno(), data)

    def ask(self) -> None:
        """SIGTERM for all of them."""
        if self._control is not None and self._kept:
            try:
                self._control.send(b"T")
            except OSError:
                pass

    def end(self) -> None:
        """SIGKILL for all of them; does not wait."""
        if self._control is not None:
            self._control.close()
            self._control = None

    async def put_down(self, grace_s: float) -> None:
        """Politely, then firmly. Returns when the last of them is gone."""
        if grace_s > 0 and self._kept:
            self.ask()
            await asyncio.wait({self.exited}, timeout=grace_s)
        self.end()
        await asyncio.wait({self.exited}, timeout=STUCK_S)
        if not self.exited.done():
            log.warning("process %d does not end yet; its keeper stays with it", self._process.pid)
            if self._mortal:
                self._process.kill()
                await asyncio.wait({self.exited}, timeout=1)


def spawn(launch: Launch, streams: Streams, control: socket.socket, theirs: socket.socket) -> Tree:
    """Takes over our end of the control, and closes the files of the launch; raises OSError."""
    try:
        process = subprocess.Popen(
            launch.words,
            stdin=streams.stdin if launch.kept else theirs.fileno(),
            stdout=streams.stdout,
            stderr=streams.stderr,
            env=launch.env,
            cwd=launch.cwd,
            pass_fds=(*((theirs.fileno(),) if launch.kept else ()), *launch.files),
            start_new_session=True,
        )
    finally:
        for file in launch.files:
            os.close(file)
    return Tree(process, control, launch)
