"""Known models: context window, output limit, prices and abilities. Each provider's folder has its table.

List prices in dollars per million tokens as published by November 2026, without batch or priority tiers; configured
prices override them. They come from `prices.json` (written by scripts/prices.py), else from the provider's table.
`window` is the longest prompt, which may be less than the advertised sum of prompt and output. An unknown model stays
unknown: a newer model is never taken for an older one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec

from mainstay.core.model_info import LongPromptPrices, ModelInfo

T = TypeVar("T")
# the usual prices, and those of long prompts if they differ
PriceTiers = tuple[LongPromptPrices | None, LongPromptPrices | None]


class KnownModel(msgspec.Struct, frozen=True):
    """Sizes in tokens, prices in dollars per million tokens."""

    window: int
    output: int
    prompt: float
    completion: float
    cached: float
    thinking: bool = False
    images: bool = True


# A suffix after which it is still the same model: a date, a number, a stage, a Bedrock release.
_VERSION_SUFFIX = re.compile(
    r"(?:-(?:\d{8}|\d{4}-\d{2}-\d{2}|\d{3,4}|latest|preview(?:-\d{2}-\d{2,4})?))?(?:-v\d+)?(?:[:@][\w.-]+)?"
)


def describe_model(
    model: str,
    models: Mapping[str, KnownModel],
    *,
    price_tables: Sequence[str],
    alias: str = "",
    price_names: Sequence[str] = (),
) -> ModelInfo:
    """Return what is known about a model; the defaults of `ModelInfo` for an unknown one.

    `price_tables` are tables of `prices.json`, the best first. `alias` is the model's name in `models`, and
    `price_names` are its names in the price tables, where they differ.
    """
    name = alias or model
    known = _find_by_name(models, name)
    prices = _find_prices(price_tables, price_names or (name,)) or (_table_prices(known), None)
    info = ModelInfo(name=model, guessed=prices[0] is None)
    if known is not None:
        sizes = {"window": known.window, "output": known.output, "images": known.images, "thinking": known.thinking}
        info = msgspec.structs.replace(info, **sizes)
    return _with_prices(info, *prices)


def _table_prices(known: KnownModel | None) -> LongPromptPrices | None:
    return LongPromptPrices(0, known.prompt, known.completion, known.cached) if known is not None else None


def _with_prices(
    info: ModelInfo, prices: LongPromptPrices | None, long_prompt_prices: LongPromptPrices | None
) -> ModelInfo:
    if prices is None:
        return info
    return msgspec.structs.replace(
        info,
        price_prompt=prices.prompt,
        price_completion=prices.completion,
        price_cached=prices.cached,
        price_written=prices.written,
        long=long_prompt_prices,
    )


def _find_prices(tables: Sequence[str], names: Sequence[str]) -> PriceTiers | None:
    """Return the prices from the data set; None if the model is not in it."""
    for table in tables:
        rows = _load_price_data().get(table, {})
        for name in names:
            row = rows.get(name) or _find_by_name(rows, name)
            if row is not None:
                return _row_to_prices(row)
    return None


def _row_to_prices(row: Sequence[float | None]) -> PriceTiers:
    padded = [*row, *[None] * (9 - len(row))]
    prompt, completion, above = padded[0] or 0.0, padded[1] or 0.0, padded[4]
    usual = LongPromptPrices(0, prompt, completion, padded[2], padded[3])
    if above is None:
        return usual, None
    return usual, LongPromptPrices(int(above), padded[5] or prompt, padded[6] or completion, padded[7], padded[8])


@cache
def _load_price_data() -> dict[str, dict[str, list[float | None]]]:
    """Load `prices.json`: prices by provider and model."""
    text = Path(__file__).with_name("prices.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, dict[str, list[float | None]]])


def _find_by_name(table: Mapping[str, T], name: str) -> T | None:
    """Return the entry whose name is `name` without its version suffix; the longest if several match."""
    matches = [known for known in table if name.startswith(known) and _VERSION_SUFFIX.fullmatch(name, len(known))]
    return table[max(matches, key=len)] if matches else None
