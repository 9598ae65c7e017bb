"""Process tree of a command: starts it under a supervisor, and stops it with all its descendants.

The started process is the supervisor (supervisor.py) or contains one. It holds one end of the `control` socket. When
our end closes, on purpose or because we died, it kills the whole tree. So no process outlives us, and there is one way
to stop things.
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

from mainstay.core.worker_threads import run_in_thread
from mainstay.sandbox.output_streams import write_all

PIPE_BYTES = 32 * 1024  # what fits into a pipe on every system
KILL_TIMEOUT_S = 10.0  # how long to wait for a killed process before leaving it to the kernel
log = logging.getLogger("mainstay.sandbox")


class LaunchSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The process to start for a command."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    inherited_files: tuple[int, ...] = ()  # descriptors that it inherits; closed here after the start
    is_supervised: bool = True  # a supervisor of ours reports when the command has started
    dies_with_root: bool = False  # killing the started process ends all others, whatever the supervisor does


class ProcessStreams(msgspec.Struct, frozen=True, kw_only=True):
    """File descriptors of the child's standard streams."""

    stdin: int
    stdout: int
    stderr: int


@cache
def load_supervisor_code() -> bytes:
    """Return the supervisor's compiled code, so that it is not compiled again for each command."""
    path = Path(__file__).with_name("supervisor.py")
    return marshal.dumps(compile(path.read_text(), "supervisor", "exec", dont_inherit=True, optimize=2))


@cache
def find_interpreter() -> str:
    """Return the base interpreter: that of a virtual environment needs more files to start."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


@cache
def find_shell() -> tuple[str, ...]:
    """Return the shell and its options, before the script: bash where there is one, since models write bash."""
    for path in ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"):
        if os.access(path, os.X_OK):
            return (path, "--noprofile", "--norc", "-c")
    return ("/bin/sh", "-c")


class SupervisorLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits that the supervisor enforces."""

    control: int  # descriptor of its end of the control socket
    limits: dict[int, int]  # for setrlimit
    writable: tuple[str, ...] = ()  # folders for Landlock; empty: Landlock is not used
    watched: tuple[int, int, int, str]  # processes, memory bytes, free disk bytes, a folder on that disk


def build_supervised_argv(limits: SupervisorLimits, argv: Sequence[str]) -> tuple[list[str], int]:
    """Return the command line that runs `argv` under a supervisor, and a descriptor that it must inherit."""
    code = load_supervisor_code()
    assert len(code) < PIPE_BYTES, "the code does not fit into a pipe, and the write would block forever"
    read_end, write_end = os.pipe()
    os.write(write_end, code)
    os.close(write_end)
    options = f"SupervisorTask({limits.control}, {limits.limits!r}, {[*limits.writable]!r}, {limits.watched!r})"
    load = f"import marshal, os, sys; exec(marshal.loads(os.read({read_end}, {PIPE_BYTES}))); os.close({read_end})"
    return [find_interpreter(), "-I", "-S", "-c", f"{load}; supervise({options}, sys.argv[1:])", *argv], read_end


class ProcessTree:
    """A running command and its descendants. Must be created within a running event loop."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, launch: LaunchSpec) -> None:
        self._loop = asyncio.get_running_loop()
        self._process = process
        self._control: socket.socket | None = control
        self._is_supervised = launch.is_supervised
        self._dies_with_root = launch.dies_with_root
        self._has_started = not launch.is_supervised
        self.exited: asyncio.Future[int] = self._loop.create_future()
        control.setblocking(False)
        self._watch_exit()

    def _watch_exit(self) -> None:
        try:
            handle = os.pidfd_open(self._process.pid)
        except (AttributeError, OSError):  # macOS, or an old kernel
            waiting = run_in_thread(self._process.wait)
            waiting.add_done_callback(lambda _: self._on_exit())
            return

        def ready() -> None:
            self._loop.remove_reader(handle)
            os.close(handle)
            self._on_exit()

        self._loop.add_reader(handle, ready)

    def _on_exit(self) -> None:
        code = self._process.wait()
        if code < 0:  # killed by a signal, so it did start: a failed start exits by itself
            self._has_started = True
        if not self._has_started and self._control is not None:
            try:
                self._has_started = self._control.recv(16)[:1] == b"S"
            except OSError:
                pass
        self.kill()
        if not self.exited.done():
            self.exited.set_result(code if code >= 0 else 128 - code)

    @property
    def has_started(self) -> bool:
        """Whether the command itself ever ran; valid once the tree has exited."""
        return self._has_started

    @property
    def has_input_on_control(self) -> bool:
        """True if its input is sent over the control socket."""
        return not self._is_supervised

    async def write_input(self, data: bytes) -> None:
        if data and self.has_input_on_control and self._control is not None:
            await write_all(self._control.fileno(), data)

    def terminate(self) -> None:
        """Send SIGTERM to all processes."""
        if self._control is not None and self._is_supervised:
            try:
                self._control.send(b"T")
            except OSError:
                pass

    def kill(self) -> None:
        """Kill all processes; does not wait."""
        if self._control is not None:
            self._control.close()
            self._control = None

    async def stop(self, grace_s: float) -> None:
        """Send SIGTERM, and kill what still runs after `grace_s`. Returns when the last process has ended."""
        if grace_s > 0 and self._is_supervised:
            self.terminate()
            await asyncio.wait({self.exited}, timeout=grace_s)
        self.kill()
        await asyncio.wait({self.exited}, timeout=KILL_TIMEOUT_S)
        if not self.exited.done():
            log.warning(
                "process %d has not ended after SIGKILL; its supervisor keeps waiting for it", self._process.pid
            )
            if self._dies_with_root:
                self._process.kill()
                await asyncio.wait({self.exited}, timeout=1)


def spawn_tree(
    launch: LaunchSpec, streams: ProcessStreams, control: socket.socket, child_control: socket.socket
) -> ProcessTree:
    """Start a process tree. Takes ownership of `control`, and closes the launch's files; raises OSError."""
    try:
        process = subprocess.Popen(
            launch.argv,
            stdin=streams.stdin if launch.is_supervised else child_control.fileno(),
            stdout=streams.stdout,
            stderr=streams.stderr,
            env=launch.env,
            cwd=launch.cwd,
            pass_fds=(*((child_control.fileno(),) if launch.is_supervised else ()), *launch.inherited_files),
            start_new_session=True,
        )
    finally:
        for file in launch.inherited_files:
            os.close(file)
    return ProcessTree(process, control, launch)
