"""What the tools of plugins, MCP servers and backends begin with: no two of them may share that, and its rules."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from mainstay.config.schema import Config
from mainstay.core.errors import ConfigError
from mainstay.plugins.lock import read_lock
from mainstay.plugins.mcp.names import alike
from mainstay.plugins.mcp.server import slug_of

PLUGINS = "plugins"  # a folder of a home


def installed(home: Path) -> frozenset[str]:
    """Plugins that were added, whether or not the configuration says anything of them."""
    with suppress(ConfigError):  # told when plugins are opened
        return frozenset(read_lock(home / PLUGINS))
    return frozenset()


def clashes(config: Config, added: Collection[str] = ()) -> dict[tuple[str | int, ...], str]:
    """By section and name, those that come later than another of their name: why they are left out."""
    first: dict[str, str] = {}
    found: dict[tuple[str | int, ...], str] = {}
    for section, name, prefix, who in _named(config, added):
        other = first.setdefault(alike(prefix), who)
        if other != who:
            found[section, name] = f"its tools would be called like those of {other}; rename one"
    return found


def _named(config: Config, added: Collection[str]) -> Iterator[tuple[str, str, str, str]]:
    for name in sorted({*added, *config.plugins}):
        yield "plugins", name, name, f"the plugin {name}"
    for name, server in config.mcpServers.items():
        if not server.disabled:
            yield "mcpServers", name, slug_of(name), f"the MCP server {name}"
    for name in config.backends:
        yield "backends", name, name, f"the backend {name}"
