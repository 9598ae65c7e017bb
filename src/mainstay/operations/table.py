"""The table of all operations, for interfaces that offer them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_

from mainstay.operations import approvals, home, memory, observability, people, sessions, triggers, turns
from mainstay.operations.entry import OperationEntry
from mainstay.operations.operation import Interface

ENTRIES: tuple[OperationEntry, ...] = (
    *turns.ENTRIES,
    *sessions.ENTRIES,
    *approvals.ENTRIES,
    *memory.ENTRIES,
    *triggers.ENTRIES,
    *people.ENTRIES,
    *observability.ENTRIES,
    *home.ENTRIES,
)
ANY_OPERATION: object = reduce(or_, (entry.request for entry in ENTRIES))  # the union of all requests, for decoding


def entries_for(interface: Interface) -> Iterator[OperationEntry]:
    """Yield the operations that an interface offers."""
    return (entry for entry in ENTRIES if interface in entry.interfaces)
