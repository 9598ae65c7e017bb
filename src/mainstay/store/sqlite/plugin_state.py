"""What plugins keep: the PluginState port on SQLite, in the workspace's own file."""

from __future__ import annotations

from typing import Any

import apsw

from mainstay.core.outside import Quota
from mainstay.core.plugin_state import Held, weigh
from mainstay.store.sqlite.desk import Desk

_SIZE = "SELECT size FROM plugin_state WHERE plugin=? AND key=?"
_SET = """
INSERT INTO plugin_state (plugin, key, size, value) VALUES (?,?,?,?)
ON CONFLICT (plugin, key) DO UPDATE SET size=excluded.size, value=excluded.value"""
_HOLD = """
INSERT INTO plugin_held (plugin, keys, bytes) VALUES (?,?,?)
ON CONFLICT (plugin) DO UPDATE SET keys=excluded.keys, bytes=excluded.bytes"""
_KEYS = "SELECT key FROM plugin_state WHERE plugin=? AND substr(key, 1, length(?))=? ORDER BY key"


class SqlitePluginState:
    """In a journal's file."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def get(self, plugin: str, key: str) -> str | None:
        def work(db: apsw.Connection) -> str | None:
            row: Any = db.execute("SELECT value FROM plugin_state WHERE plugin=? AND key=?", (plugin, key)).fetchone()
            return row[0] if row else None

        return await self._desk.read(work)

    async def set(self, plugin: str, key: str, value: str, quota: Quota) -> None:
        size = weigh(key, value, quota)

        def work(db: apsw.Connection) -> None:
            held = _held(db, plugin).after(_size(db, plugin, key), size, quota)
            db.execute(_SET, (plugin, key, size, value))
            db.execute(_HOLD, (plugin, held.keys, held.bytes))

        await self._desk.write(work)

    async def delete(self, plugin: str, key: str) -> bool:
        def work(db: apsw.Connection) -> bool:
            size = _size(db, plugin, key)
            if size is None:
                return False
            held = _held(db, plugin).without(size)
            db.execute("DELETE FROM plugin_state WHERE plugin=? AND key=?", (plugin, key))
            db.execute(_HOLD, (plugin, held.keys, held.bytes))
            return True

        return await self._desk.write(work)

    async def keys(self, plugin: str, prefix: str = "") -> list[str]:
        def work(db: apsw.Connection) -> list[str]:
            rows: Any = db.execute(_KEYS, (plugin, prefix, prefix))
            return [row[0] for row in rows]

        return await self._desk.read(work)

    async def clear(self, plugin: str) -> None:
        def work(db: apsw.Connection) -> None:
            db.execute("DELETE FROM plugin_state WHERE plugin=?", (plugin,))
            db.execute("DELETE FROM plugin_held WHERE plugin=?", (plugin,))

        await self._desk.write(work)


def _size(db: apsw.Connection, plugin: str, key: str) -> int | None:
    row: Any = db.execute(_SIZE, (plugin, key)).fetchone()
    return row[0] if row else None


def _held(db: apsw.Connection, plugin: str) -> Held:
    row: Any = db.execute("SELECT keys, bytes FROM plugin_held WHERE plugin=?", (plugin,)).fetchone()
    return Held(*row) if row else Held()
