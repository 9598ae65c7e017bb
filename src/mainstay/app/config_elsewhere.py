"""What the configuration may not say about tools from elsewhere: values that make no sense together."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mainstay.app.schema_elsewhere import BackendEntry, McpEntry, PluginEntry
from mainstay.core.errors import ConfigError

PLUGIN = re.compile(r"[a-z0-9]{1,32}")
NAME = re.compile(r"[a-zA-Z0-9](?:-?_?[a-zA-Z0-9]){0,31}")  # no two underscores in a row: they end a name
_SQL = re.compile(r"(sqlite|postgresql|postgres|mysql|mariadb)://\S+")
_WEB = re.compile(r"https?://[^\s/?#]+\S*")
_NEEDED = {"sql": "url", "rest": "description", "documents": "path", "mcp": "server"}
_FITS: dict[str, tuple[str, ...]] = {
    "sql": ("url",),
    "rest": ("url", "description", "headers"),
    "documents": ("path",),
    "mcp": ("server",),
}
_SCOPES: dict[str, tuple[str, ...]] = {
    "sql": ("databases", "schemas", "tables"),
    "rest": ("paths", "operations"),
    "documents": ("paths",),
    "mcp": ("paths", "operations"),
}


def check_elsewhere(
    plugins: dict[str, PluginEntry], servers: dict[str, McpEntry], backends: dict[str, BackendEntry]
) -> None:
    """Raises ConfigError for the first thing that is wrong."""
    for said in _wrong(plugins, servers, backends):
        raise ConfigError(said)


def _wrong(
    plugins: dict[str, PluginEntry], servers: dict[str, McpEntry], backends: dict[str, BackendEntry]
) -> Iterator[str]:
    for name in plugins:
        if not PLUGIN.fullmatch(name):
            yield f"'plugins.{name[:80]}': a plugin's name is 1 to 32 of a-z and 0-9"
    for name, server in servers.items():
        if (said := _wrong_server(name, server)) is not None:
            yield f"'mcpServers.{name[:80]}': {said}"
    for name, backend in backends.items():
        if (said := _wrong_backend(name, backend, servers)) is not None:
            yield f"'backends.{name[:80]}': {said}"
    names = [name.lower() for name in (*plugins, *servers, *backends)]
    for name in names:
        if names.count(name) > 1:
            yield f"a plugin, an MCP server or a backend has the name {name!r} of another: rename one"


def _wrong_server(name: str, server: McpEntry) -> str | None:
    if len(name) > 100:
        return "a server's name has at most 100 characters"
    if bool(server.command) == bool(server.url):
        return "it needs a 'command' to start or a 'url' to reach it at, and not both"
    if server.type and (server.type == "stdio") != bool(server.command):
        return f"'type: {server.type}' does not go with {'a url' if server.url else 'a command'}"
    if server.url and not _WEB.fullmatch(server.url):
        return "'url' must begin with http:// or https://"
    local = [one for one in ("args", "env", "cwd", "network", "read", "write") if getattr(server, one)]
    if server.url and local:
        return f"'{local[0]}' is for a server that is started here; this one is elsewhere"
    if server.command and server.headers:
        return "'headers' are for a server that is reached at a 'url'"
    return None


def _wrong_backend(name: str, backend: BackendEntry, servers: dict[str, McpEntry]) -> str | None:
    if not NAME.fullmatch(name):
        return "a backend's name is 1 to 32 letters, digits, - and single _"
    kind, needed = backend.kind, _NEEDED[backend.kind]
    if not getattr(backend, needed):
        return f"'kind: {kind}' needs '{needed}'"
    for field in ("url", "description", "path", "server", "headers"):
        if getattr(backend, field) and field not in _FITS[kind]:
            return f"'{field}' does not go with 'kind: {kind}'"
    for field in ("databases", "schemas", "tables", "paths", "operations"):
        if getattr(backend.scope, field) and field not in _SCOPES[kind]:
            return f"'scope.{field}' does not go with 'kind: {kind}', which has {', '.join(_SCOPES[kind])}"
    if kind == "sql" and not _SQL.fullmatch(backend.url):
        return "'url' must begin with sqlite:///, postgresql:// or mysql://"
    if kind == "rest" and backend.url and not _WEB.fullmatch(backend.url):
        return "'url' must begin with http:// or https://"
    if kind == "mcp" and backend.server not in servers:
        return f"there is no server {backend.server!r} in 'mcpServers'"
    if kind == "documents" and backend.write:
        return "'write' does not go with 'kind: documents': files are written with the file tools"
    return None
