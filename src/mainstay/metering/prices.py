"""What a call can cost, in whole nanodollars and rounded up. Pure, and without floating point: prices are turned into
picodollars a token once, and counted in these."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from mainstay.core.models import LongPrices, ModelInfo

PICO = 1000  # picodollars in a nanodollar


def per_token(dollars_per_million: float) -> int:
    """Picodollars: a dollar per million tokens is a million of them a token, and no price has more digits."""
    return round(dollars_per_million * 1_000_000)


def dearest(models: Sequence[ModelInfo]) -> ModelInfo:
    """The first, at the highest prices of all that may answer in its place."""
    first, *others = models
    if not others:
        return first
    usual = [one.prices(0) for one in models]
    long = [one.long for one in models if one.long is not None]
    above = _highest(min((one.above for one in long), default=0), [*usual, *long])
    usual_ones = _highest(0, usual)
    return structs.replace(
        first,
        price_prompt=usual_ones.prompt,
        price_completion=usual_ones.completion,
        price_cached=None,
        price_written=None,
        long=above if long else None,
        guessed=any(one.guessed for one in models),
    )


def _highest(above: int, some: Sequence[LongPrices]) -> LongPrices:
    return LongPrices(above, max(map(_dearest_of_prompt, some)), max(one.completion for one in some))


def rates(model: ModelInfo, prompt: int) -> tuple[int, int]:
    """Picodollars that a token of such a prompt costs at the most, and one of the answer."""
    prices = model.prices(prompt)
    return per_token(_dearest_of_prompt(prices)), per_token(prices.completion)


def _dearest_of_prompt(prices: LongPrices) -> float:
    return max(prices.prompt, prices.cached or 0.0, prices.written or 0.0)
