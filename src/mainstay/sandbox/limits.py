"""How much a command may take, what it may know of its surroundings, and what is no command at all."""

from __future__ import annotations

import math
import os
import resource

import msgspec

from mainstay.core.errors import InputRefused, MainstayError
from mainstay.core.outside import Command

MB = 1024 * 1024
SCRIPT_BYTES_MAX = 100_000  # the kernel takes 128 KB in one argument
PLAIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class SandboxUnusable(MainstayError):
    """Commands cannot be run here as they should be."""


class SandboxRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds of one command with all its descendants, if nothing else is said."""

    memory_mb: int = 2048  # of all its processes together
    processes: int = 256
    cpu_s: float | None = None  # of a single process; None: as long as it may take
    file_mb: int = 1024  # of a single file
    open_files: int = 1024
    tmp_mb: int = 256  # of /tmp, where that is its own
    disk_free_mb: int = 256  # what must be left on the disk; below, it is ended
    output_bytes: int = 10 * MB  # kept of each stream
    unread_bytes: int = MB  # kept of a background process until somebody reads it
    grace_s: float = 0.5  # between the polite and the firm end
    commands: int = 64  # at once; others wait
    background: int = 64  # processes beside the turns; more are refused
    env: tuple[str, ...] = ("PATH", "LANG", "LC_ALL", "TERM", "TZ", "USER")  # and HOME, which is the session's own


def check(command: Command) -> str:
    """The folder to run in; raises InputRefused if this cannot be run at all."""
    script, grounds = command.script, command.grounds
    if not script.strip():
        raise InputRefused("the command is empty")
    if "\0" in script:
        raise InputRefused("a command cannot hold the character NUL")
    if len(script.encode("utf-8", "surrogateescape")) > SCRIPT_BYTES_MAX:
        raise InputRefused(f"a command has at most {SCRIPT_BYTES_MAX:,} bytes; put the rest into a file")
    for name, value in command.env.items():
        if not name or "=" in name or "\0" in name + value:
            raise InputRefused(f"{name!r} cannot be set for a command")
    cwd = os.path.realpath(command.cwd or grounds.cwd)
    if not any(within(cwd, root) for root in (*grounds.writable, *grounds.readable, grounds.scratch) if root):
        raise InputRefused(f"commands do not run in {cwd}: it is outside of the workspace")
    if not os.path.isdir(cwd):
        raise InputRefused(f"there is no folder {cwd}")
    return cwd


def within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def environment(rules: SandboxRules, command: Command) -> dict[str, str]:
    """All that a command inherits."""
    passed = {name: os.environ[name] for name in rules.env if name in os.environ}
    home = command.grounds.scratch or command.grounds.cwd
    return {"PATH": PLAIN_PATH, **passed, "HOME": home, **command.env}


def resource_limits(rules: SandboxRules, timeout_s: float | None, *, own_users: bool) -> dict[int, int]:
    """For `setrlimit`. `own_users`: processes are counted apart from the host's."""
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: rules.file_mb * MB,
        resource.RLIMIT_NOFILE: rules.open_files,
        # Per process, and stacks of threads count whole: the sum that is in use is watched.
        resource.RLIMIT_DATA: 2 * rules.memory_mb * MB,
    }
    cpu_s = rules.cpu_s if rules.cpu_s is not None else timeout_s
    if cpu_s is not None:
        limits[resource.RLIMIT_CPU] = math.ceil(cpu_s) + 1
    if own_users:
        limits[resource.RLIMIT_NPROC] = 8 * rules.processes  # threads count too; what is meant is watched
    return limits
