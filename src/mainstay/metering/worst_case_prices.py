"""Prices for cost estimates, in integers: picodollars per token. Pure.

Estimates are whole nanodollars, rounded up; prices are converted from floating point once.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from mainstay.core.model_info import LongPromptPrices, ModelInfo

PICO_PER_NANO = 1000  # picodollars in a nanodollar


def convert_price(dollars_per_million: float) -> int:
    """Convert dollars per million tokens to picodollars per token; no price has more digits."""
    return round(dollars_per_million * 1_000_000)


def combine_highest_prices(models: Sequence[ModelInfo]) -> ModelInfo:
    """Return the first model with the highest prices of all the models."""
    first, *others = models
    if not others:
        return first
    usual = [model.prices_for(0) for model in models]
    long = [model.long for model in models if model.long is not None]
    highest_long = _find_highest(min((prices.above for prices in long), default=0), [*usual, *long])
    highest = _find_highest(0, usual)
    return structs.replace(
        first,
        price_prompt=highest.prompt,
        price_completion=highest.completion,
        price_cached=None,
        price_written=None,
        long=highest_long if long else None,
        guessed=any(model.guessed for model in models),
    )


def _find_highest(above: int, prices: Sequence[LongPromptPrices]) -> LongPromptPrices:
    return LongPromptPrices(above, max(map(_find_prompt_price, prices)), max(entry.completion for entry in prices))


def find_token_rates(model: ModelInfo, prompt: int) -> tuple[int, int]:
    """Return the maximum picodollars per prompt token and per output token, for a prompt of this length."""
    prices = model.prices_for(prompt)
    return convert_price(_find_prompt_price(prices)), convert_price(prices.completion)


def _find_prompt_price(prices: LongPromptPrices) -> float:
    return max(prices.prompt, prices.cached or 0.0, prices.written or 0.0)
