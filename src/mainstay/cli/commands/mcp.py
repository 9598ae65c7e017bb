"""`mainstay mcp`: be an MCP server to other hosts."""

from __future__ import annotations

import argparse
import sys

from mainstay.cli.commands.homes import run_async
from mainstay.cli.commands.talking import setting, tell
from mainstay.core.errors import ConfigError


def serve(options: argparse.Namespace) -> int:
    options.model = getattr(options, "model", None)
    port: int | None = getattr(options, "http", None)
    try:
        from mainstay.cli.commands import mcp_serving  # its library is an extra, and slow to load
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "mainstay":
            raise
        raise ConfigError("this needs the mcp library: pip install -e '.[mcp]'") from None
    setting(options)  # what is wrong with it is told before a host waits for an answer
    if port is None and sys.stdin.isatty():
        tell("this speaks MCP on stdin and stdout, for a host that starts it; Ctrl-C ends it")
    run_async(mcp_serving.serve(options, port))
    return 0
