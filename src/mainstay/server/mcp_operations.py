"""The operations that the MCP server may run: those that declare MCP, whatever the code or the host asks for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TypeVar

from mainstay.core.events import Event
from mainstay.operations.caller import NotAllowed
from mainstay.operations.client_protocol import OperationClient
from mainstay.operations.execute import find_entry
from mainstay.operations.operation import Operation

R = TypeVar("R")


class McpOperations:
    """A client of operations that refuses those that are not offered over MCP."""

    def __init__(self, client: OperationClient) -> None:
        self._client = client

    async def execute(self, operation: Operation[R]) -> R:
        _check_offered(operation)
        return await self._client.execute(operation)

    def open_stream(self, operation: Operation[object]) -> AsyncIterator[Event]:
        _check_offered(operation)
        return self._client.open_stream(operation)


def _check_offered(operation: Operation[object]) -> None:
    if "mcp" not in find_entry(type(operation)).interfaces:
        raise NotAllowed(f"{type(operation).__name__} is not offered over MCP")
