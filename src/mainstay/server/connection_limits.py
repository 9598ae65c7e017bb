"""Limits the number of open connections, in all and per client address, by evicting the connection idle for longest."""

from __future__ import annotations

from typing import Protocol

import msgspec

CONNECTIONS_MAX = 128
CONNECTIONS_PER_ADDRESS_MAX = 96


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Connection limits and timeouts of one server."""

    connections_max: int = CONNECTIONS_MAX
    connections_per_address_max: int = CONNECTIONS_PER_ADDRESS_MAX
    headers_timeout_s: float = 10.0  # for the headers of a request to arrive
    body_timeout_s: float = 10.0  # in which at least BODY_BYTES_MIN of a body must arrive
    read_timeout_s: float = 30.0  # for a client to go on reading its response
    frame_bytes_max: int = 0  # of a WebSocket message; 0: no WebSockets
    descriptor_max: int = 0  # the first descriptor number that a new connection must not have; 0: any

    @classmethod
    def for_connections(cls, connections_max: int, frame_bytes_max: int, descriptor_max: int = 0) -> ConnectionLimits:
        """Return limits for so many connections. One address, which may be a proxy's, can use three quarters."""
        total = max(connections_max, 2)
        return cls(
            connections_max=total,
            connections_per_address_max=max(total * 3 // 4, 1),
            frame_bytes_max=frame_bytes_max,
            descriptor_max=descriptor_max,
        )


class EvictableConnection(Protocol):
    def evict(self) -> None:
        """Abort the connection at once, without sending what is buffered."""
        ...


class ConnectionLimiter:
    """Tracks open connections. Those that wait for their client are candidates for eviction, in the order in which
    they began to wait."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._addresses: dict[EvictableConnection, str] = {}
        self._counts: dict[str, int] = {}
        self._waiting: dict[EvictableConnection, None] = {}
        self._waiting_by_address: dict[str, dict[EvictableConnection, None]] = {}

    def __len__(self) -> int:
        return len(self._addresses)

    def admit(self, connection: EvictableConnection, address: str, descriptor: int = -1) -> bool:
        """Add a connection, evicting a waiting one if a limit is exceeded. Return False if none could be evicted; the
        connection counts until `remove`, also then. `descriptor`: of its socket, if it has one."""
        self._addresses[connection] = address
        self._counts[address] = self._counts.get(address, 0) + 1
        if self._counts[address] > self._limits.connections_per_address_max:
            return self._evict_longest_waiting(self._waiting_by_address.get(address, {}), connection)
        uses_reserve = 0 < self._limits.descriptor_max <= descriptor
        if uses_reserve or len(self._addresses) > self._limits.connections_max:
            return self._evict_longest_waiting(self._waiting, connection)
        return True

    def _evict_longest_waiting(self, candidates: dict[EvictableConnection, None], exempt: EvictableConnection) -> bool:
        longest = next((waiting for waiting in candidates if waiting is not exempt), None)
        if longest is None:
            return False
        self.remove(longest)
        longest.evict()
        return True

    def replace(self, connection: EvictableConnection, successor: EvictableConnection) -> None:
        """Replace a connection by its successor after a protocol upgrade."""
        address = self._addresses.get(connection)
        if address is not None:
            self.remove(connection)
            self._addresses[successor] = address
            self._counts[address] = self._counts.get(address, 0) + 1

    def mark_waiting(self, connection: EvictableConnection) -> None:
        """Mark a connection as waiting for its client: it can be evicted."""
        address = self._addresses.get(connection)
        if address is not None:
            self._waiting[connection] = None
            self._waiting_by_address.setdefault(address, {})[connection] = None

    def unmark_waiting(self, connection: EvictableConnection) -> None:
        if connection in self._waiting:
            del self._waiting[connection]
            line = self._waiting_by_address[self._addresses[connection]]
            del line[connection]
            if not line:
                del self._waiting_by_address[self._addresses[connection]]

    def remove(self, connection: EvictableConnection) -> None:
        self.unmark_waiting(connection)
        address = self._addresses.pop(connection, None)
        if address is not None:
            self._counts[address] -= 1
            if not self._counts[address]:
                del self._counts[address]
