"""What came from chat platforms and what goes there, held in memory: as it is for an agent that keeps nothing."""

from __future__ import annotations

import msgspec

from mainstay.core.channels import Arrival, Delivery
from mainstay.core.errors import InputRefused

FINISHED = ("sent", "unknown", "failed")


class MemoryMail:
    """The Mail port for as long as the process lives."""

    def __init__(self) -> None:
        self._arrivals: dict[str, Arrival] = {}
        self._deliveries: dict[str, Delivery] = {}  # the oldest first

    async def arrive(self, arrival: Arrival) -> bool:
        written(arrival)
        return self._arrivals.setdefault(arrival.id, arrival) is arrival

    async def arrivals(self) -> list[Arrival]:
        return list(self._arrivals.values())

    async def arrived(self, id: str) -> None:
        self._arrivals.pop(id, None)

    async def put(self, delivery: Delivery) -> Delivery:
        written(delivery)
        return self._deliveries.setdefault(delivery.key, delivery)

    async def update(self, delivery: Delivery) -> None:
        written(delivery)
        if delivery.key in self._deliveries:
            self._deliveries[delivery.key] = delivery

    async def find(self, key: str) -> Delivery | None:
        return self._deliveries.get(key)

    async def due(self) -> list[Delivery]:
        return [one for one in self._deliveries.values() if one.state not in FINISHED]

    async def recent(self, limit: int = 100) -> list[Delivery]:
        return list(reversed(self._deliveries.values()))[:limit]

    async def prune(self, before: int) -> None:
        kept = {key: one for key, one in self._deliveries.items() if one.state not in FINISHED or one.at >= before}
        self._deliveries = kept


def written(kept: Arrival | Delivery) -> str:
    """As JSON. Raises InputRefused if it is nothing that can be kept."""
    try:
        return msgspec.json.encode(kept).decode()
    except UnicodeEncodeError:
        raise InputRefused("this is not text that can be kept: it holds half characters") from None
