"""`mainstay backend list|test|query`: the data that the agent can ask for, as its owner sees it."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from mainstay.agent.backends import backend_of
from mainstay.agent.elsewhere import Grounds, open_mcp, refuse_unready
from mainstay.agent.names import clashes, installed
from mainstay.backends.common import Backend, BackendNotes, BackendRefused
from mainstay.backends.documents import DocumentsBackend
from mainstay.cli.chat.safe import safe, visible
from mainstay.cli.commands.calling import arguments_of, check_given, nowhere, tell_answer
from mainstay.cli.commands.checks_backends import Look, look_at, place_of
from mainstay.cli.commands.foreign import Here, here
from mainstay.cli.commands.homes import run_async
from mainstay.cli.commands.out import paint, print_json, print_table
from mainstay.cli.commands.talking import tell
from mainstay.core.errors import ConfigError, MainstayError
from mainstay.plugins.mcp.servers import McpServers


class BackendUnusable(MainstayError):
    """It cannot be opened, for a reason that its owner is told."""


@asynccontextmanager
async def _backend(at: Here, grounds: Grounds, name: str) -> AsyncIterator[Backend]:
    """Made and not opened. Raises ConfigError."""
    entry = at.config.backends[name]
    refuse_unready(entry, clashes(at.config, installed(grounds.home)).get(("backends", name), ""))
    mcp: McpServers | None = None
    if entry.kind == "mcp" and entry.server in at.config.mcpServers:
        servers = {entry.server: at.config.mcpServers[entry.server]}
        mcp = open_mcp(msgspec.structs.replace(at.config, mcpServers=servers), grounds)
    made: Backend | None = None
    try:
        made = backend_of(name, entry, grounds, mcp)
        if isinstance(made, DocumentsBackend):  # the kept index is the agent's, which may be at it right now
            made = DocumentsBackend(msgspec.structs.replace(made.settings, index=""))
        yield made
    finally:
        if made is not None:
            await made.close()
        if mcp is not None:
            await mcp.close()


@asynccontextmanager
async def _named(at: Here, name: str) -> AsyncIterator[Backend]:
    if name not in at.config.backends:
        known = ", ".join(at.config.backends) or "none"
        raise ConfigError(f"there is no backend {name!r} in backends; there are: {known}")
    async with at.grounds() as grounds, _backend(at, grounds, name) as backend:
        yield backend


# --- list ----------------------------------------------------------------------------------------


def list_backends(options: argparse.Namespace) -> int:
    rows = run_async(_rows(here(options)))
    if options.json:
        print_json({"ok": True, "backends": rows})
    elif not rows:
        tell("no backends are configured; they stand under `backends` in mainstay.yaml")
    else:
        table = [
            [row["name"], row["kind"], visible(row["where"], 60), _actions(row), visible(row["state"], 200)]
            for row in rows
        ]
        print_table(["NAME", "KIND", "WHERE", "ALLOWED", "STATE"], table)
    return 0


def _actions(row: dict[str, Any]) -> str:
    named = ", ".join(name.rpartition("__")[2] for name in row["named"])
    return named or ("nothing" if row["tools"] else "")


async def _rows(at: Here) -> list[dict[str, Any]]:
    """Side by side, as one that does not answer takes its time."""
    async with at.grounds() as grounds:
        return list(await asyncio.gather(*(_row(at, grounds, name) for name in at.config.backends)))


async def _row(at: Here, grounds: Grounds, name: str) -> dict[str, Any]:
    """What no rule names is not opened: the agent would not, either."""
    entry, hide, policy = at.config.backends[name], grounds.veil.hide, at.policy()
    row: dict[str, Any] = {"name": name, "kind": entry.kind, "where": hide(place_of(entry, None)), "tools": []}
    row |= {"named": [], "open": False}
    try:
        async with _backend(at, grounds, name) as backend:
            named = [tool.name for tool in backend.tools if policy.names(tool)]
            row |= {"where": hide(place_of(entry, backend)), "tools": [tool.name for tool in backend.tools]}
            row["named"] = named
            if not named:
                return row | {"state": f'not opened: add "{name}__*" to policy.allow'}
            look = await look_at(backend, hide)
            return row | {"open": not look.trouble and entry.kind != "mcp", "state": look.state}
    except MainstayError as error:
        return row | {"state": hide(str(error))}


# --- test ----------------------------------------------------------------------------------------


def test(options: argparse.Namespace) -> int:
    at = here(options)
    look, shown, named = run_async(_tested(at, options.name))
    if look.trouble:
        raise BackendUnusable(f"{options.name}: {look.trouble}")
    if options.json:
        made = {"name": options.name, "has": look.has, "odd": look.odd, "seconds": round(look.seconds, 3)}
        print_json({"ok": True, **made, "named": named, "schema": shown})
        return 0
    print(f"{paint('ok', 'green')}: {visible(options.name)} has {look.has}, opened in {look.seconds:.1f} s")
    for one in look.odd:
        print(f"{paint('warn', 'yellow')}: {visible(one)}")
    print(f"\n{safe(shown)}\n")
    if not named:
        print(f'the model does not see it until a rule names its tools: add "{options.name}__*" to policy.allow')
    return 0


async def _tested(at: Here, name: str) -> tuple[Look, str, list[str]]:
    policy = at.policy()
    async with _named(at, name) as backend:
        look = await look_at(backend, at.guards().hide, servers=True)
        named = [tool.name for tool in backend.tools if policy.names(tool)]
        return look, BackendNotes([backend]).fixed(""), named


# --- query ---------------------------------------------------------------------------------------


def query(options: argparse.Namespace) -> int:
    check_given(options)
    return tell_answer(options, *run_async(_asked(here(options), options)))


async def _asked(at: Here, options: argparse.Namespace) -> tuple[str, float]:
    """Through the very tool that the model has."""
    async with _named(at, options.name) as backend:
        tool = next(one for one in backend.tools if one.name.endswith("__query"))
        arguments = arguments_of(options, tool)
        began = time.monotonic()
        try:
            async with asyncio.timeout(tool.timeout_s):
                content = await tool.run(arguments, nowhere())
        except TimeoutError:
            raise BackendRefused(f"{options.name} did not answer within {tool.timeout_s:g} s") from None
        except BackendRefused:
            look = await look_at(backend, at.guards().hide)
            if look.trouble:  # its owner may hear more than the model
                raise BackendUnusable(f"{options.name}: {look.trouble}") from None
            raise
        return content, time.monotonic() - began
