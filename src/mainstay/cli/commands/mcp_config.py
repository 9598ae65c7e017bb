"""`mainstay mcp add|remove`: edits `mcpServers` in mainstay.yaml, in the format that other MCP hosts use."""

from __future__ import annotations

import argparse
import os
from typing import Any

from mainstay.cli.commands.output import print_json
from mainstay.cli.commands.plugin_mcp_helpers import (
    UNSANDBOXED_NOTE,
    PluginOrMcpServer,
    add_allow_rule,
    check_utf8,
    list_allowing_rules,
    load_tools_home,
    parse_pairs,
    print_restart_note,
    print_revoked,
    quote_argument,
    revoke_grants,
)
from mainstay.cli.parser.root import UsageError
from mainstay.config import loader as config
from mainstay.config.editor import add_entry, read_entry, remove_entry
from mainstay.core.errors import ConfigError
from mainstay.guards.terminal_sanitizer import escape_line
from mainstay.plugins.egress_proxy import parse_host_grant
from mainstay.plugins.mcp.server_config import server_slug
from mainstay.plugins.mcp.tool_pins import ToolPinStore

MCP_SECTION = "mcpServers"


def add(options: argparse.Namespace) -> int:
    home = load_tools_home(options)
    name: str = check_utf8(options.name)
    server = _build_entry(options)
    party = PluginOrMcpServer("mcp", name, server_slug(name))
    already = list_allowing_rules(home, party)
    if not add_entry(home.location.home, (MCP_SECTION, name), server):
        raise ConfigError(
            f"the MCP server {name} exists already; `mainstay mcp remove {quote_argument(name)}` removes it"
        )
    rule = f"{party.prefix}__*"
    if options.allow:
        add_allow_rule(home, rule)
    if options.json:
        path = str(home.location.home / config.FILE)
        print_json({"ok": True, "name": name, "path": path, "allowed": bool(options.allow), "already": already})
        return 0
    print(f"{escape_line(name)} was added; `mainstay mcp test {quote_argument(name)}` tests it")
    if options.allow:
        print(f"{rule} was added to policy.allow")
    elif already:
        print(f"already allowed by {', '.join(map(escape_line, already))}")
    else:
        print(f'its tools are denied until a rule allows them: add "{rule}" to policy.allow')
    if home.is_unsandboxed and options.server_command:
        print(f"it {UNSANDBOXED_NOTE}: sandbox.kind is host")
    print_restart_note(home)
    return 0


def _build_entry(options: argparse.Namespace) -> dict[str, Any]:
    """Build the server's entry. Raises UsageError or ConfigError."""
    if bool(options.server_command) == bool(options.url):
        raise UsageError("give the server's command (`mainstay mcp add NAME -- COMMAND …`) or its address (--url URL)")
    server: dict[str, Any] = {}
    if options.url:
        server["url"] = check_utf8(options.url)
    else:
        command, *arguments = map(check_utf8, options.server_command)
        server["command"] = os.path.abspath(command) if "/" in command else command
        server |= {"args": [_make_absolute(argument) for argument in arguments]} if arguments else {}
    server |= {"env": env} if (env := parse_pairs(options.env, "variable: write VAR=VALUE")) else {}
    server |= {"headers": headers} if (headers := parse_pairs(options.header, "header: write NAME=VALUE")) else {}
    for host in options.network:
        parse_host_grant(check_utf8(host))  # raises if it is not valid
    server |= {"network": options.network} if options.network else {}
    for key in ("read", "write"):
        folders = [_check_folder(check_utf8(folder)) for folder in getattr(options, key)]
        server |= {key: folders} if folders else {}
    return server


def _check_folder(folder: str) -> str:
    path = os.path.abspath(os.path.expanduser(folder))
    if not os.path.isdir(path):
        raise ConfigError(
            f"{folder} is not a folder: {'it is a file' if os.path.exists(path) else 'it does not exist'}"
        )
    return path


def _make_absolute(argument: str) -> str:
    """Make the path of an existing file absolute: the server is started in another folder."""
    return os.path.abspath(argument) if os.path.isfile(argument) else argument


def remove(options: argparse.Namespace) -> int:
    home = load_tools_home(options)
    name: str = options.name
    if read_entry(home.location.home, (MCP_SECTION, name)) is None:
        known = ", ".join(home.config.mcpServers) or "none"
        raise ConfigError(f"there is no MCP server {name!r} in {MCP_SECTION}; configured: {known}")
    party = PluginOrMcpServer("mcp", name, server_slug(name))
    revoked = revoke_grants(home, party)
    remove_entry(home.location.home, (MCP_SECTION, name))
    for folder in home.workspace_folders:  # another server of this name has to be approved anew
        ToolPinStore(folder).delete(name)
    left = list_allowing_rules(home, party)
    if options.json:
        print_json({"ok": True, "name": name, "revoked": revoked, "left": left})
        return 0
    print(f"{escape_line(name)} was removed")
    print_revoked(revoked, left)
    print_restart_note(home)
    return 0
