"""`mainstay backend list|test|query`: data sources of the agent, with details that only the owner may see."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec

from mainstay.agent.backend_factory import McpDataSourceAdapter, build_backend, open_mcp_source
from mainstay.agent.external_tools import ExternalToolEnvironment, open_mcp_servers, refuse_unusable
from mainstay.agent.tool_name_clashes import find_prefix_clashes, list_installed_plugins
from mainstay.backends.base import Backend, BackendContextContributor, BackendRefused
from mainstay.backends.factory_context import BackendFactoryContext
from mainstay.backends.health import BackendProbe, probe_backend
from mainstay.cli.commands.agent_setup import print_note
from mainstay.cli.commands.home_locator import run_async
from mainstay.cli.commands.output import print_json, print_table, style_text
from mainstay.cli.commands.plugin_mcp_helpers import ConfiguredHome, load_tools_home
from mainstay.cli.commands.tool_call_helpers import (
    build_command_context,
    check_argument_options,
    parse_arguments,
    print_result,
)
from mainstay.core.errors import ConfigError, MainstayError
from mainstay.guards.terminal_sanitizer import escape_line, sanitize_text
from mainstay.plugins.mcp.tool_source import McpToolSource


class BackendUnusable(MainstayError):
    """The backend cannot be opened; the message has the reason, for the owner."""


@asynccontextmanager
async def _build_backend(
    tools_home: ConfiguredHome, environment: ExternalToolEnvironment, name: str
) -> AsyncIterator[Backend]:
    """Build the backend without opening it. Raises ConfigError."""
    entry = tools_home.config.backends[name]
    refuse_unusable(
        entry,
        find_prefix_clashes(tools_home.config, list_installed_plugins(environment.home)).get(("backends", name), ""),
    )
    async with AsyncExitStack() as stack:

        def open_source(server: str) -> McpDataSourceAdapter:
            """Open this MCP server only: the others may be unusable."""
            mcp: McpToolSource | None = None
            if server in tools_home.config.mcpServers:
                servers = {server: tools_home.config.mcpServers[server]}
                mcp = open_mcp_servers(msgspec.structs.replace(tools_home.config, mcpServers=servers), environment)
                stack.push_async_callback(mcp.close)
            return open_mcp_source(mcp, server)

        # the stored index is the agent's, which may be using it now
        context = BackendFactoryContext(home=environment.home, index_folder=None, open_mcp_source=open_source)
        backend = build_backend(name, entry, context)
        stack.push_async_callback(backend.close)
        yield backend


@asynccontextmanager
async def _open_backend(tools_home: ConfiguredHome, name: str) -> AsyncIterator[Backend]:
    if name not in tools_home.config.backends:
        known = ", ".join(tools_home.config.backends) or "none"
        raise ConfigError(f"there is no backend {name!r}; configured backends: {known}")
    async with tools_home.open_environment() as environment, _build_backend(tools_home, environment, name) as backend:
        yield backend


# --- list ----------------------------------------------------------------------------------------


def list_backends(options: argparse.Namespace) -> int:
    rows = run_async(_describe_backends(load_tools_home(options)))
    if options.json:
        print_json({"ok": True, "backends": rows})
    elif not rows:
        print_note("no backends are configured; add them under `backends` in mainstay.yaml")
    else:
        table = [
            [
                row["name"],
                row["kind"],
                escape_line(row["where"], 60),
                _format_actions(row),
                escape_line(row["state"], 200),
            ]
            for row in rows
        ]
        print_table(["NAME", "KIND", "WHERE", "ALLOWED", "STATE"], table)
    return 0


def _format_actions(row: dict[str, Any]) -> str:
    named = ", ".join(name.rpartition("__")[2] for name in row["named"])
    return named or ("nothing" if row["tools"] else "")


async def _describe_backends(tools_home: ConfiguredHome) -> list[dict[str, Any]]:
    """Check all backends concurrently: one that does not answer takes until its timeout."""
    async with tools_home.open_environment() as environment:
        return list(
            await asyncio.gather(
                *(_describe_backend(tools_home, environment, name) for name in tools_home.config.backends)
            )
        )


async def _describe_backend(
    tools_home: ConfiguredHome, environment: ExternalToolEnvironment, name: str
) -> dict[str, Any]:
    """Describe one backend. It is not opened if no rule names its tools: the agent would not open it, either."""
    entry, hide, policy = tools_home.config.backends[name], environment.redactor.redact_text, tools_home.build_policy()
    row: dict[str, Any] = {"name": name, "kind": entry.kind, "where": hide(entry.location), "tools": []}
    row |= {"named": [], "open": False}
    try:
        async with _build_backend(tools_home, environment, name) as backend:
            named = [tool.name for tool in backend.tools if policy.has_rule_for(tool)]
            row |= {"where": hide(backend.settings.location), "tools": [tool.name for tool in backend.tools]}
            row["named"] = named
            if not named:
                return row | {"state": f'not opened: add "{name}__*" to policy.allow'}
            probe = await probe_backend(backend, hide)
            return row | {"open": probe.contents.is_open, "state": probe.state}
    except MainstayError as error:
        return row | {"state": hide(str(error))}


# --- test ----------------------------------------------------------------------------------------


def test(options: argparse.Namespace) -> int:
    at = load_tools_home(options)
    probe, schema, named = run_async(_test_backend(at, options.name))
    if probe.problem:
        raise BackendUnusable(f"{options.name}: {probe.problem}")
    if options.json:
        document = {
            "name": options.name,
            "has": probe.contents.summary,
            "odd": probe.contents.warnings,
            "seconds": round(probe.seconds, 3),
        }
        print_json({"ok": True, **document, "named": named, "schema": schema})
        return 0
    name = escape_line(options.name)
    print(f"{style_text('ok', 'green')}: {name} has {probe.contents.summary}, opened in {probe.seconds:.1f} s")
    for warning in probe.contents.warnings:
        print(f"{style_text('warn', 'yellow')}: {escape_line(warning)}")
    print(f"\n{sanitize_text(schema)}\n")
    if not named:
        print(f'the model cannot use it until a rule names its tools: add "{options.name}__*" to policy.allow')
    return 0


async def _test_backend(tools_home: ConfiguredHome, name: str) -> tuple[BackendProbe, str, list[str]]:
    policy = tools_home.build_policy()
    async with _open_backend(tools_home, name) as backend:
        probe = await probe_backend(backend, tools_home.build_guards().redact_text, start_programs=True)
        named = [tool.name for tool in backend.tools if policy.has_rule_for(tool)]
        return probe, BackendContextContributor([backend]).fixed_section(""), named


# --- query ---------------------------------------------------------------------------------------


def query(options: argparse.Namespace) -> int:
    check_argument_options(options)
    return print_result(options, *run_async(_query_backend(load_tools_home(options), options)))


async def _query_backend(tools_home: ConfiguredHome, options: argparse.Namespace) -> tuple[str, float]:
    """Call the same tool that the model uses; return its result and the seconds it took."""
    async with _open_backend(tools_home, options.name) as backend:
        tool = next(tool for tool in backend.tools if tool.name.endswith("__query"))
        arguments = parse_arguments(options, tool)
        began = time.monotonic()
        try:
            async with asyncio.timeout(tool.timeout_s):
                content = await tool.run(arguments, build_command_context())
        except TimeoutError:
            raise BackendRefused(f"{options.name} did not answer within {tool.timeout_s:g} s") from None
        except BackendRefused:
            probe = await probe_backend(backend, tools_home.build_guards().redact_text)
            if probe.problem:  # the owner may see more than the model
                raise BackendUnusable(f"{options.name}: {probe.problem}") from None
            raise
        return content, time.monotonic() - began
