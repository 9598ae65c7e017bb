"""Tools of MCP servers: the approved definition is offered to the model, calls go to the server."""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import ClassVar
from urllib.parse import quote

import msgspec

from mainstay.core.json_types import JsonObject
from mainstay.core.ports import Effect, ToolContext
from mainstay.core.tool_arguments import build_schema, parse_arguments
from mainstay.core.tool_ports import MCP_PREFIX, CallDestinations
from mainstay.io.json_schema import CompiledJsonSchema, parse_object_arguments
from mainstay.plugins.mcp.data_types import ListedTool, McpAnswer, McpResourcePage, ToolHints
from mainstay.plugins.mcp.errors import CallFailed
from mainstay.plugins.mcp.server_config import McpLimits, McpServerConfig, server_slug
from mainstay.plugins.mcp.server_supervisor import ServerSupervisor

TIMEOUT_MARGIN_S = 5.0
NO_HINTS = ToolHints()


class McpToolBase:
    """Base of all tools of a server."""

    schema: JsonObject
    effect: Effect = "pure"
    untrusted = True
    sink: bool | tuple[str, ...] = False  # decided per call, in `reach`

    def __init__(self, name: str, description: str, supervisor: ServerSupervisor, limits: McpLimits) -> None:
        server = supervisor.server
        self.name = name
        self.description = description
        self.origin = f"{MCP_PREFIX}{server.name}"
        self.capabilities: tuple[str, ...] = (
            f"mcp.{server_slug(server.name)}",
            *(("net",) if server.can_send_out else ()),
        )
        # The supervisor enforces the deadline of the call itself; this one also covers starting the server.
        self.timeout_s: float | None = (
            server.timeout_s + limits.start_s + max(limits.backoff_s, default=0.0) + TIMEOUT_MARGIN_S
        )
        self._supervisor = supervisor
        self._limits = limits

    def reach(self, arguments: object, context: ToolContext) -> CallDestinations:
        return server_reach(self._supervisor.server, "resources")

    async def reconcile(self, arguments: object, context: ToolContext) -> str | None:
        return None  # MCP has no way to ask for the outcome of a call


class McpTool(McpToolBase):
    """One tool of the server."""

    def __init__(self, name: str, listed: ListedTool, supervisor: ServerSupervisor, limits: McpLimits) -> None:
        super().__init__(name, listed.description, supervisor, limits)
        self.listed = listed
        self.schema = listed.schema
        self.effect = effect_from_hints(listed.hints)
        hints = (listed.hints.read_only, listed.hints.destructive, listed.hints.open_world)
        self.undeclared = ("untrusted", "sink") if hints == (None, None, None) else ()

    @cached_property
    def _parameter_schema(self) -> CompiledJsonSchema:
        """Compiled on the first call: it was checked when it was pinned."""
        return CompiledJsonSchema(self.schema, bytes_max=self._limits.schema_bytes_max)

    def parse(self, input: str) -> JsonObject:
        return parse_object_arguments(input, self._parameter_schema)

    def reach(self, arguments: object, context: ToolContext) -> CallDestinations:
        return server_reach(self._supervisor.server, self.listed.name, self.listed.hints)

    async def run(self, arguments: JsonObject, context: ToolContext) -> str:
        on_progress = _ProgressThrottle(context, self._limits.progress_s).report
        name, limits = self.listed.name, self._limits
        answer = await self._supervisor.request(
            lambda remote: remote.build_tool_call(name, arguments, on_progress, limits), tool=self.listed
        )
        if answer.is_error:
            raise CallFailed(answer.text or "The tool failed without giving a reason.")
        return attach_images(answer, context)


class _ListResourcesArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cursor: str | None = None


class _ReadResourceArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    uri: str


class ListResourcesTool(McpToolBase):
    """Lists the server's resources, one page per call."""

    arguments: ClassVar[type[msgspec.Struct]] = _ListResourcesArguments
    schema = build_schema(_ListResourcesArguments)

    def parse(self, input: str) -> _ListResourcesArguments:
        return parse_arguments(input, _ListResourcesArguments, self.schema)

    async def run(self, arguments: _ListResourcesArguments, context: ToolContext) -> str:
        limits = self._limits
        page = await self._supervisor.request(lambda remote: remote.build_resource_list(arguments.cursor or "", limits))
        return format_resources(page)


class ReadResourceTool(McpToolBase):
    """Reads one resource of the server."""

    arguments: ClassVar[type[msgspec.Struct]] = _ReadResourceArguments
    schema = build_schema(_ReadResourceArguments)

    def parse(self, input: str) -> _ReadResourceArguments:
        return parse_arguments(input, _ReadResourceArguments, self.schema)

    async def run(self, arguments: _ReadResourceArguments, context: ToolContext) -> str:
        limits = self._limits
        return attach_images(
            await self._supervisor.request(lambda remote: remote.build_resource_read(arguments.uri, limits)), context
        )


def effect_from_hints(hints: ToolHints) -> Effect:
    if hints.read_only:
        return "pure"
    return "idempotent" if hints.idempotent else "unsafe"


def server_reach(server: McpServerConfig, tool: str, hints: ToolHints = NO_HINTS) -> CallDestinations:
    """Return what a call of a tool may reach. A local server without network sends nothing out, and without folders to
    write it changes nothing. Hints make a call a sink; only those of a trusted server make it none."""
    destinations = (f"{MCP_PREFIX}{server.name}/{quote(tool, safe='')}",)
    if server.trusted and hints.read_only and hints.open_world is False:
        return CallDestinations()
    if server.can_send_out:
        location = "on another machine" if not server.is_local else "able to send data out"
        effect = f"sends this to the MCP server {server.name}, which is {location}"
        return CallDestinations(sink=True, leaves_workspace=True, destinations=destinations, description=effect)
    if server.permissions.write and not (server.trusted and hints.read_only):
        effect = f"may change files, through the MCP server {server.name}"
        return CallDestinations(sink=True, destinations=destinations, description=effect)
    if hints.destructive or hints.open_world:
        effect = f"is declared by the MCP server {server.name} as {'destructive' if hints.destructive else 'open'}"
        return CallDestinations(
            sink=True, leaves_workspace=bool(hints.open_world), destinations=destinations, description=effect
        )
    return CallDestinations()


def attach_images(answer: McpAnswer, context: ToolContext) -> str:
    for kind, data in answer.images:
        context.attach(kind, data)
    return answer.text


def format_resources(page: McpResourcePage) -> str:
    lines = []
    for resource in page.resources:
        about = ": ".join(part for part in (resource.name, resource.description) if part and part != resource.uri)
        mime = f"({resource.mime})" if resource.mime else ""
        lines.append(" ".join(part for part in (resource.uri, mime, about) if part))
    if page.cursor:
        lines.append(f"[more with cursor={page.cursor!r}]")
    return "\n".join(lines) or "(none)"


class _ProgressThrottle:
    """Passes a call's progress on to subscribers, at most once per interval."""

    def __init__(self, context: ToolContext, interval_s: float) -> None:
        self._context = context
        self._interval_s = interval_s
        self._next_at = 0.0

    def report(self, progress: float, total: float | None, message: str) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._next_at:
            return
        self._next_at = now + self._interval_s
        count = f"{progress:g} of {total:g}" if total else f"{progress:g}"
        self._context.progress(f"{count}: {message}" if message else count)
