"""Hundreds of agents on one account: no turn fails, and little of the quota is unused. On time that tests move."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.rate_limit_world import (
    Account,
    Bound,
    ConcurrentAgents,
    always_empty,
    always_full,
    bare_zero,
    silent,
    too_high,
    too_low,
    truthful,
)

from mainstay.testing import virtual_run

WHOLE = bool(os.environ.get("MAINSTAY_TEST_ALL"))
AGENTS, STEPS, RATE = 512 if WHOLE else 192, 3, 60 if WHOLE else 24
SAYS = [truthful, silent, too_high, too_low, always_full, always_empty, bare_zero]


def run(account: Account, agents: int = AGENTS) -> tuple[ConcurrentAgents, float, float]:
    """The crowd, how much of what was allowed it used until the last call was taken, and its time over the ideal."""
    crowd = ConcurrentAgents(account, agents, STEPS)
    seconds = virtual_run(crowd.run())
    assert crowd.failed == [], "no turn fails"
    assert len(crowd.ended) == agents
    ideal_s = (agents * STEPS - account.requests.size) / account.requests.rate
    return crowd, crowd.used(account.taken[-1] - account.taken[0]), seconds / ideal_s


@pytest.mark.parametrize("retry_after", [True, False], ids=["asks", "mute"])
@pytest.mark.parametrize("says", SAYS, ids=lambda one: one.__name__)
def test_most_of_the_quota_is_used_with_any_reported_limits(says: Callable[[Account], Any], retry_after: bool) -> None:
    account = Account(Bound(RATE, 5 * RATE), says=says, retry_after=retry_after)
    _, used, times = run(account)
    if says is truthful:
        assert used >= 0.9
        assert times <= 1.2
        assert len(account.refused) <= 40, "who is told what is left has little to be refused for"
    else:
        assert used >= 0.7


@pytest.mark.parametrize("seed", range(12 if WHOLE else 3))
@pytest.mark.parametrize("every_s", [5, 8, 11])
@pytest.mark.parametrize("says", [truthful, silent], ids=lambda one: one.__name__)
def test_bursts_of_refusals_end_no_turn(says: Callable[[Account], Any], every_s: float, seed: int) -> None:
    def storming(now: float) -> bool:
        return (now + 0.37 * seed) % every_s >= every_s - 2

    account = Account(Bound(RATE, 5 * RATE), says=says, storming=storming, retry_after=seed % 2 == 0, seed=seed)
    _, used, _ = run(account)
    assert used >= 0.7


def test_a_provider_with_false_limits_and_bursts_is_detected_in_the_end() -> None:
    account = Account(Bound(60, 300), says=always_empty, storming=lambda now: now % 5 >= 3)
    _, _, times = run(account, agents=400)
    assert times <= 15, "every test of what it says has to fall between two bursts"


def test_with_few_tokens_large_and_small_calls_share_them() -> None:
    def weight(chance: random.Random) -> int:
        return chance.choice([300, 500, 4000])

    account = Account(Bound(10_000, 10_000), Bound(RATE * 1600, RATE * 1600 * 5))
    crowd = ConcurrentAgents(account, AGENTS, STEPS, weight)
    virtual_run(crowd.run())
    assert crowd.failed == []
    assert account.tokens is not None
    taken = AGENTS * STEPS * 1600
    seconds = account.taken[-1] - account.taken[0]
    assert taken / (account.tokens.size + account.tokens.rate * seconds) >= 0.85
    assert len(account.refused) <= 40


@given(
    st.sampled_from(SAYS),
    st.booleans(),
    st.floats(2.0, 15.0),
    st.floats(0.001, 0.2),
    st.floats(0.05, 1.5),
    st.integers(0, 2**16),
)
@settings(max_examples=60 if WHOLE else 8, deadline=None)
def test_no_turn_fails_and_nothing_gets_stuck_under_any_conditions(
    says: Callable[[Account], Any], retry_after: bool, bucket_s: float, transit_s: float, think_s: float, seed: int
) -> None:
    account = Account(
        Bound(RATE, bucket_s * RATE),
        says=says,
        retry_after=retry_after,
        transit_s=transit_s,
        think_s=think_s,
        seed=seed,
    )
    _, used, _ = run(account, agents=max(4 * RATE, round(bucket_s * RATE)))
    assert used >= 0.5


def test_without_the_rate_limiter_the_same_load_loses_turns() -> None:
    account = Account(Bound(RATE, RATE), says=truthful)
    crowd = ConcurrentAgents(account, AGENTS, STEPS, governed=False)
    virtual_run(crowd.run())
    assert crowd.failed, "or there would be no need for one"
    assert len(account.refused) > AGENTS
