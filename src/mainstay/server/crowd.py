"""Everybody who is connected: how many may be, and who goes when there are too many."""

from __future__ import annotations

from typing import Protocol

import msgspec

CONNECTIONS_MAX = 128
PER_ADDRESS_MAX = 96


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What a connection may cost."""

    connections_max: int = CONNECTIONS_MAX
    per_address_max: int = PER_ADDRESS_MAX
    head_s: float = 10.0  # for the head of a request to come
    body_s: float = 10.0  # for each piece of its body
    read_s: float = 30.0  # for whoever is answered to read on
    frame_bytes_max: int = 0  # of a WebSocket message; 0: there are no WebSockets

    @classmethod
    def of(cls, connections_max: int, frame_bytes_max: int) -> Bounds:
        """A server of so many: one address, which may be a proxy's, leaves a quarter of them to others."""
        most = max(connections_max, 2)
        return cls(connections_max=most, per_address_max=max(most * 3 // 4, 1), frame_bytes_max=frame_bytes_max)


class Connection(Protocol):
    def go(self) -> None:
        """Now, whatever it was about to say."""
        ...


class Crowd:
    """Those who keep us waiting stand in a line: whoever has for longest goes first."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._addresses: dict[Connection, str] = {}
        self._counts: dict[str, int] = {}
        self._waiting: dict[Connection, None] = {}
        self._waiting_of: dict[str, dict[Connection, None]] = {}

    def __len__(self) -> int:
        return len(self._addresses)

    def admit(self, one: Connection, address: str) -> bool:
        """False: there is no room, and nobody who could make some."""
        self._addresses[one] = address
        self._counts[address] = self._counts.get(address, 0) + 1
        if self._counts[address] > self._bounds.per_address_max:
            return self._make_room(self._waiting_of.get(address, {}), one)
        if len(self._addresses) > self._bounds.connections_max:
            return self._make_room(self._waiting, one)
        return True

    def _make_room(self, line: dict[Connection, None], newest: Connection) -> bool:
        longest = next((one for one in line if one is not newest), None)
        if longest is None:
            return False
        self.leave(longest)
        longest.go()
        return True

    def succeed(self, one: Connection, other: Connection) -> None:
        """The same connection, which speaks another protocol now."""
        address = self._addresses.get(one)
        if address is not None:
            self.leave(one)
            self._addresses[other] = address
            self._counts[address] = self._counts.get(address, 0) + 1

    def wait(self, one: Connection) -> None:
        """It is for the other side to go on."""
        address = self._addresses.get(one)
        if address is not None:
            self._waiting[one] = None
            self._waiting_of.setdefault(address, {})[one] = None

    def calm(self, one: Connection) -> None:
        if one in self._waiting:
            del self._waiting[one]
            line = self._waiting_of[self._addresses[one]]
            del line[one]
            if not line:
                del self._waiting_of[self._addresses[one]]

    def leave(self, one: Connection) -> None:
        self.calm(one)
        address = self._addresses.pop(one, None)
        if address is not None:
            self._counts[address] -= 1
            if not self._counts[address]:
                del self._counts[address]
