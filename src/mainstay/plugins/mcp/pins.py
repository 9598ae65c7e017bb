"""What each server said its tools were when it was trusted: a file that is written whole or not at all.

A server's descriptions are read by the model. They are taken as they were on the first day, and anything else is
somebody's decision: the owner's.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from mainstay.core.errors import HomeUnusable
from mainstay.plugins.mcp.nouns import Change, Listed

FILE = "mcp.json"
LOCK = "mcp.lock"
FILE_BYTES_MAX = 64 * 1024 * 1024


class Pinned(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A server, as it was trusted."""

    fingerprint: str
    tools: tuple[Listed, ...] = ()
    resources: bool = False  # it has some
    prompts: bool = False


class _File(msgspec.Struct, frozen=True):
    servers: dict[str, msgspec.Raw] = {}


def hash_of(said: object) -> str:
    return hashlib.sha256(msgspec.json.encode(said, order="sorted")).hexdigest()


def compare(old: tuple[Listed, ...], new: tuple[Listed, ...]) -> list[Change]:
    """In the order of what there was, then of what has come."""
    before, after = ({tool.name: tool for tool in tools} for tools in (old, new))
    names = dict.fromkeys((*before, *after))
    pairs = ((name, before.get(name), after.get(name)) for name in names)
    return [
        Change(name=name, old=was, new=now)
        for name, was, now in pairs
        if was is None or now is None or was.hash != now.hash
    ]


class Pins:
    """The file `mcp.json` of a workspace, which other processes write as well: it is read again before it is changed.
    Of a file that cannot be read nothing is trusted, and it is left alone until something is pinned anew."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self.trouble = ""
        self._stamp = self._look()
        self._raw = self._load()

    def _look(self) -> tuple[int, ...]:
        """Another whenever the file is."""
        try:
            found = self._path.stat()
        except OSError:
            return ()
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _load(self) -> dict[str, msgspec.Raw]:
        try:
            if self._path.stat().st_size > FILE_BYTES_MAX:
                raise ValueError("it is too large")
            return msgspec.json.decode(self._path.read_bytes(), type=_File).servers
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:  # a DecodeError is one
            self.trouble = f"{self._path} cannot be read ({error}): no MCP server is trusted until it is asked again"
        return {}

    def look_again(self) -> None:
        """If somebody has changed the file since, what they wrote is now what is known."""
        stamp = self._look()
        if stamp != self._stamp:
            self._stamp, self._raw = stamp, self._load()

    def get(self, name: str, fingerprint: str) -> Pinned | None:
        """None if it was never trusted, or was another server then."""
        raw = self._raw.get(name)
        if raw is None:
            return None
        try:
            pinned = msgspec.json.decode(raw, type=Pinned)
        except ValueError:
            return None
        return pinned if pinned.fingerprint == fingerprint else None

    def put(self, name: str, pinned: Pinned) -> None:
        """On disk when it returns; raises HomeUnusable."""
        with self._alone():
            self._write({**self._load(), name: msgspec.Raw(msgspec.json.encode(pinned))})

    def drop(self, name: str) -> None:
        if not self._path.exists():
            return
        with self._alone():
            found = self._load()
            if found.pop(name, None) is not None:
                self._write(found)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other process reads it to change it. The lock is another file, as this one is put in place whole."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(self._path.with_name(LOCK), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise HomeUnusable(f"{self._path} cannot be written: {error.strerror or error}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _write(self, servers: dict[str, msgspec.Raw]) -> None:
        aside = self._path.with_name(f".{secrets.token_hex(8)}.mainstay")
        data = msgspec.json.format(msgspec.json.encode(_File(servers)), indent=1)
        try:
            file = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                with open(file, "wb") as out:
                    out.write(data)
                    out.flush()
                    os.fsync(out.fileno())
                os.replace(aside, self._path)
            except OSError:
                os.unlink(aside)
                raise
            self._stamp, self._raw = self._look(), servers
        except OSError as error:
            raise HomeUnusable(f"{self._path} cannot be written: {error.strerror or error}") from error
