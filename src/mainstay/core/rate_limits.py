"""Rate limits as a provider reports them in the headers of its responses."""

from __future__ import annotations

from typing import Literal

import msgspec

WAIT_MAX_S = 31 * 86400.0
QuotaKind = Literal["requests", "tokens", "input", "output"]


class RateLimitQuota(msgspec.Struct, frozen=True, gc=False):
    """One reported limit. `name` is the provider's: requests may be limited both per minute and per day."""

    name: str
    kind: QuotaKind
    remaining: float
    limit: float = 0.0  # 0: not reported
    resets_in_s: float = 0.0  # seconds until the quota is full again; 0: not reported


class RateLimitStatus(msgspec.Struct, frozen=True, gc=False):
    """All limits reported with one response. Do not rely on them: they may be late, rounded or wrong."""

    quotas: tuple[RateLimitQuota, ...] = ()
    retry_after_s: float | None = None  # from Retry-After; None: not sent


NO_RATE_LIMITS = RateLimitStatus()


def bound_wait_s(seconds: object) -> float | None:
    """Return for how long a server asks to wait, at most `WAIT_MAX_S`; None if that is no number of at least 0.

    The value may have any type: the code of a provider or channel is not believed either.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:  # NaN, too
        return None
    return float(min(seconds, WAIT_MAX_S))
