"""`mainstay mcp add|remove`: a server in mainstay.yaml, written as other hosts have it."""

from __future__ import annotations

import argparse
import os
from typing import Any

from mainstay.app import config
from mainstay.app.chat.safe import visible
from mainstay.app.commands.foreign import allow, here, pairs, tell_owner
from mainstay.app.commands.out import print_json
from mainstay.app.commands.tree import UsageError
from mainstay.app.config_edit import drop_entry, entry
from mainstay.core.errors import ConfigError
from mainstay.plugins.mcp.pins import Pins
from mainstay.plugins.mcp.server import slug_of

SECTION = "mcpServers"


def add(options: argparse.Namespace) -> int:
    at = here(options)
    name: str = options.name
    if entry(at.place.home, (SECTION, name)) is not None:
        raise ConfigError(f"there is an MCP server {name} already; `mainstay mcp remove {name}` takes it out")
    config.set_value(at.place.home, f"{SECTION}.{name}", _made(options))
    rule = f"{slug_of(name)}__*"
    if options.allow:
        allow(at, rule)
    if options.json:
        print_json({"ok": True, "name": name, "path": str(at.place.home / config.FILE), "allowed": bool(options.allow)})
        return 0
    print(f"{visible(name)} was added; `mainstay mcp test {visible(name)}` tries it")
    if options.allow:
        print(f"{rule} was added to policy.allow")
    else:
        print(f'its tools are denied until a rule names them: add "{rule}" to policy.allow')
    tell_owner(at)
    return 0


def _made(options: argparse.Namespace) -> dict[str, Any]:
    if bool(options.words) == bool(options.url):
        raise UsageError("say how it is reached: `mainstay mcp add NAME -- COMMAND …`, or --url URL")
    made: dict[str, Any] = {}
    if options.url:
        made["url"] = options.url
    else:
        command, *arguments = options.words
        made["command"] = os.path.abspath(command) if "/" in command else command
        made |= {"args": [_placed(one) for one in arguments]} if arguments else {}
    made |= {"env": given} if (given := pairs(options.env, "variable: write VAR=VALUE")) else {}
    made |= {"headers": given} if (given := pairs(options.header, "header: write NAME=VALUE")) else {}
    made |= {"network": options.network} if options.network else {}
    for key in ("read", "write"):
        folders = [os.path.abspath(os.path.expanduser(one)) for one in getattr(options, key)]
        made |= {key: folders} if folders else {}
    return made


def _placed(argument: str) -> str:
    """A file that is meant from here: it will be started from elsewhere."""
    return os.path.abspath(argument) if os.path.isfile(argument) else argument


def remove(options: argparse.Namespace) -> int:
    at = here(options)
    name: str = options.name
    if not drop_entry(at.place.home, (SECTION, name)):
        known = ", ".join(at.config.mcpServers) or "none"
        raise ConfigError(f"there is no MCP server {name!r} in {SECTION}; there are: {known}")
    Pins(at.workspace).drop(name)  # should another come under this name, it is looked at anew
    if options.json:
        print_json({"ok": True, "name": name})
        return 0
    print(f"{visible(name)} was removed")
    tell_owner(at)
    return 0
