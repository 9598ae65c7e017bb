"""What a Matrix account keeps between two runs: which device it is, and how far it has read."""

from __future__ import annotations

import os
import secrets

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.core.workers import in_thread

BYTES_MAX = 1024 * 1024
TOLD_MAX = 1_000
INVITATIONS_MAX = 200


class Kept(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Of one account on one homeserver; for another it is worth nothing."""

    homeserver: str = ""
    user: str = ""  # as it is configured
    id: str = ""  # and as the homeserver knows it
    device: str = ""
    token: str = ""  # of that device, where we logged in ourselves
    since: str = ""  # everything before it has been heard
    told: list[str] = []  # rooms that were told that we cannot read what is encrypted
    invitations: dict[str, str] = {}  # rooms that somebody asked us to, who was not welcome then


class KeptFile:
    """A small file that nobody else may read."""

    def __init__(self, path: str) -> None:
        self._path = path

    def load(self) -> Kept:
        """Nothing if there is none. Raises ConfigError if it is there and cannot be read: to begin anew would lose
        what was said meanwhile, and somebody should know."""
        try:
            with open(self._path, "rb") as file:
                return msgspec.json.decode(file.read(BYTES_MAX), type=Kept)
        except FileNotFoundError:
            return Kept()
        except (OSError, msgspec.MsgspecError, UnicodeError) as error:
            raise ConfigError(f"{self._path} cannot be read ({error}); without it the account begins anew") from None

    async def save(self, kept: Kept) -> None:
        """On disk when it returns. Raises OSError."""
        data = msgspec.json.encode(kept)
        await in_thread(lambda: self._write(data))

    def _write(self, data: bytes) -> None:
        os.makedirs(os.path.dirname(self._path) or ".", mode=0o700, exist_ok=True)
        aside = f"{self._path}.{secrets.token_hex(4)}"
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
