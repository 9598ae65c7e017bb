"""In-memory plugin state, for agents without a home."""

from __future__ import annotations

from mainstay.core.plugin_state_quota import PluginStateUsage, entry_bytes
from mainstay.core.tool_ports import PluginStateQuota


class InMemoryPluginState:
    """The PluginState port in memory."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[str, tuple[str, int]]] = {}  # by plugin and key: value, and bytes of the entry
        self._usage: dict[str, PluginStateUsage] = {}

    async def get(self, plugin: str, key: str) -> str | None:
        entry = self._entries.get(plugin, {}).get(key)
        return entry[0] if entry is not None else None

    async def set(self, plugin: str, key: str, value: str, quota: PluginStateQuota) -> None:
        size, entries = entry_bytes(key, value, quota), self._entries.get(plugin, {})
        old = entries[key][1] if key in entries else None
        self._usage[plugin] = self._usage.get(plugin, PluginStateUsage()).with_entry(old, size, quota)
        self._entries.setdefault(plugin, entries)[key] = (value, size)

    async def delete(self, plugin: str, key: str) -> bool:
        entry = self._entries.get(plugin, {}).pop(key, None)
        if entry is not None:
            self._usage[plugin] = self._usage[plugin].without_entry(entry[1])
        return entry is not None

    async def keys(self, plugin: str, prefix: str = "") -> list[str]:
        return sorted(key for key in self._entries.get(plugin, {}) if key.startswith(prefix))

    async def clear(self, plugin: str) -> None:
        self._entries.pop(plugin, None)
        self._usage.pop(plugin, None)
