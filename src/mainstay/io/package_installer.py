"""Package folders of skills and plugins: lock file with hashes, exclusive changes, staged and atomic installation.

The lock file names each package with its hash. A command that is killed half-way leaves the tree that the lock file
names in a staging folder; recovery finds it there and moves it to its place.
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
from typing import Generic, TypeVar

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.core.tree_removal import remove_tree
from mainstay.guards.line_escaping import one_line
from mainstay.io.archives import ArchiveLimits, ArchiveRefused, unpack

LOCK_FILE = "lock.json"
FILES_MAX = 50_000
# Created by development tools, not part of a package. `.bin` contains links to programs of other packages.
EXCLUDED_NAMES = frozenset(
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
# prefixes in the staging folder: the replaced tree, and the new one; both of the same length
OLD_PREFIX, NEW_PREFIX = ("old-", "new-")
_STAGING_PREFIX = ".aside-"
_CHUNK_BYTES = 1024 * 1024

LockT = TypeVar("LockT")


class PackageKind(msgspec.Struct, Generic[LockT], frozen=True, kw_only=True):
    """What differs between the folder of skills and that of plugins."""

    noun: str  # for messages: "skill"
    lock_type: type[LockT]  # decoding it checks everything; without arguments it is an empty lock
    lock_bytes_max: int
    damage_remedy: str  # what the owner can do about a lock file that cannot be read
    list_pins: Callable[[LockT], dict[str, str]]  # the expected state of each package by name, as `compute_pin` has it


# --- the lock file -------------------------------------------------------------------------------


def read_lock_file(folder: Path, kind: PackageKind[LockT]) -> LockT:
    """Read the lock file; without one, an empty lock. Raises ConfigError."""
    data = _read_lock_bytes(folder, kind)
    if data is None:
        return kind.lock_type()
    try:
        if len(data) <= kind.lock_bytes_max:
            return msgspec.json.decode(data, type=kind.lock_type)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        pass
    path = one_line(str(folder / LOCK_FILE))
    raise ConfigError(f"{path} is damaged or was written by a newer release; {kind.damage_remedy}")


def write_lock_file(folder: Path, kind: PackageKind[LockT], lock: LockT) -> None:
    """Replace the lock file atomically: a reader sees the old one or the new one. On failure the old one is restored,
    even if only the sync to disk failed. Raises ConfigError if the new one is too large, or not UTF-8."""
    try:
        data = msgspec.json.format(msgspec.json.encode(lock), indent=2) + b"\n"
    except UnicodeEncodeError as error:
        raise ConfigError(f"{one_line(str(error.object))[:200]} is not UTF-8 and cannot be locked; rename it") from None
    if len(data) > kind.lock_bytes_max:
        raise ConfigError(f"too many {kind.noun}s are installed in {one_line(str(folder))}; remove some")
    old = _read_lock_bytes(folder, kind)
    try:
        _replace_lock_bytes(folder, data)
    except BaseException:
        if old is None:
            (folder / LOCK_FILE).unlink(missing_ok=True)
        else:
            _replace_lock_bytes(folder, old)
        raise


def _read_lock_bytes(folder: Path, kind: PackageKind[LockT]) -> bytes | None:
    """Return the content, one byte more than the limit if it is too large; None if there is no file."""
    path = folder / LOCK_FILE
    try:
        with open(path, "rb", opener=_open_nonblocking) as file:
            return file.read(kind.lock_bytes_max + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{one_line(str(path))} cannot be read: {error.strerror}") from None


def _replace_lock_bytes(folder: Path, data: bytes) -> None:
    temporary = folder / f".{LOCK_FILE}.new"
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, folder / LOCK_FILE)
    sync_folder(folder)


def _open_nonblocking(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)


# --- changing ------------------------------------------------------------------------------------


@contextmanager
def change_packages(folder: Path, kind: PackageKind[LockT]) -> Iterator[Path]:
    """Hold the exclusive lock of a package folder, and yield a staging folder on the same disk, which is removed
    afterwards. Recovers and removes what killed commands left. Raises ConfigError."""
    staging = None
    with _exclusive_lock(folder, kind):
        try:
            for left in folder.glob(f"{_STAGING_PREFIX}*"):
                _restore_from_staging(left, folder, kind)
                remove_tree(left)
            staging = Path(tempfile.mkdtemp(prefix=_STAGING_PREFIX, dir=folder))
            yield staging
        except OSError as error:
            raise ConfigError(f"{one_line(str(folder))} cannot be changed: {error.strerror}") from None
        finally:
            if staging is not None:
                remove_tree(staging)


@contextmanager
def _exclusive_lock(folder: Path, kind: PackageKind[LockT]) -> Iterator[None]:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(folder / ".changing", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(f"{one_line(str(folder))} cannot be changed: {error.strerror}") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"another command is adding or removing a {kind.noun}; try again when it is done"
            ) from None
        yield
    finally:
        os.close(handle)


def recover_interrupted(folder: Path, kind: PackageKind[LockT]) -> bool:
    """Move packages that a killed command left in a staging folder to their place; return whether there were any."""
    staging_folders = list(folder.glob(f"{_STAGING_PREFIX}*"))
    if not staging_folders:
        return False
    try:
        with _exclusive_lock(folder, kind):
            return sum(_restore_from_staging(staging, folder, kind) for staging in staging_folders) > 0
    except (ConfigError, OSError):  # another command holds the lock
        return False


def _restore_from_staging(staging: Path, folder: Path, kind: PackageKind[LockT]) -> bool:
    """Move each tree whose hash is the one in the lock file to its place; return whether there was any."""
    restored = False
    pins = kind.list_pins(read_lock_file(folder, kind))
    for tree in sorted((*staging.glob(f"{OLD_PREFIX}*"), *staging.glob(f"{NEW_PREFIX}*"))):
        name = tree.name[len(OLD_PREFIX) :]
        target, pinned = folder / name, pins.get(name)
        if pinned and compute_pin(tree) == pinned != compute_pin(target):
            if os.path.lexists(target):
                os.rename(target, staging / f"unfinished-{name}")
            os.rename(tree, target)
            sync_folder(folder)
            restored = True
    return restored


def unpack_package(
    source: Path,
    target: Path,
    limits: ArchiveLimits,
    *,
    shown_as: str,
    excluded_names: frozenset[str] = EXCLUDED_NAMES,
    omitted_links: list[str] | None = None,
) -> None:
    """Unpack an archive, or copy a folder, into the new folder `target`. `shown_as` is the name of the source in
    messages. `omitted_links` receives the paths of links, which are refused without it. Raises ConfigError."""
    target.mkdir(mode=0o755)
    try:
        unpack(source, target, limits, excluded_names=excluded_names, omitted_links=omitted_links)
    except ArchiveRefused as error:
        raise ConfigError(f"{one_line(shown_as)} cannot be installed: {error}") from None


def move_in(new: Path, target: Path, staging: Path) -> None:
    """Move a synced tree to its place, and the tree that is there to the staging folder. Two renames: a process killed
    between them leaves nothing that would verify and never a mixture, and recovery finds the tree in `staging`."""
    if os.path.lexists(target):
        os.rename(target, staging / f"{OLD_PREFIX}{target.name}")
    os.rename(new, target)


def move_out(new: Path, target: Path, staging: Path) -> None:
    """Undo `move_in`, also if it was done in part."""
    old = staging / f"{OLD_PREFIX}{target.name}"
    if not os.path.lexists(new) and os.path.lexists(target):
        os.rename(target, new)
    if os.path.lexists(old):
        os.rename(old, target)


def compute_pin(path: Path) -> str:
    """Return the hash of a package, or `link:` and the target of a symlink; "" if there is nothing to pin."""
    try:
        return f"link:{os.readlink(path)}" if path.is_symlink() else compute_digest(path)
    except (ConfigError, OSError):
        return ""


def sync_folder(folder: Path) -> None:
    """Sync a folder, which makes a rename in it durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Sync all files and folders of a tree, so that it is whole after a power failure once it is moved to its place."""
    for above, _, names in os.walk(folder):
        for name in names:
            handle = os.open(os.path.join(above, name), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        sync_folder(Path(above))


# --- hashes --------------------------------------------------------------------------------------


def compute_digest(folder: Path) -> str:
    """Hash a tree: the sorted paths of all files, whether each is executable, and its content. Raises ConfigError for
    symlinks, special files, and names that are not UTF-8 (the lock file cannot contain them)."""
    whole = hashlib.sha256()
    for path, executable, inner in iter_file_digests(folder):
        whole.update(f"{len(path.encode())}:{path} {'x' if executable else '-'} {inner}\n".encode())
    return f"sha256:{whole.hexdigest()}"


def iter_file_digests(folder: Path) -> Iterator[tuple[str, bool, str]]:
    """Yield the path of each file (sorted), whether it is executable, and its hash. Raises like `compute_digest`."""
    for path, executable in sorted(_iter_files(folder)):
        inner = hashlib.sha256()
        with open(folder / path, "rb", opener=_open_nonblocking) as file:
            while chunk := file.read(_CHUNK_BYTES):
                inner.update(chunk)
        yield path, executable, inner.hexdigest()


def _iter_files(folder: Path) -> Iterator[tuple[str, bool]]:
    pending, count = [""], 0
    while pending:
        above = pending.pop()
        with os.scandir(folder / above) as listed:
            for entry in listed:
                count += 1
                if count > FILES_MAX:
                    raise ConfigError(f"there are more than {FILES_MAX} files in {one_line(str(folder))}")
                path = f"{above}{entry.name}"
                if not _is_utf8(entry.name):
                    raise ConfigError(f"the name of {one_line(path)} is not UTF-8")
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode):
                    pending.append(f"{path}/")
                elif stat.S_ISREG(mode):
                    yield path, bool(mode & stat.S_IXUSR)
                else:
                    raise ConfigError(f"{one_line(path)} is a link or a special file; only regular files are allowed")


def _is_utf8(name: str) -> bool:
    try:
        os.fsencode(name).decode()
    except UnicodeDecodeError:
        return False
    return True
