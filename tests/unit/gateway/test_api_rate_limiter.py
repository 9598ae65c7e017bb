"""The rate limit of an API key: exact at any time, and bounded in memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.gateway.api_rate_limiter import STREAM_RETRY_AFTER_S, WINDOW_S, ApiRateLimiter, TooManyStreams


class Monotonic:
    def __init__(self, now: float = 12_345.678) -> None:
        self.now = now

    def monotonic(self) -> float:
        return self.now

    def now_ms(self) -> int:
        raise AssertionError("what the wall clock says is no measure")

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody sleeps here")


@pytest.mark.parametrize("per_min", [1, 2, 7, 60, 600, 12_345])
def test_so_many_at_once_and_the_next_when_it_says(per_min: int) -> None:
    clock = Monotonic()
    rates = ApiRateLimiter(clock)
    assert [rates.count_request("k", per_min) for _ in range(per_min)] == [None] * per_min
    wait = rates.count_request("k", per_min)
    assert wait is not None
    assert wait == pytest.approx(WINDOW_S / per_min, abs=1e-4)
    clock.now += wait * 0.9
    assert rates.count_request("k", per_min) is not None, "not before"
    clock.now += wait * 0.1
    assert rates.count_request("k", per_min) is None
    assert rates.count_request("other", per_min) is None, "one's bucket is one's own"
    clock.now += WINDOW_S
    assert [rates.count_request("k", per_min) for _ in range(per_min)] == [None] * per_min


steps = st.lists(st.floats(0, 30, allow_nan=False), min_size=1, max_size=120)


@given(st.integers(1, 40), steps, st.floats(0, 1e7))
def test_in_no_stretch_of_time_is_more_let_through_than_was_full_and_flowed_in(
    per_min: int, pauses: list[float], start: float
) -> None:
    clock = Monotonic(start)
    rates = ApiRateLimiter(clock)
    passed: list[float] = []
    for pause in pauses:
        clock.now += pause
        if rates.count_request("k", per_min) is None:
            passed.append(clock.now)
    for first in range(len(passed)):
        for last in range(first, len(passed)):
            most = per_min + (passed[last] - passed[first]) * per_min / WINDOW_S
            assert last - first + 1 <= most + 1e-3


@given(st.integers(1, 40), steps)
def test_a_caller_that_waits_as_told_is_admitted_and_early_tries_cost_nothing(
    per_min: int, pauses: list[float]
) -> None:
    clock = Monotonic()
    rates, patient = ApiRateLimiter(clock), ApiRateLimiter(clock)
    for pause in pauses:
        clock.now += pause / 10
        wait = rates.count_request("k", per_min)
        for _ in range(3):  # in vain
            if wait is not None:
                assert rates.count_request("k", per_min) is not None
        if wait is not None:
            assert patient.count_request("k", per_min) == pytest.approx(wait)
            assert 0 < wait <= WINDOW_S / per_min + 1e-6
            clock.now += wait
            assert rates.count_request("k", per_min) is None
        patient.count_request("k", per_min)


@given(st.integers(1, 600), st.integers(1, 600))
def test_another_rate_holds_from_the_next_request_on(before: int, after: int) -> None:
    clock = Monotonic()
    rates = ApiRateLimiter(clock)
    for _ in range(before):
        assert rates.count_request("k", before) is None
    wait = rates.count_request("k", after)
    assert wait is not None
    clock.now += wait
    assert rates.count_request("k", after) is None


def test_a_bucket_that_is_full_again_is_forgotten() -> None:
    clock = Monotonic()
    rates = ApiRateLimiter(clock)
    for number in range(1000):
        rates.count_request(f"k{number}", 60)
    assert len(rates._full_at) == 1000
    clock.now += 1.0
    rates.count_request("k", 60)
    assert len(rates._full_at) == 1


@given(st.lists(st.tuples(st.integers(0, 30), st.floats(0, 2)), max_size=200))
def test_it_never_holds_more_keys_than_it_may(asked: list[tuple[int, float]]) -> None:
    clock = Monotonic()
    rates = ApiRateLimiter(clock, keys_max=10)
    for key, pause in asked:
        clock.now += pause
        rates.count_request(str(key), 3)
        assert len(rates._full_at) <= 10


def test_streams_are_counted_while_they_are_open_however_they_end() -> None:
    rates = ApiRateLimiter()
    with rates.hold_stream("k", 2):
        with (
            rates.hold_stream("k", 2),
            pytest.raises(TooManyStreams, match="2 streams are open") as raised,
            rates.hold_stream("k", 2),
        ):
            raise AssertionError("there was no room")
        assert raised.value.retry_after_s == STREAM_RETRY_AFTER_S
        with rates.hold_stream("other", 1):
            pass
        with pytest.raises(ZeroDivisionError), rates.hold_stream("k", 2):
            raise ZeroDivisionError
        with rates.hold_stream("k", 2):
            pass
    assert rates._open_streams == {}, "nothing is held of those that are closed"


@given(st.lists(st.booleans(), max_size=100), st.integers(0, 5))
def test_never_more_streams_are_open_than_may_be(opening: list[bool], most: int) -> None:
    rates = ApiRateLimiter()
    held: list[object] = []
    for one in opening:
        if one:
            stream = rates.hold_stream("k", most)
            if len(held) < most:
                stream.__enter__()
                held.append(stream)
            else:
                with pytest.raises(TooManyStreams):
                    stream.__enter__()
        elif held:
            held.pop(0).__exit__(None, None, None)  # type: ignore[attr-defined]
        assert sum(rates._open_streams.values()) == len(held)


def test_without_a_clock_it_goes_by_the_machines_own() -> None:
    rates = ApiRateLimiter()
    assert rates.count_request("k", 1) is None
    wait = rates.count_request("k", 1)
    assert wait is not None
    assert 0 < wait <= WINDOW_S
