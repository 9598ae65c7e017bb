"""Letting a stranger in: a one-time code that they are told where they asked, and that somebody else types in.

What is kept is a digest of the code together with the account that was told it. A code is good for an hour, and
neither guessing nor asking can be done often.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import deque
from collections.abc import Iterable

from mainstay.core.errors import InputRefused
from mainstay.core.people import Pairing
from mainstay.core.ports import Clock

LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # those that look like others are read as them
_ALIKE = str.maketrans("OIL", "011")
CHARS = 8  # 40 bits
CODE_MS = 60 * 60 * 1000
AGAIN_MS = 10 * 60 * 1000  # an account is told a code no more often
WAITING_MAX = 200  # on a channel
ASKED_PER_MIN = 20  # new codes, on a channel
WRONG_PER_MIN = 10
TYPED_CHARS_MAX = 40


def new_code() -> str:
    made = "".join(secrets.choice(LETTERS) for _ in range(CHARS))
    return f"{made[:4]}-{made[4:]}"


def read_code(typed: str) -> str:
    """As it was made, however it was typed. Raises InputRefused if it cannot be one."""
    given = typed if isinstance(typed, str) and len(typed) <= TYPED_CHARS_MAX else ""
    bare = "".join(char for char in given.upper() if char not in " -\t\n").translate(_ALIKE)
    if len(bare) != CHARS or not set(bare) <= set(LETTERS):
        raise InputRefused("this is no code: one has eight letters and digits, like K7QM-4XPA")
    return f"{bare[:4]}-{bare[4:]}"


def digest_of(code: str, channel: str, user: str) -> str:
    return hmac.new(code.encode(), f"{channel}\0{user}".encode(), hashlib.sha256).hexdigest()


def find(code: str, waiting: Iterable[Pairing], now: int) -> Pairing | None:
    """Who was told this code; every one is looked at, whichever it is."""
    found = None
    for one in waiting:
        same = hmac.compare_digest(digest_of(code, one.channel, one.user), one.digest)
        if same and now < one.expires:
            found = one
    return found


class Turnstile:
    """So many a minute, and no more."""

    def __init__(self, clock: Clock, per_min: int) -> None:
        self._clock = clock
        self._times: deque[float] = deque(maxlen=per_min)

    @property
    def closed(self) -> bool:
        times = self._times
        return len(times) == times.maxlen and self._clock.monotonic() - times[0] < 60.0

    def count(self) -> None:
        self._times.append(self._clock.monotonic())
