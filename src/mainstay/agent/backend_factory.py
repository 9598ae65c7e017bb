"""Builds the backends from the configuration, and the adapter for backends that are MCP servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mainstay.agent.external_tools import ExternalToolEnvironment, refuse_unusable
from mainstay.agent.tool_name_clashes import find_prefix_clashes, list_installed_plugins
from mainstay.backends.base import Backend
from mainstay.backends.factory_context import BackendFactoryContext
from mainstay.backends.mcp.data_source_protocol import McpResourceSummary, McpToolSummary
from mainstay.config.schema import Config
from mainstay.core.backend_settings import BackendSettings
from mainstay.core.components import find_component
from mainstay.core.errors import ConfigError, MainstayError
from mainstay.core.json_types import JsonObject
from mainstay.core.ports import ToolContext
from mainstay.plugins.mcp.tool_source import McpToolSource

INDEX_FOLDER = "indexes"  # a folder of the workspace
PAGES_MAX = 20


def build_backends(
    config: Config,
    environment: ExternalToolEnvironment,
    mcp: McpToolSource | None,
    report_problem: Callable[[str], None],
) -> tuple[Backend, ...]:
    """Build the configured backends. One that cannot be used is left out, and the reason is reported."""
    backends: list[Backend] = []
    clashing = find_prefix_clashes(config, list_installed_plugins(environment.home))
    context = BackendFactoryContext(
        home=environment.home,
        index_folder=environment.workspace / INDEX_FOLDER,
        open_mcp_source=lambda server: open_mcp_source(mcp, server),
    )
    for name, settings in config.backends.items():
        try:
            refuse_unusable(settings, clashing.get(("backends", name), ""))
            backends.append(build_backend(name, settings, context))
        except MainstayError as error:
            report_problem(f"the backend {name} is left out: {error}")
    return tuple(backends)


def build_backend(name: str, settings: BackendSettings, context: BackendFactoryContext) -> Backend:
    """Build one backend without opening it. Raises ConfigError, also for what a factory of another distribution
    raises."""
    refuse_unusable(settings)
    component = find_component("backend", settings.kind)
    if missing := component.find_missing(settings):
        raise ConfigError(f"'kind: {settings.kind}' needs {missing}")
    backend: Backend = component.create(name, settings.resolve_paths(context.home), context)
    return backend


def open_mcp_source(mcp: McpToolSource | None, server: str) -> McpDataSourceAdapter:
    """Return the data of an MCP server. Raises ConfigError if it is not there."""
    if mcp is None or server not in mcp.names:
        raise ConfigError(f"the MCP server {server} is not there, or disabled")
    return McpDataSourceAdapter(mcp, server)


class McpDataSourceAdapter:
    """Gives a backend access to one MCP server."""

    def __init__(self, mcp: McpToolSource, server: str) -> None:
        self._mcp = mcp
        self._server = server
        self.external_destination = f"mcp:{server}" if mcp.can_send_out(server) else ""

    async def list_resources(self) -> Sequence[McpResourceSummary]:
        resources: list[McpResourceSummary] = []
        cursor = ""
        for _ in range(PAGES_MAX):
            page = await self._mcp.list_resources(self._server, cursor)
            resources += (
                McpResourceSummary(
                    uri=resource.uri, name=resource.name, description=resource.description, mime=resource.mime
                )
                for resource in page.resources
            )
            if not (cursor := page.cursor):
                break
        return resources

    async def read_resource(self, uri: str) -> str:
        return (await self._mcp.read_resource(self._server, uri)).text

    async def list_tools(self) -> Sequence[McpToolSummary]:
        await self._mcp.discover([self._server])
        return [
            McpToolSummary(
                name=tool.name,
                description=tool.description,
                schema=tool.schema,
                is_read_only=tool.hints.read_only is True,
            )
            for tool in self._mcp.approved_tools(self._server)
        ]

    async def call_tool(self, tool: str, arguments: JsonObject, context: ToolContext) -> str:
        result = await self._mcp.call_tool(self._server, tool, arguments)
        if result.is_error:
            raise McpToolFailed(result.text)
        return result.text


class McpToolFailed(MainstayError):
    """An MCP server reports that its tool failed."""
