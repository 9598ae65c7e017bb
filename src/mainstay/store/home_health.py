"""Health checks of a home: folder, permissions, lock, leftover files, disk."""

from __future__ import annotations

import os
import shutil
import stat
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from mainstay.core.errors import HomeTaken, HomeUnusable
from mainstay.core.health import CheckFinding
from mainstay.core.worker_threads import run_in_thread
from mainstay.store.home import (
    HomeLock,
    describe_owner,
    describe_stale_config,
    is_home_locked,
    prepare_home,
    read_lock_owner,
)

DISK_FAIL_BYTES = 50 * 1024 * 1024
DISK_WARN_BYTES = 1024 * 1024 * 1024
FILES_FAIL, FILES_WARN = 100, 10_000  # free inodes
SYNC_SAMPLES = 5
SYNC_SLOW_S = 0.1
ENTRIES_MAX = 5_000  # files of the home that are checked
SHOWN_MAX = 3
LEFTOVER_AGE_S = 600.0  # a temporary file that is still in use is younger
MOUNTS = Path("/proc/self/mounts")
_NETWORK_FILE_SYSTEMS = ("nfs", "cifs", "smb", "9p", "fuse.sshfs", "afs", "ceph", "glusterfs")  # network file systems
_OWNER_ADVICE = "; stop it, or choose another --home"  # end of describe_owner's text, which does not apply here


def check_home(home: Path, *, fix: bool) -> CheckFinding:
    if not home.exists():
        if not fix:
            return _check_missing_home(home)
        prepare_home(home)
    try:
        mode = home.stat().st_mode
        shared = bool(mode & 0o077)
        if shared and stat.S_ISDIR(mode) and not fix:
            return CheckFinding("Home", "warn", f"other users can read {home}", f"doctor --fix, or: chmod 700 {home}")
        prepare_home(home)
    except (OSError, HomeUnusable) as error:
        return CheckFinding("Home", "FAIL", str(error), "choose another with --home or MAINSTAY_HOME")
    message = f"{home} is writable and private" + (" (fixed)" if shared else "")
    return CheckFinding("Home", "ok", message, is_fixed=shared)


def _check_missing_home(home: Path) -> CheckFinding:
    above = _nearest_existing(home)
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        message = f"{home} does not exist and cannot be created: {above} is not writable, or not a folder"
        return CheckFinding("Home", "FAIL", message, "choose another with --home or MAINSTAY_HOME")
    return CheckFinding("Home", "ok", f"{home} will be created when it is needed")


def check_permissions(home: Path, config_file: str, *, fix: bool) -> Iterator[CheckFinding]:
    """Find files with secrets that other users can read, and files that another user owns."""
    if not home.is_dir():
        return
    for name in (config_file, ".env"):
        path = home / name
        mode = path.stat().st_mode if path.is_file() else 0
        if mode & 0o077 and fix:
            path.chmod(0o600)
            yield CheckFinding("Permissions", "ok", f"{path} is private (fixed)", is_fixed=True)
        elif mode & 0o077 and (name != config_file or home.stat().st_mode & 0o077):
            yield CheckFinding(
                "Permissions", "warn", f"other users can read {path}", f"doctor --fix, or: chmod 600 {path}"
            )
    others = [path for path in _list_entries(home) if _has_other_owner(path)]
    if others:
        names = ", ".join(map(str, others[:SHOWN_MAX])) + (", …" if len(others) > SHOWN_MAX else "")
        message = f"another user owns {len(others)} of the home's files, perhaps because it was used with sudo: {names}"
        yield CheckFinding("Permissions", "FAIL", message, f'sudo chown -R "$(id -un)" {home}')


def _has_other_owner(path: Path) -> bool:
    try:
        return path.lstat().st_uid != os.geteuid()
    except OSError:  # removed meanwhile
        return False


def _list_entries(home: Path) -> list[Path]:
    """List the home's own files and its workspaces' databases, without the files that the agent works on."""
    entries: list[Path] = []
    for pattern in ("*", "workspaces/*", "workspaces/*/*"):
        for path in home.glob(pattern):
            if len(entries) == ENTRIES_MAX:
                return entries
            entries.append(path)
    return entries


# --- its lock, and leftover files ----------------------------------------------------------------


def check_lock(config_file: Path, data: Path) -> list[CheckFinding]:
    """Report which process uses the home, and whether that process has loaded the current configuration."""
    if not is_home_locked(data):
        return [CheckFinding("Lock", "ok", "no other process uses the home")]
    used = CheckFinding("Lock", "ok", f"in use by {describe_owner(read_lock_owner(data)).removesuffix(_OWNER_ADVICE)}")
    if not (warning := describe_stale_config(config_file, data)):
        return [used]
    fix = "restart that process; for `mainstay serve`, SIGHUP is enough"
    return [used, CheckFinding("Lock", "warn", warning, fix)]


def check_leftovers(config_file: Path, socket: Path, *, fix: bool) -> Iterator[CheckFinding]:
    """Find files that a killed process left behind: harmless and useless. `socket` is the one in the data folder."""
    data = socket.parent
    left = [path for path in config_file.parent.glob(f".{config_file.name}.*") if _age_s(path) > LEFTOVER_AGE_S]
    if socket.exists() and not is_home_locked(data):
        left.append(socket)
    if not left:
        return
    names = ", ".join(map(str, left[:SHOWN_MAX])) + (", …" if len(left) > SHOWN_MAX else "")
    if not fix:
        yield CheckFinding("Leftovers", "warn", f"a killed process left {names}", "doctor --fix removes them")
        return
    try:
        _remove_files(left, data)
    except HomeTaken as error:
        yield CheckFinding("Leftovers", "warn", f"not removed: {error}", "try again when it has ended")
    else:
        yield CheckFinding("Leftovers", "ok", f"removed {names} (fixed)", is_fixed=True)


def _remove_files(paths: list[Path], data: Path) -> None:
    lock = HomeLock(data)  # so that no process starts to listen on the socket meanwhile
    lock.acquire()
    try:
        for path in paths:
            path.unlink(missing_ok=True)
    finally:
        lock.release()


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.lstat().st_mtime
    except OSError:
        return 0.0


# --- its disk ------------------------------------------------------------------------------------


class DiskSpaceCheck:
    """Checks that the disk of a folder has free space and inodes."""

    subject = "disk"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def run(self) -> Sequence[CheckFinding]:
        return [await run_in_thread(lambda: check_free_space(self._folder))]


def check_disk(data: Path) -> Iterator[CheckFinding]:
    space = check_free_space(data)
    yield space
    if space.verdict == "FAIL":
        return
    folder = _nearest_existing(data)
    if kind := _network_file_system(folder):
        message = f"{folder} is on a network file system ({kind}), which can corrupt databases"
        yield CheckFinding("Disk", "warn", message, "keep the home on a local disk: --home, or state.data_dir")
    if folder == data and os.access(folder, os.W_OK):
        yield _check_sync_time(folder)


def check_free_space(data: Path) -> CheckFinding:
    """Check the free space and inodes on the disk of a folder, which need not exist yet."""
    folder = _nearest_existing(data)
    free = shutil.disk_usage(folder).free
    message, fix = f"{_format_size(free)} free", f"free some space on the disk of {folder}"
    files = os.statvfs(folder)
    if free < DISK_FAIL_BYTES:
        return CheckFinding("Disk", "FAIL", f"{folder} has only {message}", fix)
    if files.f_files and files.f_favail < FILES_FAIL:
        message = f"{message}, but room for only {files.f_favail} more files"
        return CheckFinding("Disk", "FAIL", message, f"remove unneeded files on the disk of {folder} (see df -i)")
    few = bool(files.f_files) and files.f_favail < FILES_WARN
    low = free < DISK_WARN_BYTES or few
    return CheckFinding("Disk", "warn" if low else "ok", message, fix if low else "")


def _format_size(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 1e8 else f"{size_bytes / 1e6:.0f} MB"


def _check_sync_time(folder: Path) -> CheckFinding:
    """Measure how long a write to disk takes: every turn waits for it."""
    times = []
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            for _ in range(SYNC_SAMPLES):
                began = time.perf_counter()
                file.write(bytes(4096))
                file.flush()
                os.fsync(file.fileno())
                times.append(time.perf_counter() - began)
    except OSError as error:
        return CheckFinding(
            "Disk", "FAIL", f"nothing can be written to {folder}: {error.strerror}", "free some space there"
        )
    took_s = statistics.median(times)
    message = f"a synchronous write of 4 kB takes {took_s * 1000:.1f} ms"
    if took_s > SYNC_SLOW_S:
        return CheckFinding(
            "Disk", "warn", f"{message}, which slows every turn", "use a faster disk: --home, state.data_dir"
        )
    return CheckFinding("Disk", "ok", message)


def _nearest_existing(path: Path) -> Path:
    return next(ancestor for ancestor in (path, *path.parents) if ancestor.exists())


def _network_file_system(folder: Path) -> str:
    """Return the type of the network file system that holds the path; "" if it is on a local disk."""
    try:
        rows = [line.split() for line in MOUNTS.read_text().splitlines()]
    except OSError:  # not Linux
        return ""
    real = folder.resolve()
    under = [(row[1].replace("\\040", " "), row[2]) for row in rows if len(row) > 2]
    fitting = [(where, kind) for where, kind in under if real.is_relative_to(where)]
    kind = max(fitting, key=lambda mount: len(mount[0]), default=("", ""))[1]
    return kind if kind.startswith(_NETWORK_FILE_SYSTEMS) else ""
