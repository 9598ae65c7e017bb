"""PluginState on SQLite: key-value state of plugins with quotas, in the workspace's file."""

from __future__ import annotations

from collections.abc import Iterable

import apsw

from mainstay.core.plugin_state_quota import PluginStateUsage, entry_bytes
from mainstay.core.tool_ports import PluginStateQuota
from mainstay.store.sqlite.workspace_database import WorkspaceDatabase

_SELECT_SIZE = "SELECT size FROM plugin_state WHERE plugin=? AND key=?"
_UPSERT_VALUE = """
INSERT INTO plugin_state (plugin, key, size, value) VALUES (?,?,?,?)
ON CONFLICT (plugin, key) DO UPDATE SET size=excluded.size, value=excluded.value"""
_UPSERT_USAGE = """
INSERT INTO plugin_held (plugin, keys, bytes) VALUES (?,?,?)
ON CONFLICT (plugin) DO UPDATE SET keys=excluded.keys, bytes=excluded.bytes"""
_SELECT_KEYS = "SELECT key FROM plugin_state WHERE plugin=? AND substr(key, 1, length(?))=? ORDER BY key"


class SqlitePluginState:
    def __init__(self, database: WorkspaceDatabase) -> None:
        self._database = database

    async def get(self, plugin: str, key: str) -> str | None:
        def work(db: apsw.Connection) -> str | None:
            row: tuple[str] | None = db.execute(
                "SELECT value FROM plugin_state WHERE plugin=? AND key=?", (plugin, key)
            ).fetchone()
            return row[0] if row else None

        return await self._database.read(work)

    async def set(self, plugin: str, key: str, value: str, quota: PluginStateQuota) -> None:
        size = entry_bytes(key, value, quota)

        def work(db: apsw.Connection) -> None:
            usage = _select_usage(db, plugin).with_entry(_select_size(db, plugin, key), size, quota)
            db.execute(_UPSERT_VALUE, (plugin, key, size, value))
            db.execute(_UPSERT_USAGE, (plugin, usage.keys, usage.bytes))

        await self._database.write(work)

    async def delete(self, plugin: str, key: str) -> bool:
        def work(db: apsw.Connection) -> bool:
            size = _select_size(db, plugin, key)
            if size is None:
                return False
            usage = _select_usage(db, plugin).without_entry(size)
            db.execute("DELETE FROM plugin_state WHERE plugin=? AND key=?", (plugin, key))
            db.execute(_UPSERT_USAGE, (plugin, usage.keys, usage.bytes))
            return True

        return await self._database.write(work)

    async def keys(self, plugin: str, prefix: str = "") -> list[str]:
        def work(db: apsw.Connection) -> list[str]:
            rows: Iterable[tuple[str]] = db.execute(_SELECT_KEYS, (plugin, prefix, prefix))
            return [row[0] for row in rows]

        return await self._database.read(work)

    async def clear(self, plugin: str) -> None:
        def work(db: apsw.Connection) -> None:
            db.execute("DELETE FROM plugin_state WHERE plugin=?", (plugin,))
            db.execute("DELETE FROM plugin_held WHERE plugin=?", (plugin,))

        await self._database.write(work)


def _select_size(db: apsw.Connection, plugin: str, key: str) -> int | None:
    row: tuple[int] | None = db.execute(_SELECT_SIZE, (plugin, key)).fetchone()
    return row[0] if row else None


def _select_usage(db: apsw.Connection, plugin: str) -> PluginStateUsage:
    row: tuple[int, int] | None = db.execute("SELECT keys, bytes FROM plugin_held WHERE plugin=?", (plugin,)).fetchone()
    return PluginStateUsage(*row) if row else PluginStateUsage()
