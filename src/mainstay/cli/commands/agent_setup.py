"""Opens the agent for `chat`, `run` and other commands: in the process that owns the home, or in this one."""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec

from mainstay.agent.agent import Agent
from mainstay.agent.client import AgentClient
from mainstay.agent.home_error_reports import store_logged_errors
from mainstay.agent.model_discovery import DiscoveredModel, configure_provider, explain_missing_model, find_model
from mainstay.agent.model_providers import ModelProviders
from mainstay.cli.commands.home_locator import WorkspaceLocation, build_overrides, resolve_home, run_async
from mainstay.config.loader import Config, load_config
from mainstay.config.schema import FILE, resolve_data_folder
from mainstay.core.errors import ConfigError, HomeTaken, SessionUnknown
from mainstay.gateway.home_socket import (
    OWNER_POLL_S,
    OWNER_WAIT_S,
    RemoteAgent,
    find_home_owner,
    serve_socket,
    single_workspace_callers,
)
from mainstay.guards.terminal_sanitizer import escape_line
from mainstay.store.home import describe_stale_config

OPEN_NOTICE_S = 1.5  # opening an agent for longer than this prints what it waits for


class NoModel(ConfigError):
    """No model is configured, and none was found."""


class AgentSetup(msgspec.Struct, frozen=True):
    """What is needed to open an agent. `requested_model` is the model given with --model; empty: none."""

    home: Path
    config: Config
    discovered: DiscoveredModel
    requested_model: str = ""

    @property
    def data_folder(self) -> Path:
        return resolve_data_folder(self.home, self.config)

    @property
    def location(self) -> WorkspaceLocation:
        return WorkspaceLocation(self.home, self.data_folder, self.config.workspace)

    @asynccontextmanager
    async def open_agent(self) -> AsyncIterator[AgentClient]:
        """Open the agent of the process that owns the home; without one, own the home and serve other processes.

        Raises HomeTaken if another process owns the home and offers no socket.
        """
        for _ in range(int(OWNER_WAIT_S / OWNER_POLL_S)):
            if (remote := find_owner(self.location)) is not None:
                if warning := describe_stale_config(self.home / FILE, self.data_folder):
                    print(f"mainstay: {escape_line(warning)}", file=sys.stderr, flush=True)
                yield remote
                return
            config = enable_builtin_tools(enable_memory_tools(configure_provider(self.config, self.discovered)))
            agent = Agent(self.discovered.spec, home=self.home, config=config)
            try:
                await _open_with_notices(agent, config, self.data_folder)
            except HomeTaken as error:
                taken = error
                await asyncio.sleep(OWNER_POLL_S)
                continue
            listing = store_logged_errors((await agent.runtime()).error_store, partial(_return_config, config))
            async with (
                agent,
                listing,
                serve_socket(single_workspace_callers(agent, self.config.workspace), self.data_folder),
            ):
                yield agent
            return
        raise taken


def _return_config(config: Config) -> Config:
    """Configuration source of the error list: the configuration does not change while the agent is open."""
    return config


async def _open_with_notices(agent: Agent, config: Config, data_folder: Path) -> None:
    """Open the agent, and print what it waits for and which external tools failed; the agent works without them."""
    from mainstay.agent.trust_setup import has_external_tools  # an opening agent loads it anyway

    opening = asyncio.ensure_future(agent.__aenter__())
    try:
        await asyncio.wait({opening}, timeout=OPEN_NOTICE_S)
        if not opening.done() and has_external_tools(config, data_folder):
            print("mainstay: waiting for plugins and MCP servers to list their tools…", file=sys.stderr, flush=True)
        await opening
    except asyncio.CancelledError:
        opening.cancel()
        raise
    for problem in await agent.problems():
        print(f"mainstay: {escape_line(problem)}", file=sys.stderr, flush=True)


def find_owner(location: WorkspaceLocation) -> RemoteAgent | None:
    """Return a client of the process that owns this home, if there is one and it has a socket."""
    return find_home_owner(location.data, location.workspace)


@asynccontextmanager
async def open_home_client(
    location: WorkspaceLocation, *, memory: bool = False, vectors: bool = False
) -> AsyncIterator[AgentClient]:
    """Open a client for operations that run no turn: of the process that owns the home, else of its files, which
    this process owns meanwhile. Raises HomeTaken if another process owns the home and offers no socket."""
    async with AsyncExitStack() as stack:
        for attempt in range(int(OWNER_WAIT_S / OWNER_POLL_S)):
            if (remote := find_owner(location)) is not None:
                yield remote
                return
            try:
                from mainstay.agent.offline_agent import (  # not needed to run a turn
                    open_offline_agent,
                    select_workspace,
                )

                config = select_workspace(load_config_or_default(location.home), location.workspace)
                opened = open_offline_agent(location.data, config, with_memory=memory, wait_for_vectors=vectors)
                client = await stack.enter_async_context(opened)
                break
            except HomeTaken:  # perhaps by a command that ends in a moment
                if attempt == int(OWNER_WAIT_S / OWNER_POLL_S) - 1:
                    raise
                await asyncio.sleep(OWNER_POLL_S)
        yield client


def load_config_or_default(home: Path) -> Config:
    """Return the home's configuration, or the default one if it cannot be read: stored data can be used without it."""
    try:
        return load_config(home, env=os.environ).config
    except ConfigError:
        return Config()


def load_agent_setup(options: argparse.Namespace) -> AgentSetup:
    """Read the configuration and find a model. Raises ConfigError, and NoModel if there is none."""
    home = resolve_home(options)
    config = load_config(home, env=os.environ, overrides=build_overrides(options)).config
    requested_model: str = options.model or ""
    if requested_model:
        ModelProviders(requested_model, None, None, config)  # raises if there is no such model
    if (remote := find_owner(WorkspaceLocation(home, resolve_data_folder(home, config), config.workspace))) is not None:
        return AgentSetup(
            home,
            config,
            DiscoveredModel(run_async(remote.model()), None, "the owner of this home uses it"),
            requested_model,
        )
    discovered = find_model(config, os.environ, probe=not requested_model)
    if discovered is None and requested_model:
        discovered = DiscoveredModel(requested_model, None, "given with --model")
    if discovered is None:
        discovered = _offer_download(options)
    if discovered is None:
        raise NoModel(explain_missing_model(os.environ))
    return AgentSetup(home, config, discovered, requested_model)


def _offer_download(options: argparse.Namespace) -> DiscoveredModel | None:
    """Offer to download a local model; only commands with a --yes option for it do that."""
    if not hasattr(options, "download"):
        return None
    from mainstay.cli.commands.model_download import offer_download  # only loaded if there is no model

    return offer_download(is_accepted=options.download, is_quiet=getattr(options, "json", False))


def enable_memory_tools(config: Config) -> Config:
    """Enable the memory tools if `tools.memory` is auto, even if the agent has no other tools."""
    if config.tools.memory != "auto":
        return config
    return msgspec.structs.replace(config, tools=msgspec.structs.replace(config.tools, memory="on"))


def enable_builtin_tools(config: Config) -> Config:
    """Enable all built-in tools, with the current folder as their root, where the configuration does not set these."""
    tools = config.tools
    if not tools.builtin:
        tools = msgspec.structs.replace(tools, builtin=("all",))
    if not tools.roots and (folder := _find_current_folder()) is not None:
        tools = msgspec.structs.replace(tools, roots=(folder,))
    return msgspec.structs.replace(config, tools=tools)


async def set_working_folder(setup: AgentSetup, agent: AgentClient, session: str) -> str:
    """Let the session work in the user's current folder, whichever process runs it. Return the folder, "" if none."""
    roots = setup.config.tools.roots
    folder = _find_current_folder()
    if not roots and folder is not None:
        return await agent.sessions.work_in(session, folder)
    return roots[0] if roots else ""


def _find_current_folder() -> str | None:
    """Return the current folder; None for / and the user's home folder, which are too much for a session: it then
    works in a folder of its own."""
    try:
        folder = os.path.realpath(os.getcwd())
    except FileNotFoundError:  # it was removed meanwhile
        return None
    return None if folder in ("/", os.path.realpath(os.path.expanduser("~"))) else folder


async def apply_requested_model(setup: AgentSetup, agent: AgentClient, session: str) -> str:
    """Return the session's own model, "" if it has none, after setting it to the one given with --model."""
    try:
        own = (await agent.sessions.get(session)).model
    except SessionUnknown:
        own = ""
    if setup.requested_model and setup.requested_model != (own or setup.config.model):
        await agent.sessions.set_model(session, setup.requested_model)
        own = setup.requested_model
    return own


def build_session_name(prefix: str) -> str:
    return f"{prefix}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def print_note(sentence: str) -> None:
    """Print a note to stderr, which keeps stdout for the result."""
    print(sentence, file=sys.stderr, flush=True)
