"""Home directory: creates it with private permissions, checks it, and locks it for one process at a time."""

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

LOCK_FILE = "lock"
REMOVED_FOLDER = "removed"  # what was removed or replaced; nothing is deleted


def check_path_encoding(path: Path) -> None:
    """Raise HomeUnusable for a path that is not UTF-8, which SQLite cannot open."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise HomeUnusable(f"the path {str(path)!r} is not UTF-8; choose another folder") from None


def prepare_home(home: Path) -> None:
    """Create the home if it does not exist and remove other users' permissions; raises HomeUnusable."""
    check_path_encoding(home)
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = home.stat()
        if not stat.S_ISDIR(status.st_mode):
            raise HomeUnusable(f"{home} is not a directory")
        if status.st_uid != os.geteuid():
            raise HomeUnusable(f"{home} belongs to another user; choose another --home or change its owner")
        if status.st_mode & 0o077:
            home.chmod(0o700)
        if not os.access(home, os.W_OK | os.X_OK):
            raise HomeUnusable(f"{home} cannot be written; check its permissions and whether its disk is read-only")
    except OSError as error:
        raise HomeUnusable(f"{home} cannot be used: {error.strerror or error}") from error


def create_workspace_folder(home: Path, workspace: str = "default") -> Path:
    """Create the workspace's folder, as private as the home, and return its path."""
    path = workspace_folder(home, workspace)
    try:
        for folder in (path.parent, path):
            folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise HomeUnusable(f"{path} cannot be created: {error.strerror or error}") from error
    return path


def workspace_folder(home: Path, workspace: str = "default") -> Path:
    return home / "workspaces" / workspace


class HomeLock:
    """Lock file of the home, held by its owner process. It is a kernel lock (flock), so it ends with that process,
    even if it is killed; the file's content only describes the owner."""

    def __init__(self, home: Path) -> None:
        self._path = home / LOCK_FILE
        self._fd: int | None = None

    def acquire(self) -> None:
        """Lock the home; raises HomeTaken if another process has locked it. Does not block."""
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
            raise HomeTaken(
                f"{self._path.parent} is in use by {describe_owner(read_lock_owner(self._path.parent))}"
            ) from None
        command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]).strip()[:80] or "python"
        try:
            os.ftruncate(fd, 0)
            os.write(fd, json.dumps({"pid": os.getpid(), "command": command, "since": int(time.time())}).encode())
        except OSError as error:
            os.close(fd)
            advice = "; free some space on its disk" if error.errno == errno.ENOSPC else ""
            raise HomeUnusable(f"{self._path} cannot be written: {error.strerror or error}{advice}") from error
        self._fd = fd

    def release(self) -> None:
        if self._fd is not None:
            os.ftruncate(self._fd, 0)  # the command line may contain a prompt; do not keep it
            os.close(self._fd)
            self._fd = None


def read_lock_owner(home: Path) -> dict[str, object]:
    """Return pid, command and start time of the process that holds the lock, or held it last; empty if unknown."""
    try:
        content = json.loads((home / LOCK_FILE).read_text() or "{}")
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def is_home_locked(home: Path) -> bool:
    """Return whether a process holds the home's lock right now."""
    try:
        fd = os.open(home / LOCK_FILE, os.O_RDWR | os.O_CLOEXEC)
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


def describe_stale_config(config_file: Path, data: Path) -> str:
    """Return a warning if the configuration changed since the process that owns the home read it; else "".

    The lock file's time is when the process started or last reloaded its configuration.
    """
    if not is_home_locked(data):
        return ""
    try:
        changed = config_file.stat().st_mtime > (data / LOCK_FILE).stat().st_mtime
    except OSError:
        return ""
    if not changed:
        return ""
    owner = read_lock_owner(data).get("pid")
    return f"{config_file} has changed, but process {owner} still uses the earlier configuration"


def describe_owner(owner: dict[str, object]) -> str:
    if "pid" not in owner:
        return "another process"
    since = time.strftime("%H:%M:%S", time.localtime(float(str(owner.get("since", 0)))))
    return (
        f"process {owner['pid']} ({owner.get('command', 'unknown')}, since {since}); stop it, or choose another --home"
    )
