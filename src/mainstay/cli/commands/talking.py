"""What `chat` and `run` share: the configuration, the model, the agent."""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec

from mainstay.agent.agent import Agent
from mainstay.agent.discover import Found, find_model, no_model_help
from mainstay.agent.error_listing import listed
from mainstay.agent.models import Models
from mainstay.cli.chat.safe import visible
from mainstay.cli.commands.checks_owner import works_with_old
from mainstay.cli.commands.homes import Place, home_of, overrides_of, run_async
from mainstay.config.loading import Config, load_config
from mainstay.config.schema import ProviderEntry, data_home
from mainstay.core.errors import ConfigError, HomeTaken, SessionUnknown
from mainstay.gateway.owner import SOCKET, Alone, Remote, serving
from mainstay.store.home import is_owned

OWNER_WAIT_S = 3.0  # a command that only writes something owns the home for a moment
OWNER_LOOK_S = 0.1
PATIENCE_S = 1.5  # before somebody who waits is told for what


class NoModel(ConfigError):
    """Nothing was found to ask."""


class Setting(msgspec.Struct, frozen=True):
    """Where a conversation takes place, with which model, and which one this conversation was asked to have."""

    home: Path
    config: Config
    found: Found
    asked: str = ""

    @property
    def data(self) -> Path:
        return data_home(self.home, self.config)

    @property
    def place(self) -> Place:
        return Place(self.home, self.data, self.config.workspace)

    @asynccontextmanager
    async def agent(self) -> AsyncIterator[Agent | Remote]:
        """The home's owner if it has one, else we are it, and serve others meanwhile."""
        for _ in range(int(OWNER_WAIT_S / OWNER_LOOK_S)):
            if (remote := owner_of(self.place)) is not None:
                if said := works_with_old(self.home, self.data):
                    print(f"mainstay: {visible(said)}", file=sys.stderr, flush=True)
                yield remote
                return
            config = working(remembering(reaching(self.config, self.found)))
            agent = Agent(self.found.spec, home=self.home, config=config)
            try:
                await _opened(agent)
            except HomeTaken as error:
                taken = error
                await asyncio.sleep(OWNER_LOOK_S)
                continue
            listing = listed((await agent.opened()).errors, partial(_given, config))
            async with agent, listing, serving(Alone(agent, self.config.workspace), self.data):
                yield agent
            return
        raise taken


def _given(config: Config) -> Config:
    """What is in force here stays so."""
    return config


async def _opened(agent: Agent) -> None:
    """What takes long is said, and so is what of it did not work: the conversation goes on without."""
    opening = asyncio.ensure_future(agent.__aenter__())
    try:
        await asyncio.wait({opening}, timeout=PATIENCE_S)
        if not opening.done():
            print("mainstay: asking tools from elsewhere what they offer…", file=sys.stderr, flush=True)
        await opening
    except asyncio.CancelledError:
        opening.cancel()
        raise
    for said in await agent.troubles():
        print(f"mainstay: {visible(said)}", file=sys.stderr, flush=True)


def owner_of(place: Place) -> Remote | None:
    """Another process that owns this home and can be worked through."""
    owned = is_owned(place.data) and (place.data / SOCKET).exists()
    return Remote(place.data, place.workspace) if owned else None


def setting(options: argparse.Namespace) -> Setting:
    home = home_of(options)
    config = load_config(home, env=os.environ, overrides=overrides_of(options)).config
    asked: str = options.model or ""
    if asked:
        Models(asked, None, None, config)  # raises if there is no such model
    if (remote := owner_of(Place(home, data_home(home, config), config.workspace))) is not None:
        return Setting(home, config, Found(run_async(remote.model()), None, "the owner of this home uses it"), asked)
    found = find_model(config, os.environ, probe=not asked)
    if found is None and asked:
        found = Found(asked, None, "you asked for it")
    if found is None:
        found = _offered(options)
    if found is None:
        raise NoModel(no_model_help(os.environ))
    return Setting(home, config, found, asked)


def _offered(options: argparse.Namespace) -> Found | None:
    """A model for a machine that has none: only whoever wants to talk is asked, not whoever looks something up."""
    if not hasattr(options, "take_offer"):
        return None
    from mainstay.cli.commands.bringing import offer  # only for those with no model

    return offer(yes=options.take_offer, quiet=getattr(options, "json", False))


def remembering(config: Config) -> Config:
    """Whoever talks here wants to be remembered, whether there are other tools or not."""
    if config.tools.memory != "auto":
        return config
    return msgspec.structs.replace(config, tools=msgspec.structs.replace(config.tools, memory="on"))


def working(config: Config) -> Config:
    """Whoever talks here wants work done in the folder they stand in, unless the configuration says otherwise."""
    tools = config.tools
    if not tools.builtin:
        tools = msgspec.structs.replace(tools, builtin=("all",))
    if not tools.roots and (here := _here()) is not None:
        tools = msgspec.structs.replace(tools, roots=(here,))
    return msgspec.structs.replace(config, tools=tools)


async def settle_in(where: Setting, agent: Agent | Remote, session: str) -> str:
    """The session works where whoever talks stands, whichever process runs it; where that is, "" if nowhere."""
    roots = where.config.tools.roots
    here = _here()
    if not roots and here is not None:
        return await agent.sessions.work_in(session, here)
    return roots[0] if roots else ""


def _here() -> str | None:
    """Not all that somebody has: in their home or at the root of the disk, a session works in a folder of its own."""
    try:
        here = os.path.realpath(os.getcwd())
    except FileNotFoundError:  # it was removed under our feet
        return None
    return None if here in ("/", os.path.realpath(os.path.expanduser("~"))) else here


def reaching(config: Config, found: Found) -> Config:
    """The configuration, with the address and key of the model that was found where none are configured."""
    name = found.spec.partition("/")[0]
    given = config.providers.get(name) or ProviderEntry()
    key = os.environ.get(found.key_variable) if found.key_variable else None
    entry = ProviderEntry(base_url=given.base_url or found.base_url, api_key=given.api_key or key)
    return msgspec.structs.replace(config, providers={**config.providers, name: entry})


async def own_model(where: Setting, agent: Agent | Remote, session: str) -> str:
    """The session's own model, if it has one; it gives way to the one that was asked for."""
    try:
        own = (await agent.sessions.get(session)).model
    except SessionUnknown:
        own = ""
    if where.asked and where.asked != (own or where.found.spec):
        await agent.sessions.set_model(session, where.asked)
        own = where.asked
    return own


def new_session(prefix: str) -> str:
    return f"{prefix}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def tell(sentence: str) -> None:
    """A note beside the answer."""
    print(sentence, file=sys.stderr, flush=True)
