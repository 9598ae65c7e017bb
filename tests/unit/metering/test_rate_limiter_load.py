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
    # without headers and hints, and two fifths of all time lost, calls wait for longer than the bursts
    assert used >= (0.5 if says is silent and every_s == 5 else 0.7)


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


# --- refusals that our load does not cause --------------------------------------------------------------


def measure_throughput(share: float, *, says: Callable[[Account], Any], retry_after: bool, seed: int) -> float:
    """Calls per second of 32 agents until the first has ended, at an account without a limit of its own."""
    account = Account(
        Bound(1e6, 1e6),
        says=says,
        retry_after=retry_after,
        refused_share=share,
        transit_s=0.002,
        think_s=0.06,
        speak_s=0.03,
        seed=seed,
    )
    crowd = ConcurrentAgents(account, 32, 400 if WHOLE else 150)
    virtual_run(crowd.run())
    assert crowd.failed == [], "no turn fails"
    end = min(crowd.ended)
    return sum(at <= end for at in account.taken) / (end - account.taken[0])


@pytest.mark.parametrize("retry_after", [True, False], ids=["asks", "mute"])
@pytest.mark.parametrize("says", [truthful, silent], ids=lambda one: one.__name__)
def test_f60_random_refusals_cost_throughput_in_proportion(says: Callable[[Account], Any], retry_after: bool) -> None:
    """F60: 1 % cost at most 15 %, 10 % at most half."""
    for seed in range(1, 5 if WHOLE else 2):
        whole = measure_throughput(0.0, says=says, retry_after=retry_after, seed=seed)
        assert measure_throughput(0.01, says=says, retry_after=retry_after, seed=seed) >= 0.85 * whole
        assert measure_throughput(0.03, says=says, retry_after=retry_after, seed=seed) >= 0.7 * whole
        assert measure_throughput(0.10, says=says, retry_after=retry_after, seed=seed) >= 0.5 * whole


@pytest.mark.parametrize("retry_after", [True, False], ids=["asks", "mute"])
@pytest.mark.parametrize("says", [truthful, silent], ids=lambda one: one.__name__)
@pytest.mark.parametrize("share", [0.0, 0.01, 0.03])
def test_f60_at_least_nine_tenths_of_a_limit_are_used(
    says: Callable[[Account], Any], retry_after: bool, share: float
) -> None:
    """With headers and without, and with random refusals as well."""
    account = Account(Bound(RATE, 5 * RATE), says=says, retry_after=retry_after, refused_share=share)
    crowd = ConcurrentAgents(account, AGENTS, 2 * STEPS)
    virtual_run(crowd.run())
    assert crowd.failed == []
    busy = account.taken[: int(0.9 * len(account.taken))]  # at the end there are fewer calls than places
    bound = account.requests
    assert len(busy) / (bound.size + bound.rate * (busy[-1] - busy[0])) >= 0.9


@pytest.mark.parametrize("elsewhere", [0.5, 1.0])
@pytest.mark.parametrize("says", [truthful, silent], ids=lambda one: one.__name__)
def test_f60_another_client_of_the_account_does_not_push_ours_aside(
    says: Callable[[Account], Any], elsewhere: float
) -> None:
    """It sends half of the limit, or all of it, and takes no notice of refusals: we use what it leaves, or a part."""
    account = Account(Bound(RATE, 5 * RATE), says=says)
    crowd = ConcurrentAgents(account, AGENTS, 2 * STEPS, elsewhere=elsewhere * RATE)
    virtual_run(crowd.run())
    assert crowd.failed == []
    span = account.taken[-1] - account.taken[0]
    assert (len(account.taken) + account.taken_elsewhere) / (5 * RATE + RATE * span) >= 0.9
    assert len(account.taken) / span >= (0.45 if elsewhere < 1 else 0.15) * RATE
