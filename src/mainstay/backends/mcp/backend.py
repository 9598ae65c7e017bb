"""MCP backend: an MCP server as a source of data, through its resources and those of its tools that the owner names.

The server is a third-party program, reached through an `McpDataSource`. Its annotations are claims: a tool that does
not claim to be read-only is never called by `query`. The server is started on first use.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

import msgspec

from mainstay.backends.base import (
    BackendRefused,
    BackendTool,
    BackendToolArguments,
    clean_line,
    clean_name,
    fit_lines,
    paginate,
    truncate_bytes,
)
from mainstay.backends.factory_context import BackendFactoryContext
from mainstay.backends.mcp.data_source_protocol import McpDataSource, McpResourceSummary, McpToolSummary
from mainstay.backends.mcp.manifest import McpBackendSettings
from mainstay.core.json_types import JsonObject
from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.core.tool_ports import CallDestinations
from mainstay.trust.rule_patterns import compile_glob

URI_CHARS_MAX = 2_000
SCHEMA_CHARS_MAX = 4_000
RESULT_BYTES_MAX = 1024 * 1024


def build_mcp_backend(name: str, settings: McpBackendSettings, context: BackendFactoryContext) -> McpBackend:
    return McpBackend(name, settings, context.open_mcp_source(settings.server))


class McpBackend:
    def __init__(self, name: str, settings: McpBackendSettings, source: McpDataSource) -> None:
        self.name = name
        self.settings = settings
        self.source = source
        self._tool_globs = [compile_glob(pattern) for pattern in settings.scope.operations]
        self._uri_globs = [compile_glob(pattern) for pattern in settings.scope.paths]
        self._known_tools: Sequence[str] = settings.scope.operations
        self.tools: tuple[Tool, ...] = (
            McpDescribeTool(self),
            McpQueryTool(self),
            *((McpChangeTool(self),) if settings.write else ()),
        )

    async def start(self) -> None:
        """Do nothing: the server is started on first use."""

    async def close(self) -> None:
        """Do nothing: the source belongs to the caller."""

    def schema_summary(self) -> str:
        access = "reading and changing" if self.settings.write else "reading only"
        lines = [f"### {self.name}: an MCP server, {access}", *([self.settings.about] if self.settings.about else [])]
        lines.append(f"{self.name}__describe lists its resources{' and tools' if self._tool_globs else ''}.")
        tokens_left = max(self.settings.schema_tokens - len("\n".join(lines)) // 3, 20)
        names = [f"- {clean_name(name)}" for name in self._known_tools]
        return "\n".join((*lines, fit_lines(names, tokens_left, "tools"))) if names else "\n".join(lines)

    # --- scope -----------------------------------------------------------------------------------

    async def list_resources(self) -> list[McpResourceSummary]:
        return [resource for resource in await self.source.list_resources() if self._is_in_scope(resource.uri)]

    async def list_tools(self) -> list[McpToolSummary]:
        """Return the tools in scope: named by the owner, and read-only unless writing is granted."""
        if not self._tool_globs:
            return []
        tools = await self.source.list_tools()
        named = [tool for tool in tools if any(matches(tool.name) for matches in self._tool_globs)]
        in_scope = [tool for tool in named if tool.is_read_only or self.settings.write]
        self._known_tools = [tool.name for tool in in_scope]
        return in_scope

    async def find_tool(self, name: str) -> McpToolSummary:
        tools = await self.list_tools()
        match = next((tool for tool in tools if tool.name == name), None)
        if match is None:
            known = ", ".join(clean_name(tool.name) for tool in tools[:30]) or "none"
            raise BackendRefused(f"There is no tool {clean_name(name)} in scope. Available: {known}.")
        return match

    def _is_in_scope(self, uri: str) -> bool:
        return not self._uri_globs or any(matches(uri) for matches in self._uri_globs)

    # --- calls -----------------------------------------------------------------------------------

    async def read_resource(self, uri: str) -> str:
        if len(uri) > URI_CHARS_MAX or not uri.isprintable() or " " in uri:
            raise BackendRefused("This is not the URI of a resource.")
        if not self._is_in_scope(uri) or _has_parent_segment(uri):
            raise BackendRefused(f"{clean_name(uri)} is not in scope.")
        return truncate_bytes(await self.source.read_resource(uri), RESULT_BYTES_MAX, "\n[the rest is left out]")

    async def call_tool(self, tool: McpToolSummary, arguments: JsonObject, context: ToolContext) -> str:
        result = await self.source.call_tool(tool.name, arguments, context)
        return truncate_bytes(result, RESULT_BYTES_MAX, "\n[the rest is left out]")


def _has_parent_segment(uri: str) -> bool:
    """Return whether a URI has a ".." segment, also encoded: it could leave the path that a scope pattern matches."""
    decoded = unquote(unquote(uri)).replace("\\", "/")
    return any(segment == ".." for segment in decoded.split("/"))


# --- tools ---------------------------------------------------------------------------------------


class _McpDescribeArguments(BackendToolArguments, frozen=True):
    tool: str | None = None
    offset: int | None = None


class _McpQueryArguments(BackendToolArguments, frozen=True):
    uri: str | None = None
    tool: str | None = None
    arguments: JsonObject = {}
    offset: int | None = None


class _McpChangeArguments(BackendToolArguments, frozen=True):
    tool: str
    arguments: JsonObject = {}


class McpDescribeTool(BackendTool[_McpDescribeArguments]):
    action = "describe"
    arguments = _McpDescribeArguments

    def __init__(self, backend: McpBackend) -> None:
        about = f" ({backend.settings.about})" if backend.settings.about else ""
        usage = "lists resources and tools; tool: the arguments of that one."
        super().__init__(backend, f"The data of {backend.name}{about}: {usage}")
        self._backend = backend

    async def execute(self, arguments: _McpDescribeArguments, context: ToolContext) -> str:
        if arguments.tool:
            tool = await self._backend.find_tool(arguments.tool)
            schema = clean_line(msgspec.json.encode(tool.schema).decode(), SCHEMA_CHARS_MAX)
            return f"{_format_tool(tool)}\n  arguments: {schema}"
        tools = await self._backend.list_tools()
        lines = [_format_tool(tool) for tool in tools]
        lines += [_format_resource(resource) for resource in await self._backend.list_resources()]
        rows, note = paginate(lines, arguments.offset, self._backend.settings.rows_max)
        return "\n".join((*rows, note) if note else rows) or "There is nothing in scope."


class McpQueryTool(BackendTool[_McpQueryArguments]):
    action = "query"
    arguments = _McpQueryArguments
    schema: JsonObject = {
        "type": "object",
        "properties": {
            "uri": {"type": "string", "description": "of a resource"},
            "tool": {"type": "string"},
            "arguments": {"type": "object", "description": "of the tool"},
            "offset": {"type": "integer"},
        },
    }

    def reach(self, arguments: _McpQueryArguments, context: ToolContext) -> CallDestinations:
        """Return the effects of a query: like the server's own tools, it sends its arguments to the server."""
        destination = self._backend.source.external_destination
        if not destination:
            return CallDestinations()
        return CallDestinations(
            sink=True,
            leaves_workspace=True,
            destinations=(destination,),
            description=f"sends a request to {destination}, outside this machine",
        )

    def __init__(self, backend: McpBackend) -> None:
        super().__init__(backend, f"Read a resource of {backend.name} (uri), or call one of its reading tools.")
        self._backend = backend

    async def execute(self, arguments: _McpQueryArguments, context: ToolContext) -> str:
        if bool(arguments.uri) == bool(arguments.tool):
            raise BackendRefused("Give a uri or a tool, and not both.")
        if arguments.uri:
            result = await self._backend.read_resource(arguments.uri)
        else:
            tool = await self._backend.find_tool(arguments.tool or "")
            if not tool.is_read_only:
                raise BackendRefused(f"{clean_name(tool.name)} may change something: use {self._backend.name}__change.")
            result = await self._backend.call_tool(tool, arguments.arguments, context)
        rows, note = paginate(result.splitlines(), arguments.offset, self._backend.settings.rows_max * 10)
        return "\n".join((*rows, note)) if note else result


class McpChangeTool(BackendTool[_McpChangeArguments]):
    action = "change"
    arguments = _McpChangeArguments
    writes = True
    effect: Effect = "unsafe"
    schema: JsonObject = {
        "type": "object",
        "properties": {"tool": {"type": "string"}, "arguments": {"type": "object"}},
        "required": ["tool"],
    }

    def __init__(self, backend: McpBackend) -> None:
        super().__init__(backend, f"Call a tool of {backend.name} that may change something.")
        self._backend = backend

    async def execute(self, arguments: _McpChangeArguments, context: ToolContext) -> str:
        tool = await self._backend.find_tool(arguments.tool)
        return await self._backend.call_tool(tool, arguments.arguments, context)


def _format_tool(tool: McpToolSummary) -> str:
    note = "" if tool.is_read_only else ", may change something"
    return f"{clean_name(tool.name)} (tool{note})" + (f" — {clean_line(tool.description)}" if tool.description else "")


def _format_resource(resource: McpResourceSummary) -> str:
    title = clean_line(" — ".join(text for text in (resource.name, resource.description) if text))
    kind = f" ({clean_line(resource.mime, 60)})" if resource.mime else ""
    return f"{clean_line(resource.uri, 300)}{kind}" + (f" — {title}" if title else "")
