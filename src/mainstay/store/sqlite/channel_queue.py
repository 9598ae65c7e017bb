"""ChannelQueue on SQLite: messages that arrived from chat platforms and deliveries to them, in the workspace's file."""

from __future__ import annotations

from collections.abc import Iterable

import apsw
import msgspec

from mainstay.core.channels import Delivery, PendingMessage, encode_queued
from mainstay.store.sqlite.workspace_database import WorkspaceDatabase

_INSERT_PENDING = "INSERT INTO mail_arrivals (id, body) VALUES (?,?) ON CONFLICT (id) DO NOTHING RETURNING number"
_INSERT_DELIVERY = "INSERT INTO mail_deliveries (key, state, at, body) VALUES (?,?,?,?) ON CONFLICT (key) DO NOTHING"
_UPDATE_DELIVERY = "UPDATE mail_deliveries SET state=?2, at=?3, body=?4 WHERE key=?1"
_SELECT_DELIVERY = "SELECT body FROM mail_deliveries WHERE key=?"
_SELECT_DUE = "SELECT body FROM mail_deliveries WHERE state IN ('pending', 'sending') ORDER BY number"
_SELECT_RECENT = "SELECT body FROM mail_deliveries ORDER BY number DESC LIMIT ?"
_DELETE_FINISHED = "DELETE FROM mail_deliveries WHERE state NOT IN ('pending', 'sending') AND at < ?"

_decode_pending = msgspec.json.Decoder(PendingMessage).decode
_decode_delivery = msgspec.json.Decoder(Delivery).decode


class SqliteChannelQueue:
    def __init__(self, database: WorkspaceDatabase) -> None:
        self._database = database

    async def add_pending(self, message: PendingMessage) -> bool:
        row = (message.id, encode_queued(message))
        return await self._database.write(lambda db: db.execute(_INSERT_PENDING, row).fetchone() is not None)

    async def list_pending(self) -> list[PendingMessage]:
        def work(db: apsw.Connection) -> list[PendingMessage]:
            rows: Iterable[tuple[str]] = db.execute("SELECT body FROM mail_arrivals ORDER BY number")
            return [_decode_pending(body) for (body,) in rows]

        return await self._database.read(work)

    async def remove_pending(self, id: str) -> None:
        await self._execute("DELETE FROM mail_arrivals WHERE id=?", id)

    async def add_delivery(self, delivery: Delivery) -> Delivery:
        row = _delivery_row(delivery)

        def work(db: apsw.Connection) -> Delivery:
            db.execute(_INSERT_DELIVERY, row)
            stored: str = db.execute(_SELECT_DELIVERY, (delivery.key,)).get
            return _decode_delivery(stored)

        return await self._database.write(work)

    async def update_delivery(self, delivery: Delivery) -> None:
        await self._execute(_UPDATE_DELIVERY, *_delivery_row(delivery))

    async def find_delivery(self, key: str) -> Delivery | None:
        deliveries = await self._select_deliveries(_SELECT_DELIVERY, key)
        return deliveries[0] if deliveries else None

    async def list_due(self) -> list[Delivery]:
        return await self._select_deliveries(_SELECT_DUE)

    async def list_recent(self, limit: int = 100) -> list[Delivery]:
        return await self._select_deliveries(_SELECT_RECENT, limit)

    async def prune(self, before_ms: int) -> None:
        await self._execute(_DELETE_FINISHED, before_ms)

    async def _execute(self, sql: str, *values: str | int) -> None:
        def work(db: apsw.Connection) -> None:
            db.execute(sql, values)

        await self._database.write(work)

    async def _select_deliveries(self, sql: str, *values: str | int) -> list[Delivery]:
        def work(db: apsw.Connection) -> list[Delivery]:
            rows: Iterable[tuple[str]] = db.execute(sql, values)
            return [_decode_delivery(body) for (body,) in rows]

        return await self._database.read(work)


def _delivery_row(delivery: Delivery) -> tuple[str, str, int, str]:
    return delivery.key, delivery.state, delivery.at, encode_queued(delivery)
