"""How long to wait before asking again. Pure: chance is handed in, nobody sleeps here."""

from __future__ import annotations

from mainstay.core.limits import Limits


def delay_s(limits: Limits, *, attempt: int, asked_s: float | None, waited_s: float, chance: float) -> float | None:
    """Seconds to wait before retry number `attempt` (from 1); None when it is time to give up.

    What the provider asked for comes first, and is never undercut: coming back early only earns another
    refusal. Where it asked for nothing, 2, 4, 8, … seconds. `chance` (0 to 1) spreads callers that were
    turned away together. All waiting together stays within `retry_wait_max_s`.
    """
    left_s = limits.retry_wait_max_s - waited_s
    if attempt > limits.retries_max or left_s <= 0:
        return None
    own_s = limits.retry_base_s * 2.0 ** (attempt - 1)
    if asked_s is not None and asked_s > 0:
        if asked_s > left_s:
            return None
        return min(left_s, asked_s + min(asked_s, own_s) * limits.retry_jitter * chance)
    return min(left_s, own_s * (1 + limits.retry_jitter * (2 * chance - 1)))
