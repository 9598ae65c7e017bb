"""How long to wait: pure arithmetic, and never more than is allowed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mainstay.core.limits import Limits
from mainstay.metering.resilient_provider import compute_delay_s

LIMITS = Limits()


def test_it_doubles_from_two_seconds() -> None:
    waits = [compute_delay_s(LIMITS, attempt=n, retry_after_s=None, waited_s=0, chance=0.5) for n in range(1, 9)]
    assert waits == [2, 4, 8, 16, 32, 64, 128, 256]


def test_after_eight_it_gives_up() -> None:
    assert compute_delay_s(LIMITS, attempt=9, retry_after_s=None, waited_s=0, chance=0.5) is None


@given(
    attempt=st.integers(1, 12),
    asked_s=st.none() | st.floats(0, 1e6),
    waited_s=st.floats(0, 700),
    chance=st.floats(0, 1),
)
def test_all_waits_stay_within_the_limit_and_none_is_too_short(
    attempt: int, asked_s: float | None, waited_s: float, chance: float
) -> None:
    wait_s = compute_delay_s(LIMITS, attempt=attempt, retry_after_s=asked_s, waited_s=waited_s, chance=chance)
    if wait_s is not None:
        assert wait_s > 0
        assert wait_s + waited_s <= LIMITS.retry_wait_max_s * (1 + 1e-12)
        assert not asked_s or wait_s >= min(asked_s, LIMITS.retry_wait_max_s - waited_s)
