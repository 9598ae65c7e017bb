"""Health check of an MCP backend: counts its tools and resources, if its server may be started."""

from __future__ import annotations

from mainstay.backends.health import BackendContents
from mainstay.backends.mcp.backend import McpBackend
from mainstay.core.outcome_text import format_count


async def check_mcp_backend(backend: McpBackend, start_programs: bool) -> BackendContents:
    if not start_programs:
        summary = f"started at first use, or by `mainstay backend test {backend.name}`"
        return BackendContents(summary=summary, is_open=False)
    tools, resources = await backend.list_tools(), await backend.list_resources()
    return BackendContents(
        summary=f"{format_count(len(tools), 'tool')}, {format_count(len(resources), 'resource')}", is_open=False
    )
