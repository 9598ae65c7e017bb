"""A provider with rate limits, in time that tests move: buckets that refill evenly, headers that are true or false,
bursts in which it refuses every call, refusals at random, and other clients of the same account."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from mainstay.core.errors import Overloaded, ProviderError, RateLimited
from mainstay.core.limits import Limits
from mainstay.core.messages import FinishReason, Message, Text, Usage
from mainstay.core.ports import Context, ModelInfo, Options, Piece, StreamFinished, TextPiece
from mainstay.core.rate_limits import RateLimitQuota, RateLimitStatus
from mainstay.metering.rate_limiter import RateLimiter
from mainstay.metering.resilient_provider import ResilientProvider
from mainstay.testing import CountingIds, VirtualClock

HELLO = Context("", (Message("m1", "user", (Text("hello"),)),))


def truthful(account: Account) -> tuple[RateLimitQuota, ...]:
    return account.lefts(1.0)


def silent(account: Account) -> tuple[RateLimitQuota, ...]:
    return ()


def too_high(account: Account) -> tuple[RateLimitQuota, ...]:
    return account.lefts(4.0)


def too_low(account: Account) -> tuple[RateLimitQuota, ...]:
    """A quarter of what there is, and of how fast it comes back."""
    return account.lefts(0.25)


def always_full(account: Account) -> tuple[RateLimitQuota, ...]:
    return tuple(RateLimitQuota(one.name, one.kind, one.limit, one.limit, 0.0) for one in account.lefts(1.0))


def always_empty(account: Account) -> tuple[RateLimitQuota, ...]:
    """Nothing is ever left, and it says so with a reset that never comes nearer."""
    return tuple(RateLimitQuota(one.name, one.kind, 0.0, one.limit / 10, 60.0) for one in account.lefts(1.0))


def bare_zero(account: Account) -> tuple[RateLimitQuota, ...]:
    """Nothing is left; no limit, no reset."""
    return tuple(RateLimitQuota(one.name, one.kind, 0.0) for one in account.lefts(1.0))


@dataclass
class Bound:
    """`size` at most, coming back at `rate` a second."""

    rate: float
    size: float
    level: float = -1.0
    at: float = 0.0

    def look(self, now: float) -> float:
        if self.level < 0:
            self.level, self.at = self.size, now
        self.level = min(self.size, self.level + self.rate * (now - self.at))
        self.at = now
        return self.level


@dataclass
class Account:
    requests: Bound
    tokens: Bound | None = None
    says: Callable[[Account], tuple[RateLimitQuota, ...]] = truthful
    storming: Callable[[float], bool] = lambda now: False
    refused_share: float = 0.0  # of all calls, at random, whatever the load is
    retry_after: bool = True
    transit_s: float = 0.01
    think_s: float = 0.25
    speak_s: float = 0.5
    rounding: Callable[[float], float] = float
    status: Callable[[float], type[RateLimited] | type[Overloaded]] = lambda now: RateLimited
    taken: list[float] = field(default_factory=list)  # when
    refused: list[float] = field(default_factory=list)
    taken_elsewhere: int = 0
    under_way: int = 0
    most_under_way: int = 0
    seed: int = 1

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    def model(self) -> ModelInfo:
        return ModelInfo(name="made-up")

    async def close(self) -> None:
        pass

    def lefts(self, factor: float) -> tuple[RateLimitQuota, ...]:
        now = asyncio.get_running_loop().time()
        made = []
        for name, bound in (("requests", self.requests), ("tokens", self.tokens)):
            if bound is not None:
                left = bound.look(now)
                whole_s = (bound.size - left) / bound.rate
                made.append(
                    RateLimitQuota(name, name, self.rounding(left * factor) // 1, bound.size * factor // 1, whole_s)
                )  # type: ignore[arg-type]
        return tuple(made)

    def _refusal(self, now: float, weight: float) -> ProviderError | None:
        if self.storming(now) or self.chance.random() < self.refused_share:
            wait_s: float | None = 1.0
        else:
            wait_s = (1 - self.requests.look(now)) / self.requests.rate
            if self.tokens is not None:
                short = (min(weight, self.tokens.size) - self.tokens.look(now)) / self.tokens.rate
                wait_s = max(wait_s, short)
            if wait_s <= 1e-9:
                return None
            wait_s = float(-(-wait_s // 1))
        error = self.status(now)("slow down", retry_after_s=wait_s if self.retry_after else None)
        error.rate_limits = RateLimitStatus(self.says(self), error.retry_after_s)
        return error

    async def call_from_elsewhere(self, rate: float) -> None:
        """Another client of the account, which sends so many calls a second and takes no notice of refusals."""
        while True:
            await asyncio.sleep(self.chance.expovariate(rate))
            if self.requests.look(asyncio.get_running_loop().time()) >= 1:
                self.requests.level -= 1
                self.taken_elsewhere += 1

    async def stream(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        self.under_way += 1
        self.most_under_way = max(self.under_way, self.most_under_way)
        try:
            await asyncio.sleep(self.transit_s * self.chance.uniform(0.5, 1.5))
            now = asyncio.get_running_loop().time()
            prompt = options.count_context_tokens() if options.count_context_tokens is not None else 0
            weight = prompt + (options.output_tokens_max or 0)
            if (error := self._refusal(now, weight)) is not None:
                self.refused.append(now)
                await asyncio.sleep(self.transit_s)
                raise error
            self.taken.append(now)
            self.requests.level -= 1
            if self.tokens is not None:
                self.tokens.level -= weight
            said = self.says(self)
            await asyncio.sleep(self.think_s * self.chance.uniform(0.5, 1.5))
            if options.on_rate_limits is not None:
                options.on_rate_limits(RateLimitStatus(said))
            yield TextPiece("hello")
            await asyncio.sleep(self.speak_s * self.chance.uniform(0.5, 1.5))
            yield StreamFinished(FinishReason.END, Usage(prompt, 50))
        finally:
            self.under_way -= 1


@dataclass
class ConcurrentAgents:
    """Agents that all have something to do: turns of some calls, one after another."""

    account: Account
    agents: int
    steps: int = 3
    tokens: Callable[[random.Random], int] = lambda chance: 1000
    governed: bool = True
    limits: Limits = field(default_factory=Limits)
    elsewhere: float = 0.0  # calls per second of another client of the account
    failed: list[ProviderError] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)
    notices: list[tuple[str, float]] = field(default_factory=list)

    async def run(self) -> float:
        """How long it took."""
        clock = VirtualClock()
        self.limiter = RateLimiter("made-up", clock) if self.governed else None
        self.provider = ResilientProvider(
            [self.account], clock=clock, ids=CountingIds(), limits=self.limits, limiters=[self.limiter]
        )
        began = clock.monotonic()
        other = asyncio.create_task(self.account.call_from_elsewhere(self.elsewhere)) if self.elsewhere else None
        await asyncio.gather(*(self._turn(random.Random(n), n) for n in range(self.agents)))
        if other is not None:
            other.cancel()
        return clock.monotonic() - began

    async def _turn(self, chance: random.Random, number: int) -> None:
        for step in range(1, self.steps + 1):
            weight = self.tokens(chance)
            options = Options(
                turn=1,
                step=step,
                output_tokens_max=200,
                count_context_tokens=lambda weight=weight: weight - 200,  # type: ignore[misc]
                on_wait=lambda sentence, seconds: self.notices.append((sentence, seconds)),
            )
            try:
                async with aclosing(self.provider.stream(HELLO, options)) as stream:
                    async for _ in stream:
                        pass
            except ProviderError as error:
                self.failed.append(error)
                return
        self.ended.append(asyncio.get_running_loop().time())

    def used(self, seconds: float) -> float:
        """Of what the limits allowed while there was work."""
        bound = self.account.requests
        return len(self.account.taken) / (bound.size + bound.rate * seconds)
