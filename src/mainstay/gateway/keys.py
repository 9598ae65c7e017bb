"""API keys: how one is made, and whose it is when a program shows it.

A key is `ms_<id>_<secret>`. The id is public, the secret is told once and kept nowhere: what is kept is a digest of the
whole key. It has 238 bits of chance, so that a plain digest is enough; nobody can try them all.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import string
from collections.abc import Iterable, Iterator

from mainstay.core.people import KEY_PREFIX, REVOKED_MAX, Key

ID_CHARS = 12
SECRET_CHARS = 40
KEYS_MAX = 100_000  # that are not revoked
_IN_ID = string.ascii_lowercase + string.digits
_IN_SECRET = string.ascii_letters + string.digits  # nothing that a double click, a shell or an address cuts
_SHAPE = re.compile(f"{KEY_PREFIX}([a-z0-9]{{{ID_CHARS}}})_[A-Za-z0-9]{{{SECRET_CHARS}}}", re.ASCII)
_NOBODY = hashlib.sha256(b"").hexdigest()  # no key has this digest: none is empty


def new_key() -> tuple[str, str]:
    """The key itself, and its id."""
    id = "".join(secrets.choice(_IN_ID) for _ in range(ID_CHARS))
    secret = "".join(secrets.choice(_IN_SECRET) for _ in range(SECRET_CHARS))
    return f"{KEY_PREFIX}{id}_{secret}", id


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


class Keyring:
    """All keys that there are, by their ids."""

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self._keys = {key.id: key for key in keys}

    def find(self, token: str, now: int) -> Key | None:
        """The key that this is, if it may be used now. An id that is not there takes as long as a wrong secret."""
        shape = _SHAPE.fullmatch(token)
        if shape is None:
            return None
        key = self._keys.get(shape[1])
        same = hmac.compare_digest(digest_of(token), key.digest if key is not None else _NOBODY)
        return key if same and key is not None and usable(key, now) else None

    def get(self, id: str) -> Key | None:
        return self._keys.get(id)

    def put(self, key: Key) -> None:
        self._keys[key.id] = key
        if key.revoked:
            for one in newest_revoked(self._keys.values())[REVOKED_MAX:]:
                del self._keys[one.id]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys.values())

    def of(self, person: str, workspace: str | None = None) -> list[Key]:
        """Those of a person that are not revoked, in a workspace or in all."""
        return [
            key
            for key in self._keys.values()
            if key.person == person and not key.revoked and workspace in (None, key.workspace)
        ]

    @property
    def count(self) -> int:
        """Of those that are not revoked."""
        return sum(not key.revoked for key in self._keys.values())


def newest_revoked(keys: Iterable[Key]) -> list[Key]:
    return sorted((key for key in keys if key.revoked), key=lambda key: (key.revoked, key.id), reverse=True)


def usable(key: Key, now: int) -> bool:
    return not key.revoked and (not key.expires or now < key.expires)
