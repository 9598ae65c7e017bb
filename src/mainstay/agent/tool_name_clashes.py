"""Name clashes of external tools: no two plugins, MCP servers or backends may share a tool name prefix."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from mainstay.config.schema import Config
from mainstay.core.errors import ConfigError
from mainstay.plugins.lock_file import read_lock
from mainstay.plugins.mcp.server_config import server_slug
from mainstay.plugins.mcp.tool_names import similarity_key

PLUGINS_FOLDER = "plugins"  # a folder of a home


def list_installed_plugins(home: Path) -> frozenset[str]:
    """Return the names of the installed plugins, configured or not; none if the lock file cannot be read."""
    with suppress(ConfigError):  # reported when plugins are opened
        return frozenset(read_lock(home / PLUGINS_FOLDER))
    return frozenset()


def find_prefix_clashes(config: Config, installed_plugins: Collection[str] = ()) -> dict[tuple[str | int, ...], str]:
    """Return, by section and name, why an entry is left out: an earlier one has the same prefix."""
    first: dict[str, str] = {}
    reasons: dict[tuple[str | int, ...], str] = {}
    for section, name, prefix, title in _iter_prefixes(config, installed_plugins):
        other = first.setdefault(similarity_key(prefix), title)
        if other != title:
            reasons[section, name] = f"its tools would have the same names as those of {other}; rename one"
    return reasons


def _iter_prefixes(config: Config, installed_plugins: Collection[str]) -> Iterator[tuple[str, str, str, str]]:
    """Yield section, name, tool name prefix and title of every source of external tools."""
    for name in sorted({*installed_plugins, *config.plugins}):
        yield "plugins", name, name, f"the plugin {name}"
    for name, server in config.mcpServers.items():
        if not server.disabled:
            yield "mcpServers", name, server_slug(name), f"the MCP server {name}"
    for name in config.backends:
        yield "backends", name, name, f"the backend {name}"
