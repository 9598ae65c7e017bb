"""Adapter for client tools: the model calls them, the client runs them and returns the result."""

from __future__ import annotations

import msgspec

from mainstay.core.client_tools import ClientTool
from mainstay.core.json_types import JsonObject
from mainstay.core.ports import Effect, ToolContext
from mainstay.core.tools import BadArguments


class ClientToolAdapter:
    """Implements the Tool port for a client tool; it is never run here, the turn pauses for its result instead."""

    effect: Effect = "unsafe"
    timeout_s: float | None = None
    untrusted = True  # the result is produced by the client
    sink: bool | tuple[str, ...] = False  # arguments go to the client, like the answer
    capabilities: tuple[str, ...] = ()

    def __init__(self, client_tool: ClientTool) -> None:
        self.name = client_tool.name
        self.description = client_tool.description
        self.schema = client_tool.schema or {"type": "object", "properties": {}}

    def parse(self, input: str) -> JsonObject:
        """Check only that the arguments are a JSON object; the client validates them against its schema."""
        try:
            arguments = msgspec.json.decode(input or "{}")
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            raise BadArguments("The arguments are not JSON.") from None
        if not isinstance(arguments, dict):
            raise BadArguments("The arguments must be a JSON object.")
        return arguments

    async def run(self, arguments: object, context: ToolContext) -> str:
        raise AssertionError("the client runs this tool")

    async def reconcile(self, arguments: object, context: ToolContext) -> str | None:
        raise AssertionError("the client runs this tool")
