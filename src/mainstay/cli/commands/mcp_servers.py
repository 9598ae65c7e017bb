"""`mainstay mcp list|test|approve|prompts|prompt|resources|log`: the MCP servers that the agent uses."""

from __future__ import annotations

import argparse
import difflib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from mainstay.agent.external_tools import build_server_config, open_mcp_servers
from mainstay.cli.commands.agent_setup import print_note
from mainstay.cli.commands.home_locator import run_async
from mainstay.cli.commands.output import print_json, print_table, style_text
from mainstay.cli.commands.plugin_mcp_helpers import (
    UNSANDBOXED_NOTE,
    ConfiguredHome,
    confirm,
    load_tools_home,
    parse_pairs,
    print_log,
    print_restart_note,
    quote_argument,
)
from mainstay.config.schema_external_tools import McpEntry
from mainstay.core.errors import ConfigError, MainstayError
from mainstay.core.outcome_text import format_count
from mainstay.guards.terminal_sanitizer import escape_line, sanitize_text
from mainstay.plugins.mcp.data_types import ListedTool, McpAnswer, McpPrompt, McpResource, ServerListing, ToolChange
from mainstay.plugins.mcp.server_config import McpServerConfig, server_slug
from mainstay.plugins.mcp.tool import effect_from_hints, server_reach
from mainstay.plugins.mcp.tool_names import build_tool_name
from mainstay.plugins.mcp.tool_source import SERVERS_FOLDER, McpToolSource

RESOURCES_MAX = 1000


@asynccontextmanager
async def _open_servers(
    home: ConfiguredHome, name: str = "", on_problem: Callable[[str], None] | None = None
) -> AsyncIterator[McpToolSource]:
    """Build all servers, or the named one; none is started. Raises ConfigError if it is unknown or disabled.

    `on_problem` is called for every server that is left out; without it that raises ConfigError.
    """
    if name:
        _check_configured(home, name)
    if name and home.config.mcpServers[name].disabled:
        raise ConfigError(f"the MCP server {name} is disabled in mainstay.yaml")
    config = home.config
    if name:
        config = msgspec.structs.replace(config, mcpServers={name: config.mcpServers[name]}, backends={})
    async with home.open_environment() as environment:
        servers = open_mcp_servers(config, environment, on_problem)
        try:
            yield servers
        finally:
            await servers.close()


def _check_configured(home: ConfiguredHome, name: str) -> None:
    if name not in home.config.mcpServers:
        known = ", ".join(home.config.mcpServers) or "none"
        raise ConfigError(f"there is no MCP server {name!r} in mcpServers; configured: {known}")


# --- list ----------------------------------------------------------------------------------------


def list_servers(options: argparse.Namespace) -> int:
    home = load_tools_home(options)
    rows = run_async(_collect_rows(home, check=options.check))
    if options.json:
        print_json({"ok": True, "servers": rows})
    elif not rows:
        print_note("no MCP servers are configured; `mainstay mcp add` adds one to mainstay.yaml")
    else:
        table = [
            [row["name"], escape_line(row["reached"], 60), str(row["tools"]), str(row["named"]), _format_state(row)]
            for row in rows
        ]
        print_table(["NAME", "COMMAND OR URL", "TOOLS", "ALLOWED", "STATE"], table, "cd")
    return 0


async def _collect_rows(home: ConfiguredHome, *, check: bool) -> list[dict[str, Any]]:
    policy, redact = home.build_policy(), home.build_guards().redact_text
    rows = []
    problems: list[str] = []
    async with _open_servers(home, on_problem=problems.append) as servers:
        for name, entry in home.config.mcpServers.items():
            row: dict[str, Any] = {
                "name": name,
                "reached": redact(_format_command_or_url(entry)),
                "tools": 0,
                "named": 0,
                "state": "disabled" if entry.disabled else redact(_find_problem(name, problems)),
                "unconfined": bool(entry.command) and (home.is_unsandboxed or not entry.confined),
            }
            if name in servers.names:
                state, changes = await _describe_state(servers, name, check=check)
                tools = [tool for tool in servers.tools if tool.name.startswith(f"{server_slug(name)}__")]
                named = sum(policy.has_rule_for(tool) for tool in tools)
                row |= {"tools": len(tools), "named": named, "state": state, "changes": changes}
            rows.append(row)
    return rows


async def _describe_state(servers: McpToolSource, name: str, *, check: bool) -> tuple[str, list[str]]:
    """Return the server's state in words, and the names of its changed tools (only with `check`)."""
    pinned = servers.is_pinned(name)
    unseen = f"not approved yet: the first session approves it, or `mainstay mcp approve {quote_argument(name)}`"
    if not check:
        return ("approved" if pinned else unseen), []
    try:
        await servers.refresh(name)
    except MainstayError as error:
        return str(error), []
    changes = [change.name for change in servers.changes(name)]
    if not pinned:
        return f"ok; {unseen}", changes
    review = f"to review: mainstay mcp approve {quote_argument(name)}"
    return (f"{format_count(len(changes), 'change')} {review}" if changes else "ok"), changes


def _find_problem(name: str, problems: list[str]) -> str:
    prefix = f"the MCP server {name} is "
    return next((problem.removeprefix(prefix) for problem in problems if problem.startswith(prefix)), "left out")


def _format_state(row: dict[str, Any]) -> str:
    return escape_line(f"{row['state']}; {UNSANDBOXED_NOTE}" if row["unconfined"] else row["state"])


def _format_command_or_url(entry: McpEntry) -> str:
    return entry.url or " ".join((entry.command, *entry.args))


# --- test ----------------------------------------------------------------------------------------


def test_server(options: argparse.Namespace) -> int:
    home = load_tools_home(options)
    listing, changes, seconds = run_async(_connect(home, options.name))
    server, policy = _build_server(home, options.name), home.build_policy()
    if options.json:
        tools = [_build_tool_document(tool, server) for tool in listing.tools]
        document = {"name": options.name, "seconds": round(seconds, 3), "tools": tools, "left_out": listing.left_out}
        document |= {"resources": listing.resources, "prompts": listing.prompts}
        print_json({"ok": True, **document, "changes": [change.name for change in changes]})
        return 0
    slug = server_slug(options.name)
    print(f"{style_text('ok', 'green')}: {escape_line(options.name)} answered after {seconds:.1f} s")
    for tool in listing.tools:
        name = build_tool_name(slug, tool.name)
        sink = ", sink" if server_reach(server, tool.name, tool.hints).sink else ""
        effect = effect_from_hints(tool.hints)
        print(f"  {style_text(name, 'bold')} ({effect}{sink}): {escape_line(tool.description, 200)}")
        if options.schemas:
            print("".join(f"    {sanitize_text(line)}\n" for line in _format_json(tool.schema)), end="")
    for name, why in listing.left_out.items():
        print(f"  {style_text('left out', 'yellow')}: {escape_line(name, 80)}: {escape_line(why, 200)}")
    extras = [word for word, there in (("resources", listing.resources), ("prompts", listing.prompts)) if there]
    if extras:
        print(f"it also has {' and '.join(extras)}")
    if changes:
        review = f"`mainstay mcp approve {quote_argument(options.name)}`"
        print(f"{format_count(len(changes), 'tool')} changed since it was approved; to review: {review}")
    if not policy.may_have_rule_for(f"{slug}__", f"mcp.{options.name}"):
        print(f'its tools are denied until a rule allows them: add "{slug}__*" to policy.allow')
    return 0


async def _connect(home: ConfiguredHome, name: str) -> tuple[ServerListing, list[ToolChange], float]:
    """Connect to the server. Return what it offers, what changed since its approval, and the seconds it took."""
    async with _open_servers(home, name) as servers:
        began = time.monotonic()
        listing = await servers.refresh(name)
        seconds = time.monotonic() - began
        return await _check_extras(servers, name, listing), servers.changes(name), seconds


async def _check_extras(servers: McpToolSource, name: str, listing: ServerListing) -> ServerListing:
    """Check whether the server has any resources and prompts: many declare the capability and have none."""
    resources = prompts = False
    with suppress(MainstayError):
        resources = listing.resources and bool((await servers.list_resources(name)).resources)
    with suppress(MainstayError):
        prompts = listing.prompts and bool(await servers.list_prompts(name))
    return msgspec.structs.replace(listing, resources=resources, prompts=prompts)


def _build_server(home: ConfiguredHome, name: str) -> McpServerConfig:
    async def build() -> McpServerConfig:
        async with home.open_environment() as environment:
            return build_server_config(name, home.config.mcpServers[name], environment)

    return run_async(build())


def _build_tool_document(tool: ListedTool, server: McpServerConfig) -> dict[str, Any]:
    return {
        "tool": build_tool_name(server_slug(server.name), tool.name),
        "name": tool.name,
        "description": tool.description,
        "effect": effect_from_hints(tool.hints),
        "sink": server_reach(server, tool.name, tool.hints).sink,
        "schema": tool.schema,
        "sha256": tool.hash,
    }


# --- approve -------------------------------------------------------------------------------------


def approve(options: argparse.Namespace) -> int:
    home = load_tools_home(options)
    changes, approved = run_async(_confirm_changes(home, options))
    if options.json:
        documents = [msgspec.to_builtins(change) for change in changes]
        print_json({"ok": True, "name": options.name, "changes": documents, "approved": approved})
    elif approved:
        print(f"{escape_line(options.name)} was approved as it is now")
        print_restart_note(home)
    elif not changes:
        print(f"{escape_line(options.name)} has not changed since it was approved")
    else:
        print("nothing was approved")
    return 0


async def _confirm_changes(home: ConfiguredHome, options: argparse.Namespace) -> tuple[list[ToolChange], bool]:
    """Return the changes, and whether they were approved. The server stays connected during the question, so that
    exactly the tools shown are approved."""
    name: str = options.name
    async with _open_servers(home, name) as servers:
        listing = await servers.refresh(name)
        changes = servers.changes(name)
        first = not servers.is_pinned(name)
        if first:
            changes = [ToolChange(name=tool.name, old=None, new=tool) for tool in listing.tools]
        if not options.json:
            for change in changes:
                for line in _format_change(change):
                    print(line)
        if not changes:
            if first:  # it has no tools: approve that, so that tools added later are changes
                servers.approve(name)
            return [], first
        what = f"approving {format_count(len(changes), 'change')} needs confirmation; add --yes to confirm"
        if options.yes or confirm(f"Let the agent use {name} with these tools from now on?", what):
            servers.approve(name)
            return changes, True
        return changes, False


def _format_change(change: ToolChange) -> Iterator[str]:
    if change.new is None:
        yield style_text(f"- {escape_line(change.name, 80)} was removed", "red")
        return
    if change.old is None:
        yield style_text(f"+ {escape_line(change.name, 80)} is new", "green")
    else:
        yield style_text(f"~ {escape_line(change.name, 80)} has changed", "yellow")
    before = _format_tool(change.old) if change.old is not None else []
    same = True
    for line in difflib.unified_diff(before, _format_tool(change.new), lineterm="", n=2):
        if line.startswith(("---", "+++", "@@")):
            continue
        same = False
        style = {"+": "green", "-": "red"}.get(line[0], "dim")
        yield f"    {style_text(escape_line(line), style)}"
    if same:
        yield "    the difference is not visible: invisible characters, or fields that are not used"


def _format_tool(tool: ListedTool) -> list[str]:
    hints = msgspec.to_builtins(tool.hints)
    return [*tool.description.splitlines(), *_format_json(tool.schema), *(_format_json(hints) if hints else [])]


def _format_json(value: Any) -> list[str]:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode().splitlines()


# --- prompts and resources -----------------------------------------------------------------------


def list_prompts(options: argparse.Namespace) -> int:
    async def fetch() -> list[McpPrompt]:
        async with _open_servers(home, options.name) as servers:
            return await servers.list_prompts(options.name)

    home = load_tools_home(options)
    offered = run_async(fetch())
    if options.json:
        print_json({"ok": True, "prompts": offered})
        return 0
    for prompt in offered:
        placeholders = [f"{arg.name}=…" if arg.required else f"[{arg.name}=…]" for arg in prompt.arguments]
        usage = escape_line(" ".join((prompt.name, *placeholders)))
        print(f"{style_text(usage, 'bold')}: {escape_line(prompt.description, 200)}")
    if not offered:
        print_note(f"{escape_line(options.name)} has no prompts")
    return 0


def show_prompt(options: argparse.Namespace) -> int:
    arguments = parse_pairs(options.arguments, "argument: write KEY=VALUE")

    async def fetch() -> list[tuple[str, str]]:
        async with _open_servers(home, options.name) as servers:
            return await servers.get_prompt(options.name, options.prompt, arguments)

    home = load_tools_home(options)
    messages = run_async(fetch())
    if options.json:
        print_json({"ok": True, "messages": [{"role": role, "text": text} for role, text in messages]})
        return 0
    for role, text in messages:
        print(f"{style_text(escape_line(role), 'dim')}: {sanitize_text(text)}")
    return 0


def list_resources(options: argparse.Namespace) -> int:
    home = load_tools_home(options)
    if options.uri is not None:
        return _print_resource(home, options)
    listed = run_async(_fetch_resources(home, options.name))
    if options.json:
        print_json({"ok": True, "resources": listed})
        return 0
    for resource in listed:
        about = resource.description or resource.name
        mark = "  (a template)" if resource.template else ""
        print(f"{escape_line(resource.uri)}{mark}  {escape_line(about, 120)}".rstrip())
    if not listed:
        print_note(f"{escape_line(options.name)} has no resources")
    return 0


async def _fetch_resources(home: ConfiguredHome, name: str) -> list[McpResource]:
    collected: list[McpResource] = []
    async with _open_servers(home, name) as servers:
        page = await servers.list_resources(name)
        collected += page.resources
        while page.cursor and len(collected) < RESOURCES_MAX:
            page = await servers.list_resources(name, page.cursor)
            collected += page.resources
    return collected[:RESOURCES_MAX]


def _print_resource(home: ConfiguredHome, options: argparse.Namespace) -> int:
    async def read() -> McpAnswer:
        async with _open_servers(home, options.name) as servers:
            return await servers.read_resource(options.name, options.uri)

    answer = run_async(read())
    if options.json:
        print_json({"ok": True, "text": answer.text, "images": [kind for kind, _ in answer.images]})
    else:
        print(sanitize_text(answer.text))
    return 0


# --- log -----------------------------------------------------------------------------------------


def show_log(options: argparse.Namespace) -> int:
    home = load_tools_home(options)
    file = home.workspace_folder / SERVERS_FOLDER / f"{server_slug(options.name)}.log"
    if not file.is_file():  # a removed server may have left a log
        _check_configured(home, options.name)
    local = options.name not in home.config.mcpServers or home.config.mcpServers[options.name].command
    nothing = "has written nothing to stderr" if local else "runs on another machine, which has its stderr"
    return print_log(options, file, f"{escape_line(options.name)} {nothing}")
