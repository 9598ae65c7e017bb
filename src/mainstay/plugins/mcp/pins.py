"""What each server said its tools were when it was trusted: a file that is written whole or not at all.

A server's descriptions are read by the model. They are taken as they were on the first day, and anything else is
somebody's decision: the owner's.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

import msgspec

from mainstay.core.errors import HomeUnusable
from mainstay.plugins.mcp.nouns import Change, Listed

FILE = "mcp.json"
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
    """The file `mcp.json` of a workspace. Of a file that cannot be read nothing is trusted, and it is left alone until
    something is pinned anew."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._raw: dict[str, msgspec.Raw] = {}
        self.trouble = ""
        self._load()

    def _load(self) -> None:
        try:
            if self._path.stat().st_size > FILE_BYTES_MAX:
                raise ValueError("it is too large")
            self._raw = msgspec.json.decode(self._path.read_bytes(), type=_File).servers
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:  # a DecodeError is one
            self.trouble = f"{self._path} cannot be read ({error}): no MCP server is trusted until it is asked again"

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
        self._raw[name] = msgspec.Raw(msgspec.json.encode(pinned))
        self._write()

    def drop(self, name: str) -> None:
        if self._raw.pop(name, None) is not None:
            self._write()

    def _write(self) -> None:
        aside = self._path.with_name(f".{secrets.token_hex(8)}.mainstay")
        data = msgspec.json.format(msgspec.json.encode(_File(self._raw)), indent=1)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
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
        except OSError as error:
            raise HomeUnusable(f"{self._path} cannot be written: {error.strerror or error}") from error
