"""What an MCP backend needs of an MCP client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from mainstay.core.json_types import JsonObject
from mainstay.core.ports import ToolContext


class McpResourceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A resource of an MCP server."""

    uri: str
    name: str = ""
    description: str = ""
    mime: str = ""


class McpToolSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of an MCP server. `is_read_only`: the server claims that it changes nothing."""

    name: str
    description: str = ""
    schema: JsonObject = {}
    is_read_only: bool = False


class McpDataSource(Protocol):
    """One MCP server. Its errors are sentences for the model."""

    @property
    def external_destination(self) -> str:
        """Its destination name if requests may leave the machine; empty: it is local."""
        ...

    async def list_resources(self) -> Sequence[McpResourceSummary]: ...
    async def read_resource(self, uri: str) -> str: ...
    async def list_tools(self) -> Sequence[McpToolSummary]: ...
    async def call_tool(self, tool: str, arguments: JsonObject, context: ToolContext) -> str: ...
