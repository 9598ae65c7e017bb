"""In-memory queues of arrived messages and deliveries, for agents without a home."""

from __future__ import annotations

from mainstay.core.channels import Delivery, PendingMessage, encode_queued

FINISHED = ("sent", "unknown", "failed")


class InMemoryChannelQueue:
    """The ChannelQueue port in memory."""

    def __init__(self) -> None:
        self._pending: dict[str, PendingMessage] = {}
        self._deliveries: dict[str, Delivery] = {}  # by key, oldest first

    async def add_pending(self, message: PendingMessage) -> bool:
        encode_queued(message)
        return self._pending.setdefault(message.id, message) is message

    async def list_pending(self) -> list[PendingMessage]:
        return list(self._pending.values())

    async def remove_pending(self, id: str) -> None:
        self._pending.pop(id, None)

    async def add_delivery(self, delivery: Delivery) -> Delivery:
        encode_queued(delivery)
        return self._deliveries.setdefault(delivery.key, delivery)

    async def update_delivery(self, delivery: Delivery) -> None:
        encode_queued(delivery)
        if delivery.key in self._deliveries:
            self._deliveries[delivery.key] = delivery

    async def find_delivery(self, key: str) -> Delivery | None:
        return self._deliveries.get(key)

    async def list_due(self) -> list[Delivery]:
        return [delivery for delivery in self._deliveries.values() if delivery.state not in FINISHED]

    async def list_recent(self, limit: int = 100) -> list[Delivery]:
        return list(reversed(self._deliveries.values()))[:limit]

    async def prune(self, before_ms: int) -> None:
        self._deliveries = {
            key: delivery
            for key, delivery in self._deliveries.items()
            if delivery.state not in FINISHED or delivery.at >= before_ms
        }
