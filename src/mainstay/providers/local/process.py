"""Starts, shares and stops the server process of a local model.

It starts with the first request and is shared by all providers of the same file. It ends by itself after an idle time,
and with this process, however that ends: its standard input is a pipe that only this process holds open. Other Mainstay
processes on the same machine have their own.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Any

import msgspec

from mainstay.core.errors import Overloaded, ProviderError, RequestRefused

LOAD_TIMEOUT_S = 300.0  # enough for a large file on a slow disk
EXIT_TIMEOUT_S = 2.0  # after this, a process that was told to stop is killed
SETTLE_S, SETTLE_CHECKS = 0.5, 50
STDERR_TAIL_BYTES = 4096
THREADS_MAX = 8  # with more, they wait for memory bandwidth
SPARE_MEMORY_FACTOR = 6  # a machine has spare memory if it has this many times the size of the weights
_ALLOWED_ENVIRONMENT = (
    "PATH",
    "HOME",
    "TMPDIR",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "VIRTUAL_ENV",
)
SERVER_MODULE = "mainstay.providers.local.server"
LIBRARY_MISSING = "local models need {library}: pip install -e '.[local]'"


class LocalModelOptions(msgspec.Struct, frozen=True):
    """How to run a file of weights."""

    path: Path
    context_tokens: int  # context window
    idle_s: float  # the process ends after this time without requests
    states_folder: Path  # folder of the prompt cache


class RunningModelServer(msgspec.Struct, eq=False):
    """A running server process. `is_fresh`: it has read no prompt yet."""

    url: str
    key: str
    process: subprocess.Popen[bytes]
    is_fresh: bool = True

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    async def wait_for_exit(self) -> None:
        """Wait up to `SETTLE_S` for the process to end: its connections close a moment before its exit is visible."""
        for _ in range(SETTLE_CHECKS):
            if not self.is_alive:
                return
            await asyncio.sleep(SETTLE_S / SETTLE_CHECKS)

    def report_request(self, mark: bytes) -> None:
        """Tell the process that a request begins (`b`) or ends (`e`)."""
        assert self.process.stdin is not None
        try:
            os.write(self.process.stdin.fileno(), mark)
        except (OSError, ValueError):
            pass  # it has ended, which the request will notice

    def describe_exit(self) -> str:
        code = self.process.poll()
        if code is None:
            return "it is running"
        if code == -signal.SIGKILL:
            return "it was killed, probably because the machine ran out of memory"
        return f"it was terminated by {signal.Signals(-code).name}" if code < 0 else f"it exited with status {code}"


class SharedModelServer:
    """The server process of one file of weights, with a count of its users. Thread-safe."""

    def __init__(self, options: LocalModelOptions) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._starting: Future[RunningModelServer] | None = None
        self._server: RunningModelServer | None = None
        self._user_count = 0
        self._request_lock: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    @property
    def request_lock(self) -> asyncio.Lock:
        """Lock to hold during a request: the server handles one at a time. One per event loop, since a script may run
        several loops in a row."""
        loop = asyncio.get_running_loop()
        if self._request_lock is None or self._request_lock[0] is not loop:
            self._request_lock = loop, asyncio.Lock()
        return self._request_lock[1]

    @property
    def is_running(self) -> bool:
        place = self._server
        return place is not None and place.is_alive

    def add_user(self) -> None:
        with self._lock:
            self._user_count += 1

    def remove_user(self) -> bool:
        """Return True if that was the last user: the caller must then `stop` the process."""
        with self._lock:
            self._user_count -= 1
            return not self._user_count

    def stop(self) -> None:
        with self._lock:
            place, self._server = self._server, None
        if place is not None:
            _stop_process(place.process)

    async def wait_until_ready(self) -> RunningModelServer:
        """Start the process if needed and return its server once it is loaded. A cancelled caller does not stop the
        start, which other callers may share. Raises ProviderError."""
        with self._lock:
            if self._server is not None and self._server.is_alive:
                return self._server
            starting = self._starting
            if starting is None:
                starting = self._starting = Future()
                threading.Thread(target=self._run_server, args=(starting,), name="mainstay-local", daemon=True).start()
        return await asyncio.shield(asyncio.wrap_future(starting))

    def _run_server(self, starting: Future[RunningModelServer]) -> None:
        """Start the server and wait for its end; runs in a thread of its own."""
        try:
            place = start_server(self._options)
        except BaseException as error:  # raised in the callers that wait, not in this thread
            with self._lock:
                self._starting = None
            starting.set_exception(error)
            return
        with self._lock:
            self._starting = None
            is_needed = self._user_count > 0
            self._server = place if is_needed else None
        if not is_needed:
            _stop_process(place.process)
        starting.set_result(place)
        place.process.wait()


def start_server(options: LocalModelOptions) -> RunningModelServer:
    """Start a server and return it once the model is loaded; blocks. Raises ProviderError."""
    key = secrets.token_urlsafe(24)
    settings = {
        "path": str(options.path),
        "key": key,
        "tokens": options.context_tokens,
        "threads": count_threads(),
        "roomy": _has_spare_memory(options.path),
        "idle_s": options.idle_s,
        "states": str(options.states_folder),
    }
    with tempfile.TemporaryFile() as complaints:
        try:
            options.states_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            process = _spawn_server(complaints)
        except OSError as error:
            raise Overloaded(
                f"the process of the local model could not be started: {error}", counts_as_failure=True
            ) from None
        try:
            reply = _exchange_handshake(process, settings)
        except BaseException:
            _stop_process(process)
            raise
        if url := reply.get("url"):
            return RunningModelServer(url, key, process)
        _stop_process(process)
        raise _startup_error(options, reply, process, complaints)


def count_threads() -> int:
    """Return the number of processors available to this process, at most `THREADS_MAX`."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # missing on macOS
        count = os.cpu_count() or 1
    return max(1, min(count, THREADS_MAX))


def _has_spare_memory(path: Path) -> bool:
    """Return whether the machine has memory for a second copy of most weights, in a layout that generates a third
    faster."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return memory >= SPARE_MEMORY_FACTOR * path.stat().st_size
    except (ValueError, OSError):
        return False


def _spawn_server(stderr: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start the process: without API keys in its environment, without imports from the current folder, and in a session
    of its own, so that Ctrl-C in a terminal does not reach it."""
    root = str(Path(__file__).resolve().parents[3])
    paths = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
    env = {name: os.environ[name] for name in _ALLOWED_ENVIRONMENT if name in os.environ}
    env |= {"PYTHONPATH": paths, "OMP_WAIT_POLICY": "passive", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", SERVER_MODULE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env=env,
        cwd="/",
        start_new_session=True,
    )


def _exchange_handshake(process: subprocess.Popen[bytes], settings: dict[str, Any]) -> dict[str, Any]:
    """Send the settings and return the server's reply; empty if the process ended without one."""
    assert process.stdin is not None
    assert process.stdout is not None
    deadline = time.monotonic() + LOAD_TIMEOUT_S
    reply = b""
    selector = selectors.DefaultSelector()  # unlike select(), not limited to 1024 file descriptors
    selector.register(process.stdout, selectors.EVENT_READ)
    try:
        process.stdin.write(json.dumps(settings).encode() + b"\n")
        process.stdin.flush()
        while not reply.endswith(b"\n"):
            if not selector.select(max(deadline - time.monotonic(), 0)):
                raise Overloaded(f"the local model was not loaded within {LOAD_TIMEOUT_S:g} s")
            data = os.read(process.stdout.fileno(), 4096)
            if not data:
                return {}
            reply += data
    except BrokenPipeError:
        return {}
    finally:
        selector.close()
    return msgspec.json.decode(reply, type=dict[str, Any])


def _startup_error(
    options: LocalModelOptions, answer: dict[str, Any], process: subprocess.Popen[bytes], stderr: IO[bytes]
) -> ProviderError:
    if library := answer.get("missing"):
        return RequestRefused(LIBRARY_MISSING.format(library=library))
    details = _read_tail(stderr) or str(answer.get("error", ""))
    if process.returncode == -signal.SIGKILL:
        return Overloaded(
            f"{options.path.name} could not be loaded: {RunningModelServer('', '', process).describe_exit()}"
        )
    sentence = f"{options.path} could not be loaded: it is damaged, or not a GGUF file that this llama.cpp can read"
    return RequestRefused(sentence, details=details)


def _read_tail(stderr: IO[bytes]) -> str:
    size = stderr.seek(0, os.SEEK_END)
    stderr.seek(max(0, size - STDERR_TAIL_BYTES))
    return stderr.read().decode(errors="replace").strip()


def _stop_process(process: subprocess.Popen[bytes]) -> None:
    """Close the pipes of a process, which makes it exit; kill it after `EXIT_TIMEOUT_S`."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:
                pass  # unread input is discarded, as intended
    try:
        process.wait(EXIT_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# --- shared processes ------------------------------------------------------------------------------

_processes: dict[tuple[str, int], SharedModelServer] = {}  # by path and context window; weights are loaded once
_processes_lock = threading.Lock()


def acquire_process(options: LocalModelOptions) -> SharedModelServer:
    """Return the process for these options, created if needed, with one more user."""
    key = str(options.path), options.context_tokens
    with _processes_lock:
        process = _processes.get(key)
        if process is None:
            process = _processes[key] = SharedModelServer(options)
        process.add_user()
        return process


def release_process(process: SharedModelServer) -> None:
    """Remove one user of a process; stop it if that was the last one. Blocks until it has ended."""
    with _processes_lock:
        is_last = process.remove_user()
        for key in [key for key, known in _processes.items() if is_last and known is process]:
            del _processes[key]
    if is_last:  # outside of the lock, because it takes a moment
        process.stop()
