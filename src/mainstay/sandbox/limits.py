"""Resource limits and environment of sandboxed commands, and the validation of commands."""

from __future__ import annotations

import math
import os
import resource

import msgspec

from mainstay.core.errors import InputRefused, MainstayError
from mainstay.core.tool_ports import SandboxCommand

MB = 1024 * 1024
SCRIPT_BYTES_MAX = 100_000  # the kernel accepts 128 KB in one argument
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class SandboxUnusable(MainstayError):
    """The sandbox cannot run commands as required."""


class SandboxLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Default limits of one command with all its descendants, and of the sandbox."""

    memory_mb: int = 2048  # of all processes together
    processes: int = 256
    cpu_s: float | None = None  # of a single process; None: the timeout
    file_mb: int = 1024  # of a single file
    open_files: int = 1024
    tmp_mb: int = 256  # of /tmp, where the sandbox provides one
    disk_free_mb: int = 256  # a command is killed when less is free on the disk
    output_bytes: int = 10 * MB  # kept of each stream
    unread_bytes: int = MB  # kept of a background process until they are read
    grace_s: float = 0.5  # between SIGTERM and SIGKILL
    commands: int = 64  # that run at once; more wait
    background: int = 64  # background processes; more are refused
    # variables passed on; HOME is the session's own
    env: tuple[str, ...] = ("PATH", "LANG", "LC_ALL", "TERM", "TZ", "USER")


def validate_command(command: SandboxCommand) -> str:
    """Validate a command and return the folder to run in; raises InputRefused."""
    script, folders = command.script, command.folders
    if not script.strip():
        raise InputRefused("the command is empty")
    if "\0" in script:
        raise InputRefused("a command must not contain a NUL character")
    if len(script.encode("utf-8", "surrogateescape")) > SCRIPT_BYTES_MAX:
        raise InputRefused(f"a command has at most {SCRIPT_BYTES_MAX:,} bytes; put the rest into a file")
    for name, value in command.env.items():
        if not name or "=" in name or "\0" in name + value:
            raise InputRefused(f"{name!r} cannot be set for a command")
    cwd = os.path.realpath(command.cwd or folders.cwd)
    if not any(is_within(cwd, root) for root in (*folders.writable, *folders.readable, folders.scratch) if root):
        raise InputRefused(f"commands do not run in {cwd}: it is outside of the workspace")
    if not os.path.isdir(cwd):
        raise InputRefused(f"there is no folder {cwd}")
    return cwd


def is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def build_environment(limits: SandboxLimits, command: SandboxCommand) -> dict[str, str]:
    """Build the complete environment of a command."""
    passed = {name: os.environ[name] for name in limits.env if name in os.environ}
    home = command.folders.scratch or command.folders.cwd
    return {"PATH": DEFAULT_PATH, **passed, "HOME": home, **command.env}


def resource_limits(sandbox_limits: SandboxLimits, timeout_s: float | None, *, own_namespace: bool) -> dict[int, int]:
    """Return the limits for `setrlimit`. `own_namespace`: processes are counted per user namespace."""
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: sandbox_limits.file_mb * MB,
        resource.RLIMIT_NOFILE: sandbox_limits.open_files,
        # Per process, and thread stacks count in full: the memory in use is watched by the supervisor.
        resource.RLIMIT_DATA: 2 * sandbox_limits.memory_mb * MB,
    }
    cpu_s = sandbox_limits.cpu_s if sandbox_limits.cpu_s is not None else timeout_s
    if cpu_s is not None:
        limits[resource.RLIMIT_CPU] = math.ceil(cpu_s) + 1
    if own_namespace:
        # threads count too; the supervisor watches the real number
        limits[resource.RLIMIT_NPROC] = 8 * sandbox_limits.processes
    return limits


def watched_limits(limits: SandboxLimits, cwd: str) -> tuple[int, int, int, str]:
    """Return what the supervisor watches: processes, memory bytes, free disk bytes, and the folder on that disk."""
    return limits.processes, limits.memory_mb * MB, limits.disk_free_mb * MB, cwd
