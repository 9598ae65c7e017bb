"""What every PluginState must do. Subclass it, say how to make one, and let your test runner find the tests.

class TestMyState(PluginStateSuite):
    def make(self, where: Path) -> AbstractAsyncContextManager[PluginState]: ...
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from mainstay.core.errors import InputRefused
from mainstay.core.outside import PluginState, Quota
from mainstay.testing.writing import expect

PLENTY = Quota()
ODD_KEYS = (
    "../up",
    "/etc/passwd",
    "%_",
    "a*b?[c]",
    "'; DROP TABLE x; --",
    "käse",
    "キー",
    "\U0001f511",
    " ",
    "a" * 256,
)


class PluginStateSuite:
    """Everything that plugin state promises; `make` is the one thing a subclass must say."""

    def make(self, where: Path) -> AbstractAsyncContextManager[PluginState]:
        raise NotImplementedError("say how to make yours")

    async def test_a_key_is_set_replaced_listed_and_deleted(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as state:
            assert await state.get("weather", "city") is None
            await state.set("weather", "city", "Bern", PLENTY)
            await state.set("weather", "city", "", PLENTY)
            assert await state.get("weather", "city") == ""
            await state.set("weather", "city", "Graz\x00\x1b[0m\n", PLENTY)  # a value is the plugin's own business
            assert await state.get("weather", "city") == "Graz\x00\x1b[0m\n"
            assert await state.keys("weather") == ["city"]
            assert await state.delete("weather", "city")
            assert not await state.delete("weather", "city")
            assert await state.get("weather", "city") is None
            assert await state.keys("weather") == []

    async def test_keys_are_listed_in_order_and_by_their_beginning(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as state:
            for key in ("b", "ab", "a%c", "a", "ä", "A", "a_d"):
                await state.set("weather", key, key, PLENTY)
            assert await state.keys("weather") == ["A", "a", "a%c", "a_d", "ab", "b", "ä"]
            assert await state.keys("weather", "a") == ["a", "a%c", "a_d", "ab"]
            assert await state.keys("weather", "a%") == ["a%c"]
            assert await state.keys("weather", "a_") == ["a_d"]
            assert await state.keys("weather", "z") == []

    async def test_plugins_do_not_meet(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as state:
            await state.set("weather", "key", "ours", PLENTY)
            await state.set("weather2", "key", "theirs", PLENTY)
            assert await state.get("weather", "key") == "ours"
            assert not await state.delete("weather3", "key")
            assert await state.keys("weath") == []
            await state.clear("weather")
            await state.clear("weather")
            assert await state.get("weather", "key") is None
            assert await state.get("weather2", "key") == "theirs"

    async def test_any_text_is_a_key_that_is_not_empty_long_or_full_of_controls(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as state:
            for key in ODD_KEYS:
                await state.set("weather", key, key, PLENTY)
            assert await state.keys("weather") == sorted(ODD_KEYS)
            assert [await state.get("weather", key) for key in ODD_KEYS] == list(ODD_KEYS)
            for bad in ("", "a" * 257, "ä" * 129, "a\nb", "a\x00b", "\x1b[2J", "a\x85", "\ud800"):
                await expect(InputRefused, state.set("weather", bad, "x", PLENTY))
            await expect(InputRefused, state.set("weather", "good", "\udfff", PLENTY))
            assert await state.keys("weather") == sorted(ODD_KEYS)

    async def test_beyond_its_quota_nothing_changes(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as state:
            small = Quota(keys_max=3, value_bytes_max=10, bytes_max=20)
            await state.set("weather", "a", "1234567890", small)
            await expect(InputRefused, state.set("weather", "a", "12345678901", small))
            await expect(InputRefused, state.set("weather", "b", "ääääää", small))  # bytes, not characters
            await state.set("weather", "b", "12345678", small)  # 11 + 9: all there is
            await expect(InputRefused, state.set("weather", "c", "", small))
            assert await state.get("weather", "a") == "1234567890"
            assert await state.keys("weather") == ["a", "b"]
            await state.set("weather", "a", "1", small)  # what is replaced makes room
            await state.set("weather", "c", "", small)
            await expect(InputRefused, state.set("weather", "d", "", small))
            assert await state.delete("weather", "c")
            await state.set("weather", "d", "", small)
            await state.set("elsewhere", "a", "1234567890", small)  # one's quota is one's own
            await state.clear("weather")
            await state.set("weather", "a", "1234567890", small)

    async def test_many_at_once_stay_within_the_quota(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as state:
            small = Quota(keys_max=5)
            tries = [state.set("weather", f"k{number}", "x", small) for number in range(20)]
            done = await asyncio.gather(*tries, return_exceptions=True)
            assert sum(isinstance(one, InputRefused) for one in done) == 15
            assert len(await state.keys("weather")) == 5
