"""What is known of models: how much they read and write, what they cost, what they can do.

List prices in dollars per million tokens as published by November 2026, without batch or priority tiers; whoever
configures others has those. They are taken from `prices.json` (scripts/prices.py), else from the table here.
`window` is what a model reads at most, which may be less than what its maker advertises as the sum of both. What is not
known stays unknown: a newer model is never taken for an older one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TypeVar

import msgspec

from mainstay.core.models import LongPrices, ModelInfo

T = TypeVar("T")
Prices = tuple[LongPrices | None, LongPrices | None]  # the usual ones, and those of long prompts where they are others

OLLAMA_WINDOW = 16_384  # unless somebody says otherwise: an agent needs room, and every token of it takes memory
OLLAMA_OUTPUT = 4_096


class Known(msgspec.Struct, frozen=True):
    """Tokens, and dollars per million of them."""

    window: int
    output: int
    prompt: float
    completion: float
    cached: float
    thinking: bool = False
    images: bool = True


def _gpt5(prompt: float, completion: float, cached: float) -> Known:
    return Known(272_000, 128_000, prompt, completion, cached, thinking=True)


def _gpt6(prompt: float, completion: float, cached: float) -> Known:
    return Known(922_000, 128_000, prompt, completion, cached, thinking=True)


def _claude(prompt: float, completion: float, cached: float) -> Known:
    return Known(1_000_000, 128_000, prompt, completion, cached, thinking=True)


def _gemini(prompt: float, completion: float, cached: float) -> Known:
    return Known(1_048_576, 65_536, prompt, completion, cached, thinking=True)


_OPENAI = {
    "gpt-6-astra": _gpt6(10.0, 50.0, 1.0),
    "gpt-6.1-sol": _gpt6(2.0, 10.0, 0.1),
    "gpt-6-sol": _gpt6(2.0, 10.0, 0.2),
    "gpt-6-luna": _gpt6(0.1, 0.5, 0.01),
    "gpt-5.6-sol": _gpt6(4.0, 20.0, 0.4),
    "gpt-5.6-terra": _gpt6(2.0, 12.0, 0.2),
    "gpt-5.6-luna": _gpt6(0.2, 1.2, 0.02),
    "gpt-5.5-pro": _gpt6(30.0, 180.0, 30.0),
    "gpt-5.5": _gpt6(5.0, 30.0, 0.5),
    "gpt-5.4-pro": _gpt6(30.0, 180.0, 30.0),
    "gpt-5.4": _gpt6(2.5, 15.0, 0.25),
    "gpt-5.4-mini": _gpt5(0.75, 4.5, 0.075),
    "gpt-5.4-nano": _gpt5(0.2, 1.25, 0.02),
    "gpt-5.3-codex": _gpt5(1.75, 14.0, 0.175),
    "gpt-5.2-pro": _gpt5(21.0, 168.0, 21.0),
    "gpt-5.2": _gpt5(1.75, 14.0, 0.175),
    "gpt-5.1": _gpt5(1.25, 10.0, 0.125),
    "gpt-5": _gpt5(1.25, 10.0, 0.125),
    "gpt-5-mini": _gpt5(0.25, 2.0, 0.025),
    "gpt-5-nano": _gpt5(0.05, 0.4, 0.005),
    "gpt-5-codex": _gpt5(1.25, 10.0, 0.125),
    "gpt-5-chat": Known(128_000, 16_384, 1.25, 10.0, 0.125),
    "gpt-4.1": Known(1_047_576, 32_768, 2.0, 8.0, 0.5),
    "gpt-4.1-mini": Known(1_047_576, 32_768, 0.4, 1.6, 0.1),
    "gpt-4.1-nano": Known(1_047_576, 32_768, 0.1, 0.4, 0.025),
    "gpt-4o-2024-05-13": Known(128_000, 4_096, 5.0, 15.0, 5.0),
    "gpt-4o": Known(128_000, 16_384, 2.5, 10.0, 1.25),
    "gpt-4o-mini": Known(128_000, 16_384, 0.15, 0.6, 0.075),
    "gpt-4-turbo": Known(128_000, 4_096, 10.0, 30.0, 10.0),
    "gpt-3.5-turbo": Known(16_385, 4_096, 0.5, 1.5, 0.5, images=False),
    "o1": Known(200_000, 100_000, 15.0, 60.0, 7.5, thinking=True),
    "o3-pro": Known(200_000, 100_000, 20.0, 80.0, 20.0, thinking=True),
    "o3": Known(200_000, 100_000, 2.0, 8.0, 0.5, thinking=True),
    "o3-mini": Known(200_000, 100_000, 1.1, 4.4, 0.55, thinking=True, images=False),
    "o4-mini": Known(200_000, 100_000, 1.1, 4.4, 0.275, thinking=True),
}
_ANTHROPIC = {
    "claude-fable-5-1": _claude(10.0, 50.0, 0.25),
    "claude-fable-5": _claude(10.0, 50.0, 1.0),
    "claude-opus-5-5": _claude(4.0, 20.0, 0.2),
    "claude-opus-5": _claude(5.0, 25.0, 0.5),
    "claude-opus-4-8": _claude(5.0, 25.0, 0.5),
    "claude-opus-4-7": _claude(5.0, 25.0, 0.5),
    "claude-opus-4-6": _claude(5.0, 25.0, 0.5),
    "claude-opus-4-5": Known(200_000, 64_000, 5.0, 25.0, 0.5, thinking=True),
    "claude-opus-4-1": Known(200_000, 32_000, 15.0, 75.0, 1.5, thinking=True),
    "claude-opus-4": Known(200_000, 32_000, 15.0, 75.0, 1.5, thinking=True),
    "claude-opus-4-0": Known(200_000, 32_000, 15.0, 75.0, 1.5, thinking=True),
    "claude-sonnet-5-5": _claude(2.0, 10.0, 0.1),
    "claude-sonnet-5": _claude(2.0, 10.0, 0.2),
    "claude-sonnet-4-6": _claude(3.0, 15.0, 0.3),
    "claude-sonnet-4-5": Known(200_000, 64_000, 3.0, 15.0, 0.3, thinking=True),
    "claude-sonnet-4": Known(200_000, 64_000, 3.0, 15.0, 0.3, thinking=True),
    "claude-sonnet-4-0": Known(200_000, 64_000, 3.0, 15.0, 0.3, thinking=True),
    "claude-haiku-5-5": _claude(0.1, 0.5, 0.01),
    "claude-haiku-4-5": Known(200_000, 64_000, 1.0, 5.0, 0.1, thinking=True),
    "claude-3-7-sonnet": Known(200_000, 64_000, 3.0, 15.0, 0.3, thinking=True),
    "claude-3-5-sonnet": Known(200_000, 8_192, 3.0, 15.0, 0.3),
    "claude-3-5-haiku": Known(200_000, 8_192, 0.8, 4.0, 0.08),
    "claude-3-opus": Known(200_000, 4_096, 15.0, 75.0, 1.5),
    "claude-3-haiku": Known(200_000, 4_096, 0.25, 1.25, 0.03),
}
_GOOGLE = {
    "gemini-4-argon": _gemini(2.0, 10.0, 0.1),
    "gemini-pro-latest": _gemini(2.0, 12.0, 0.2),
    "gemini-flash-latest": _gemini(0.75, 3.75, 0.075),
    "gemini-flash-lite-latest": _gemini(0.3, 2.5, 0.03),
    "gemini-3.8-flash": _gemini(0.75, 3.75, 0.075),
    "gemini-3.7-flash": _gemini(0.75, 3.75, 0.075),
    "gemini-3.6-flash": _gemini(0.75, 3.75, 0.075),
    "gemini-3.5-flash": _gemini(1.5, 9.0, 0.15),
    "gemini-3.5-flash-lite": _gemini(0.3, 2.5, 0.03),
    "gemini-3.1-pro": _gemini(2.0, 12.0, 0.2),
    "gemini-3.1-flash-lite": _gemini(0.25, 1.5, 0.025),
    "gemini-3-flash": _gemini(0.5, 3.0, 0.05),
    "gemini-2.5-pro": _gemini(1.25, 10.0, 0.125),
    "gemini-2.5-flash": _gemini(0.3, 2.5, 0.03),
    "gemini-2.5-flash-lite": _gemini(0.1, 0.4, 0.01),
}
_MODELS: dict[str, dict[str, Known]] = {
    "openai": _OPENAI,
    "openai-responses": _OPENAI,
    "azure": _OPENAI,  # deployments are mostly called what they are
    "anthropic": _ANTHROPIC,
    "gemini": _GOOGLE,
    "google": _GOOGLE,
    "deepseek": {
        "deepseek-v4-pro": Known(1_000_000, 393_216, 1.32, 3.96, 0.044, thinking=True, images=False),
        "deepseek-v4-flash": Known(1_000_000, 393_216, 0.3, 1.2, 0.006, thinking=True),
    },
    "mistral": {
        "mistral-large-latest": Known(262_144, 262_144, 0.5, 1.5, 0.05),
        "mistral-medium-latest": Known(262_144, 262_144, 1.5, 7.5, 0.15, thinking=True),
        "mistral-small-latest": Known(262_144, 262_144, 0.15, 0.6, 0.015, thinking=True),
        "codestral-latest": Known(128_000, 128_000, 0.3, 0.9, 0.03, images=False),
    },
    "groq": {
        "openai/gpt-oss-120b": Known(131_072, 65_536, 0.15, 0.6, 0.075, thinking=True, images=False),
        "openai/gpt-oss-20b": Known(131_072, 65_536, 0.075, 0.3, 0.0375, thinking=True, images=False),
    },
    "xai": {
        "grok-4.7": Known(500_000, 500_000, 2.0, 6.0, 0.5, thinking=True),
        "grok-4.6": Known(500_000, 500_000, 2.0, 6.0, 0.5, thinking=True),
        "grok-4.5": Known(500_000, 500_000, 2.0, 6.0, 0.3, thinking=True),
        "grok-4.3": Known(1_000_000, 1_000_000, 1.25, 2.5, 0.2, thinking=True),
        "grok-code-fast": Known(256_000, 256_000, 1.0, 2.0, 0.2, thinking=True),
    },
}

# What may follow a model's name and leave it the same model: a date, a number, a stage, a release of Bedrock's.
_SAME = re.compile(
    r"(?:-(?:\d{8}|\d{4}-\d{2}-\d{2}|\d{3,4}|latest|preview(?:-\d{2}-\d{2,4})?))?(?:-v\d+)?(?:[:@][\w.-]+)?"
)
_OF_BEDROCK = re.compile(r"(?:[a-z]{2,6}\.)?(anthropic)\.(.+)")


FREE = frozenset({"local", "ollama", "lmstudio", "llamacpp", "vllm"})  # on one's own machine
_TABLES = {"openai-responses": ("openai",), "google": ("gemini",), "azure": ("azure", "openai")}
_REGION = re.compile(r"(?:[a-z]{2,6}\.)?([a-z0-9]+\..+)")


def info(provider: str, model: str) -> ModelInfo:
    """What is known of a model; the defaults of `ModelInfo` for one that is not."""
    if provider == "local":
        from mainstay.providers.local.info import info_of  # for those who have one

        return info_of(model)
    if provider == "ollama":  # it is asked itself, when it is first used
        return ModelInfo(name=model, window=OLLAMA_WINDOW, output=OLLAMA_OUTPUT)
    vendor, short = provider, model
    if provider == "openrouter":
        vendor, _, short = model.partition("/")
    elif provider == "bedrock" and (found := _OF_BEDROCK.fullmatch(model)):
        vendor, short = found.groups()
    if vendor == "anthropic":
        short = short.replace(".", "-")
    known = _find(_MODELS.get(vendor, {}), short.removeprefix("models/"))
    prices: Prices = (LongPrices(0, 0.0, 0.0), None)
    if provider != "openrouter" or not model.endswith(":free"):
        prices = _prices(provider, model) or (_own_prices(known), None)
    made = ModelInfo(name=model, guessed=prices[0] is None and provider not in FREE)
    if known is not None:
        sizes = {"window": known.window, "output": known.output, "images": known.images, "thinking": known.thinking}
        made = msgspec.structs.replace(made, **sizes)
    return _at(made, *prices)


def _own_prices(known: Known | None) -> LongPrices | None:
    return LongPrices(0, known.prompt, known.completion, known.cached) if known is not None else None


def _at(made: ModelInfo, prices: LongPrices | None, long: LongPrices | None) -> ModelInfo:
    if prices is None:
        return made
    return msgspec.structs.replace(
        made,
        price_prompt=prices.prompt,
        price_completion=prices.completion,
        price_cached=prices.cached,
        price_written=prices.written,
        long=long,
    )


def _prices(provider: str, model: str) -> Prices | None:
    """Of the data set."""
    names = [model.removeprefix("models/")]
    if provider == "anthropic":
        names = [model.replace(".", "-")]
    elif provider == "bedrock" and (found := _REGION.fullmatch(model)):
        names = [model, f"regional.{found[1]}", found[1], f"global.{found[1]}"]
    for table in _TABLES.get(provider, (provider,)):
        rows = _data_set().get(table, {})
        for name in names:
            row = rows.get(name) or _find(rows, name)
            if row is not None:
                return _as_prices(row)
    return None


def _as_prices(row: Sequence[float | None]) -> Prices:
    whole = [*row, *[None] * (9 - len(row))]
    prompt, completion, above = whole[0] or 0.0, whole[1] or 0.0, whole[4]
    usual = LongPrices(0, prompt, completion, whole[2], whole[3])
    if above is None:
        return usual, None
    return usual, LongPrices(int(above), whole[5] or prompt, whole[6] or completion, whole[7], whole[8])


@cache
def _data_set() -> dict[str, dict[str, list[float | None]]]:
    """Small, and read when the first model is made."""
    text = (files("mainstay.providers") / "prices.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, dict[str, list[float | None]]])


def _find(table: Mapping[str, T], name: str) -> T | None:
    same = [one for one in table if name.startswith(one) and _SAME.fullmatch(name, len(one))]
    return table[max(same, key=len)] if same else None
