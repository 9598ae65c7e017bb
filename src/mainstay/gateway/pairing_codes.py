"""Pairing codes: one-time codes that an unknown user of a channel gets, and that an administrator enters.

Only a digest of the code together with the account that got it is stored. A code is valid for an hour; requests for
codes and wrong codes are rate limited.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import deque
from collections.abc import Iterable

from mainstay.core.errors import InputRefused
from mainstay.core.people import PendingPairing
from mainstay.core.ports import Clock

CODE_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # no O, I, L, U: `parse_code` reads O as 0, I and L as 1
_LOOKALIKES = str.maketrans("OIL", "011")
CODE_CHARS = 8  # 40 bits
CODE_TTL_MS = 60 * 60 * 1000
REISSUE_AFTER_MS = 10 * 60 * 1000  # an account gets a new code no more often
PAIRINGS_PER_CHANNEL_MAX = 200  # pending pairings per channel
CODES_PER_CHANNEL_PER_MIN = 20  # new codes per channel
WRONG_CODES_PER_MIN = 10
INPUT_CHARS_MAX = 40


def generate_code() -> str:
    """Return a new random code, like K7QM-4XPA."""
    code = "".join(secrets.choice(CODE_ALPHABET) for _ in range(CODE_CHARS))
    return f"{code[:4]}-{code[4:]}"


def parse_code(typed: str) -> str:
    """Return a typed code in its canonical form: case, spaces, dashes and lookalike letters do not matter. Raises
    InputRefused if it cannot be a code."""
    text = typed if isinstance(typed, str) and len(typed) <= INPUT_CHARS_MAX else ""
    bare = "".join(char for char in text.upper() if char not in " -\t\n").translate(_LOOKALIKES)
    if len(bare) != CODE_CHARS or not set(bare) <= set(CODE_ALPHABET):
        raise InputRefused("this is not a pairing code: a code has eight letters and digits, like K7QM-4XPA")
    return f"{bare[:4]}-{bare[4:]}"


def compute_code_digest(code: str, channel: str, user: str) -> str:
    return hmac.new(code.encode(), f"{channel}\0{user}".encode(), hashlib.sha256).hexdigest()


def find_pairing(code: str, pairings: Iterable[PendingPairing], now_ms: int) -> PendingPairing | None:
    """Return the pairing of this code; None if there is none or it expired. Compares all of them in any case, so that
    timing reveals nothing."""
    match = None
    for pairing in pairings:
        same = hmac.compare_digest(compute_code_digest(code, pairing.channel, pairing.user), pairing.digest)
        if same and now_ms < pairing.expires:
            match = pairing
    return match


class AttemptLimiter:
    """Rate limit: allows so many attempts in any 60 seconds."""

    def __init__(self, clock: Clock, per_min: int) -> None:
        self._clock = clock
        self._times: deque[float] = deque(maxlen=per_min)

    @property
    def is_exceeded(self) -> bool:
        times = self._times
        return len(times) == times.maxlen and self._clock.monotonic() - times[0] < 60.0

    def record_attempt(self) -> None:
        self._times.append(self._clock.monotonic())
