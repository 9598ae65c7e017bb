"""`lock.json`: which plugins were added, what each of them was granted, and what its files were then."""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.core.outside import Needs
from mainstay.guards.lines import one_line
from mainstay.plugins.manifest import Given, Name

FILE = "lock.json"
BYTES_MAX = 1024 * 1024
FILES_MAX = 50_000
_CHUNK = 1024 * 1024


class Installed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plugin that the owner has added: the very files that were shown, and no other rights than were shown."""

    name: Name
    version: str
    digest: str  # "sha256:…" over all files
    needs: Needs = Needs()
    env: tuple[str, ...] = ()  # variables and secrets of the owner's that it may be given
    context: tuple[Given, ...] = ()
    added: str = ""  # when, as ISO 8601 in UTC


class _Lock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    plugins: tuple[Installed, ...] = ()
    format: int = 1


def read_lock(plugins_folder: Path) -> dict[str, Installed]:
    """By name. Raises ConfigError if it cannot be read."""
    path = plugins_folder / FILE
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            data = file.read(BYTES_MAX + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{one_line(str(path))} cannot be read: {error.strerror}") from None
    try:
        lock = msgspec.json.decode(data, type=_Lock)
    except (msgspec.DecodeError, RecursionError):
        lock = None
    if lock is None or lock.format != 1 or len(data) > BYTES_MAX:
        raise ConfigError(f"{one_line(str(path))} is damaged, or of a newer release; add the plugins again without it")
    return {one.name: one for one in lock.plugins}


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)


def write_lock(plugins_folder: Path, plugins: dict[str, Installed]) -> None:
    """Replaced in one step: whoever reads sees the old one or the new one."""
    lock = _Lock(tuple(plugins[name] for name in sorted(plugins)))
    temporary = plugins_folder / f".{FILE}.new"
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(lock), indent=2) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, plugins_folder / FILE)
    sync_folder(plugins_folder)


def sync_folder(folder: Path) -> None:
    """A rename is on disk once its folder is."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def changing(plugins_folder: Path) -> Iterator[None]:
    """One at a time, whoever else is adding or removing plugins."""
    try:
        plugins_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(plugins_folder / ".changing", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(f"{one_line(str(plugins_folder))} cannot be changed: {error.strerror}") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError("another command is adding or removing a plugin just now; try again") from None
        yield
    finally:
        os.close(handle)


# --- what the files were -------------------------------------------------------------------------


def digest_of(folder: Path) -> str:
    """Over the sorted names of all files, whether each can be run, and what is in it. Raises ConfigError for links
    and for whatever else is no file."""
    whole = hashlib.sha256()
    for path, executable in sorted(_files(folder)):
        inner = hashlib.sha256()
        with open(folder / path, "rb", opener=_without_waiting) as file:
            while chunk := file.read(_CHUNK):
                inner.update(chunk)
        whole.update(f"{len(path.encode())}:{path} {'x' if executable else '-'} {inner.hexdigest()}\n".encode())
    return f"sha256:{whole.hexdigest()}"


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
                mode = one.stat(follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode):
                    todo.append(f"{path}/")
                elif stat.S_ISREG(mode):
                    yield path, bool(mode & stat.S_IXUSR)
                else:
                    raise ConfigError(f"{one_line(path)} is a link or something else that is no file")
