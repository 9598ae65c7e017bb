"""Refusals that come in runs are caused by our load; few and scattered ones are not."""

from __future__ import annotations

import random

import pytest

from mainstay.metering.refusal_monitor import TOLERANCE_S, RefusalMonitor


def feed(monitor: RefusalMonitor, share: float, calls: int, begin: int = 0, seed: int = 1) -> int | None:
    """Calls of which a share is refused at random; return the number of the call that counts as an exceeded limit."""
    chance = random.Random(seed)
    for number in range(begin + 1, begin + calls + 1):
        if chance.random() < share and monitor.record_refusal(number, 0.0):
            return number
    return None


def known() -> RefusalMonitor:
    monitor = RefusalMonitor()
    assert feed(monitor, 0.0, 100) is None
    return monitor


def test_a_refusal_of_the_first_call_counts() -> None:
    assert RefusalMonitor().record_refusal(1, 0.0)


@pytest.mark.parametrize("share", [0.01, 0.03, 0.10])
@pytest.mark.parametrize("seed", range(5))
def test_scattered_refusals_do_not_count(share: float, seed: int) -> None:
    assert feed(known(), share, 5000, begin=100, seed=seed) is None


@pytest.mark.parametrize("share", [0.4, 0.6, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_many_refusals_count_soon(share: float, seed: int) -> None:
    found = feed(known(), share, 1000, begin=100, seed=seed)
    assert found is not None
    assert found <= 300


def test_the_share_of_refusals_is_of_the_last_calls_and_begins_anew() -> None:
    monitor = known()
    for number in range(101, 301, 5):
        monitor.record_refusal(number, 0.0)
    assert 0.15 < monitor.refused_share(300) < 0.25
    assert monitor.refused_share(1000) < 0.001
    monitor.restart(300)
    assert monitor.refused_share(300) == 0


def refuse_every(monitor: RefusalMonitor, nth: int, begin: int, calls: int = 60) -> int:
    monitor.restart(begin)
    for number in range(begin + nth, begin + calls + 1, nth):
        monitor.record_refusal(number, 0.0)
    return begin + calls


def test_a_rate_is_restored_if_half_of_it_is_refused_as_often() -> None:
    monitor = known()
    assert monitor.find_higher_rate(100.0, 67.0, refuse_every(monitor, 3, 100), 0.0) == 0
    assert monitor.find_higher_rate(45.0, 30.0, refuse_every(monitor, 3, 200), 0.0) == 100
    monitor.restart(300)
    assert feed(monitor, 0.33, 2000, begin=300) is None, "as many are tolerated now"
    monitor.restart(3000)
    assert not monitor.record_refusal(3001, TOLERANCE_S - 1)
    assert feed_later(monitor, 3002, TOLERANCE_S + 1), "but not for ever"


def feed_later(monitor: RefusalMonitor, begin: int, now: float) -> bool:
    chance = random.Random(1)
    numbers = (number for number in range(begin, begin + 2000) if chance.random() < 0.36)
    return any(monitor.record_refusal(number, now) for number in numbers)


def test_a_rate_is_not_restored_if_half_of_it_is_accepted_more_often_or_answered_as_much() -> None:
    monitor = known()
    assert monitor.find_higher_rate(100.0, 50.0, refuse_every(monitor, 2, 100), 0.0) == 0
    assert monitor.find_higher_rate(45.0, 25.0, refuse_every(monitor, 5, 200), 0.0) == 0
    monitor = known()
    assert monitor.find_higher_rate(100.0, 50.0, refuse_every(monitor, 2, 100), 0.0) == 0
    assert monitor.find_higher_rate(45.0, 44.0, refuse_every(monitor, 2, 200), 0.0) == 0
