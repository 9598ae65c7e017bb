"""Calls that wait for a provider, in the order in which they go.

Turns that are under way go before turns that begin: what was started ends soonest that way, and holds the least. Within
each class first come, first served, and a call that was refused keeps its place. So that turns do begin under any load,
those that have waited long get a place now and then.
"""

from __future__ import annotations

import heapq
from typing import Generic, Protocol, TypeVar

AGED_S = 30.0
SPARE = 64
EVERY = 8  # of so many places one is for a turn that has waited long


class Waiter(Protocol):
    """`number` is its place among all that ever came; `begins`: it is the first call of a turn."""

    number: int
    begins: bool
    since: float
    in_line: bool


W = TypeVar("W", bound=Waiter)


class Line(Generic[W]):
    __slots__ = ("_count", "_finishing", "_passed", "_starting")

    def __init__(self) -> None:
        self._finishing: list[tuple[int, W]] = []
        self._starting: list[tuple[int, W]] = []
        self._count = 0
        self._passed = 0  # so many places went to others while one that has waited long was there

    def __len__(self) -> int:
        return self._count

    def join(self, one: W) -> None:
        assert not one.in_line, "nobody stands in a line twice"
        one.in_line = True
        self._count += 1
        heap = self._starting if one.begins else self._finishing
        if len(heap) > 2 * self._count + SPARE:  # most of it has left
            heap[:] = [entry for entry in heap if entry[1].in_line]
            heapq.heapify(heap)
        heapq.heappush(heap, (one.number, one))

    def leave(self, one: W) -> None:
        """From anywhere in it, at once; what is left of it is cleared away later."""
        if one.in_line:
            one.in_line = False
            self._count -= 1

    def first(self, now: float) -> W | None:
        """Whose turn it is; the same until they have gone or left."""
        finishing, starting = _head(self._finishing), _head(self._starting)
        if finishing is None or starting is None:
            return finishing or starting
        aged = now - starting.since >= AGED_S
        return starting if aged and self._passed >= EVERY - 1 else finishing

    def take(self, one: W) -> None:
        """The first one goes."""
        heapq.heappop(self._starting if one.begins else self._finishing)
        self._passed = 0 if one.begins else self._passed + 1
        self.leave(one)

    def order(self) -> list[W]:
        """About as they will go."""
        return [one for heap in (self._finishing, self._starting) for _, one in sorted(heap) if one.in_line]


def _head(heap: list[tuple[int, W]]) -> W | None:
    while heap and not heap[0][1].in_line:
        heapq.heappop(heap)
    return heap[0][1] if heap else None
