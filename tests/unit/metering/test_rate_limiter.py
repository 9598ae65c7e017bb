"""The rate limiter and its queue, on time that tests move: order, notices, cancellation, and no forgotten call."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from itertools import pairwise
from typing import Any

import pytest
from support.rate_limit_world import HELLO, Account, Bound, ConcurrentAgents, always_empty, bare_zero, silent, truthful

from mainstay.core.errors import Overloaded, ProviderBroken, ProviderError, RateLimited, Unreachable
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


def create_permit_of(limiter: RateLimiter, step: int = 1, patience_s: float = 3600.0) -> CallPermit:
    return limiter.create_permit(HELLO, Options(turn=1, step=step), patience_s)


async def entered(permit: CallPermit, order: list[Any], name: Any) -> None:
    await permit.acquire()
    order.append(name)
    permit.record_accepted(NO_RATE_LIMITS)


async def exhausted_limiter() -> RateLimiter:
    """An account of which nothing is left, and a second of it just begun."""
    limiter = RateLimiter("made-up", VirtualClock())
    first = create_permit_of(limiter)
    await first.acquire()
    first.record_accepted(FULL)
    return limiter


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


# --- no queue -------------------------------------------------------------------------------------


@on_virtual_time
async def test_without_limits_and_a_queue_a_call_goes_at_once_without_a_task_switch() -> None:
    limiter = RateLimiter("made-up", VirtualClock())
    for _ in range(1000):
        permit = create_permit_of(limiter)
        with pytest.raises(StopIteration):
            permit.acquire().send(None)  # it never gives the loop a chance to run anything else
        permit.record_accepted(NO_RATE_LIMITS)
    assert limiter.snapshot_state().admitted == 1000


@on_virtual_time
async def test_a_provider_that_takes_its_time_is_sent_more_but_not_everything_at_once() -> None:
    limiter = RateLimiter("made-up", VirtualClock())
    seats = [create_permit_of(limiter) for _ in range(WINDOW + 200)]
    waiting = [asyncio.ensure_future(permit.acquire()) for permit in seats]
    await settle()
    assert sum(one.done() for one in waiting) == WINDOW
    await asyncio.sleep(10)
    assert all(one.done() for one in waiting)


# --- who goes first -------------------------------------------------------------------------------


@on_virtual_time
async def test_running_turns_go_before_new_turns_and_each_in_order_of_arrival() -> None:
    limiter, order = await exhausted_limiter(), []
    steps = [1, 3, 1, 2, 1, 2]
    tasks = [asyncio.ensure_future(entered(create_permit_of(limiter, step), order, n)) for n, step in enumerate(steps)]
    await asyncio.gather(*tasks)
    assert order == [1, 3, 5, 0, 2, 4]


@on_virtual_time
async def test_a_refused_call_keeps_its_place_in_the_queue() -> None:
    limiter, order = await exhausted_limiter(), []
    unlucky = create_permit_of(limiter, 2)
    await unlucky.acquire()
    others = [asyncio.ensure_future(entered(create_permit_of(limiter, 2), order, n)) for n in range(3)]
    await settle()
    error = RateLimited("slow down")
    assert unlucky.record_refused(error)
    await asyncio.gather(entered(unlucky, order, "unlucky"), *others)
    assert order[0] == "unlucky"


@on_virtual_time
async def test_a_long_waiting_turn_starts_though_new_calls_keep_coming() -> None:
    limiter, order = await exhausted_limiter(), []
    began = asyncio.get_running_loop().time()
    new = asyncio.ensure_future(entered(create_permit_of(limiter, 1), order, "new"))

    async def busy() -> None:
        while not new.done():
            await entered(create_permit_of(limiter, 5), order, "busy")

    others = [asyncio.ensure_future(busy()) for _ in range(20)]
    await asyncio.wait_for(new, 300)
    waited_s = asyncio.get_running_loop().time() - began
    assert LONG_WAIT_S <= waited_s <= LONG_WAIT_S + STARTING_SHARE + 3, "one place in eight, at one call a second"
    for other in others:
        other.cancel()
    await asyncio.gather(*others, return_exceptions=True)


# --- who goes away --------------------------------------------------------------------------------


@on_virtual_time
async def test_a_cancelled_call_leaves_the_queue_at_once_and_takes_no_slot() -> None:
    limiter, order = await exhausted_limiter(), []
    tasks = [asyncio.ensure_future(entered(create_permit_of(limiter, 2), order, n)) for n in range(10)]
    await settle()
    for task in tasks[:9]:
        task.cancel()
    await asyncio.gather(*tasks[:9], return_exceptions=True)
    assert limiter.snapshot_state().waiting == 1
    began = asyncio.get_running_loop().time()
    await tasks[9]
    assert asyncio.get_running_loop().time() - began <= 3


@pytest.mark.parametrize("seed", range(6))
def test_cancelled_at_any_moment_nothing_is_leaked_and_other_calls_get_through(seed: int) -> None:
    """Many calls, each of which may be aborted at any await, in the queue or while it runs."""

    async def main() -> None:
        chance = random.Random(seed)
        account = Account(Bound(20, 10), says=[truthful, silent][seed % 2])
        crowd = ConcurrentAgents(account, 0)
        await crowd.run()
        tasks = [asyncio.ensure_future(crowd._turn(random.Random(n), n)) for n in range(60)]
        doomed = tasks[::2]
        for task in doomed:
            await asyncio.sleep(chance.uniform(0, 0.3))
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert len(crowd.ended) >= 30
        assert crowd.failed == []
        assert crowd.limiter is not None
        state = crowd.limiter.snapshot_state()
        assert (state.waiting, state.unheard, account.under_way) == (0, 0, 0)

    virtual_run(main())


@on_virtual_time
async def test_cancelled_in_the_very_moment_it_is_called_it_gives_its_place_back() -> None:
    limiter, order = await exhausted_limiter(), []
    first, second = (asyncio.ensure_future(entered(create_permit_of(limiter, 2), order, n)) for n in range(2))
    await settle()
    while not order and limiter.snapshot_state().unheard == 0:
        await asyncio.sleep(0.01)
    first.cancel()  # it was called, and has not run since
    await asyncio.gather(first, return_exceptions=True)
    await second
    assert order == [0, 1] or order == [1]
    assert limiter.snapshot_state().unheard == 0


@on_virtual_time
async def test_a_call_that_crashes_frees_its_slot() -> None:
    class Crashing(Account):
        async def stream(self, context: Any, options: Options) -> Any:  # type: ignore[override]
            raise RuntimeError("a bug")
            yield

    limiter = RateLimiter("made-up", VirtualClock())
    provider = ResilientProvider(
        [Crashing(Bound(1, 1))], clock=VirtualClock(), ids=CountingIds(), limits=Limits(), limiters=[limiter]
    )
    for _ in range(3):
        with pytest.raises(ProviderBroken, match=r"provider made-up .* failed with RuntimeError") as failed:
            await anext(provider.stream(HELLO, Options()))
        assert isinstance(failed.value.__cause__, RuntimeError)
    assert limiter.snapshot_state().unheard == 0


# --- waiting is a state ---------------------------------------------------------------------------


@on_virtual_time
async def test_a_waiting_call_is_told_the_reason_and_a_time_that_covers_the_wait() -> None:
    account = Account(Bound(2, 1), says=truthful)
    crowd = ConcurrentAgents(account, 0)
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
    """Time in the queue is no refusal: the calls wait for minutes."""
    limits = Limits(retry_base_s=0.25)  # all of them together are 64 s
    crowd = ConcurrentAgents(Account(Bound(1, 1), says=silent, retry_after=False), 150, steps=1, limits=limits)
    seconds = await crowd.run()
    assert seconds > 100
    assert crowd.failed == []


@on_virtual_time
async def test_queue_wait_max_s_is_the_one_bound_of_it() -> None:
    limits = Limits(queue_wait_max_s=100.0, retries_max=1000)
    crowd = ConcurrentAgents(Account(Bound(1, 1), storming=lambda now: True), 3, limits=limits)
    seconds = await crowd.run()
    assert len(crowd.failed) == 3
    assert 100 <= seconds <= 110
    assert all(isinstance(error, RateLimited) and "did not allow this call" in str(error) for error in crowd.failed)


@on_virtual_time
async def test_with_a_failover_model_no_call_waits_longer_than_for_retries() -> None:
    clock = VirtualClock()
    limits = Limits(retry_wait_max_s=20.0, retries_max=1000)
    first, second = Account(Bound(1, 1), storming=lambda now: True), Account(Bound(100, 100))
    limiters = [RateLimiter("first", clock), RateLimiter("second", clock)]
    both = ResilientProvider([first, second], clock=clock, ids=CountingIds(), limits=limits, limiters=limiters)
    pieces = [piece async for piece in both.stream(HELLO, Options())]
    assert pieces
    assert 20 <= clock.monotonic() <= 25
    assert len(second.taken) == 1


@on_virtual_time
async def test_a_retry_time_above_the_maximum_wait_is_given_up_at_once() -> None:
    class Closed(Account):
        def _refusal(self, now: float, weight: float) -> ProviderError | None:
            return RateLimited("come back tomorrow", retry_after_s=86400.0) if now < 1000 else None

    crowd = ConcurrentAgents(Closed(Bound(10, 10)), WINDOW + 40, steps=1)
    assert await crowd.run() <= 2
    assert len(crowd.failed) == WINDOW + 40
    assert "accepts no calls for 1440 min" in str(crowd.failed[-1]), "who was in the line has not been asked"
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


@pytest.mark.parametrize("retries_max", [0, 3, 8])
@pytest.mark.parametrize("kind", [RateLimited, Overloaded], ids=["429", "529"])
def test_miclaw_072_a_call_ends_after_retries_max_retries_also_under_the_rate_limiter(
    kind: type[RateLimited] | type[Overloaded], retries_max: int
) -> None:
    storm = Account(Bound(50, 50), storming=lambda now: True, status=lambda now: kind)
    crowd = ConcurrentAgents(storm, 5, steps=1, limits=Limits(retries_max=retries_max))
    virtual_run(crowd.run())
    assert len(crowd.failed) == 5
    assert len(storm.refused) == 5 * (1 + retries_max)
    if retries_max:
        assert f"this call was refused {retries_max + 1} times" in str(crowd.failed[0])
        assert any("asks to slow down" in sentence for sentence, _ in crowd.notices)


@pytest.mark.parametrize("governed", [True, False])
def test_miclaw_072_without_a_hint_retries_wait_from_two_seconds_doubling_with_the_rate_limiter_as_without(
    governed: bool,
) -> None:
    """The jitter of a fifth, and the moment until the answer, are allowed for."""

    def sent_by(limits: Limits) -> list[float]:
        storm = Account(Bound(50, 50), storming=lambda now: True, says=silent, retry_after=False)
        crowd = ConcurrentAgents(storm, 1, steps=1, governed=governed, limits=limits)
        virtual_run(crowd.run())
        assert len(crowd.failed) == 1
        return [later - earlier for earlier, later in pairwise(storm.refused)]

    for gap, wait_s in zip(sent_by(Limits()), [2, 4, 8, 16, 32, 64, 128, 256], strict=True):
        assert 0.8 * wait_s <= gap <= 1.2 * wait_s + 0.3
    assert len(sent_by(Limits(retry_wait_max_s=40.0))) == 4 + 1  # the fifth retry waits for the rest
    assert [round(gap) for gap in sent_by(Limits(retry_base_s=10.0, retry_jitter=0.0, retries_max=2))] == [10, 20]


def test_a_long_pause_that_the_provider_names_is_waited_for_though_it_is_tested() -> None:
    """Fifteen minutes: a lone call does not use up its retries by asking once a minute, and is sent when they end."""
    opens_at = 900.0

    class Closed(Account):
        def _refusal(self, now: float, weight: float) -> ProviderError | None:
            return RateLimited("come back later", retry_after_s=opens_at - now) if now < opens_at else None

    for agents in (1, 30):
        crowd = ConcurrentAgents(Closed(Bound(10, 10)), agents, steps=1)
        seconds = virtual_run(crowd.run())
        assert crowd.failed == []
        assert opens_at <= seconds <= opens_at + 70


@pytest.mark.parametrize("kind", [RateLimited, Overloaded], ids=["429", "529"])
def test_refusals_open_no_breaker(kind: type[RateLimited] | type[Overloaded]) -> None:
    storm = Account(Bound(50, 50), storming=lambda now: now < 7, status=lambda now: kind)
    crowd = ConcurrentAgents(storm, 5, steps=1)
    seconds = virtual_run(crowd.run())
    assert crowd.failed == []
    assert 7 <= seconds <= 15
    assert len(storm.refused) >= 10


def test_other_errors_are_still_retried_and_counted() -> None:
    class Gone(Account):
        def _refusal(self, now: float, weight: float) -> ProviderError | None:
            return Unreachable("nobody is there")

    crowd = ConcurrentAgents(Gone(Bound(1, 1)), 1, steps=1, limits=Limits(retries_max=2))
    virtual_run(crowd.run())
    assert [type(error) for error in crowd.failed] == [Unreachable]


def test_after_a_burst_of_refusals_one_call_at_a_time_probes() -> None:
    account = Account(Bound(500, 500), storming=lambda now: 1.0 < now < 21.0, retry_after=False, says=silent)
    crowd = ConcurrentAgents(account, 300, steps=40)
    virtual_run(crowd.run())
    assert crowd.failed == []
    late = [at for at in account.refused if at > 3.0]
    assert len(late) <= 20
    assert min(at for at in account.taken if at > 21.0) <= 26.1


# --- the crowd, small -----------------------------------------------------------------------------


@pytest.mark.parametrize("says", [always_empty, bare_zero], ids=["reset", "bare"])
def test_a_provider_that_reports_zero_and_never_resets_is_detected(says: Callable[[Account], Any]) -> None:
    crowd = ConcurrentAgents(Account(Bound(50, 50), says=says), 200, steps=2)
    seconds = virtual_run(crowd.run())
    assert crowd.failed == []
    assert seconds <= 2 * (400 - 50) / 50


def test_wall_clocks_that_jump_change_nothing() -> None:
    async def main() -> float:
        crowd = ConcurrentAgents(Account(Bound(20, 20)), 60, steps=2)
        running = asyncio.ensure_future(crowd.run())
        await asyncio.sleep(1)
        assert crowd.limiter is not None
        clock = crowd.limiter.clock
        assert isinstance(clock, VirtualClock)
        for jump in (-1e9, 1e9, 86400.0):
            clock.jump(jump)
            await asyncio.sleep(0.5)
        seconds = await running
        assert crowd.failed == []
        return seconds

    assert virtual_run(main()) <= 1.3 * (120 - 20) / 20 + 2


def test_accounts_are_distinguished_and_the_same_one_is_shared() -> None:
    async def main() -> None:
        limiters = RateLimiterRegistry(VirtualClock())
        one = limiters.get_limiter("digest", "openai", "gpt")
        assert limiters.get_limiter("digest", "openai", "gpt") is one
        assert limiters.get_limiter("digest", "openai", "other") is not one
        assert limiters.get_limiter("another", "openai", "gpt") is not one
        assert [state.provider_name for state in limiters.snapshot_states()] == ["openai"] * 3

    virtual_run(main())


def test_the_state_says_what_people_ask_about() -> None:
    async def main() -> None:
        crowd = ConcurrentAgents(Account(Bound(10, 5), Bound(10_000, 5000)), 40, steps=1)
        running = asyncio.ensure_future(crowd.run())
        await asyncio.sleep(1.5)
        assert crowd.limiter is not None
        state = crowd.limiter.snapshot_state()
        assert state.waiting > 0
        assert state.remaining["requests"][1] == 5
        assert 0 <= state.remaining["tokens"][0] <= 5000
        assert state.trusts_reports
        await running
        after = crowd.limiter.snapshot_state()
        assert (after.waiting, after.unheard) == (0, 0)
        assert after.admitted == 40 + after.refused
        assert after.waited_s > 10

    virtual_run(main())


@on_virtual_time
async def test_an_abandoned_queue_holds_no_call_in_memory() -> None:
    limiter = await exhausted_limiter()
    patient = asyncio.ensure_future(entered(create_permit_of(limiter, 2), [], 0))
    for _ in range(50):
        crowd = [asyncio.ensure_future(entered(create_permit_of(limiter, 2), [], n)) for n in range(20)]
        await settle()
        for one in crowd:
            one.cancel()
        await asyncio.gather(*crowd, return_exceptions=True)
    assert len(limiter.queue) == 1
    assert len(limiter.queue._finishing) <= 200
    await patient
