"""Who goes when, who is told, and that nobody is forgotten: the governor and its line, on time that tests move."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any

import pytest
from support.governor_world import HELLO, Account, Bound, Crowd, always_empty, bare_zero, silent, truthful

from mainstay.core.errors import Overloaded, ProviderError, RateLimited, Unreachable
from mainstay.core.limits import Limits
from mainstay.core.ports import Options
from mainstay.core.rate_limits import NO_RATE_LIMITS, RateLimitQuota, RateLimitStatus
from mainstay.metering.call_permit import CallPermit
from mainstay.metering.call_queue import LONG_WAIT_S, STARTING_SHARE
from mainstay.metering.rate_limiter import PAUSE_MAX_S, WINDOW, RateLimiter, RateLimiterRegistry
from mainstay.metering.resilient_provider import ResilientProvider
from mainstay.testing import CountingIds, VirtualClock, virtual_run

FULL = RateLimitStatus(
    (RateLimitQuota("requests", "requests", 0.0, 60.0, 60.0),)
)  # nothing is left; one comes back every second


def on_virtual_time(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        virtual_run(test())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def seat_of(governor: RateLimiter, step: int = 1, patience_s: float = 3600.0) -> CallPermit:
    return governor.create_permit(HELLO, Options(turn=1, step=step), patience_s)


async def entered(seat: CallPermit, order: list[Any], name: Any) -> None:
    await seat.acquire()
    order.append(name)
    seat.record_accepted(NO_RATE_LIMITS)


async def full_governor() -> RateLimiter:
    """An account of which nothing is left, and a second of it just begun."""
    governor = RateLimiter("made-up", VirtualClock())
    first = seat_of(governor)
    await first.acquire()
    first.record_accepted(FULL)
    return governor


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


# --- nobody waits ---------------------------------------------------------------------------------


@on_virtual_time
async def test_where_nothing_is_known_and_nobody_waits_a_call_goes_at_once_without_a_switch() -> None:
    governor = RateLimiter("made-up", VirtualClock())
    for _ in range(1000):
        seat = seat_of(governor)
        with pytest.raises(StopIteration):
            seat.acquire().send(None)  # it never gives the loop a chance to run anything else
        seat.record_accepted(NO_RATE_LIMITS)
    assert governor.snapshot_state().admitted == 1000


@on_virtual_time
async def test_a_provider_that_takes_its_time_is_sent_more_but_not_everything_at_once() -> None:
    governor = RateLimiter("made-up", VirtualClock())
    seats = [seat_of(governor) for _ in range(WINDOW + 200)]
    waiting = [asyncio.ensure_future(seat.acquire()) for seat in seats]
    await settle()
    assert sum(one.done() for one in waiting) == WINDOW
    await asyncio.sleep(10)
    assert all(one.done() for one in waiting)


# --- who goes first -------------------------------------------------------------------------------


@on_virtual_time
async def test_turns_under_way_go_before_turns_that_begin_and_each_in_the_order_they_came() -> None:
    governor, order = await full_governor(), []
    steps = [1, 3, 1, 2, 1, 2]
    tasks = [asyncio.ensure_future(entered(seat_of(governor, step), order, n)) for n, step in enumerate(steps)]
    await asyncio.gather(*tasks)
    assert order == [1, 3, 5, 0, 2, 4]


@on_virtual_time
async def test_a_call_that_was_refused_keeps_its_place() -> None:
    governor, order = await full_governor(), []
    unlucky = seat_of(governor, 2)
    await unlucky.acquire()
    others = [asyncio.ensure_future(entered(seat_of(governor, 2), order, n)) for n in range(3)]
    await settle()
    error = RateLimited("slow down")
    assert unlucky.record_refused(error)
    await asyncio.gather(entered(unlucky, order, "unlucky"), *others)
    assert order[0] == "unlucky"


@on_virtual_time
async def test_a_turn_that_waits_long_begins_though_others_never_stop_coming() -> None:
    governor, order = await full_governor(), []
    began = asyncio.get_running_loop().time()
    new = asyncio.ensure_future(entered(seat_of(governor, 1), order, "new"))

    async def busy() -> None:
        while not new.done():
            await entered(seat_of(governor, 5), order, "busy")

    others = [asyncio.ensure_future(busy()) for _ in range(20)]
    await asyncio.wait_for(new, 300)
    waited_s = asyncio.get_running_loop().time() - began
    assert LONG_WAIT_S <= waited_s <= LONG_WAIT_S + STARTING_SHARE + 3, "one place in eight, at one call a second"
    for other in others:
        other.cancel()
    await asyncio.gather(*others, return_exceptions=True)


# --- who goes away --------------------------------------------------------------------------------


@on_virtual_time
async def test_who_goes_away_leaves_the_line_at_once_and_takes_no_place() -> None:
    governor, order = await full_governor(), []
    tasks = [asyncio.ensure_future(entered(seat_of(governor, 2), order, n)) for n in range(10)]
    await settle()
    for task in tasks[:9]:
        task.cancel()
    await asyncio.gather(*tasks[:9], return_exceptions=True)
    assert governor.snapshot_state().waiting == 1
    began = asyncio.get_running_loop().time()
    await tasks[9]
    assert asyncio.get_running_loop().time() - began <= 3


@pytest.mark.parametrize("seed", range(6))
def test_cancelled_at_any_moment_nothing_is_leaked_and_the_others_get_through(seed: int) -> None:
    """A crowd in which everybody may be aborted at any await, in the line as under way."""

    async def main() -> None:
        chance = random.Random(seed)
        account = Account(Bound(20, 10), says=[truthful, silent][seed % 2])
        crowd = Crowd(account, 0)
        await crowd.run()
        tasks = [asyncio.ensure_future(crowd._turn(random.Random(n), n)) for n in range(60)]
        doomed = tasks[::2]
        for task in doomed:
            await asyncio.sleep(chance.uniform(0, 0.3))
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert len(crowd.ended) >= 30
        assert crowd.failed == []
        assert crowd.governor is not None
        state = crowd.governor.snapshot_state()
        assert (state.waiting, state.unheard, account.under_way) == (0, 0, 0)

    virtual_run(main())


@on_virtual_time
async def test_cancelled_in_the_very_moment_it_is_called_it_gives_its_place_back() -> None:
    governor, order = await full_governor(), []
    first, second = (asyncio.ensure_future(entered(seat_of(governor, 2), order, n)) for n in range(2))
    await settle()
    while not order and governor.snapshot_state().unheard == 0:
        await asyncio.sleep(0.01)
    first.cancel()  # it was called, and has not run since
    await asyncio.gather(first, return_exceptions=True)
    await second
    assert order == [0, 1] or order == [1]
    assert governor.snapshot_state().unheard == 0


@on_virtual_time
async def test_whoever_crashes_under_way_frees_its_place() -> None:
    class Crashing(Account):
        async def stream(self, context: Any, options: Options) -> Any:  # type: ignore[override]
            raise RuntimeError("a bug")
            yield

    governor = RateLimiter("made-up", VirtualClock())
    provider = ResilientProvider(
        [Crashing(Bound(1, 1))], clock=VirtualClock(), ids=CountingIds(), limits=Limits(), limiters=[governor]
    )
    for _ in range(3):
        with pytest.raises(RuntimeError):
            await anext(provider.stream(HELLO, Options()))
    assert governor.snapshot_state().unheard == 0


# --- waiting is a state ---------------------------------------------------------------------------


@on_virtual_time
async def test_who_waits_is_told_why_and_the_time_told_covers_the_time_waited() -> None:
    account = Account(Bound(2, 1), says=truthful)
    crowd = Crowd(account, 0)
    await crowd.run()
    notices: dict[int, list[tuple[float, str, float]]] = {}
    waited: dict[int, float] = {}
    loop = asyncio.get_running_loop()

    async def call(number: int) -> None:
        told = notices.setdefault(number, [])
        options = Options(
            step=2,
            on_wait=lambda why, seconds: told.append((loop.time(), why, seconds)),
            count_context_tokens=lambda: 1,
        )
        began = loop.time()
        async with aclosing(crowd.provider.stream(HELLO, options)) as stream:
            async for _ in stream:
                waited.setdefault(number, loop.time() - began)

    await asyncio.gather(*(call(number) for number in range(60)))
    slowest = max(waited, key=lambda number: waited[number])
    assert waited[slowest] > 15
    assert sum(seconds for _, _, seconds in notices[slowest]) >= waited[slowest] - account.think_s * 2 - 1
    assert any("calls are ahead" in why and "made-up" in why for _, why, _ in notices[slowest])
    assert max(seconds for _, _, seconds in notices[slowest]) <= 33
    assert sum(bool(one) for one in notices.values()) < 60, "who waits only a moment is told nothing"


@on_virtual_time
async def test_a_line_never_ends_a_turn_though_it_is_longer_than_all_retries_together() -> None:
    limits = Limits(retries_max=0, retry_wait_max_s=1.0)
    crowd = Crowd(Account(Bound(1, 1), says=silent, retry_after=False), 150, steps=1, limits=limits)
    seconds = await crowd.run()
    assert seconds > 100
    assert crowd.failed == []


@on_virtual_time
async def test_queue_wait_max_s_is_the_one_bound_of_it() -> None:
    crowd = Crowd(Account(Bound(1, 1), storming=lambda now: True), 3, limits=Limits(queue_wait_max_s=100.0))
    seconds = await crowd.run()
    assert len(crowd.failed) == 3
    assert 100 <= seconds <= 110
    assert all(isinstance(error, RateLimited) and "no room" in str(error) for error in crowd.failed)


@on_virtual_time
async def test_where_there_is_another_model_to_ask_nobody_waits_longer_than_for_retries() -> None:
    clock = VirtualClock()
    limits = Limits(retry_wait_max_s=20.0)
    first, second = Account(Bound(1, 1), storming=lambda now: True), Account(Bound(100, 100))
    governors = [RateLimiter("first", clock), RateLimiter("second", clock)]
    both = ResilientProvider([first, second], clock=clock, ids=CountingIds(), limits=limits, limiters=governors)
    pieces = [piece async for piece in both.stream(HELLO, Options())]
    assert pieces
    assert 20 <= clock.monotonic() <= 25
    assert len(second.taken) == 1


@on_virtual_time
async def test_a_provider_that_asks_for_longer_than_anyone_may_wait_is_given_up_at_once() -> None:
    class Closed(Account):
        def _refusal(self, now: float, weight: float) -> ProviderError | None:
            return RateLimited("come back tomorrow", retry_after_s=86400.0) if now < 1000 else None

    crowd = Crowd(Closed(Bound(10, 10)), WINDOW + 40, steps=1)
    assert await crowd.run() <= 2
    assert len(crowd.failed) == WINDOW + 40
    assert "takes no calls for 1440 min" in str(crowd.failed[-1]), "who was in the line has not been asked"
    await asyncio.sleep(PAUSE_MAX_S + 1)
    crowd.failed.clear()
    asked = len(crowd.account.refused)
    await asyncio.gather(*(crowd._turn(random.Random(n), n) for n in range(20)))
    assert len(crowd.account.refused) - asked <= 2, "one finds out for all whether that is still so"
    await asyncio.sleep(1000)
    crowd.failed.clear()
    await asyncio.gather(*(crowd._turn(random.Random(n), n) for n in range(20)))
    assert crowd.failed == [], "and when it is over, it is over"


# --- 429 and 529 are no failures -------------------------------------------------------------------


@pytest.mark.parametrize("kind", [RateLimited, Overloaded], ids=["429", "529"])
def test_refusals_use_up_no_retries_and_open_no_breaker(kind: type[RateLimited] | type[Overloaded]) -> None:
    storm = Account(Bound(50, 50), storming=lambda now: now < 40, status=lambda now: kind)
    crowd = Crowd(storm, 5, steps=1, limits=Limits(retries_max=0))
    seconds = virtual_run(crowd.run())
    assert crowd.failed == []
    assert 40 <= seconds <= 50
    assert len(storm.refused) >= 10


def test_what_is_really_wrong_is_still_retried_and_counted() -> None:
    class Gone(Account):
        def _refusal(self, now: float, weight: float) -> ProviderError | None:
            return Unreachable("nobody is there")

    crowd = Crowd(Gone(Bound(1, 1)), 1, steps=1, limits=Limits(retries_max=2))
    virtual_run(crowd.run())
    assert [type(error) for error in crowd.failed] == [Unreachable]


def test_a_storm_is_sounded_out_by_one_call_at_a_time() -> None:
    account = Account(Bound(500, 500), storming=lambda now: 1.0 < now < 21.0, retry_after=False, says=silent)
    crowd = Crowd(account, 300, steps=40)
    virtual_run(crowd.run())
    assert crowd.failed == []
    late = [at for at in account.refused if at > 3.0]
    assert len(late) <= 20
    assert min(at for at in account.taken if at > 21.0) <= 26.1


# --- the crowd, small -----------------------------------------------------------------------------


@pytest.mark.parametrize("says", [always_empty, bare_zero], ids=["reset", "bare"])
def test_a_provider_that_says_nothing_is_left_and_never_resets_is_found_out(says: Callable[[Account], Any]) -> None:
    crowd = Crowd(Account(Bound(50, 50), says=says), 200, steps=2)
    seconds = virtual_run(crowd.run())
    assert crowd.failed == []
    assert seconds <= 2 * (400 - 50) / 50


def test_wall_clocks_that_jump_change_nothing() -> None:
    async def main() -> float:
        crowd = Crowd(Account(Bound(20, 20)), 60, steps=2)
        running = asyncio.ensure_future(crowd.run())
        await asyncio.sleep(1)
        assert crowd.governor is not None
        clock = crowd.governor.clock
        assert isinstance(clock, VirtualClock)
        for jump in (-1e9, 1e9, 86400.0):
            clock.jump(jump)
            await asyncio.sleep(0.5)
        seconds = await running
        assert crowd.failed == []
        return seconds

    assert virtual_run(main()) <= 1.3 * (120 - 20) / 20 + 2


def test_accounts_are_told_apart_and_the_same_one_is_shared() -> None:
    async def main() -> None:
        governors = RateLimiterRegistry(VirtualClock())
        one = governors.get_limiter("digest", "openai", "gpt")
        assert governors.get_limiter("digest", "openai", "gpt") is one
        assert governors.get_limiter("digest", "openai", "other") is not one
        assert governors.get_limiter("another", "openai", "gpt") is not one
        assert [state.provider_name for state in governors.snapshot_states()] == ["openai"] * 3

    virtual_run(main())


def test_the_state_says_what_people_ask_about() -> None:
    async def main() -> None:
        crowd = Crowd(Account(Bound(10, 5), Bound(10_000, 5000)), 40, steps=1)
        running = asyncio.ensure_future(crowd.run())
        await asyncio.sleep(1.5)
        assert crowd.governor is not None
        state = crowd.governor.snapshot_state()
        assert state.waiting > 0
        assert state.remaining["requests"][1] == 5
        assert 0 <= state.remaining["tokens"][0] <= 5000
        assert state.trusts_reports
        await running
        after = crowd.governor.snapshot_state()
        assert (after.waiting, after.unheard) == (0, 0)
        assert after.admitted == 40 + after.refused
        assert after.waited_s > 10

    virtual_run(main())


@on_virtual_time
async def test_a_line_that_everybody_leaves_holds_nobody_in_memory() -> None:
    governor = await full_governor()
    patient = asyncio.ensure_future(entered(seat_of(governor, 2), [], 0))
    for _ in range(50):
        crowd = [asyncio.ensure_future(entered(seat_of(governor, 2), [], n)) for n in range(20)]
        await settle()
        for one in crowd:
            one.cancel()
        await asyncio.gather(*crowd, return_exceptions=True)
    assert len(governor.queue) == 1
    assert len(governor.queue._finishing) <= 200
    await patient
