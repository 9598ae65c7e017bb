"""Exponential backoff with jitter: computes retry delays. Pure: randomness is a parameter, and nothing sleeps here."""

from __future__ import annotations

from mainstay.core.limits import Limits


def compute_delay_s(
    limits: Limits, *, attempt: int, retry_after_s: float | None, waited_s: float, chance: float
) -> float | None:
    """Return the seconds to wait before retry number `attempt` (from 1); None: give up.

    The provider's `retry_after_s` is never undercut: an early retry is only refused again. Without it the delay is
    2, 4, 8, … seconds. `chance` (0 to 1) spreads callers that were refused together. All waits of a call together stay
    within `retry_wait_max_s`.
    """
    left_s = limits.retry_wait_max_s - waited_s
    if attempt > limits.retries_max or left_s <= 0:
        return None
    own_s = limits.retry_base_s * 2.0 ** (attempt - 1)
    if retry_after_s is not None and retry_after_s > 0:
        if retry_after_s > left_s:
            return None
        return min(left_s, retry_after_s + min(retry_after_s, own_s) * limits.retry_jitter * chance)
    return min(left_s, own_s * (1 + limits.retry_jitter * (2 * chance - 1)))
