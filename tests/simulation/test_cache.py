"""The prompt cache stays warm: a request is the one before and something appended, but at a fold."""

from __future__ import annotations

import prompt_cache
import pytest


@pytest.mark.parametrize(("window", "catalogue"), [(128_000, True), (128_000, False), (32_000, True)])
async def test_u7_over_a_hundred_turns_with_fifty_tools_nearly_every_token_repeats_a_prefix(
    window: int, catalogue: bool
) -> None:
    result = await prompt_cache.measure(window=window, catalogue=catalogue)
    assert result["requests"] >= 300
    assert result["repeated"] >= 0.97
    if window > 100_000:
        assert (result["folds"], result["breaks"]) == (0, 0)
    else:
        assert 0 < result["breaks"] <= result["folds"]


async def test_u6_a_bare_hello_with_fifty_tools_costs_at_most_1500_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_cache, "TURNS", 1)
    assert (await prompt_cache.measure(window=128_000, catalogue=True))["hello"] <= 1500
