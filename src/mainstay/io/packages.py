"""Packages as a folder keeps them: one command at a time changes it, trees are moved to their place whole, and a hash
says what the files were.

Beside the packages lies a lock file that names each with its hash. Whoever is killed half-way leaves, in a folder
aside, the very tree that the lock names: it is found there and put in its place.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mainstay.core.errors import ConfigError
from mainstay.core.remove import remove_tree
from mainstay.trust.guards.lines import one_line

LOCK = "lock.json"
FILES_MAX = 50_000
# Made by tools beside the files that count. `.bin` holds links to programs of other packages.
LEFT_OUT = frozenset(
    {
        ".git",
        ".hg",
        ".svn",
        "__pycache__",
        ".pytest_cache",
        ".mypy_cache",
        ".ruff_cache",
        ".DS_Store",
        "__MACOSX",
        ".bin",
    }
)
OLD, NEW = "old-", "new-"  # before the name of what was in its place, or is to be; of one length
_ASIDE = ".aside-"
_CHUNK = 1024 * 1024

Wanted = Callable[[str], str]  # a name -> the hash that the lock has of it, "" if it has none


# --- the lock file -------------------------------------------------------------------------------


def read_lock_file(folder: Path, bytes_max: int) -> bytes | None:
    """None if there is none; one byte more than `bytes_max` if it is too large. Raises ConfigError."""
    path = folder / LOCK
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            return file.read(bytes_max + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{one_line(str(path))} cannot be read: {error.strerror}") from None


def write_lock_file(folder: Path, data: bytes) -> None:
    """Replaced in one step: whoever reads sees the old one or the new one."""
    temporary = folder / f".{LOCK}.new"
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, folder / LOCK)
    sync_folder(folder)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)


# --- changing ------------------------------------------------------------------------------------


@contextmanager
def changing(folder: Path, what: str) -> Iterator[None]:
    """One at a time, whoever else is adding or removing. `what`: a plugin, a skill."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(folder / ".changing", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(f"{one_line(str(folder))} cannot be changed: {error.strerror}") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"another command is adding or removing {what} just now; try again") from None
        yield
    finally:
        os.close(handle)


@contextmanager
def aside(folder: Path, wanted: Wanted) -> Iterator[Path]:
    """A folder on the same disk, for what is not in its place yet, or no longer. Gone afterwards, with whatever a
    process that was killed has left."""
    made = None
    try:
        for left in folder.glob(f"{_ASIDE}*"):
            put_back(left, folder, wanted)
            remove_tree(left)
        made = Path(tempfile.mkdtemp(prefix=_ASIDE, dir=folder))
        yield made
    except OSError as error:
        raise ConfigError(f"{one_line(str(folder))} cannot be changed: {error.strerror}") from None
    finally:
        if made is not None:
            remove_tree(made)


def recovered(folder: Path, what: str, wanted: Wanted) -> bool:
    """Something that a killed command had not moved to its place, or had moved away from it, is there now."""
    left = list(folder.glob(f"{_ASIDE}*"))
    if not left:
        return False
    try:
        with changing(folder, what):
            return sum(put_back(one, folder, wanted) for one in left) > 0
    except (ConfigError, OSError):  # a command is at work just now
        return False


def put_back(left: Path, folder: Path, wanted: Wanted) -> bool:
    """What the lock names counts."""
    done = False
    for kept in sorted((*left.glob(f"{OLD}*"), *left.glob(f"{NEW}*"))):
        name = kept.name[len(OLD) :]
        place, pinned = folder / name, wanted(name)
        if pinned and standing(kept) == pinned != standing(place):
            if os.path.lexists(place):
                os.rename(place, left / f"unfinished-{name}")
            os.rename(kept, place)
            sync_folder(folder)
            done = True
    return done


def standing(place: Path) -> str:
    """The hash of what is there, or where it leads if it is a link; "" if there is nothing that could be pinned."""
    try:
        return f"link:{os.readlink(place)}" if place.is_symlink() else digest_of(place)
    except (ConfigError, OSError):
        return ""


def sync_folder(folder: Path) -> None:
    """A rename is on disk once its folder is."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """All of it is on disk: a tree that is moved to its place is whole even if the power goes."""
    for above, _, names in os.walk(folder):
        for name in names:
            handle = os.open(os.path.join(above, name), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        sync_folder(Path(above))


# --- what the files were -------------------------------------------------------------------------


def digest_of(folder: Path) -> str:
    """Over the sorted names of all files, whether each can be run, and what is in it. Raises ConfigError for links,
    for whatever else is no file, and for names that are not UTF-8: no lock could hold them."""
    whole = hashlib.sha256()
    for path, executable, inner in file_digests(folder):
        whole.update(f"{len(path.encode())}:{path} {'x' if executable else '-'} {inner}\n".encode())
    return f"sha256:{whole.hexdigest()}"


def file_digests(folder: Path) -> Iterator[tuple[str, bool, str]]:
    """Sorted: the path of a file, whether it can be run, and the hash of what is in it. Raises as `digest_of`."""
    for path, executable in sorted(_files(folder)):
        inner = hashlib.sha256()
        with open(folder / path, "rb", opener=_without_waiting) as file:
            while chunk := file.read(_CHUNK):
                inner.update(chunk)
        yield path, executable, inner.hexdigest()


def _files(folder: Path) -> Iterator[tuple[str, bool]]:
    todo, count = [""], 0
    while todo:
        above = todo.pop()
        with os.scandir(folder / above) as listed:
            for one in listed:
                count += 1
                if count > FILES_MAX:
                    raise ConfigError(f"there are more than {FILES_MAX} files in {one_line(str(folder))}")
                path = f"{above}{one.name}"
                if not _is_utf8(one.name):
                    raise ConfigError(f"the name of {one_line(path)} is not UTF-8")
                mode = one.stat(follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode):
                    todo.append(f"{path}/")
                elif stat.S_ISREG(mode):
                    yield path, bool(mode & stat.S_IXUSR)
                else:
                    raise ConfigError(f"{one_line(path)} is a link or something else that is no file")


def _is_utf8(name: str) -> bool:
    try:
        os.fsencode(name).decode()
    except UnicodeDecodeError:
        return False
    return True
