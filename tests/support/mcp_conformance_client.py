"""The client that the published conformance suite drives: discovers the server it is given and calls all its tools.

Run as a program with the address as its last word; the suite sets MCP_CONFORMANCE_SCENARIO, and in
MCP_CONFORMANCE_CONTEXT what a scenario wants called, where it matters.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from mainstay.core.errors import MainstayError
from mainstay.core.ports import ToolContext
from mainstay.core.tools import BadArguments
from mainstay.plugins.mcp.server_config import McpServerConfig
from mainstay.plugins.mcp.tool_source import McpToolSource
from mainstay.sandbox.host.sandbox import HostSandbox

SAMPLES: dict[str, Any] = {"number": 2, "integer": 3, "string": "text", "boolean": True, "array": [], "object": {}}


def filled(schema: dict[str, Any]) -> dict[str, Any]:
    """Something for every argument."""
    return {
        name: SAMPLES.get(part.get("type", "string") if isinstance(part, dict) else "string", "text")
        for name, part in schema.get("properties", {}).items()
    }


def wanted(servers: McpToolSource) -> list[tuple[str, dict[str, Any]]]:
    """By their own names: what the scenario asks for, or everything."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    if asked := context.get("toolCalls"):
        # What is null in a call is left out of it: that is how an argument is not given.
        return [(one["name"], {k: v for k, v in one.get("arguments", {}).items() if v is not None}) for one in asked]
    return [(one.name, filled(one.schema)) for one in servers.approved_tools("suite")]


async def main(url: str, folder: Path) -> int:
    servers = McpToolSource([McpServerConfig(name="suite", url=url)], folder, HostSandbox())
    try:
        await servers.discover()
        print("troubles:", servers.problems)
        by_name = {tool.listed.name: tool for tool in servers.tools if hasattr(tool, "listed")}
        for name, arguments in wanted(servers):
            tool = by_name.get(name)
            if tool is None:
                print(f"{name} is not offered")
                continue
            try:
                said = await tool.run(
                    tool.parse(json.dumps(arguments)), ToolContext("s", 1, 1, "c", lambda event: None)
                )
                print(name, json.dumps(arguments), "->", said)
            except (MainstayError, BadArguments) as error:
                print(name, json.dumps(arguments), "failed:", error)
        return 0 if servers.is_pinned("suite") else 1
    finally:
        await servers.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        sys.exit(asyncio.run(main(sys.argv[-1], Path(made))))
