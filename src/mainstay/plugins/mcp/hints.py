"""What may be the matter with a server on this machine that does not come up, as far as its owner can do something."""

from __future__ import annotations

import os
import re
import sys

from mainstay.io.beneath import is_inside
from mainstay.plugins.mcp.server import McpServer

_SYSTEM = ("/usr", "/opt", "/nix/store", "/gnu/store", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/dev")
_NO_WAY_OUT = re.compile(
    "ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ENETUNREACH|getaddrinfo|Network is unreachable"
    "|Temporary failure in name resolution|Could not resolve host|Name or service not known"
)


def hint_of(server: McpServer, words: str, *, late: bool) -> str:
    """A sentence without its end; empty, if nothing can be told. `late`: it was waited for in vain. `words` are what
    it said last."""
    if not server.local or not server.confined:
        return ""
    if path := unseen(server):
        folder = path if os.path.isdir(path) else os.path.dirname(path)
        return f"{path} is not in a folder that it may read: add `--read {folder}`"
    if not server.needs.network and (late or _NO_WAY_OUT.search(words)):
        return f"it runs without network; if it needs some, name the hosts in mcpServers.{server.name}.network"
    return ""


def unseen(server: McpServer) -> str:
    """Something of its command line that is there, and not for it."""
    granted = [os.path.realpath(one) for one in (server.cwd, *server.needs.read, *server.needs.write) if one]
    seen = [*granted, *_SYSTEM, sys.prefix, sys.base_prefix, *_installed()]
    for word in (server.command, *server.args):
        if os.path.isabs(word) and os.path.exists(word):
            found = {os.path.normpath(word), os.path.realpath(word)}
            if not any(is_inside(path, one) for path in found for one in seen):
                return word
    return ""


def _installed() -> list[str]:
    """What is on the path is seen, and so are the libraries of what is installed there."""
    folders = [os.path.normpath(one) for one in os.environ.get("PATH", "").split(os.pathsep) if os.path.isabs(one)]
    return [*folders, *(f"{os.path.dirname(one)}/lib" for one in folders)]
