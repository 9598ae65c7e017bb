"""What the configuration may not say about tools from elsewhere: values that make no sense together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from mainstay.config.schema import Config
from mainstay.config.schema_external_tools import (
    ELSEWHERE,
    BackendEntry,
    LackingBackend,
    LackingPlugin,
    LackingServer,
    McpEntry,
    PluginEntry,
    why_not,
)
from mainstay.config.validation import Checker, Keys
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


def with_lacks(config: Config, checker: Checker) -> Config:
    """An entry that names a variable which is not set says so itself: it keeps nobody from using the others."""
    changed: dict[str, Any] = {}
    for section, kind in zip(ELSEWHERE, (LackingPlugin, LackingServer, LackingBackend), strict=True):
        entries = dict(getattr(config, section))
        for keys, said in reversed(checker.lacks.items()):  # of several, the first is told
            name = str(keys[1]) if keys[0] == section else ""
            if name in entries:
                given = {one: getattr(entries[name], one) for one in entries[name].__struct_fields__}
                entries[name] = kind(**{**given, "lacks": said})
                checker.origins[(section, name, "lacks")] = checker.origins[keys]
                changed[section] = entries
    return msgspec.structs.replace(config, **changed)


def unusable(config: Config, clashing: Mapping[Keys, str]) -> Iterator[str]:
    """One sentence for everything that is configured, not turned off, and cannot be used as things are; `clashing`
    are those that share their name with another."""
    for section, words in zip(ELSEWHERE, ("plugin", "MCP server", "backend"), strict=True):
        for name, entry in getattr(config, section).items():
            why = why_not(entry) or clashing.get((section, name), "")
            off = getattr(entry, "disabled", False) or not getattr(entry, "enabled", True)
            if why and not off:
                yield f"the {words} {name} is left out: {why}"


def check_elsewhere(config: Config, begun: Callable[[Keys], str]) -> None:
    """Raises ConfigError for the first thing that is wrong; `begun` says where that is."""
    for keys, said in _wrong(config.plugins, config.mcpServers, config.backends):
        raise ConfigError(f"{begun(keys)}{said}")


def _wrong(
    plugins: dict[str, PluginEntry], servers: dict[str, McpEntry], backends: dict[str, BackendEntry]
) -> Iterator[tuple[Keys, str]]:
    for name in plugins:
        if not PLUGIN.fullmatch(name):
            yield ("plugins", name), f"'plugins.{name[:80]}': a plugin's name is 1 to 32 of a-z and 0-9"
    for name, server in servers.items():
        if (said := _wrong_server(name, server)) is not None:
            yield ("mcpServers", name), f"'mcpServers.{name[:80]}': {said}"
    for name, backend in backends.items():
        if (said := _wrong_backend(name, backend, servers)) is not None:
            yield ("backends", name), f"'backends.{name[:80]}': {said}"
    taken: set[str] = set()
    sections: tuple[Iterable[str], ...] = (plugins, servers, backends)
    for section, names in zip(ELSEWHERE, sections, strict=True):
        for name in names:
            if name.lower() in taken:
                said = f"a plugin, an MCP server or a backend has the name {name.lower()!r} of another: rename one"
                yield (section, name), said
            taken.add(name.lower())


def _wrong_server(name: str, server: McpEntry) -> str | None:
    if len(name) > 100:
        return "a server's name has at most 100 characters"
    if server.disabled or isinstance(server, LackingServer):
        return None  # nobody asks how it is reached; or that cannot be told yet
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
    if isinstance(backend, LackingBackend):
        return None
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
