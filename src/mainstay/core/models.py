"""What a model is: how much it reads and writes, and what that costs."""

from __future__ import annotations

import math

import msgspec

from mainstay.core.messages import Usage


class LongPrices(msgspec.Struct, frozen=True, gc=False):
    """What all of a call costs whose prompt has more tokens than this."""

    above: int
    prompt: float
    completion: float
    cached: float | None = None
    written: float | None = None


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes in tokens, prices in dollars per million tokens. Of a prompt, what the provider had in its cache and what
    it has written to it may have prices of their own."""

    name: str
    window: int = 128_000
    output: int = 16_384
    images: bool = True
    thinking: bool = False
    price_prompt: float = 0.0
    price_completion: float = 0.0
    price_cached: float | None = None
    price_written: float | None = None
    long: LongPrices | None = None
    guessed: bool = False  # nobody knows the prices: these are by rule, or none
    terse: bool = False  # small and slow to read: it gets few tools and few words

    def prices(self, prompt: int) -> LongPrices:
        """Those of a call whose prompt has so many tokens."""
        if self.long is not None and prompt > self.long.above:
            return self.long
        return LongPrices(0, self.price_prompt, self.price_completion, self.price_cached, self.price_written)

    def cost(self, usage: Usage) -> float:
        """Dollars, in whole billionths of one: what is left of a nanodollar is one."""
        prices = self.prices(usage.prompt)
        cached = prices.prompt if prices.cached is None else prices.cached
        written = prices.prompt if prices.written is None else prices.written
        fresh = usage.prompt - usage.cached - usage.written
        total = fresh * prices.prompt + usage.completion * prices.completion
        total += usage.cached * cached + usage.written * written
        return math.ceil(round(total * 1000, 3)) / 1_000_000_000
