"""When inputs came, and which of them are one message that was sent in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from mainstay.core.ports import Clock
from mainstay.core.session import Waiting


class Arrivals:
    """By the loop's clock, which never jumps. What an earlier process took in has only its wall time."""

    __slots__ = ("_at",)

    def __init__(self) -> None:
        self._at: dict[int, float] = {}

    def add(self, seq: int) -> None:
        self._at[seq] = asyncio.get_running_loop().time()

    async def wait(self, window_s: float, clock: Clock) -> None:
        """Until nothing has come for so long."""
        loop = asyncio.get_running_loop()
        while (left := max(self._at.values(), default=0.0) + window_s - loop.time()) > 0:
            await clock.sleep(left)

    def take(self, waiting: Iterable[Waiting], window_s: float) -> tuple[int, ...]:
        """The first input, and what the same sender added to it within the window."""
        rest = sorted(waiting, key=lambda one: one.seq)
        taken: list[Waiting] = []
        while rest and (not taken or (window_s > 0 and self._belongs(taken[-1], rest[0], window_s))):
            taken.append(rest.pop(0))
        self._at = {one.seq: self._at[one.seq] for one in rest if one.seq in self._at}
        return tuple(one.seq for one in taken)

    def _belongs(self, one: Waiting, other: Waiting, window_s: float) -> bool:
        if one.seq in self._at and other.seq in self._at:
            apart_s = self._at[other.seq] - self._at[one.seq]
        else:
            apart_s = abs(other.at - one.at) / 1000
        return one.event.sender == other.event.sender and apart_s <= window_s
