"""The port through which operations are run: in this process, or in another one through a transport."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol, TypeVar

from mainstay.core.events import Event
from mainstay.operations.operation import Operation

R = TypeVar("R")


class OperationClient(Protocol):
    """Runs operations for one principal in one workspace."""

    async def execute(self, operation: Operation[R]) -> R:
        """Run an operation and return its result."""
        ...

    def open_stream(self, operation: Operation[object]) -> AsyncIterator[Event]:
        """Run an operation as a stream of events. Leaving the stream does not stop the turn."""
        ...
