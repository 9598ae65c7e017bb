"""Keeping the process of a local model: started when something is first asked, shared by all who ask for the same.

It ends by itself when nothing was asked for a while, and with this process, however that ends: its standard input is a
pipe that only we hold open. Other processes of Mainstay on the same machine have their own.
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

LOAD_S = 300.0  # for a large file on a slow disk
GONE_S = 2.0  # for a process that was told to go
SETTLE_S, SETTLE_LOOKS = 0.5, 50
COMPLAINT_BYTES = 4096
THREADS_MAX = 8  # more of them wait for memory
ROOMY = 6  # times the weights: so much memory has a machine that can spare some
_PASSED_ON = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "VIRTUAL_ENV")
MODULE = "mainstay.providers.local.server"
MISSING = "models on this machine need {library}: pip install -e '.[local]'"


class Weight(msgspec.Struct, frozen=True):
    """Which file, how much of a conversation it is run with, how long it stays when nobody asks."""

    path: Path
    tokens: int
    idle_s: float
    states: Path  # where the beginning of conversations is kept


class Place(msgspec.Struct, eq=False):
    """A process that answers. `fresh`: it has read nothing yet."""

    url: str
    key: str
    process: subprocess.Popen[bytes]
    fresh: bool = True

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    async def settle(self) -> None:
        """A process that goes takes its connections with it a moment before it can be seen to be gone."""
        for _ in range(SETTLE_LOOKS):
            if not self.alive:
                return
            await asyncio.sleep(SETTLE_S / SETTLE_LOOKS)

    def tell(self, mark: bytes) -> None:
        """A request begins (`b`) or ends (`e`)."""
        assert self.process.stdin is not None
        try:
            os.write(self.process.stdin.fileno(), mark)
        except (OSError, ValueError):
            pass  # it is gone, which whoever asks will notice

    def how_it_ended(self) -> str:
        code = self.process.poll()
        if code is None:
            return "it runs"
        if code == -signal.SIGKILL:
            return "it was killed, as a machine does that has too little memory"
        return f"it was ended by {signal.Signals(-code).name}" if code < 0 else f"it ended with status {code}"


class LocalProcess:
    """The process of one file of weights. `use` and `leave` count who may still ask."""

    def __init__(self, weight: Weight) -> None:
        self._weight = weight
        self._lock = threading.Lock()
        self._starting: Future[Place] | None = None
        self._place: Place | None = None
        self._users = 0
        self._turns: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    @property
    def lock(self) -> asyncio.Lock:
        """For whoever asks: it answers one at a time. It belongs to a loop; a script may run several in a row."""
        loop = asyncio.get_running_loop()
        if self._turns is None or self._turns[0] is not loop:
            self._turns = loop, asyncio.Lock()
        return self._turns[1]

    @property
    def running(self) -> bool:
        place = self._place
        return place is not None and place.alive

    def use(self) -> None:
        with self._lock:
            self._users += 1

    def leave(self) -> bool:
        """True if that was the last one: it is to `end` then."""
        with self._lock:
            self._users -= 1
            return not self._users

    def end(self) -> None:
        with self._lock:
            place, self._place = self._place, None
        if place is not None:
            _end(place.process)

    async def place(self) -> Place:
        """Where it is, once it is ready. Whoever goes away meanwhile leaves it to those who come."""
        with self._lock:
            if self._place is not None and self._place.alive:
                return self._place
            starting = self._starting
            if starting is None:
                starting = self._starting = Future()
                threading.Thread(target=self._start, args=(starting,), name="mainstay-local", daemon=True).start()
        return await asyncio.shield(asyncio.wrap_future(starting))

    def _start(self, starting: Future[Place]) -> None:
        """In a thread of its own, which then stays to see the process off."""
        try:
            place = start(self._weight)
        except BaseException as error:  # it goes to whoever waits, not to this thread
            with self._lock:
                self._starting = None
            starting.set_exception(error)
            return
        with self._lock:
            self._starting = None
            wanted = self._users > 0
            self._place = place if wanted else None
        if not wanted:
            _end(place.process)
        starting.set_result(place)
        place.process.wait()


def start(weight: Weight) -> Place:
    """Blocks until the model is loaded. Raises ProviderError."""
    key = secrets.token_urlsafe(24)
    given = {
        "path": str(weight.path),
        "key": key,
        "tokens": weight.tokens,
        "threads": threads(),
        "roomy": _is_roomy(weight.path),
        "idle_s": weight.idle_s,
        "states": str(weight.states),
    }
    with tempfile.TemporaryFile() as complaints:
        try:
            weight.states.mkdir(mode=0o700, parents=True, exist_ok=True)
            process = _spawn(complaints)
        except OSError as error:
            raise Overloaded(f"the process of the local model could not be started: {error}", counts=True) from None
        try:
            answer = _hear(process, given)
        except BaseException:
            _end(process)
            raise
        if url := answer.get("url"):
            return Place(url, key, process)
        _end(process)
        raise _refused(weight, answer, process, complaints)


def threads() -> int:
    """As many as there are processors for us."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        count = os.cpu_count() or 1
    return max(1, min(count, THREADS_MAX))


def _is_roomy(path: Path) -> bool:
    """A second copy of most of the weights, in an order that the processor likes, makes it write a third faster."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return memory >= ROOMY * path.stat().st_size
    except (ValueError, OSError):
        return False


def _spawn(complaints: IO[bytes]) -> subprocess.Popen[bytes]:
    """No key of anybody's is in its environment, nothing of the current folder is imported, and what is typed at a
    terminal to stop us is not for it."""
    root = str(Path(__file__).resolve().parents[3])
    paths = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
    env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    env |= {"PYTHONPATH": paths, "OMP_WAIT_POLICY": "passive", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", MODULE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=complaints,
        env=env,
        cwd="/",
        start_new_session=True,
    )


def _hear(process: subprocess.Popen[bytes], given: dict[str, Any]) -> dict[str, Any]:
    """What it says of itself; empty if it went without a word."""
    assert process.stdin is not None
    assert process.stdout is not None
    until = time.monotonic() + LOAD_S
    said = b""
    heard = selectors.DefaultSelector()  # unlike select, at home with more than a thousand descriptors
    heard.register(process.stdout, selectors.EVENT_READ)
    try:
        process.stdin.write(json.dumps(given).encode() + b"\n")
        process.stdin.flush()
        while not said.endswith(b"\n"):
            if not heard.select(max(until - time.monotonic(), 0)):
                raise Overloaded(f"the local model was not loaded within {LOAD_S:g} s")
            data = os.read(process.stdout.fileno(), 4096)
            if not data:
                return {}
            said += data
    except BrokenPipeError:
        return {}
    finally:
        heard.close()
    return msgspec.json.decode(said, type=dict[str, Any])


def _refused(
    weight: Weight, answer: dict[str, Any], process: subprocess.Popen[bytes], complaints: IO[bytes]
) -> ProviderError:
    if library := answer.get("missing"):
        return RequestRefused(MISSING.format(library=library))
    details = _last(complaints) or str(answer.get("error", ""))
    if process.returncode == -signal.SIGKILL:
        return Overloaded(f"{weight.path.name} could not be loaded: {Place('', '', process).how_it_ended()}")
    sentence = f"{weight.path} could not be loaded: it is no GGUF file that this llama.cpp can read, or it is damaged"
    return RequestRefused(sentence, details=details)


def _last(complaints: IO[bytes]) -> str:
    size = complaints.seek(0, os.SEEK_END)
    complaints.seek(max(0, size - COMPLAINT_BYTES))
    return complaints.read().decode(errors="replace").strip()


def _end(process: subprocess.Popen[bytes]) -> None:
    """It goes as soon as it sees the end of its input."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:
                pass  # what it had not read yet is lost, as it should be
    try:
        process.wait(GONE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# --- one for each file in this process -------------------------------------------------------------

_kept: dict[tuple[str, int], LocalProcess] = {}  # a second copy of the same weights would help nobody
_lock = threading.Lock()


def shared(weight: Weight) -> LocalProcess:
    """The one for this file, for another user of it."""
    key = str(weight.path), weight.tokens
    with _lock:
        found = _kept.get(key)
        if found is None:
            found = _kept[key] = LocalProcess(weight)
        found.use()
        return found


def give_back(process: LocalProcess) -> None:
    with _lock:
        last = process.leave()
        for key in [key for key, one in _kept.items() if last and one is process]:
            del _kept[key]
    if last:  # which takes a moment, and others need not wait for it
        process.end()
