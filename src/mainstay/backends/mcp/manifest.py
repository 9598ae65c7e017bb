"""Manifest of the MCP backend, and its settings."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

from msgspec import Meta

from mainstay.core.backend_settings import BackendSettings
from mainstay.core.components import Component
from mainstay.core.settings import ConfigSection


class McpScope(ConfigSection, frozen=True, kw_only=True):
    """Globs of what can be reached."""

    paths: Annotated[tuple[str, ...], Meta(description="Resources, by URI: `wiki://public/**`; empty: all.")] = ()
    operations: Annotated[tuple[str, ...], Meta(description="Tools, by name; empty: none.")] = ()


class McpBackendSettings(BackendSettings, frozen=True, kw_only=True):
    """One MCP server as a source of data."""

    kind: str = "mcp"
    server: Annotated[str, Meta(description="Name of the server in `mcpServers`.")] = ""
    scope: Annotated[McpScope, Meta(description="Allowlist of what can be reached, as globs.")] = McpScope()

    @property
    def location(self) -> str:
        return f"the MCP server {self.server}"

    def find_problem(self, mcp_servers: Collection[str]) -> str:
        return "" if self.server in mcp_servers else f"there is no server {self.server!r} in 'mcpServers'"


COMPONENT = Component(
    kind="backend",
    name="mcp",
    summary="An MCP server, through its resources and those of its tools that are named.",
    settings=McpBackendSettings,
    factory="mainstay.backends.mcp.backend:build_mcp_backend",
    required={"server": "files"},
    check="mainstay.backends.mcp.health:check_mcp_backend",
)
