"""The table of all operations, for interfaces that offer them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_

from mainstay.operations import (
    approvals,
    budgets,
    errors_and_audit,
    home,
    memory,
    people,
    session_settings,
    sessions,
    traces,
    triggers,
    turns,
    undo,
)
from mainstay.operations.operation import Interface
from mainstay.operations.operation_entry import OperationEntry

ENTRIES: tuple[OperationEntry, ...] = (
    *turns.ENTRIES,
    *sessions.ENTRIES,
    *session_settings.ENTRIES,
    *approvals.ENTRIES,
    *memory.ENTRIES,
    *triggers.ENTRIES,
    *people.ENTRIES,
    *errors_and_audit.ENTRIES,
    *traces.ENTRIES,
    *budgets.ENTRIES,
    *home.ENTRIES,
    *undo.ENTRIES,
)
ANY_OPERATION: object = reduce(or_, (entry.request for entry in ENTRIES))  # the union of all requests, for decoding


def entries_for(interface: Interface) -> Iterator[OperationEntry]:
    """Yield the operations that an interface offers."""
    return (entry for entry in ENTRIES if interface in entry.interfaces)
