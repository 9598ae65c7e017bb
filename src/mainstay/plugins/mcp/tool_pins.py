"""Tool pinning: stores each MCP server's tool definitions as they were approved (`mcp.json`).

The model reads a server's tool descriptions, so a server that changes them later could inject instructions (a rug
pull). Only the pinned definitions are offered; a change needs the owner's approval.
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
from mainstay.plugins.mcp.data_types import ListedTool, ToolChange

PINS_FILE = "mcp.json"
PINS_LOCK_FILE = "mcp.lock"
PINS_FILE_BYTES_MAX = 64 * 1024 * 1024


class PinnedServer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A server as it was approved."""

    fingerprint: str  # of its configuration
    tools: tuple[ListedTool, ...] = ()
    resources: bool = False  # True: it offers resources
    prompts: bool = False  # True: it offers prompts


class _PinsFile(msgspec.Struct, frozen=True):
    servers: dict[str, msgspec.Raw] = {}


def hash_definition(definition: object) -> str:
    return hashlib.sha256(msgspec.json.encode(definition, order="sorted")).hexdigest()


def compare_tools(old: tuple[ListedTool, ...], new: tuple[ListedTool, ...]) -> list[ToolChange]:
    """Return the tools that were changed, removed or added: the old list's order first, then new ones."""
    before, after = ({tool.name: tool for tool in tools} for tools in (old, new))
    names = dict.fromkeys((*before, *after))
    pairs = ((name, before.get(name), after.get(name)) for name in names)
    return [
        ToolChange(name=name, old=was, new=now)
        for name, was, now in pairs
        if was is None or now is None or was.hash != now.hash
    ]


class ToolPinStore:
    """The file `mcp.json` of a workspace. Other processes write it too, so it is read again before each change, and
    replaced atomically. If it cannot be read, no server counts as approved, and it is kept until the next approval."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / PINS_FILE
        self.problem = ""
        self._stamp = self._read_stamp()
        self._raw_servers = self._read_servers()

    def _read_stamp(self) -> tuple[int, ...]:
        """Return a stamp that changes whenever the file does."""
        try:
            status = self._path.stat()
        except OSError:
            return ()
        return status.st_ino, status.st_mtime_ns, status.st_size

    def _read_servers(self) -> dict[str, msgspec.Raw]:
        try:
            if self._path.stat().st_size > PINS_FILE_BYTES_MAX:
                raise ValueError("it is too large")
            return msgspec.json.decode(self._path.read_bytes(), type=_PinsFile).servers
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:  # a DecodeError is one
            self.problem = f"{self._path} cannot be read ({error}): every MCP server has to be approved again"
        return {}

    def reload_if_changed(self) -> None:
        """Read the file again if another process has changed it."""
        stamp = self._read_stamp()
        if stamp != self._stamp:
            self._stamp, self._raw_servers = stamp, self._read_servers()

    def get(self, name: str, fingerprint: str) -> PinnedServer | None:
        """Return the approved state; None if the server was never approved, or has another fingerprint now."""
        raw = self._raw_servers.get(name)
        if raw is None:
            return None
        try:
            pinned = msgspec.json.decode(raw, type=PinnedServer)
        except ValueError:
            return None
        return pinned if pinned.fingerprint == fingerprint else None

    def save(self, name: str, pinned: PinnedServer) -> None:
        """Store an approval; on disk when this returns. Raises HomeUnusable."""
        with self._exclusive_lock():
            self._write({**self._read_servers(), name: msgspec.Raw(msgspec.json.encode(pinned))})

    def delete(self, name: str) -> None:
        if not self._path.exists():
            return
        with self._exclusive_lock():
            servers = self._read_servers()
            if servers.pop(name, None) is not None:
                self._write(servers)

    @contextmanager
    def _exclusive_lock(self) -> Iterator[None]:
        """Hold the lock for a read-modify-write. It is a separate file, because `mcp.json` itself is replaced."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(
                self._path.with_name(PINS_LOCK_FILE), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
        except OSError as error:
            raise HomeUnusable(f"{self._path} cannot be written: {error.strerror or error}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _write(self, servers: dict[str, msgspec.Raw]) -> None:
        temporary = self._path.with_name(f".{secrets.token_hex(8)}.mainstay")
        data = msgspec.json.format(msgspec.json.encode(_PinsFile(servers)), indent=1)
        try:
            file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                with open(file, "wb") as out:
                    out.write(data)
                    out.flush()
                    os.fsync(out.fileno())
                os.replace(temporary, self._path)
            except OSError:
                os.unlink(temporary)
                raise
            self._stamp, self._raw_servers = self._read_stamp(), servers
        except OSError as error:
            raise HomeUnusable(f"{self._path} cannot be written: {error.strerror or error}") from error
