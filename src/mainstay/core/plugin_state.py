"""What plugins keep, held in memory: as it is for an agent that keeps nothing; and what a key and a value may be."""

from __future__ import annotations

import re

from mainstay.core.errors import InputRefused
from mainstay.core.outside import Quota

KEY_BYTES_MAX = 256
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class Held:
    """How much somebody keeps, and what one more would make of it."""

    __slots__ = ("bytes", "keys")

    def __init__(self, keys: int = 0, bytes: int = 0) -> None:
        self.keys = keys
        self.bytes = bytes

    def after(self, old: int | None, new: int, quota: Quota) -> Held:
        """With an entry of `new` bytes, where there was one of `old` or none; raises InputRefused beyond the quota."""
        made = Held(self.keys + (old is None), self.bytes - (old or 0) + new)
        if made.keys > quota.keys_max:
            raise InputRefused(f"at most {quota.keys_max} keys can be kept")
        if made.bytes > quota.bytes_max:
            raise InputRefused(f"at most {quota.bytes_max} bytes can be kept; this would be {made.bytes}")
        return made

    def without(self, old: int) -> Held:
        return Held(self.keys - 1, self.bytes - old)


def weigh(key: str, value: str, quota: Quota) -> int:
    """The bytes that an entry takes; raises InputRefused if it cannot be one."""
    size = _size(value)
    if size > quota.value_bytes_max:
        raise InputRefused(f"a value has at most {quota.value_bytes_max} bytes; this has {size}")
    return check_key(key) + size


def check_key(key: str) -> int:
    """Its bytes; raises InputRefused."""
    size = _size(key)
    if not 0 < size <= KEY_BYTES_MAX:
        raise InputRefused(f"a key has 1 to {KEY_BYTES_MAX} bytes; this has {size}")
    if _CONTROL.search(key):
        raise InputRefused("a key holds no control characters")
    return size


def _size(text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise InputRefused("this is not text that can be kept: it holds half characters") from None


class MemoryPluginState:
    """The PluginState port for as long as the process lives."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, tuple[str, int]]] = {}
        self._held: dict[str, Held] = {}

    async def get(self, plugin: str, key: str) -> str | None:
        entry = self._kept.get(plugin, {}).get(key)
        return entry[0] if entry is not None else None

    async def set(self, plugin: str, key: str, value: str, quota: Quota) -> None:
        size, kept = weigh(key, value, quota), self._kept.get(plugin, {})
        old = kept[key][1] if key in kept else None
        self._held[plugin] = self._held.get(plugin, Held()).after(old, size, quota)
        self._kept.setdefault(plugin, kept)[key] = (value, size)

    async def delete(self, plugin: str, key: str) -> bool:
        entry = self._kept.get(plugin, {}).pop(key, None)
        if entry is not None:
            self._held[plugin] = self._held[plugin].without(entry[1])
        return entry is not None

    async def keys(self, plugin: str, prefix: str = "") -> list[str]:
        return sorted(key for key in self._kept.get(plugin, {}) if key.startswith(prefix))

    async def clear(self, plugin: str) -> None:
        self._kept.pop(plugin, None)
        self._held.pop(plugin, None)
