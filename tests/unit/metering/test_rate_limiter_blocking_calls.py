"""One call must not block all others: one that is too large, one that is always refused, one that hangs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import pytest
from support.rate_limit_world import HELLO, Account, Bound, silent, truthful

from mainstay.core.errors import ContextTooLong, ProviderError, RateLimited
from mainstay.core.limits import Limits
from mainstay.core.messages import FinishReason, Usage
from mainstay.core.ports import Context, ModelInfo, Options, Piece, StreamFinished, TextPiece
from mainstay.core.rate_limits import RateLimitStatus
from mainstay.metering.rate_limiter import RateLimiter
from mainstay.metering.resilient_provider import ResilientProvider
from mainstay.testing import CountingIds, VirtualClock, virtual_run

TOKENS = 30_000.0


class NarrowAccount(Account):
    """Like most: what is more than it has when it has all of it is refused, however long one waits."""

    large = 0

    def _refusal(self, now: float, weight: float) -> ProviderError | None:
        if self.tokens is None or weight <= self.tokens.size:
            return super()._refusal(now, weight)
        self.large += 1
        error = RateLimited("slow down")
        error.rate_limits = RateLimitStatus(self.says(self))
        return error


class SharedAccount:
    """An account of 500 tokens a second, and calls that come one after another."""

    def __init__(self, says: Callable[[Account], Any], limits: Limits | None = None) -> None:
        clock = VirtualClock()
        self.account = NarrowAccount(Bound(500 / 60, 500), Bound(500, TOKENS), says=says)
        self.limiter = RateLimiter("made-up", clock)
        self.provider = ResilientProvider(
            [self.account], clock=clock, ids=CountingIds(), limits=limits or Limits(), limiters=[self.limiter]
        )
        self.took: list[float] = []

    async def ask(self, tokens: int, step: int = 1) -> float:
        began = asyncio.get_running_loop().time()
        options = Options(turn=1, step=step, output_tokens_max=200, count_context_tokens=lambda: tokens - 200)
        async with aclosing(self.provider.stream(HELLO, options)) as stream:
            async for _ in stream:
                pass
        self.took.append(asyncio.get_running_loop().time() - began)
        return self.took[-1]

    async def be_busy(self, calls: int) -> None:
        """Half of what the account has, in small calls."""
        tasks = []
        for _ in range(calls):
            tasks.append(asyncio.ensure_future(self.ask(1000)))
            await asyncio.sleep(4)
        await asyncio.gather(*tasks)


def test_a_call_larger_than_the_quota_fails_and_blocks_no_other() -> None:
    async def main() -> None:
        account_in_use = SharedAccount(truthful)
        large = asyncio.ensure_future(account_in_use.ask(41_000, step=2))
        await account_in_use.be_busy(50)
        with pytest.raises(ContextTooLong) as refused:
            await large
        assert refused.value.window == TOKENS, "so that the conversation is made shorter"
        assert "30000 tokens at once" in str(refused.value)
        assert max(account_in_use.took) <= 2

    virtual_run(main())


def test_an_oversized_call_under_load_blocks_the_others_once_and_the_next_one_not_at_all() -> None:
    async def main() -> None:
        account_in_use = SharedAccount(truthful)
        await asyncio.gather(*(account_in_use.ask(1000) for _ in range(25)))  # most of it is gone
        account_in_use.took.clear()
        others = asyncio.ensure_future(account_in_use.be_busy(40))
        await asyncio.sleep(0.1)
        with pytest.raises(ContextTooLong):
            await account_in_use.ask(41_000, step=2)
        await others
        assert max(account_in_use.took) <= 60, "what it takes until the account is whole"
        account_in_use.took.clear()
        large = account_in_use.account.large
        await asyncio.gather(*(account_in_use.ask(1000) for _ in range(25)))
        others = asyncio.ensure_future(account_in_use.be_busy(10))
        await asyncio.sleep(0.1)
        with pytest.raises(ContextTooLong):
            await account_in_use.ask(42_000, step=2)
        await others
        assert max(account_in_use.took) <= 2, "by now it is known to be of no use"
        assert account_in_use.account.large == large + 1

    virtual_run(main())


def test_a_permanently_refused_call_uses_no_quota_afterwards() -> None:
    async def main() -> None:
        account_in_use = SharedAccount(truthful)
        await account_in_use.ask(1000)
        await asyncio.sleep(60)
        with pytest.raises(ContextTooLong):
            await account_in_use.ask(41_000)
        assert account_in_use.limiter.snapshot_state().remaining["tokens"][0] >= 0.9 * TOKENS
        assert await account_in_use.ask(20_000) <= 2

    virtual_run(main())


def test_a_call_that_is_refused_while_others_are_answered_waits_alone() -> None:
    """No limit is reported, so it is unknown that the call is too large."""

    async def main() -> None:
        account_in_use = SharedAccount(silent, Limits(queue_wait_max_s=600.0))
        large = asyncio.ensure_future(account_in_use.ask(41_000, step=2))
        await account_in_use.be_busy(160)
        with pytest.raises(RateLimited):
            await large
        assert sorted(account_in_use.took)[80] <= 1.5
        assert max(account_in_use.took) <= 5
        assert account_in_use.account.large <= 30

    virtual_run(main())


class Hanging:
    """Refuses three, takes the fourth and never says a word, and answers the others."""

    def __init__(self, hangs: int = 1) -> None:
        self.asked = 0
        self.hangs = hangs

    def model(self) -> ModelInfo:
        return ModelInfo(name="made-up")

    async def close(self) -> None:
        pass

    async def stream(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        self.asked += 1
        number = self.asked
        await asyncio.sleep(0.02)
        if number <= 3:
            raise RateLimited("slow down")
        if number <= 3 + self.hangs:
            await asyncio.sleep(3600)
        yield TextPiece("hello")
        yield StreamFinished(FinishReason.END, Usage(1, 1))


@pytest.mark.parametrize(("hangs", "within_s"), [(1, 6), (3, 20)])
def test_a_probe_that_hangs_does_not_block_others_for_long(hangs: int, within_s: float) -> None:
    async def main() -> None:
        clock = VirtualClock()
        limiter = RateLimiter("made-up", clock)
        provider = ResilientProvider(
            [Hanging(hangs)], clock=clock, ids=CountingIds(), limits=Limits(), limiters=[limiter]
        )

        async def ask(number: int) -> None:
            await asyncio.sleep(number * 0.1)
            async with aclosing(provider.stream(HELLO, Options(turn=1, step=1))) as stream:
                async for _ in stream:
                    pass

        tasks = [asyncio.ensure_future(ask(number)) for number in range(40)]
        await asyncio.wait(tasks, timeout=within_s)
        assert sum(not task.done() for task in tasks) == hangs
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert limiter.snapshot_state().unheard == 0

    virtual_run(main())


def test_calls_sent_before_the_refusals_do_not_delay_the_detection_of_their_end() -> None:
    async def main() -> None:
        clock = VirtualClock()
        limiter = RateLimiter("made-up", clock)
        slow = limiter.create_permit(HELLO, Options(turn=1, step=1), 3600)
        await slow.acquire()  # and is not heard of for long
        unlucky = limiter.create_permit(HELLO, Options(turn=1, step=1), 3600)
        for _ in range(3):
            await unlucky.acquire()
            await asyncio.sleep(0.02)
            assert unlucky.record_refused(RateLimited("slow down"))
        began = clock.monotonic()
        await unlucky.acquire()
        assert clock.monotonic() - began <= 2

    virtual_run(main())


def test_a_call_is_said_to_be_sent_each_time_it_goes_out_and_never_while_it_waits() -> None:
    async def main() -> None:
        clock = VirtualClock()
        storm = Account(Bound(50, 50), storming=lambda now: now < 2.5)
        limiter = RateLimiter("made-up", clock)
        provider = ResilientProvider([storm], clock=clock, ids=CountingIds(), limits=Limits(), limiters=[limiter])
        sent: list[float] = []
        options = Options(turn=1, step=1, on_sent=lambda: sent.append(clock.monotonic()))
        assert [piece async for piece in provider.stream(HELLO, options)]
        assert len(sent) == len(storm.refused) + 1 >= 3

        full = asyncio.ensure_future(anext(provider.stream(HELLO, Options())))
        limiter._pause(clock.monotonic(), 30.0)
        waits: list[float] = []
        waiting = asyncio.ensure_future(anext(provider.stream(HELLO, Options(on_sent=lambda: waits.append(0)))))
        await asyncio.sleep(5)
        waiting.cancel()
        full.cancel()
        await asyncio.gather(waiting, full, return_exceptions=True)
        assert waits == [], "it stood in the line and left"

    virtual_run(main())
