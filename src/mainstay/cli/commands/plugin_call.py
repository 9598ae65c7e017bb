"""`mainstay plugin call`: one action, through the real host, in the sandbox."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

from mainstay.agent.elsewhere import PLUGINS, Grounds, made_plugin, plugin_of
from mainstay.cli.chat.safe import safe
from mainstay.cli.commands.calling import arguments_of, check_given, nowhere, tell_answer
from mainstay.cli.commands.foreign import Here, here, log_lines
from mainstay.cli.commands.homes import run_async, writing
from mainstay.cli.commands.talking import tell
from mainstay.config.schema_external_tools import PluginEntry
from mainstay.core.errors import ConfigError, InputRefused, MainstayError
from mainstay.core.outside import PluginState
from mainstay.core.plugin_state import MemoryPluginState
from mainstay.core.ports import Tool
from mainstay.core.remove import remove_tree
from mainstay.core.workers import in_thread
from mainstay.plugins.host import PluginHost
from mainstay.plugins.lock import read_lock
from mainstay.plugins.manifest import Manifest, read_manifest
from mainstay.plugins.package import checked_name
from mainstay.plugins.plugin import Plugin
from mainstay.plugins.tool import plugin_tools


def call(options: argparse.Namespace) -> int:
    check_given(options)
    return tell_answer(options, *run_async(_called(here(options), options)))


async def _called(at: Here, options: argparse.Namespace) -> tuple[str, float]:
    async with _host(at, options.name) as host:
        tool = _tool(host, options.action)
        arguments = arguments_of(options, tool)
        began = time.monotonic()
        content = await tool.run(arguments, nowhere())
        return content, time.monotonic() - began


@asynccontextmanager
async def _host(at: Here, name: str) -> AsyncIterator[PluginHost]:
    """A folder is run as it is, and keeps nothing; what is installed is run with what it has kept."""
    if "/" in name or name.startswith("."):
        folder, manifest = _from_folder(name)
        made = tempfile.mkdtemp(prefix="mainstay-")
        try:
            async with at.grounds(Path(made)) as grounds:
                plugin = made_plugin(manifest, folder, None, at.config, grounds)
                async with _running(plugin, grounds, MemoryPluginState()) as host:
                    yield host
        except MainstayError:  # nothing of it will be left, and whoever writes it wants to know
            for line in log_lines(Path(made) / PLUGINS / manifest.name / "log"):
                tell(safe(line))
            raise
        finally:
            await in_thread(lambda: remove_tree(made))
        return
    entry = at.config.plugins.get(checked_name(name), PluginEntry())
    if not entry.enabled:
        raise ConfigError(f"the plugin {name} is disabled in mainstay.yaml")
    async with at.grounds() as grounds, _pointing_to_log(at, name):
        plugin = plugin_of(name, entry, read_lock(at.plugins).get(name), at.config, grounds)
        from mainstay.store.sqlite import SqliteStore

        async with (
            writing(at.place) as store,
            _running(plugin, grounds, cast(SqliteStore, store).plugin_state()) as host,
        ):
            yield host


@asynccontextmanager
async def _pointing_to_log(at: Here, name: str) -> AsyncIterator[None]:
    """If it fails, and has said something that may tell why."""
    file = at.workspace / PLUGINS / name / "log"
    before = len(log_lines(file))
    try:
        yield
    except MainstayError:
        if len(log_lines(file)) != before:
            tell(f"what it said is in its log: `mainstay plugin log {name}`")
        raise


def _from_folder(name: str) -> tuple[Path, Manifest]:
    folder = Path(name).expanduser()
    return folder, read_manifest(folder)


@asynccontextmanager
async def _running(plugin: Plugin, grounds: Grounds, state: PluginState) -> AsyncIterator[PluginHost]:
    host = PluginHost(plugin, grounds.sandbox, state, redact=grounds.veil.hide)
    try:
        yield host
    finally:
        await host.close()


def _tool(host: PluginHost, action: str) -> Tool:
    tools = {tool.name.partition("__")[2]: tool for tool in plugin_tools(host)}
    found = tools.get(action.removeprefix(f"{host.plugin.name}__"))
    if found is None:
        raise InputRefused(f"{host.plugin.name} has no action {action!r}; there are: {', '.join(tools)}")
    return found
