"""`mainstay session model|profile|metadata|budget`: show or change a session's settings, through the home's owner."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from mainstay.agent.client import AgentClient
from mainstay.agent.model_providers import ModelProviders
from mainstay.cli.commands.agent_setup import load_config_or_default, open_home_client
from mainstay.cli.commands.home_locator import (
    WorkspaceLocation,
    load_session_info,
    open_store_read_only,
    resolve_workspace,
    run_async,
)
from mainstay.cli.commands.output import print_json
from mainstay.cli.parser.root import UsageError
from mainstay.core.limits import SessionBudget
from mainstay.core.ports import SessionInfo
from mainstay.guards.terminal_sanitizer import escape_line
from mainstay.metering.budget_definitions import format_limit, session_budgets

T = TypeVar("T")


def show_or_change_model(options: argparse.Namespace) -> int:
    location = resolve_workspace(options)
    if options.model is not None and options.reset:
        raise UsageError("give either a model or --reset")
    if options.model is not None:
        ModelProviders(options.model, None, None, load_config_or_default(location.home))  # raises if there is no such

    async def change(client: AgentClient) -> SessionInfo:
        if options.model is not None or options.reset:
            await client.sessions.set_model(options.session, options.model or "")
        return await client.sessions.get(options.session)

    info = _run(location, options.session, change)
    if options.json:
        print_json({"ok": True, "session": options.session, "model": info.model})
    else:
        print(escape_line(info.model) if info.model else "the agent's default model")
    return 0


def show_or_change_profile(options: argparse.Namespace) -> int:
    async def change(client: AgentClient) -> dict[str, str]:
        profile = client.profile(options.session)
        if options.clear:
            await profile.clear()
        if options.fields:
            await profile.set(**_parse_fields(options.fields))
        return await profile.get()

    fields = _run(resolve_workspace(options), options.session, change)
    return _print_fields(options, "profile", fields)


def show_or_change_metadata(options: argparse.Namespace) -> int:
    async def change(client: AgentClient) -> dict[str, str]:
        if options.clear:
            await client.sessions.clear_metadata(options.session)
        if options.fields:
            await client.sessions.set_metadata(options.session, _parse_fields(options.fields))
        return await client.sessions.metadata(options.session)

    fields = _run(resolve_workspace(options), options.session, change)
    return _print_fields(options, "metadata", fields)


def show_or_change_budget(options: argparse.Namespace) -> int:
    limits = {"money": options.money, "tokens": options.tokens, "tool_calls": options.tool_calls}
    named = any(limit is not None for limit in limits.values())
    if named and options.reset:
        raise UsageError("give either limits or --reset")

    async def change(client: AgentClient) -> SessionInfo:
        info = await client.sessions.get(options.session)
        if options.reset:
            return await client.sessions.set_budget(options.session)
        if named:  # the other limits stay
            kept = {name: getattr(info.budget, name) for name in limits}
            changes = {name: limit for name, limit in limits.items() if limit is not None}
            return await client.sessions.set_budget(options.session, **{**kept, **changes})
        return info

    info = _run(resolve_workspace(options), options.session, change)
    if options.json:
        print_json({"ok": True, "session": options.session, "budget": info.budget})
    else:
        print(describe_session_budget(info.budget) or "no budget of its own; the configured one applies")
    return 0


def describe_session_budget(budget: SessionBudget) -> str:
    """Return the limits of a session's own budget: `$0.50, 1,000 tokens`; "" if it has none."""
    return ", ".join(format_limit(limit.kind, limit.limit) for limit in session_budgets((), budget))


def _run(location: WorkspaceLocation, session: str, change: Callable[[AgentClient], Awaitable[T]]) -> T:
    """Run `change` on an existing session, through the process that owns the home, or as its owner."""

    async def run() -> T:
        async with open_store_read_only(location) as store:
            await load_session_info(store, session)
        async with open_home_client(location) as client:
            return await change(client)

    return run_async(run())


def _parse_fields(words: list[str]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    if not all(name and mark for name, mark, _ in pairs):
        raise UsageError("a field is written as KEY=VALUE; KEY= removes it")
    return {name: value for name, _, value in pairs}


def _print_fields(options: argparse.Namespace, kind: str, fields: Mapping[str, str]) -> int:
    if options.json:
        print_json({"ok": True, "session": options.session, kind: fields})
    elif not fields:
        print(f"the {kind} is empty")
    else:
        width = max(len(escape_line(name)) for name in fields)
        for name, value in sorted(fields.items()):
            print(f"{escape_line(name):{width}}  {escape_line(value)}")
    return 0
