"""Writes src/mainstay/providers/prices.json from genai-prices, the data set that its makers keep up to date.

    pip install genai-prices    # in an environment of its own: it brings an HTTP client and a validator along
    python scripts/prices.py [--check]

Mainstay itself does not depend on it: a table of numbers is all that is needed of it while an agent runs. Standard
prices only, as of the day this is run; where they depend on the time of day, the dearest.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
TABLE = HERE / "src/mainstay/providers/prices.json"
OURS = {  # by the data set's name of a provider
    "openai": "openai",
    "azure": "azure",
    "anthropic": "anthropic",
    "google": "gemini",
    "aws": "bedrock",
    "groq": "groq",
    "mistral": "mistral",
    "deepseek": "deepseek",
    "together": "together",
    "x-ai": "xai",
    "openrouter": "openrouter",
}
KINDS = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--check", action="store_true", help="only say whether it is up to date")
    check = options.parse_args().check
    made = render(collect())
    if check:
        sys.exit(0 if TABLE.exists() and TABLE.read_text() == made else f"{TABLE.name} is not up to date")
    TABLE.write_text(made)
    print(f"{TABLE}: {made.count(chr(10)) - 2} models")


def collect() -> dict[str, dict[str, list[float | None]]]:
    from genai_prices.data import providers

    found: dict[str, dict[str, list[float | None]]] = {}
    for provider in providers:
        if (name := OURS.get(provider.id)) is not None:
            rows = ((model.id, row_of(model)) for model in provider.models)
            found[name] = {id: row for id, row in rows if row is not None}
    return found


def row_of(model: Any) -> list[float | None] | None:
    """Prompt, completion, cached, written; and from which size of a prompt on they are which others."""
    prices = now_of(model.prices)
    base = [part_of(getattr(prices, kind, None), None) for kind in KINDS]
    if base[0] is None or base[1] is None:
        return None
    starts = {start for kind in KINDS for start in starts_of(getattr(prices, kind, None))}
    if not starts:
        return trimmed(base)
    above = min(starts)
    return trimmed(
        [*base, *([None] * (4 - len(base))), float(above), *(part_of(getattr(prices, k, None), above) for k in KINDS)]
    )


def now_of(prices: Any) -> Any:
    if not isinstance(prices, list):
        return prices
    today = datetime.date.today()
    valid = [one for one in prices if getattr(one.constraint, "start_date", today) <= today]
    dated = [one for one in valid if hasattr(one.constraint, "start_date")]
    if dated:
        newest = max(one.constraint.start_date for one in dated)
        valid = [one for one in valid if getattr(one.constraint, "start_date", newest) == newest and one.constraint]
    return max(valid or prices, key=lambda one: part_of(one.prices.output_mtok, None) or 0).prices


def starts_of(price: Any) -> list[int]:
    return [tier.start for tier in getattr(price, "tiers", ())]


def part_of(price: Any, above: int | None) -> float | None:
    """Of a prompt of this size; the dearest of what is above it."""
    if price is None or isinstance(price, Decimal | int | float):
        return float(price) if price is not None else None
    if above is None:
        return float(price.base)
    return max(float(price.base), *(float(tier.price) for tier in price.tiers))


def trimmed(row: list[float | None]) -> list[float | None]:
    while row and row[-1] is None:
        row.pop()
    return row


def render(found: dict[str, dict[str, list[float | None]]]) -> str:
    """A model a line, so that a change can be read."""
    blocks = []
    for provider, models in sorted(found.items()):
        lines = (f"{json.dumps(id)}: {json.dumps(row, separators=(',', ':'))}" for id, row in sorted(models.items()))
        blocks.append(f"{json.dumps(provider)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


if __name__ == "__main__":
    main()
