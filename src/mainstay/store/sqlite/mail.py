"""What came from chat platforms and what goes there: the Mail port on SQLite, in the workspace's own file."""

from __future__ import annotations

from typing import Any

import apsw
import msgspec

from mainstay.core.channels import Arrival, Delivery
from mainstay.core.mail import written
from mainstay.store.sqlite.desk import Desk

_ARRIVE = "INSERT INTO mail_arrivals (id, body) VALUES (?,?) ON CONFLICT (id) DO NOTHING RETURNING number"
_PUT = "INSERT INTO mail_deliveries (key, state, at, body) VALUES (?,?,?,?) ON CONFLICT (key) DO NOTHING"
_UPDATE = "UPDATE mail_deliveries SET state=?2, at=?3, body=?4 WHERE key=?1"
_FIND = "SELECT body FROM mail_deliveries WHERE key=?"
_DUE = "SELECT body FROM mail_deliveries WHERE state IN ('pending', 'sending') ORDER BY number"
_RECENT = "SELECT body FROM mail_deliveries ORDER BY number DESC LIMIT ?"
_PRUNE = "DELETE FROM mail_deliveries WHERE state NOT IN ('pending', 'sending') AND at < ?"

_arrival = msgspec.json.Decoder(Arrival).decode
_delivery = msgspec.json.Decoder(Delivery).decode


class SqliteMail:
    """In a journal's file."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def arrive(self, arrival: Arrival) -> bool:
        row = (arrival.id, written(arrival))
        return await self._desk.write(lambda db: db.execute(_ARRIVE, row).fetchone() is not None)

    async def arrivals(self) -> list[Arrival]:
        def work(db: apsw.Connection) -> list[Arrival]:
            rows: Any = db.execute("SELECT body FROM mail_arrivals ORDER BY number")
            return [_arrival(body) for (body,) in rows]

        return await self._desk.read(work)

    async def arrived(self, id: str) -> None:
        await self._do("DELETE FROM mail_arrivals WHERE id=?", id)

    async def put(self, delivery: Delivery) -> Delivery:
        row = _row(delivery)

        def work(db: apsw.Connection) -> Delivery:
            db.execute(_PUT, row)
            kept: Any = db.execute(_FIND, (delivery.key,)).fetchone()
            return _delivery(kept[0])

        return await self._desk.write(work)

    async def update(self, delivery: Delivery) -> None:
        await self._do(_UPDATE, *_row(delivery))

    async def find(self, key: str) -> Delivery | None:
        found = await self._select(_FIND, key)
        return found[0] if found else None

    async def due(self) -> list[Delivery]:
        return await self._select(_DUE)

    async def recent(self, limit: int = 100) -> list[Delivery]:
        return await self._select(_RECENT, limit)

    async def prune(self, before: int) -> None:
        await self._do(_PRUNE, before)

    async def _do(self, sql: str, *values: str | int) -> None:
        def work(db: apsw.Connection) -> None:
            db.execute(sql, values)

        await self._desk.write(work)

    async def _select(self, sql: str, *values: str | int) -> list[Delivery]:
        def work(db: apsw.Connection) -> list[Delivery]:
            rows: Any = db.execute(sql, values)
            return [_delivery(body) for (body,) in rows]

        return await self._desk.read(work)


def _row(delivery: Delivery) -> tuple[str, str, int, str]:
    return delivery.key, delivery.state, delivery.at, written(delivery)
