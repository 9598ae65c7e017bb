"""API keys: generates them, and finds the stored key that a client's token belongs to.

A key is `ms_<id>_<secret>`. The id is public; the secret is shown once and not stored, only a digest of the whole key
is. The secret has 238 random bits, so a plain SHA-256 is enough: it cannot be found by trying.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import string
from collections.abc import Iterable, Iterator

from mainstay.core.people import KEY_PREFIX, REVOKED_KEYS_MAX, ApiKey

ID_CHARS = 12
SECRET_CHARS = 40
ACTIVE_KEYS_MAX = 100_000  # keys that are not revoked
_ID_ALPHABET = string.ascii_lowercase + string.digits
# no character that ends a word, or is special in a shell or URL
_SECRET_ALPHABET = string.ascii_letters + string.digits
_KEY_PATTERN = re.compile(f"{KEY_PREFIX}([a-z0-9]{{{ID_CHARS}}})_[A-Za-z0-9]{{{SECRET_CHARS}}}", re.ASCII)
_NO_KEY_DIGEST = hashlib.sha256(b"").hexdigest()  # of the empty string: no key has this digest


def generate_key() -> tuple[str, str]:
    """Return a new key and its id."""
    id = "".join(secrets.choice(_ID_ALPHABET) for _ in range(ID_CHARS))
    secret = "".join(secrets.choice(_SECRET_ALPHABET) for _ in range(SECRET_CHARS))
    return f"{KEY_PREFIX}{id}_{secret}", id


def compute_key_digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


class ApiKeyIndex:
    """All API keys of a home in memory, by id."""

    def __init__(self, keys: Iterable[ApiKey] = ()) -> None:
        self._keys = {key.id: key for key in keys}

    def authenticate(self, token: str, now_ms: int) -> ApiKey | None:
        """Return the key that a token belongs to, if it is valid now; else None. An unknown id takes as long as a wrong
        secret, so that timing does not reveal which ids exist."""
        match = _KEY_PATTERN.fullmatch(token)
        if match is None:
            return None
        key = self._keys.get(match[1])
        same = hmac.compare_digest(compute_key_digest(token), key.digest if key is not None else _NO_KEY_DIGEST)
        return key if same and key is not None and is_valid_at(key, now_ms) else None

    def get_key(self, id: str) -> ApiKey | None:
        return self._keys.get(id)

    def put_key(self, key: ApiKey) -> None:
        """Add or replace a key. Of revoked keys only the newest `REVOKED_KEYS_MAX` stay."""
        self._keys[key.id] = key
        if key.revoked:
            for old in sort_newest_revoked(self._keys.values())[REVOKED_KEYS_MAX:]:
                del self._keys[old.id]

    def __iter__(self) -> Iterator[ApiKey]:
        return iter(self._keys.values())

    def list_active(self, person: str, workspace: str | None = None) -> list[ApiKey]:
        """Return a person's keys that are not revoked, for one workspace or for all."""
        return [
            key
            for key in self._keys.values()
            if key.person == person and not key.revoked and workspace in (None, key.workspace)
        ]

    @property
    def active_count(self) -> int:
        """The number of keys that are not revoked."""
        return sum(not key.revoked for key in self._keys.values())


def sort_newest_revoked(keys: Iterable[ApiKey]) -> list[ApiKey]:
    return sorted((key for key in keys if key.revoked), key=lambda key: (key.revoked, key.id), reverse=True)


def is_valid_at(key: ApiKey, now_ms: int) -> bool:
    return not key.revoked and (not key.expires or now_ms < key.expires)
