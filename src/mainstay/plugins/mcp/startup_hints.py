"""Advice for the owner when a local MCP server does not start: a missing folder grant, or no network."""

from __future__ import annotations

import os
import re
import sys

from mainstay.io.path_resolver import is_inside
from mainstay.plugins.mcp.server_config import McpServerConfig

_SYSTEM_FOLDERS = (
    "/usr",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc",
    "/dev",
)
_NETWORK_ERRORS = re.compile(
    "ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ENETUNREACH|getaddrinfo|Network is unreachable"
    "|Temporary failure in name resolution|Could not resolve host|Name or service not known"
)


def startup_hint(server: McpServerConfig, output: str, *, timed_out: bool) -> str:
    """Return advice without a full stop; empty if there is none. `timed_out`: the server was not ready in time.
    `output` is the end of what it wrote."""
    if not server.is_local or not server.confined:
        return ""
    if path := find_unreadable_path(server):
        folder = path if os.path.isdir(path) else os.path.dirname(path)
        return f"{path} is not in a folder that it may read: add `--read {folder}`"
    if not server.permissions.network and (timed_out or _NETWORK_ERRORS.search(output)):
        return f"it runs without network; if it needs some, name the hosts in mcpServers.{server.name}.network"
    return ""


def find_unreadable_path(server: McpServerConfig) -> str:
    """Return a path of the command line that exists but that the server may not read; empty if there is none."""
    folders = (server.cwd, *server.permissions.read, *server.permissions.write)
    granted = [os.path.realpath(folder) for folder in folders if folder]
    readable = [*granted, *_SYSTEM_FOLDERS, sys.prefix, sys.base_prefix, *_path_folders()]
    for word in (server.command, *server.args):
        if os.path.isabs(word) and os.path.exists(word):
            paths = {os.path.normpath(word), os.path.realpath(word)}
            if not any(is_inside(path, folder) for path in paths for folder in readable):
                return word
    return ""


def _path_folders() -> list[str]:
    """Return the folders of PATH and the lib folders beside them, which the sandbox makes readable."""
    entries = os.environ.get("PATH", "").split(os.pathsep)
    folders = [os.path.normpath(entry) for entry in entries if os.path.isabs(entry)]
    return [*folders, *(f"{os.path.dirname(folder)}/lib" for folder in folders)]
