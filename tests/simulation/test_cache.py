"""The prompt cache stays warm: a request is the one before and something appended, but at a fold."""

from __future__ import annotations

import cache
import pytest


@pytest.mark.parametrize(("window", "catalogue"), [(128_000, True), (128_000, False), (32_000, True)])
async def test_u7_over_a_hundred_turns_with_fifty_tools_nearly_every_token_repeats_a_prefix(
    window: int, catalogue: bool
) -> None:
    found = await cache.run(window=window, catalogue=catalogue)
    assert found["requests"] >= 300
    assert found["repeated"] >= 0.97
    if window > 100_000:
        assert (found["folds"], found["breaks"]) == (0, 0)
    else:
        assert 0 < found["breaks"] <= found["folds"]


async def test_u6_a_bare_hello_with_fifty_tools_costs_at_most_1500_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "TURNS", 1)
    assert (await cache.run(window=128_000, catalogue=True))["hello"] <= 1500
