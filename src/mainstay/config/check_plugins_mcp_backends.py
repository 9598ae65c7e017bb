"""Checks the configuration of external tools: names, and keys that do not fit together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from mainstay.config.schema import Config
from mainstay.config.schema_external_tools import (
    EXTERNAL_TOOL_SECTIONS,
    McpEntry,
    PluginEntry,
    find_missing_variable,
    find_unusable_reason,
    mark_incomplete,
)
from mainstay.config.schema_validator import Keys, SchemaChecker
from mainstay.core.backend_settings import BackendSettings
from mainstay.core.components import find_component
from mainstay.core.errors import ConfigError

PLUGIN_NAME = re.compile(r"[a-z0-9]{1,32}")
# no `__`, which separates a prefix from a tool's name
BACKEND_NAME = re.compile(r"[a-zA-Z0-9](?:-?_?[a-zA-Z0-9]){0,31}")
_WEB_URL = re.compile(r"https?://[^\s/?#]+\S*")


def mark_incomplete_entries(config: Config, checker: SchemaChecker) -> Config:
    """Replace each entry that needs an unset environment variable by one that says so: the others stay usable."""
    changed: dict[str, Any] = {}
    for section in EXTERNAL_TOOL_SECTIONS:
        entries = dict(getattr(config, section))
        for keys, reason in reversed(checker.unset_variables.items()):  # of several reasons, the first one remains
            name = str(keys[1]) if keys[0] == section else ""
            if name in entries:
                entries[name] = mark_incomplete(entries[name], reason)
                checker.origins[(section, name, "lacks")] = checker.origins[keys]
                changed[section] = entries
    return msgspec.structs.replace(config, **changed)


def find_unusable_entries(config: Config, clashes: Mapping[Keys, str]) -> Iterator[str]:
    """Yield one sentence for every enabled entry that cannot be used now; `clashes` has the reasons of entries whose
    name clashes with another's."""
    for section, title in zip(EXTERNAL_TOOL_SECTIONS, ("plugin", "MCP server", "backend"), strict=True):
        for name, entry in getattr(config, section).items():
            reason = find_unusable_reason(entry) or clashes.get((section, name), "")
            disabled = getattr(entry, "disabled", False) or not getattr(entry, "enabled", True)
            if reason and not disabled:
                yield f"the {title} {name} is left out: {reason}"


def check_external_tools(config: Config, position_of: Callable[[Keys], str]) -> None:
    """Raise ConfigError for the first mistake; `position_of` returns the position of a key, which begins the error."""
    for keys, problem in _find_problems(config.plugins, config.mcpServers, config.backends):
        raise ConfigError(f"{position_of(keys)}{problem}")


def _find_problems(
    plugins: dict[str, PluginEntry], servers: dict[str, McpEntry], backends: dict[str, BackendSettings]
) -> Iterator[tuple[Keys, str]]:
    for name in plugins:
        if not PLUGIN_NAME.fullmatch(name):
            yield ("plugins", name), f"'plugins.{name[:80]}': a plugin's name must be 1 to 32 characters of a-z and 0-9"
    for name, server in servers.items():
        if (problem := _find_server_problem(name, server)) is not None:
            yield ("mcpServers", name), f"'mcpServers.{name[:80]}': {problem}"
    for name, backend in backends.items():
        if problem := _find_backend_problem(name, backend, servers):
            yield ("backends", name), f"'backends.{name[:80]}': {problem}"
    taken: set[str] = set()
    sections: tuple[Iterable[str], ...] = (plugins, servers, backends)
    for section, names in zip(EXTERNAL_TOOL_SECTIONS, sections, strict=True):
        for name in names:
            if name.lower() in taken:
                problem = (
                    f"'{section}.{name}': another plugin, MCP server or backend is named {name.lower()!r}; rename one"
                )
                yield (section, name), problem
            taken.add(name.lower())


def _find_server_problem(name: str, server: McpEntry) -> str | None:
    if len(name) > 100:
        return "a server's name must have at most 100 characters"
    if server.disabled or find_missing_variable(server):
        return None  # not used, or its values are not known until its variables are set
    if bool(server.command) == bool(server.url):
        return "write either 'command' (to start a server) or 'url' (to connect to one)"
    if server.type and (server.type == "stdio") != bool(server.command):
        return f"'type: {server.type}' does not fit {'a url' if server.url else 'a command'}; remove 'type'"
    if server.url and not _WEB_URL.fullmatch(server.url):
        return "'url' must begin with http:// or https://"
    local = [key for key in ("args", "env", "cwd", "network", "read", "write") if getattr(server, key)]
    if server.url and local:
        return f"'{local[0]}' is only for a server with a 'command', and this one has a 'url'; remove it"
    if server.command and server.headers:
        return "'headers' are only for a server with a 'url', and this one has a 'command'; remove them"
    return None


def _find_backend_problem(name: str, backend: BackendSettings, servers: dict[str, McpEntry]) -> str:
    if not BACKEND_NAME.fullmatch(name):
        return "a backend's name must be 1 to 32 letters, digits, - and single _"
    if find_missing_variable(backend):
        return ""
    if missing := find_component("backend", backend.kind).find_missing(backend):
        return f"'kind: {backend.kind}' needs {missing}"
    return backend.find_problem(servers)
