"""Runs an operation for a caller: finds its entry, checks the caller's right, calls its function."""

from __future__ import annotations

import sys
from typing import TypeVar

from mainstay.core.audit import acting_person
from mainstay.core.errors import InputRefused
from mainstay.core.surrogates import refuse_surrogates_in
from mainstay.operations.caller import Caller
from mainstay.operations.event_feed import EventStream
from mainstay.operations.operation import Operation
from mainstay.operations.operation_entry import OperationEntry

R = TypeVar("R")

_FIELD_NAMES = {"text": "the message", "session": "the session's name", "to": "the new session's name"}  # in refusals
_entry_cache: dict[type[Operation[object]], OperationEntry] = {}


def find_entry(request: type[Operation[object]]) -> OperationEntry:
    """Return the table's row of a request. It is in the request's own module, so the other modules of the table are
    not loaded for it."""
    entry = _entry_cache.get(request)
    if entry is None:
        rows: tuple[OperationEntry, ...] = sys.modules[request.__module__].ENTRIES
        entry = _entry_cache[request] = next(row for row in rows if row.request is request)
    return entry


async def execute(caller: Caller, operation: Operation[R]) -> R:
    """Run an operation. Raises NotAllowed if the caller lacks the right, InputRefused for text that cannot be stored,
    and what the operation raises."""
    entry = authorise(caller, type(operation))
    _refuse_invalid_text(operation)
    result: R = await entry.run(caller, operation)
    return result


async def open_stream(caller: Caller, operation: Operation[object]) -> EventStream:
    """Run an operation as a stream of events; its input, if any, is on disk when this returns."""
    entry = authorise(caller, type(operation))
    if entry.stream is None:
        raise InputRefused(f"{entry.name} is not a stream")
    _refuse_invalid_text(operation)
    return await entry.stream(caller, operation)


def _refuse_invalid_text(operation: Operation[object]) -> None:
    """Raise InputRefused for half a character in a field: callers in the same process may pass one."""
    for name in operation.__struct_fields__:
        value = getattr(operation, name)
        if value and not (isinstance(value, str) and value.isascii()):
            refuse_surrogates_in(value, _FIELD_NAMES.get(name) or f"the {name.replace('_', ' ')}")


def authorise(caller: Caller, request: type[Operation[object]]) -> OperationEntry:
    """Return the table's row of a request. Raises NotAllowed if the caller lacks the right to run it."""
    entry = find_entry(request)
    caller.require_access(entry.access)
    if caller.person:
        acting_person.set(caller.person)
    return entry
