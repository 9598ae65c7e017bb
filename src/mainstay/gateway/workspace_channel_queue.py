"""A `ChannelQueue` of a workspace that uses the store of the agent that is open now."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from mainstay.core.channels import ChannelQueue, Delivery, PendingMessage


class WorkspaceChannelQueue:
    """`get_queue` returns the queue in use; it is called every time, because a reload may replace the agent."""

    def __init__(self, get_queue: Callable[[], Awaitable[ChannelQueue]]) -> None:
        self._get_queue = get_queue

    async def add_pending(self, message: PendingMessage) -> bool:
        return await (await self._get_queue()).add_pending(message)

    async def list_pending(self) -> Sequence[PendingMessage]:
        return await (await self._get_queue()).list_pending()

    async def remove_pending(self, id: str) -> None:
        await (await self._get_queue()).remove_pending(id)

    async def add_delivery(self, delivery: Delivery) -> Delivery:
        return await (await self._get_queue()).add_delivery(delivery)

    async def update_delivery(self, delivery: Delivery) -> None:
        await (await self._get_queue()).update_delivery(delivery)

    async def find_delivery(self, key: str) -> Delivery | None:
        return await (await self._get_queue()).find_delivery(key)

    async def list_due(self) -> Sequence[Delivery]:
        return await (await self._get_queue()).list_due()

    async def list_recent(self, limit: int = 100) -> Sequence[Delivery]:
        return await (await self._get_queue()).list_recent(limit)

    async def prune(self, before_ms: int) -> None:
        await (await self._get_queue()).prune(before_ms)
