"""The command without the wait for its imports: a process that has loaded them forks a new one for every command.

What runs is `mainstay.cli.main.main` in a process of its own, with the arguments, environment, folder and streams that
it would have been started with. Only the interpreter's start is spared, which is most of what a short command costs.
Tests of that start, and everything under MAINSTAY_TEST_ALL=1, begins as people begin it.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import io
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

from support.paths import PYTHONPATH

SOURCE = Path(__file__).resolve().parents[2] / "src"
# what an interpreter looks at before anything of ours runs
AT_START = ("PYTHON", "LANG", "LC_", "LD_")
SAME = {"PYTHONPATH": str(SOURCE), "LANG": "C.UTF-8", "LANGUAGE": "C"}
WIDTH = 16  # of a number between the processes
# with -c, modules are searched in the current folder first, whichever that is at the time
START = "from support.warm_command import main; main()"


def can_be_warm(env: dict[str, str]) -> bool:
    if not sys.platform.startswith("linux") or os.environ.get("MAINSTAY_TEST_ALL"):
        return False
    return {name: value for name, value in env.items() if name.startswith(AT_START)} == SAME


def run_warm(
    arguments: list[str], env: dict[str, str], cwd: Path, stdin: str | None, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run` would, with both outputs captured as text."""
    ours, theirs = socket.socketpair()
    (giving, given), out, err = _input(stdin), os.pipe(), os.pipe()
    sent = [theirs.fileno(), given, out[1], err[1]]
    _forker().send(sent)
    theirs.close()
    for fd in sent[1:]:
        os.close(fd)
    with ours, ThreadPoolExecutor(3) as threads:
        ours.sendall(json.dumps({"argv": arguments, "env": env, "cwd": str(cwd)}).encode())
        ours.shutdown(socket.SHUT_WR)
        told = [threads.submit(_read, fd) for fd in (out[0], err[0])]
        if stdin is not None:
            threads.submit(_give, giving, stdin.encode())
        pid = _number(ours)
        ours.settimeout(timeout_s)
        try:
            code = _number(ours)
            texts = [one.result(timeout_s) for one in told]  # as long as a process may still write
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(arguments, timeout_s) from None
    return subprocess.CompletedProcess(["mainstay", *arguments], code, *texts)


def _input(stdin: str | None) -> tuple[int, int]:
    """Where to write it, if there is any, and where it is read."""
    if stdin is None:
        return -1, os.open(os.devnull, os.O_RDONLY)
    given, giving = os.pipe()
    return giving, given


def _read(fd: int) -> str:
    with open(fd, encoding="utf-8") as file:
        return file.read()


def _number(told: socket.socket) -> int:
    return int(told.recv(WIDTH, socket.MSG_WAITALL))


def _give(fd: int, data: bytes) -> None:
    try:
        with open(fd, "wb") as file:
            file.write(data)
    except BrokenPipeError:
        pass  # it did not want to hear


class Forker:
    """Our end of the process that forks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", START, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                env={**SAME, "PATH": os.environ.get("PATH", ""), "PYTHONPATH": PYTHONPATH},
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self.close)

    def send(self, fds: list[int]) -> None:
        with self._lock:
            socket.send_fds(self._socket, [b"!"], fds)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


@functools.cache
def _forker() -> Forker:
    return Forker()


# --- the other side ------------------------------------------------------------------------------


def load() -> None:
    """What most commands import. Nothing that has threads, such as numpy or gRPC: they are not forked."""
    import mainstay.cli.commands

    for one in pkgutil.iter_modules(mainstay.cli.commands.__path__, "mainstay.cli.commands."):
        importlib.import_module(one.name)
    for name in ("mainstay.agent.agent", "mainstay.cli.main", "mainstay.store.sqlite", "uvloop", "yaml"):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # else every command looks through all of it when it ends


def serve(control: socket.socket) -> dict[str, Any] | None:
    """Returns in every process that was forked, with what it is to do; and in the end."""
    awake, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as ready:
        ready.register(control, selectors.EVENT_READ)
        ready.register(awake, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                if key.fileobj is not control:
                    os.read(awake, 512)
                    _reap(running)
                    continue
                data, fds, _, _ = socket.recv_fds(control, 1, 4)
                if not data:
                    return None
                telling = socket.socket(fileno=fds[0])
                pid = os.fork()
                if pid:
                    telling.sendall((b"%d" % pid).ljust(WIDTH))
                    running[pid] = telling
                    for fd in fds[1:]:
                        os.close(fd)
                    continue
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for fd, number in zip(fds[1:], (0, 1, 2), strict=True):
                    os.dup2(fd, number)
                    os.close(fd)
                with telling.makefile("rb") as asking:
                    asked = json.loads(asking.read())
                for one in (telling, control, *running.values()):
                    one.close()
                os.close(awake)
                os.close(waking)
                return dict(asked)


def _reap(running: dict[int, socket.socket]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with running.pop(pid) as telling:
            try:
                telling.sendall((b"%d" % os.waitstatus_to_exitcode(status)).ljust(WIDTH))
            except OSError:
                pass  # the caller waits no longer


def _reopen() -> None:
    """The streams, as the interpreter makes them when it starts: what they were before may have been files."""
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        file = io.FileIO(fd, "w" if fd else "r", closefd=False)
        buffered = io.BufferedWriter(file) if fd else io.BufferedReader(file)
        made = io.TextIOWrapper(buffered, old.encoding, old.errors, "\n" if fd else None)
        made.reconfigure(line_buffering=old.line_buffering)
        setattr(sys, name, made)
        setattr(sys, f"__{name}__", made)


def main() -> NoReturn:
    load()
    with socket.socket(fileno=int(sys.argv[1])) as control:
        asked = serve(control)
    if asked is None:
        sys.exit()
    _reopen()
    os.environ.clear()
    os.environ.update(asked["env"])
    time.tzset()
    os.chdir(asked["cwd"])
    sys.argv = ["mainstay", *asked["argv"]]
    from mainstay.cli.main import main as command

    _end(command())


def _end(code: int) -> NoReturn:
    """Like the interpreter, which then takes every module apart: that costs more than most commands do."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()  # output that is no longer needed
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
