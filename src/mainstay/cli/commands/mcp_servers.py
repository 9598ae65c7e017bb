"""`mainstay mcp list|test|approve|prompts|prompt|resources|log`: the servers that the agent uses."""

from __future__ import annotations

import argparse
import difflib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from mainstay.agent.elsewhere import open_mcp, server_of
from mainstay.cli.chat.safe import safe, visible
from mainstay.cli.chat.words import count
from mainstay.cli.commands.foreign import AS_YOU, Here, here, pairs, print_log, quoted, sure, tell_owner
from mainstay.cli.commands.homes import run_async
from mainstay.cli.commands.out import paint, print_json, print_table
from mainstay.cli.commands.talking import tell
from mainstay.config.schema_external_tools import McpEntry
from mainstay.core.errors import ConfigError, MainstayError
from mainstay.plugins.mcp.names import tool_name
from mainstay.plugins.mcp.nouns import Answer, Change, Listed, Listing, Prompt, Resource
from mainstay.plugins.mcp.server import McpServer, slug_of
from mainstay.plugins.mcp.servers import FOLDER, McpServers
from mainstay.plugins.mcp.tool import effect_of, reach_of

RESOURCES_MAX = 1000


@asynccontextmanager
async def _servers(at: Here, name: str = "", trouble: Callable[[str], None] | None = None) -> AsyncIterator[McpServers]:
    """All of them, or one that must be there. Nothing is started by this. `trouble` hears which are left out; without
    it that is an error."""
    if name:
        _refuse_unknown(at, name)
    if name and at.config.mcpServers[name].disabled:
        raise ConfigError(f"the MCP server {name} is disabled in mainstay.yaml")
    config = at.config
    if name:
        config = msgspec.structs.replace(config, mcpServers={name: config.mcpServers[name]}, backends={})
    async with at.grounds() as grounds:
        servers = open_mcp(config, grounds, trouble)
        try:
            yield servers
        finally:
            await servers.close()


def _refuse_unknown(at: Here, name: str) -> None:
    if name not in at.config.mcpServers:
        known = ", ".join(at.config.mcpServers) or "none"
        raise ConfigError(f"there is no MCP server {name!r} in mcpServers; there are: {known}")


# --- list ----------------------------------------------------------------------------------------


def list_servers(options: argparse.Namespace) -> int:
    at = here(options)
    rows = run_async(_rows(at, check=options.check))
    if options.json:
        print_json({"ok": True, "servers": rows})
    elif not rows:
        tell("no MCP servers are configured; `mainstay mcp add` writes one into mainstay.yaml")
    else:
        table = [
            [row["name"], visible(row["reached"], 60), str(row["tools"]), str(row["named"]), _told_state(row)]
            for row in rows
        ]
        print_table(["NAME", "REACHED BY", "TOOLS", "ALLOWED", "STATE"], table, "cd")
    return 0


async def _rows(at: Here, *, check: bool) -> list[dict[str, Any]]:
    policy, redact = at.policy(), at.guards().hide
    rows = []
    troubles: list[str] = []
    async with _servers(at, trouble=troubles.append) as servers:
        for name, entry in at.config.mcpServers.items():
            row: dict[str, Any] = {
                "name": name,
                "reached": redact(_reached(entry)),
                "tools": 0,
                "named": 0,
                "state": "disabled" if entry.disabled else redact(_left_out(name, troubles)),
                "unconfined": bool(entry.command) and (at.unwalled or not entry.confined),
            }
            if name in servers.names:
                state, changes = await _state(servers, name, check=check)
                tools = [tool for tool in servers.tools if tool.name.startswith(f"{slug_of(name)}__")]
                named = sum(policy.names(tool) for tool in tools)
                row |= {"tools": len(tools), "named": named, "state": state, "changes": changes}
            rows.append(row)
    return rows


async def _state(servers: McpServers, name: str, *, check: bool) -> tuple[str, list[str]]:
    pinned = servers.pinned(name)
    unseen = f"not approved yet: the first conversation, or `mainstay mcp approve {quoted(name)}`, does that"
    if not check:
        return ("approved" if pinned else unseen), []
    try:
        await servers.refresh(name)
    except MainstayError as error:
        return str(error), []
    changes = [one.name for one in servers.changes(name)]
    if not pinned:
        return f"answers; {unseen}", changes
    look = f"to look at: mainstay mcp approve {quoted(name)}"
    return (f"{count(len(changes), 'change')} {look}" if changes else "ok"), changes


def _left_out(name: str, troubles: list[str]) -> str:
    begins = f"the MCP server {name} is "
    return next((said.removeprefix(begins) for said in troubles if said.startswith(begins)), "left out")


def _told_state(row: dict[str, Any]) -> str:
    return visible(f"{row['state']}; {AS_YOU}" if row["unconfined"] else row["state"])


def _reached(entry: McpEntry) -> str:
    return entry.url or " ".join((entry.command, *entry.args))


# --- test ----------------------------------------------------------------------------------------


def test(options: argparse.Namespace) -> int:
    at = here(options)
    listing, changes, seconds = run_async(_tested(at, options.name))
    server, policy = _configured(at, options.name), at.policy()
    if options.json:
        tools = [_tool(one, server) for one in listing.tools]
        made = {"name": options.name, "seconds": round(seconds, 3), "tools": tools, "left_out": listing.left_out}
        more = {"resources": listing.resources, "prompts": listing.prompts, "changes": [one.name for one in changes]}
        print_json({"ok": True, **made, **more})
        return 0
    slug = slug_of(options.name)
    print(f"{paint('ok', 'green')}: {visible(options.name)} answered after {seconds:.1f} s")
    for one in listing.tools:
        name = tool_name(slug, one.name)
        sink = ", sink" if reach_of(server, one.hints).sink else ""
        print(f"  {paint(name, 'bold')} ({effect_of(one.hints)}{sink}): {visible(one.description, 200)}")
        if options.schemas:
            print("".join(f"    {safe(line)}\n" for line in _indented(one.schema)), end="")
    for name, why in listing.left_out.items():
        print(f"  {paint('left out', 'yellow')}: {visible(name, 80)}: {visible(why, 200)}")
    extras = [word for word, there in (("resources", listing.resources), ("prompts", listing.prompts)) if there]
    if extras:
        print(f"it has {' and '.join(extras)} too")
    if changes:
        look = f"`mainstay mcp approve {quoted(options.name)}`"
        print(f"{count(len(changes), 'tool')} changed since it was approved: {look}")
    if not policy.may_name(f"{slug}__", f"mcp.{options.name}"):
        print(f'its tools are denied until a rule names them: add "{slug}__*" to policy.allow')
    return 0


async def _tested(at: Here, name: str) -> tuple[Listing, list[Change], float]:
    async with _servers(at, name) as servers:
        began = time.monotonic()
        listing = await servers.refresh(name)
        seconds = time.monotonic() - began
        return await _with_extras(servers, name, listing), servers.changes(name), seconds


async def _with_extras(servers: McpServers, name: str, listing: Listing) -> Listing:
    """Many say that they could have resources and prompts: whether they have any is asked."""
    resources = prompts = False
    with suppress(MainstayError):
        resources = listing.resources and bool((await servers.resources(name)).resources)
    with suppress(MainstayError):
        prompts = listing.prompts and bool(await servers.prompts(name))
    return msgspec.structs.replace(listing, resources=resources, prompts=prompts)


def _configured(at: Here, name: str) -> McpServer:
    async def made() -> McpServer:
        async with at.grounds() as grounds:
            return server_of(name, at.config.mcpServers[name], grounds)

    return run_async(made())


def _tool(listed: Listed, server: McpServer) -> dict[str, Any]:
    return {
        "tool": tool_name(slug_of(server.name), listed.name),
        "name": listed.name,
        "description": listed.description,
        "effect": effect_of(listed.hints),
        "sink": reach_of(server, listed.hints).sink,
        "schema": listed.schema,
        "sha256": listed.hash,
    }


# --- approve -------------------------------------------------------------------------------------


def approve(options: argparse.Namespace) -> int:
    at = here(options)
    changes, approved = run_async(_approved(at, options))
    if options.json:
        shown = [msgspec.to_builtins(one) for one in changes]
        print_json({"ok": True, "name": options.name, "changes": shown, "approved": approved})
    elif approved:
        print(f"{visible(options.name)} was approved as it is now")
        tell_owner(at)
    elif not changes:
        print(f"{visible(options.name)} is as it was approved")
    else:
        print("nothing was approved")
    return 0


async def _approved(at: Here, options: argparse.Namespace) -> tuple[list[Change], bool]:
    """What changed, and whether it was accepted: asked while the server is there, so that it is what was shown."""
    name: str = options.name
    async with _servers(at, name) as servers:
        listing = await servers.refresh(name)
        changes = servers.changes(name)
        first = not servers.pinned(name)
        if first:
            changes = [Change(name=one.name, old=None, new=one) for one in listing.tools]
        if not options.json:
            for change in changes:
                for line in _shown(change):
                    print(line)
        if not changes:
            if first:  # it offers no tools: there is nothing to look at, and from now on nothing else is taken
                servers.approve(name)
            return [], first
        what = f"what it offers is approved with your word only; add --yes to give it ({count(len(changes), 'change')})"
        if options.yes or sure(f"Have the agent see {name} like this from now on?", what):
            servers.approve(name)
            return changes, True
        return changes, False


def _shown(change: Change) -> Iterator[str]:
    if change.new is None:
        yield paint(f"- {visible(change.name, 80)} is gone", "red")
        return
    if change.old is None:
        yield paint(f"+ {visible(change.name, 80)} is new", "green")
    else:
        yield paint(f"~ {visible(change.name, 80)} has changed", "yellow")
    before = _told(change.old) if change.old is not None else []
    same = True
    for line in difflib.unified_diff(before, _told(change.new), lineterm="", n=2):
        if line.startswith(("---", "+++", "@@")):
            continue
        same = False
        style = {"+": "green", "-": "red"}.get(line[0], "dim")
        yield f"    {paint(visible(line), style)}"
    if same:
        yield "    in what is not shown of it: characters that cannot be seen, or fields that are not used"


def _told(listed: Listed) -> list[str]:
    hints = msgspec.to_builtins(listed.hints)
    return [*listed.description.splitlines(), *_indented(listed.schema), *(_indented(hints) if hints else [])]


def _indented(value: Any) -> list[str]:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode().splitlines()


# --- prompts and resources -----------------------------------------------------------------------


def prompts(options: argparse.Namespace) -> int:
    async def asked() -> list[Prompt]:
        async with _servers(at, options.name) as servers:
            return await servers.prompts(options.name)

    at = here(options)
    found = run_async(asked())
    if options.json:
        print_json({"ok": True, "prompts": found})
        return 0
    for one in found:
        words = [f"{arg.name}=…" if arg.required else f"[{arg.name}=…]" for arg in one.arguments]
        print(f"{paint(visible(' '.join((one.name, *words))), 'bold')}: {visible(one.description, 200)}")
    if not found:
        tell(f"{visible(options.name)} has no prompts")
    return 0


def prompt(options: argparse.Namespace) -> int:
    given = pairs(options.arguments, "argument: write KEY=VALUE")

    async def asked() -> list[tuple[str, str]]:
        async with _servers(at, options.name) as servers:
            return await servers.prompt(options.name, options.prompt, given)

    at = here(options)
    said = run_async(asked())
    if options.json:
        print_json({"ok": True, "messages": [{"role": role, "text": text} for role, text in said]})
        return 0
    for role, text in said:
        print(f"{paint(visible(role), 'dim')}: {safe(text)}")
    return 0


def resources(options: argparse.Namespace) -> int:
    at = here(options)
    if options.uri is not None:
        return _read(at, options)
    found = run_async(_resources(at, options.name))
    if options.json:
        print_json({"ok": True, "resources": found})
        return 0
    for one in found:
        about = one.description or one.name
        print(f"{visible(one.uri)}{'  (a template)' if one.template else ''}  {visible(about, 120)}".rstrip())
    if not found:
        tell(f"{visible(options.name)} has no resources")
    return 0


async def _resources(at: Here, name: str) -> list[Resource]:
    found: list[Resource] = []
    async with _servers(at, name) as servers:
        page = await servers.resources(name)
        found += page.resources
        while page.cursor and len(found) < RESOURCES_MAX:
            page = await servers.resources(name, page.cursor)
            found += page.resources
    return found[:RESOURCES_MAX]


def _read(at: Here, options: argparse.Namespace) -> int:
    async def asked() -> Answer:
        async with _servers(at, options.name) as servers:
            return await servers.read(options.name, options.uri)

    answer = run_async(asked())
    if options.json:
        print_json({"ok": True, "text": answer.text, "images": [kind for kind, _ in answer.images]})
    else:
        print(safe(answer.text))
    return 0


# --- log -----------------------------------------------------------------------------------------


def log(options: argparse.Namespace) -> int:
    at = here(options)
    file = at.workspace / FOLDER / f"{slug_of(options.name)}.log"
    if not file.is_file():  # of one that was taken out there may be some
        _refuse_unknown(at, options.name)
    local = options.name not in at.config.mcpServers or at.config.mcpServers[options.name].command
    nothing = "has said nothing here" if local else "runs elsewhere: what it says on its stderr is not heard here"
    return print_log(options, file, f"{visible(options.name)} {nothing}")
