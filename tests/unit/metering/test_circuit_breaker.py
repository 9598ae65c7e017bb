"""Closed, open, half-open: on a clock that the test moves."""

from __future__ import annotations

from mainstay.core.limits import Limits
from mainstay.metering.circuit_breaker import PROBE_S, TOGETHER_S, CircuitBreaker


class Clock:
    def __init__(self) -> None:
        self.at = 100.0

    def now_ms(self) -> int:
        return 0

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("a breaker does not sleep")


def opened(*, patient: bool = False) -> tuple[CircuitBreaker, Clock]:
    clock = Clock()
    breaker = CircuitBreaker(clock, Limits(), trusts_slow_probes=patient)
    for _ in range(5):
        assert breaker.admit()
        breaker.record_failure()
    return breaker, clock


def test_five_failures_open_it_for_thirty_seconds() -> None:
    breaker, clock = opened()
    assert not breaker.admit()
    assert breaker.open_for_s() == 30
    clock.at += 29.9
    assert not breaker.admit()
    clock.at += 0.2
    assert breaker.open_for_s() == 0
    assert breaker.admit()


def test_a_success_in_between_starts_the_count_again() -> None:
    breaker = CircuitBreaker(Clock(), Limits())
    for _ in range(4):
        breaker.record_failure()
    breaker.record_success()
    for _ in range(4):
        breaker.record_failure()
    assert breaker.admit()


def test_half_open_lets_one_through_and_its_end_decides() -> None:
    breaker, clock = opened()
    clock.at += 30
    assert breaker.admit()
    assert not breaker.admit()
    breaker.record_failure()
    assert breaker.open_for_s() == 30
    clock.at += 30
    assert breaker.admit()
    breaker.record_first_output()
    assert breaker.admit()
    assert breaker.admit()


def test_a_silent_probe_lets_another_call_try_after_a_while() -> None:
    breaker, clock = opened()
    clock.at += 30
    assert breaker.admit()
    assert breaker.probe_wait_s() == PROBE_S
    clock.at += PROBE_S
    assert breaker.probe_wait_s() == 0
    assert breaker.admit()
    assert not breaker.admit(), "one at a time"
    breaker.record_failure()
    assert breaker.open_for_s() == 30


def test_a_probe_that_takes_long_admits_all_calls_and_a_failure_counts_at_once() -> None:
    breaker, clock = opened(patient=True)
    clock.at += 30
    assert breaker.admit()
    assert not breaker.admit()
    clock.at += PROBE_S
    assert breaker.admit()
    assert breaker.admit()
    assert breaker.record_failure()
    assert not breaker.admit()


def test_a_probe_that_leaves_lets_the_next_try() -> None:
    breaker, clock = opened()
    clock.at += 30
    assert breaker.admit()
    breaker.record_ignored()
    assert breaker.admit()


def test_streams_that_begin_and_break_open_it_too() -> None:
    breaker = CircuitBreaker(Clock(), Limits())
    for _ in range(5):
        assert breaker.admit()
        breaker.record_first_output()
        breaker.record_failure()
    assert not breaker.admit()


def test_calls_in_flight_that_fail_together_count_once_and_late_ones_again() -> None:
    clock = Clock()
    breaker = CircuitBreaker(clock, Limits())
    before = breaker.failures_total  # of twelve calls that are sent now
    for _ in range(6):
        assert not breaker.record_failure(failures_before=before)
    assert breaker.failures_total == 1
    for _ in range(3):  # the others hang, and fail one after another
        clock.at += TOGETHER_S
        assert not breaker.record_failure(failures_before=before)
    assert not breaker.record_failure(failures_before=before)
    clock.at += TOGETHER_S
    assert breaker.record_failure(failures_before=before)
