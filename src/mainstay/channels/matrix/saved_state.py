"""State of a Matrix channel that persists across restarts: device, token and sync position."""

from __future__ import annotations

import os
import secrets
import threading
from functools import partial

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.core.worker_threads import run_in_thread

STATE_BYTES_MAX = 1024 * 1024
ENCRYPTION_NOTICES_MAX = 1_000
INVITATIONS_MAX = 200


class MatrixSavedState(msgspec.Struct, kw_only=True, omit_defaults=True, rename={"encryption_notices": "told"}):
    """State of one account on one homeserver; not valid for any other."""

    homeserver: str = ""
    user: str = ""  # as configured
    id: str = ""  # user id on the homeserver
    device: str = ""
    token: str = ""  # of the device, if we logged in with a password
    since: str = ""  # sync position: all earlier events were handled
    encryption_notices: list[str] = []  # rooms in which the notice about encryption was posted
    invitations: dict[str, str] = {}  # room -> inviter, who has not been accepted so far


class MatrixStateFile:
    """A JSON file that only its owner may read; written atomically."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._saves = 0  # that were begun
        self._saved = 0  # number of the newest that is on disk

    def load(self) -> MatrixSavedState:
        """Return the saved state, or an empty one if there is no file. Raises ConfigError if the file cannot be read:
        starting over would lose the messages since the last run, which the owner should decide."""
        try:
            with self._lock, open(self._path, "rb") as file:
                return msgspec.json.decode(file.read(STATE_BYTES_MAX), type=MatrixSavedState)
        except FileNotFoundError:
            return MatrixSavedState()
        except (OSError, msgspec.MsgspecError, UnicodeError) as error:
            raise ConfigError(
                f"{self._path} cannot be read ({error}); repair it, or delete it to start over from now"
            ) from None

    async def save(self, state: MatrixSavedState) -> None:
        """Write the state; it is on disk when this returns. Raises OSError.

        A cancelled call may go on in its thread, also after the channel was started again: it never replaces a later
        state.
        """
        data = msgspec.json.encode(state)
        self._saves += 1
        await run_in_thread(partial(self._write_if_newest, data, self._saves))

    def _write_if_newest(self, data: bytes, number: int) -> None:
        with self._lock:
            if number > self._saved:
                self._write(data)
                self._saved = number

    def _write(self, data: bytes) -> None:
        os.makedirs(os.path.dirname(self._path) or ".", mode=0o700, exist_ok=True)
        temporary = f"{self._path}.{secrets.token_hex(4)}"
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
