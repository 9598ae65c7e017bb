"""The table of prices, and prices computed from it."""

from __future__ import annotations

import time

import pytest
from support.model_tables import MODEL_TABLES

from mainstay.core.messages import Usage
from mainstay.core.model_info import LongPromptPrices, ModelInfo
from mainstay.providers import model_lookup
from mainstay.providers.registry import find_model_info


def test_the_table_agrees_with_what_is_known_of_models_otherwise() -> None:
    """Two sources that say the same; one that does not is out of date."""
    compared = 0
    for provider, models in MODEL_TABLES.items():
        for name, own in models.items():
            row = model_lookup._load_price_data().get(provider, {}).get(name)
            if row is not None:
                prices = model_lookup._row_to_prices(row)[0]
                assert prices is not None
                cached = prices.prompt if prices.cached is None else prices.cached
                assert (prices.prompt, prices.completion, cached) == (own.prompt, own.completion, own.cached), name
                compared += 1
    assert compared > 50


def test_every_row_is_a_price() -> None:
    rows = [(name, row) for table in model_lookup._load_price_data().values() for name, row in table.items()]
    assert len(rows) > 1000
    for name, row in rows:
        assert len(row) in range(2, 10), name
        assert all(one is None or one >= 0 for one in row), name
        usual, long = model_lookup._row_to_prices(row)
        assert usual is not None, name
        if long is not None:
            assert long.above >= 1000, name
            assert long.prompt >= usual.prompt, name


def test_a_long_prompt_has_its_own_prices() -> None:
    model = find_model_info("anthropic", "claude-haiku-5.5-20261001")
    assert model.long == LongPromptPrices(100_000, 0.5, 2.5, 0.05, 0.625)
    assert model.cost(Usage(100_000, 1000)) == 0.0105
    assert model.cost(Usage(100_001, 1000)) == pytest.approx(0.0525, abs=1e-6)


def test_cache_writes_are_dearer_and_cache_reads_cheaper() -> None:
    model = find_model_info("anthropic", "claude-opus-5")
    assert model.cost(Usage(1_000_000)) == 5.0
    assert model.cost(Usage(1_000_000, cached=1_000_000)) == 0.5
    assert model.cost(Usage(1_000_000, written=1_000_000)) == 6.25


def test_part_of_a_nanodollar_is_one() -> None:
    model = ModelInfo(name="m", price_prompt=0.0375)
    assert model.cost(Usage(1)) == 38e-9
    assert model.cost(Usage(2)) == 75e-9


@pytest.mark.parametrize("provider", ["local", "ollama", "lmstudio", "llamacpp", "vllm"])
def test_a_local_model_costs_nothing_and_needs_no_estimate(provider: str) -> None:
    made = find_model_info(provider, "some-model")
    assert (made.price_prompt, made.price_completion, made.guessed) == (0.0, 0.0, False)


def test_an_unknown_model_is_reported_as_unknown() -> None:
    assert find_model_info("openai", "gpt-99").guessed
    assert find_model_info("anywhere", "thing").guessed
    assert not find_model_info("openai", "gpt-5").guessed
    assert not find_model_info("openrouter", "any/thing:free").guessed


def test_the_table_is_read_in_no_time() -> None:
    model_lookup._load_price_data.cache_clear()
    began = time.process_time()
    find_model_info("openrouter", "nobody/nothing")
    assert time.process_time() - began < 0.1
