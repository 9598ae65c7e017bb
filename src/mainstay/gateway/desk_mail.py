"""What has arrived and what is to be delivered in a workspace, wherever that is kept at the moment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from mainstay.core.channels import Arrival, Delivery, Mail


class DeskMail:
    """The Mail port; `now` is asked every time, because a workspace may be opened again."""

    def __init__(self, now: Callable[[], Awaitable[Mail]]) -> None:
        self._now = now

    async def arrive(self, arrival: Arrival) -> bool:
        return await (await self._now()).arrive(arrival)

    async def arrivals(self) -> Sequence[Arrival]:
        return await (await self._now()).arrivals()

    async def arrived(self, id: str) -> None:
        await (await self._now()).arrived(id)

    async def put(self, delivery: Delivery) -> Delivery:
        return await (await self._now()).put(delivery)

    async def update(self, delivery: Delivery) -> None:
        await (await self._now()).update(delivery)

    async def find(self, key: str) -> Delivery | None:
        return await (await self._now()).find(key)

    async def due(self) -> Sequence[Delivery]:
        return await (await self._now()).due()

    async def recent(self, limit: int = 100) -> Sequence[Delivery]:
        return await (await self._now()).recent(limit)

    async def prune(self, before: int) -> None:
        await (await self._now()).prune(before)
