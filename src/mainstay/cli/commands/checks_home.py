"""What `doctor` looks at of the home: whose it is, who may look in, its disk, its databases, what was left behind."""

from __future__ import annotations

import os
import shutil
import stat
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from mainstay.cli.commands.checks import Finding
from mainstay.cli.commands.checks_owner import works_with_old
from mainstay.cli.commands.homes import kept_in, reading
from mainstay.config.loading import FILE
from mainstay.core.errors import HomeTaken, HomeUnusable, MainstayError
from mainstay.gateway.owner import SOCKET
from mainstay.store.home import HomeLock, describe, is_owned, owner, prepare

DISK_FAIL_BYTES = 50 * 1024 * 1024
DISK_WARN_BYTES = 1024 * 1024 * 1024
FILES_FAIL, FILES_WARN = 100, 10_000  # that the disk has room for
SYNCS = 5
SYNC_SLOW_S = 0.1
RELEASED = 1_780_000_000  # a clock before the release, or long after it, is wrong
LATE = 4_100_000_000
ENTRIES_MAX = 5_000  # of the home, that are looked at
SHOWN_MAX = 3
LEFT_S = 600.0  # a file that somebody is about to put in its place is younger
MOUNTS = Path("/proc/self/mounts")
_ELSEWHERE = ("nfs", "cifs", "smb", "9p", "fuse.sshfs", "afs", "ceph", "glusterfs")  # disks of other machines
_ADVICE = "; stop it, or choose another --home"  # which nobody needs who only looks
_CLOCK = "set the system's date and time (timedatectl set-ntp true, or: sntp -sS time.apple.com)"


def home_private(home: Path, *, fix: bool) -> Finding:
    if not home.exists():
        if not fix:
            return _to_be_made(home)
        prepare(home)
    try:
        mode = home.stat().st_mode
        shared = bool(mode & 0o077)
        if shared and stat.S_ISDIR(mode) and not fix:
            return Finding("Home", "warn", f"other users can look into {home}", f"doctor --fix, or: chmod 700 {home}")
        prepare(home)
    except (OSError, HomeUnusable) as error:
        return Finding("Home", "FAIL", str(error), "choose another with --home or MAINSTAY_HOME")
    says = f"{home} is writable and private" + (" (mended)" if shared else "")
    return Finding("Home", "ok", says, mended=shared)


def _to_be_made(home: Path) -> Finding:
    above = _nearest(home)
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        says = f"{home} is not there, and cannot be made: {above} is not writable, or no folder"
        return Finding("Home", "FAIL", says, "choose another with --home or MAINSTAY_HOME")
    return Finding("Home", "ok", f"{home} will be made when it is needed")


def permissions(home: Path, *, fix: bool) -> Iterator[Finding]:
    """Files with secrets that others may read, and files that are somebody else's."""
    if not home.is_dir():
        return
    for name in (FILE, ".env"):
        path = home / name
        mode = path.stat().st_mode if path.is_file() else 0
        if mode & 0o077 and fix:
            path.chmod(0o600)
            yield Finding("Permissions", "ok", f"{path} is its owner's alone (mended)", mended=True)
        elif mode & 0o077 and (name != FILE or home.stat().st_mode & 0o077):
            yield Finding("Permissions", "warn", f"other users can read {path}", f"doctor --fix, or: chmod 600 {path}")
    others = [one for one in _entries(home) if _is_anothers(one)]
    if others:
        shown = ", ".join(map(str, others[:SHOWN_MAX])) + (", …" if len(others) > SHOWN_MAX else "")
        says = f"another user owns {len(others)} of the home's files, as if it was once used with sudo: {shown}"
        yield Finding("Permissions", "FAIL", says, f'sudo chown -R "$(id -un)" {home}')


def _is_anothers(path: Path) -> bool:
    try:
        return path.lstat().st_uid != os.geteuid()
    except OSError:  # gone meanwhile
        return False


def _entries(home: Path) -> list[Path]:
    """Its own, and its workspaces' databases: not what the agent works on."""
    found: list[Path] = []
    for pattern in ("*", "workspaces/*", "workspaces/*/*"):
        for one in home.glob(pattern):
            if len(found) == ENTRIES_MAX:
                return found
            found.append(one)
    return found


# --- who uses it, and what was left ---------------------------------------------------------------


def home_free(home: Path) -> list[Finding]:
    """Whether somebody uses it, and if so, whether with the configuration that is there now."""
    data = kept_in(home)
    if not is_owned(data):
        return [Finding("Lock", "ok", "no other process uses the home")]
    used = Finding("Lock", "ok", f"in use by {describe(owner(data)).removesuffix(_ADVICE)}")
    if not (said := works_with_old(home, data)):
        return [used]
    fix = "stop that process and start it again; if it is `mainstay serve`, SIGHUP will do"
    return [used, Finding("Lock", "warn", said, fix)]


def leftovers(home: Path, *, fix: bool) -> Iterator[Finding]:
    """What a process that was killed could not take away itself: it harms nobody, and is of no use."""
    data = kept_in(home)
    left = [one for one in home.glob(f".{FILE}.*") if _age_s(one) > LEFT_S]
    if (data / SOCKET).exists() and not is_owned(data):
        left.append(data / SOCKET)
    if not left:
        return
    shown = ", ".join(map(str, left[:SHOWN_MAX])) + (", …" if len(left) > SHOWN_MAX else "")
    if not fix:
        yield Finding("Leftovers", "warn", f"a process that was killed left {shown}", "doctor --fix takes them away")
        return
    try:
        _remove(left, data)
    except HomeTaken as error:
        yield Finding("Leftovers", "warn", f"not removed: {error}", "try again when it has ended")
    else:
        yield Finding("Leftovers", "ok", f"{shown}: removed (mended)", mended=True)


def _remove(paths: list[Path], data: Path) -> None:
    lock = HomeLock(data)  # or somebody might begin to listen there just now
    lock.take()
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


def disk(home: Path) -> Iterator[Finding]:
    data = kept_in(home)
    place = _nearest(data)
    free = shutil.disk_usage(place).free
    says, fix = f"{_size(free)} free", f"free some space on the disk of {place}"
    files = os.statvfs(place)
    if free < DISK_FAIL_BYTES:
        yield Finding("Disk", "FAIL", says, fix)
        return
    if files.f_files and files.f_favail < FILES_FAIL:
        says = f"{says}, but the disk has room for {files.f_favail} more files only"
        yield Finding("Disk", "FAIL", says, f"remove files that nobody needs on the disk of {place} (see df -i)")
        return
    few = bool(files.f_files) and files.f_favail < FILES_WARN
    low = free < DISK_WARN_BYTES or few
    yield Finding("Disk", "warn" if low else "ok", says, fix if low else "")
    if kind := _is_elsewhere(place):
        says = f"{place} lies on a disk of another machine ({kind}), on which databases can be damaged"
        yield Finding("Disk", "warn", says, "keep the home on a disk of this machine: --home, or state.data_dir")
    if place == data and os.access(place, os.W_OK):
        yield _syncing(place)


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.0f} MB"


def _syncing(place: Path) -> Finding:
    """Every turn waits for the disk to have what was said."""
    times = []
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            for _ in range(SYNCS):
                began = time.perf_counter()
                file.write(bytes(4096))
                file.flush()
                os.fsync(file.fileno())
                times.append(time.perf_counter() - began)
    except OSError as error:
        return Finding("Disk", "FAIL", f"nothing can be written to {place}: {error.strerror}", "free some space there")
    took_s = statistics.median(times)
    says = f"4 kB are safe on it after {took_s * 1000:.1f} ms"
    if took_s > SYNC_SLOW_S:
        return Finding(
            "Disk", "warn", f"{says}, for which every turn waits", "use a faster disk: --home, state.data_dir"
        )
    return Finding("Disk", "ok", says)


def _nearest(path: Path) -> Path:
    return next(one for one in (path, *path.parents) if one.exists())


def _is_elsewhere(place: Path) -> str:
    """The kind of a network's file system, where it is one."""
    try:
        rows = [line.split() for line in MOUNTS.read_text().splitlines()]
    except OSError:  # not Linux
        return ""
    real = place.resolve()
    under = [(row[1].replace("\\040", " "), row[2]) for row in rows if len(row) > 2]
    fitting = [(where, kind) for where, kind in under if real.is_relative_to(where)]
    kind = max(fitting, key=lambda one: len(one[0]), default=("", ""))[1]
    return kind if kind.startswith(_ELSEWHERE) else ""


# --- its databases -------------------------------------------------------------------------------


def databases(home: Path) -> Iterator[Finding]:
    """Every workspace's, whole, so this takes a moment where they are large."""
    data = kept_in(home)
    paths = sorted((data / "workspaces").glob("*/workspace.db"))
    if not paths:
        yield Finding("Database", "ok", "none yet")
    for path in paths:
        name = path.parent.name
        yield _database(path, "" if len(paths) == 1 else f"{name}: ")


def _database(path: Path, about: str) -> Finding:
    from mainstay.store.sqlite.database import connect, migrations, named

    how = f"stop Mainstay, move {path} away, and put a backup in its place; or choose another home"
    try:
        with named(str(path)):
            db = connect(str(path), busy_s=5.0, read_only=True)
            try:
                said = db.execute("PRAGMA quick_check(1)").fetchall()[0][0]
                version = db.pragma("user_version")
            finally:
                db.close()
    except MainstayError as error:
        return Finding("Database", "FAIL", f"{about}{error}", how)
    if said != "ok":
        return Finding("Database", "FAIL", f"{path} is damaged: {said}", how)
    if version > len(migrations()):
        return Finding("Database", "FAIL", f"{path} was written by a newer release", "use that release")
    return Finding("Database", "ok", f"{about}{path.stat().st_size / 1e6:.1f} MB, sound")


# --- its time ------------------------------------------------------------------------------------


async def clock(home: Path) -> list[Finding]:
    now = time.time()
    shown = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(now))
    if not RELEASED < now < LATE:
        return [Finding("Clock", "FAIL", f"it says {shown}", _CLOCK)]
    if said := _steady():
        return [Finding("Clock", "FAIL", said, "restart the machine; if it is a virtual one, see its clock source")]
    try:
        async with reading(home) as store:
            newest = next(iter(await store.sessions(limit=1)), None)
    except MainstayError as error:
        return [Finding("Store", "FAIL", str(error), "restore a backup, or choose another home")]
    if newest is not None and newest.updated / 1000 > now + 60:
        return [Finding("Clock", "warn", f"it says {shown}, but a session was written later than that", _CLOCK)]
    return [Finding("Clock", "ok", shown)]


def _steady() -> str:
    """The clock that bounds are counted by goes on, and never back."""
    before = first = time.monotonic()
    for _ in range(1000):
        now = time.monotonic()
        if now < before:
            return "the machine's monotonic clock went backwards"
        before = now
    time.sleep(0.002)
    return "" if time.monotonic() > first else "the machine's monotonic clock stands still"
