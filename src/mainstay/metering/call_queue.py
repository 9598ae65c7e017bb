"""Priority queue of the model calls that wait for a provider.

Calls of running turns go before the first calls of new turns, so that started turns finish soonest and hold the least
resources. Within each class the order is first in, first out, and a refused call keeps its place. To prevent
starvation, new turns that have waited long get one of every `STARTING_SHARE` places.
"""

from __future__ import annotations

import heapq
from typing import Generic, Protocol, TypeVar

LONG_WAIT_S = 30.0  # a new turn has then waited long
SLACK = 64  # removed entries that a heap may hold before it is rebuilt
STARTING_SHARE = 8  # one of so many places is for a new turn that has waited long


class QueuedCall(Protocol):
    """What the queue needs to know of a call."""

    number: int  # in order of arrival
    starts_turn: bool  # the first call of a turn
    created_at: float  # monotonic seconds
    is_queued: bool


W = TypeVar("W", bound=QueuedCall)


class CallQueue(Generic[W]):
    __slots__ = ("_count", "_finishing", "_passed", "_starting")

    def __init__(self) -> None:
        self._finishing: list[tuple[int, W]] = []
        self._starting: list[tuple[int, W]] = []
        self._count = 0
        self._passed = 0  # calls of running turns sent since the last new turn

    def __len__(self) -> int:
        return self._count

    def add(self, call: W) -> None:
        assert not call.is_queued, "a call is queued only once"
        call.is_queued = True
        self._count += 1
        heap = self._starting if call.starts_turn else self._finishing
        if len(heap) > 2 * self._count + SLACK:  # most entries were removed
            heap[:] = [entry for entry in heap if entry[1].is_queued]
            heapq.heapify(heap)
        heapq.heappush(heap, (call.number, call))

    def remove(self, call: W) -> None:
        """Remove a call from any place; its heap entry is dropped later."""
        if call.is_queued:
            call.is_queued = False
            self._count -= 1

    def peek_next(self, now: float) -> W | None:
        """Return the next call, None if empty; the same one until it is popped or removed."""
        finishing, starting = _peek_heap(self._finishing), _peek_heap(self._starting)
        if finishing is None or starting is None:
            return finishing or starting
        waited_long = now - starting.created_at >= LONG_WAIT_S
        return starting if waited_long and self._passed >= STARTING_SHARE - 1 else finishing

    def pop_next(self, call: W) -> None:
        """Remove `call`, which is sent now: mostly the one that `peek_next` returned."""
        heap = self._starting if call.starts_turn else self._finishing
        if heap[0][1] is call:
            heapq.heappop(heap)
        else:
            heap.remove((call.number, call))
            heapq.heapify(heap)
        self._passed = 0 if call.starts_turn else self._passed + 1
        self.remove(call)

    def list_in_order(self) -> list[W]:
        """Return the calls in about the order in which they will be sent."""
        return [call for heap in (self._finishing, self._starting) for _, call in sorted(heap) if call.is_queued]


def _peek_heap(heap: list[tuple[int, W]]) -> W | None:
    while heap and not heap[0][1].is_queued:
        heapq.heappop(heap)
    return heap[0][1] if heap else None
