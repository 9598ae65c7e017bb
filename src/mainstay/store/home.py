"""The home directory: made private, checked, and owned by one process at a time."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import sys
import time
from pathlib import Path

from mainstay.core.errors import HomeTaken, HomeUnusable

LOCK = "lock"


def prepare(home: Path) -> None:
    """Make the home if need be, and see that nobody else can read it."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = home.stat()
        if not stat.S_ISDIR(found.st_mode):
            raise HomeUnusable(f"{home} is not a directory")
        if found.st_uid != os.geteuid():
            raise HomeUnusable(f"{home} belongs to another user; choose another --home or change its owner")
        if found.st_mode & 0o077:
            home.chmod(0o700)
        if not os.access(home, os.W_OK | os.X_OK):
            raise HomeUnusable(f"{home} cannot be written; check its permissions and whether its disk is read-only")
    except OSError as error:
        raise HomeUnusable(f"{home} cannot be used: {error.strerror or error}") from error


def make_workspace(home: Path, workspace: str = "default") -> Path:
    """The workspace's folder, as private as the home; returns its database."""
    path = workspace_path(home, workspace)
    try:
        for folder in (path.parent.parent, path.parent):
            folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise HomeUnusable(f"{path.parent} cannot be made: {error.strerror or error}") from error
    return path


def workspace_path(home: Path, workspace: str = "default") -> Path:
    return home / "workspaces" / workspace / "workspace.db"


class HomeLock:
    """Held by whoever owns the home. It is the kernel's lock, so it ends with its process, however that ends;
    the file's content only says who."""

    def __init__(self, home: Path) -> None:
        self._path = home / LOCK
        self._fd: int | None = None

    def take(self) -> None:
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise HomeUnusable(f"{self._path} cannot be opened: {error.strerror or error}") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise HomeUnusable(f"{self._path} cannot be locked: {error.strerror or error}") from error
            raise HomeTaken(f"{self._path.parent} is in use by {describe(owner(self._path.parent))}") from None
        os.ftruncate(fd, 0)
        command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]).strip()[:80] or "python"
        os.write(fd, json.dumps({"pid": os.getpid(), "command": command, "since": int(time.time())}).encode())
        self._fd = fd

    def release(self) -> None:
        if self._fd is not None:
            os.ftruncate(self._fd, 0)  # what was asked for is nobody's business any more
            os.close(self._fd)
            self._fd = None


def owner(home: Path) -> dict[str, object]:
    """Who holds the home, or held it last."""
    try:
        found = json.loads((home / LOCK).read_text() or "{}")
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def is_owned(home: Path) -> bool:
    """Whether a process holds the home right now."""
    try:
        fd = os.open(home / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(fd)


def describe(who: dict[str, object]) -> str:
    if "pid" not in who:
        return "another process"
    since = time.strftime("%H:%M:%S", time.localtime(float(str(who.get("since", 0)))))
    return f"process {who['pid']} ({who.get('command', 'unknown')}, since {since}); stop it, or choose another --home"
