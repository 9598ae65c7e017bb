"""Conformance suite of the PluginState port. Subclass it and override `make`:

class TestMyState(PluginStateSuite):
    def make(self, folder: Path) -> AbstractAsyncContextManager[PluginState]: ...
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from mainstay.core.errors import InputRefused
from mainstay.core.tool_ports import PluginState, PluginStateQuota
from mainstay.testing.store_writer import expect_error

LARGE_QUOTA = PluginStateQuota()
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
    """All tests of plugin state; a subclass overrides `make`."""

    def make(self, folder: Path) -> AbstractAsyncContextManager[PluginState]:
        raise NotImplementedError("override `make`: it creates the plugin state")

    async def test_a_key_is_set_replaced_listed_and_deleted(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as state:
            assert await state.get("weather", "city") is None
            await state.set("weather", "city", "Bern", LARGE_QUOTA)
            await state.set("weather", "city", "", LARGE_QUOTA)
            assert await state.get("weather", "city") == ""
            # values may contain control characters
            await state.set("weather", "city", "Graz\x00\x1b[0m\n", LARGE_QUOTA)
            assert await state.get("weather", "city") == "Graz\x00\x1b[0m\n"
            assert await state.keys("weather") == ["city"]
            assert await state.delete("weather", "city")
            assert not await state.delete("weather", "city")
            assert await state.get("weather", "city") is None
            assert await state.keys("weather") == []

    async def test_keys_are_listed_in_order_and_by_prefix(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as state:
            for key in ("b", "ab", "a%c", "a", "ä", "A", "a_d"):
                await state.set("weather", key, key, LARGE_QUOTA)
            assert await state.keys("weather") == ["A", "a", "a%c", "a_d", "ab", "b", "ä"]
            assert await state.keys("weather", "a") == ["a", "a%c", "a_d", "ab"]
            assert await state.keys("weather", "a%") == ["a%c"]
            assert await state.keys("weather", "a_") == ["a_d"]
            assert await state.keys("weather", "z") == []

    async def test_plugins_are_isolated_from_each_other(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as state:
            await state.set("weather", "key", "ours", LARGE_QUOTA)
            await state.set("weather2", "key", "theirs", LARGE_QUOTA)
            assert await state.get("weather", "key") == "ours"
            assert not await state.delete("weather3", "key")
            assert await state.keys("weath") == []
            await state.clear("weather")
            await state.clear("weather")
            assert await state.get("weather", "key") is None
            assert await state.get("weather2", "key") == "theirs"

    async def test_keys_must_not_be_empty_too_long_or_contain_control_characters(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as state:
            for key in ODD_KEYS:
                await state.set("weather", key, key, LARGE_QUOTA)
            assert await state.keys("weather") == sorted(ODD_KEYS)
            assert [await state.get("weather", key) for key in ODD_KEYS] == list(ODD_KEYS)
            for bad in ("", "a" * 257, "ä" * 129, "a\nb", "a\x00b", "\x1b[2J", "a\x85", "\ud800"):
                await expect_error(InputRefused, state.set("weather", bad, "x", LARGE_QUOTA))
            await expect_error(InputRefused, state.set("weather", "good", "\udfff", LARGE_QUOTA))
            assert await state.keys("weather") == sorted(ODD_KEYS)

    async def test_writes_beyond_the_quota_change_nothing(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as state:
            small = PluginStateQuota(keys_max=3, value_bytes_max=10, bytes_max=20)
            await state.set("weather", "a", "1234567890", small)
            await expect_error(InputRefused, state.set("weather", "a", "12345678901", small))
            await expect_error(InputRefused, state.set("weather", "b", "ääääää", small))  # bytes, not characters
            await state.set("weather", "b", "12345678", small)  # 11 + 9 bytes: the whole quota
            await expect_error(InputRefused, state.set("weather", "c", "", small))
            assert await state.get("weather", "a") == "1234567890"
            assert await state.keys("weather") == ["a", "b"]
            await state.set("weather", "a", "1", small)  # a smaller value frees space
            await state.set("weather", "c", "", small)
            await expect_error(InputRefused, state.set("weather", "d", "", small))
            assert await state.delete("weather", "c")
            await state.set("weather", "d", "", small)
            await state.set("elsewhere", "a", "1234567890", small)  # each plugin has its own quota
            await state.clear("weather")
            await state.set("weather", "a", "1234567890", small)

    async def test_concurrent_writes_stay_within_the_quota(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as state:
            small = PluginStateQuota(keys_max=5)
            writes = [state.set("weather", f"k{number}", "x", small) for number in range(20)]
            results = await asyncio.gather(*writes, return_exceptions=True)
            assert sum(isinstance(result, InputRefused) for result in results) == 15
            assert len(await state.keys("weather")) == 5
