"""`mainstay mcp serve`: runs the agent as an MCP server for other hosts."""

from __future__ import annotations

import argparse
import sys

from mainstay.cli.commands.agent_setup import load_agent_setup, print_note
from mainstay.cli.commands.home_locator import run_async
from mainstay.core.errors import ConfigError


def serve(options: argparse.Namespace) -> int:
    options.model = getattr(options, "model", None)
    port: int | None = getattr(options, "http", None)
    try:
        from mainstay.cli.commands import mcp_agent_server  # the mcp library is an extra, and slow to load
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "mainstay":
            raise
        raise ConfigError("this needs the mcp library: pip install -e '.[mcp]'") from None
    load_agent_setup(options)  # reports configuration errors now, not at the host's first request
    if port is None and sys.stdin.isatty():
        print_note("this is an MCP server on stdin and stdout, to be started by an MCP host; Ctrl-C ends it")
    run_async(mcp_agent_server.serve_home(options, port))
    return 0
