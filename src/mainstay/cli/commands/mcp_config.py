"""`mainstay mcp add|remove`: a server in mainstay.yaml, written as other hosts have it."""

from __future__ import annotations

import argparse
import os
from typing import Any

from mainstay.cli.chat.safe import visible
from mainstay.cli.commands.foreign import (
    AS_YOU,
    Party,
    allow,
    forget,
    here,
    pairs,
    quoted,
    rules_about,
    tell_forgotten,
    tell_owner,
    text_of,
)
from mainstay.cli.commands.out import print_json
from mainstay.cli.commands.tree import UsageError
from mainstay.config import loading as config
from mainstay.config.editing import add_entry, drop_entry, entry
from mainstay.core.errors import ConfigError
from mainstay.plugins.egress import read_grant
from mainstay.plugins.mcp.pins import Pins
from mainstay.plugins.mcp.server import slug_of

SECTION = "mcpServers"


def add(options: argparse.Namespace) -> int:
    at = here(options)
    name: str = text_of(options.name)
    made = _made(options)
    party = Party("mcp", name, slug_of(name))
    already = rules_about(at, party)
    if not add_entry(at.place.home, (SECTION, name), made):
        raise ConfigError(f"there is an MCP server {name} already; `mainstay mcp remove {quoted(name)}` takes it out")
    rule = f"{party.prefix}__*"
    if options.allow:
        allow(at, rule)
    if options.json:
        path = str(at.place.home / config.FILE)
        print_json({"ok": True, "name": name, "path": path, "allowed": bool(options.allow), "already": already})
        return 0
    print(f"{visible(name)} was added; `mainstay mcp test {quoted(name)}` tries it")
    if options.allow:
        print(f"{rule} was added to policy.allow")
    elif already:
        print(f"already allowed by {', '.join(map(visible, already))}")
    else:
        print(f'its tools are denied until a rule names them: add "{rule}" to policy.allow')
    if at.unwalled and options.words:
        print(f"it {AS_YOU}: sandbox.kind is host")
    tell_owner(at)
    return 0


def _made(options: argparse.Namespace) -> dict[str, Any]:
    if bool(options.words) == bool(options.url):
        raise UsageError("say how it is reached: `mainstay mcp add NAME -- COMMAND …`, or --url URL")
    made: dict[str, Any] = {}
    if options.url:
        made["url"] = text_of(options.url)
    else:
        command, *arguments = map(text_of, options.words)
        made["command"] = os.path.abspath(command) if "/" in command else command
        made |= {"args": [_placed(one) for one in arguments]} if arguments else {}
    made |= {"env": given} if (given := pairs(options.env, "variable: write VAR=VALUE")) else {}
    made |= {"headers": given} if (given := pairs(options.header, "header: write NAME=VALUE")) else {}
    for host in options.network:
        read_grant(text_of(host))  # raises for what is none
    made |= {"network": options.network} if options.network else {}
    for key in ("read", "write"):
        folders = [_folder(text_of(one)) for one in getattr(options, key)]
        made |= {key: folders} if folders else {}
    return made


def _folder(given: str) -> str:
    path = os.path.abspath(os.path.expanduser(given))
    if not os.path.isdir(path):
        raise ConfigError(f"{given} is no folder: {'it is a file' if os.path.exists(path) else 'it is not there'}")
    return path


def _placed(argument: str) -> str:
    """A file that is meant from here: it will be started from elsewhere."""
    return os.path.abspath(argument) if os.path.isfile(argument) else argument


def remove(options: argparse.Namespace) -> int:
    at = here(options)
    name: str = options.name
    if entry(at.place.home, (SECTION, name)) is None:
        known = ", ".join(at.config.mcpServers) or "none"
        raise ConfigError(f"there is no MCP server {name!r} in {SECTION}; there are: {known}")
    party = Party("mcp", name, slug_of(name))
    gone = forget(at, party)
    drop_entry(at.place.home, (SECTION, name))
    for folder in at.workspaces:  # should another come under this name, it is looked at anew
        Pins(folder).drop(name)
    left = rules_about(at, party)
    if options.json:
        print_json({"ok": True, "name": name, "revoked": gone, "left": left})
        return 0
    print(f"{visible(name)} was removed")
    tell_forgotten(gone, left)
    tell_owner(at)
    return 0
