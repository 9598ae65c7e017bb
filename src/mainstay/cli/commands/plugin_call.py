"""`mainstay plugin call`: runs one action of a plugin in the sandbox, as the agent would."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from mainstay.agent.external_tools import PLUGINS_FOLDER, ExternalToolEnvironment, build_plugin, load_plugin
from mainstay.agent.workspace_stores import get_auxiliary_stores
from mainstay.cli.commands.agent_setup import print_note
from mainstay.cli.commands.home_locator import open_store_locked, run_async
from mainstay.cli.commands.plugin_mcp_helpers import ConfiguredHome, load_tools_home, read_log_lines
from mainstay.cli.commands.tool_call_helpers import (
    build_command_context,
    check_argument_options,
    parse_arguments,
    print_result,
)
from mainstay.config.schema_external_tools import PluginEntry
from mainstay.core.errors import ConfigError, InputRefused, MainstayError
from mainstay.core.ports import Tool
from mainstay.core.tool_ports import PluginState
from mainstay.core.tree_removal import remove_tree
from mainstay.core.worker_threads import run_in_thread
from mainstay.guards.terminal_sanitizer import sanitize_text
from mainstay.plugins.host import PluginHost
from mainstay.plugins.installer import check_plugin_name
from mainstay.plugins.lock_file import read_lock
from mainstay.plugins.manifest import PluginManifest, read_manifest
from mainstay.plugins.plugin import Plugin
from mainstay.plugins.tool import build_plugin_tools
from mainstay.store.memory.plugin_state import InMemoryPluginState


def call(options: argparse.Namespace) -> int:
    check_argument_options(options)
    return print_result(options, *run_async(_call_action(load_tools_home(options), options)))


async def _call_action(home: ConfiguredHome, options: argparse.Namespace) -> tuple[str, float]:
    """Return the result and the seconds it took."""
    async with _open_host(home, options.name) as host:
        tool = _find_tool(host, options.action)
        arguments = parse_arguments(options, tool)
        began = time.monotonic()
        content = await tool.run(arguments, build_command_context())
        return content, time.monotonic() - began


@asynccontextmanager
async def _open_host(home: ConfiguredHome, name: str) -> AsyncIterator[PluginHost]:
    """Run a plugin's folder as it is, with temporary state, or an installed plugin with its own state."""
    if "/" in name or name.startswith("."):
        folder, manifest = _read_folder(name)
        temporary = tempfile.mkdtemp(prefix="mainstay-")
        try:
            async with home.open_environment(Path(temporary)) as environment:
                plugin = build_plugin(manifest, folder, None, home.config, environment)
                async with _run_host(plugin, environment, InMemoryPluginState()) as host:
                    yield host
        except MainstayError:  # the log is deleted below, and the plugin's author needs it
            for line in read_log_lines(Path(temporary) / PLUGINS_FOLDER / manifest.name / "log"):
                print_note(sanitize_text(line))
            raise
        finally:
            await run_in_thread(lambda: remove_tree(temporary))
        return
    entry = home.config.plugins.get(check_plugin_name(name), PluginEntry())
    if not entry.enabled:
        raise ConfigError(f"the plugin {name} is disabled in mainstay.yaml")
    async with home.open_environment() as environment, _hint_at_log_on_failure(home, name):
        plugin = load_plugin(name, entry, read_lock(home.plugins_folder).get(name), home.config, environment)
        async with (
            open_store_locked(home.location) as store,
            _run_host(plugin, environment, get_auxiliary_stores(store).plugin_state()) as host,
        ):
            yield host


@asynccontextmanager
async def _hint_at_log_on_failure(home: ConfiguredHome, name: str) -> AsyncIterator[None]:
    """If the call fails and the plugin wrote to its log meanwhile, print how to read it."""
    file = home.workspace_folder / PLUGINS_FOLDER / name / "log"
    before = len(read_log_lines(file))
    try:
        yield
    except MainstayError:
        if len(read_log_lines(file)) != before:
            print_note(f"its output is in its log: `mainstay plugin log {name}`")
        raise


def _read_folder(name: str) -> tuple[Path, PluginManifest]:
    folder = Path(name).expanduser()
    return folder, read_manifest(folder)


@asynccontextmanager
async def _run_host(
    plugin: Plugin, environment: ExternalToolEnvironment, state: PluginState
) -> AsyncIterator[PluginHost]:
    host = PluginHost(plugin, environment.sandbox, state, redact=environment.redactor.redact_text)
    try:
        yield host
    finally:
        await host.close()


def _find_tool(host: PluginHost, action: str) -> Tool:
    tools = {tool.name.partition("__")[2]: tool for tool in build_plugin_tools(host)}
    tool = tools.get(action.removeprefix(f"{host.plugin.name}__"))
    if tool is None:
        raise InputRefused(f"{host.plugin.name} has no action {action!r}; it has: {', '.join(tools)}")
    return tool
