"""All workspaces of a home in the one process that owns it: each an agent of its own, opened when it is needed."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from mainstay.agent.agent import Agent
from mainstay.config.loading import Loaded
from mainstay.config.schema import Config, data_home
from mainstay.core.errors import AgentClosed, ConfigError, MainstayError, WorkspaceUnknown
from mainstay.gateway.desk import Desk
from mainstay.store.home import LOCK, HomeLock, prepare, workspace_path

log = logging.getLogger("mainstay.gateway")

Make = Callable[[Config], Agent]  # an agent that is not open yet, and does not take the home's lock
Opened = Callable[[Desk], None]


class Workspaces:
    """`opened` is told of every workspace that has been opened, also when it is opened again with other settings."""

    def __init__(self, home: Path, loaded: Loaded, make: Make, opened: Opened = lambda desk: None) -> None:
        self.loaded = loaded
        self.home = data_home(home, loaded.config)
        self.troubles: dict[str, str] = {}  # by workspace: why it cannot be entered
        self._make = make
        self._told = opened
        self._lock = HomeLock(self.home)
        self._agents: dict[str, Agent] = {}
        self._desks: dict[str, Desk] = {}
        self._doors: dict[str, asyncio.Lock] = {}
        self._closed = False

    def own(self) -> None:
        """Raises HomeTaken if another process owns the home."""
        prepare(self.home)
        self._lock.take()

    def has_read(self, at: float) -> None:
        """What the configuration said then is in force: others see by the lock's time whether they know better."""
        os.utime(self.home / LOCK, (at, at))

    def names(self) -> list[str]:
        """Those that are there, and those that are configured."""
        there = {path.parent.name for path in (self.home / "workspaces").glob("*/workspace.db")}
        config = self.loaded.config
        return sorted(there | set(config.workspaces) | {config.workspace})

    @property
    def open_ones(self) -> dict[str, Desk]:
        return dict(self._desks)

    async def open(self) -> None:
        """Every one that is there: what is unfinished in it goes on. One that cannot be opened keeps out no other, but
        for the configured one, without which there is nothing to serve."""
        main = self.loaded.config.workspace
        await self.desk(main)
        for name in self.names():
            if name != main:
                try:
                    await self.desk(name)
                except MainstayError as error:
                    log.error("the workspace %s cannot be opened: %s", name, error)

    async def desk(self, name: str, *, create: bool = False) -> Desk:
        """Raises WorkspaceUnknown for one that is neither there nor configured, in words that tell nothing else."""
        if (desk := self._desks.get(name)) is not None:
            return desk
        if name not in self.names() and not create:
            raise WorkspaceUnknown(f"there is no workspace {name[:80]!r}")
        async with self._doors.setdefault(name, asyncio.Lock()):
            if (desk := self._desks.get(name)) is not None:
                return desk
            if self._closed:
                raise AgentClosed("the server is stopping")
            return await self._opened(name)

    async def agent(self, name: str) -> Agent:
        """For commands of the owner, which may make a workspace by naming it."""
        await self.desk(name, create=True)
        return self._agents[name]

    async def _opened(self, name: str) -> Desk:
        agent = await self._agent_of(name)
        self._agents[name] = agent
        desk = self._desks[name] = await Desk.of(agent)
        self._told(desk)
        return desk

    async def _agent_of(self, name: str) -> Agent:
        try:
            agent = self._make(self.loaded.of(name))
            await agent.opened()
        except MainstayError as error:
            self.troubles[name] = str(error)
            raise
        self.troubles.pop(name, None)
        for said in await agent.troubles():
            log.warning("workspace %s: %s", name, said)
        return agent

    # --- another configuration -------------------------------------------------------------------

    async def reload(self, loaded: Loaded, drain_s: float, *, everything: bool = False) -> list[str]:
        """From now on what this says. A workspace in which something is otherwise (or `everything`) is opened again,
        once its turns have ended or were put aside; whoever comes meanwhile waits at the door. Which ones."""
        before, self.loaded = self.loaded, loaded
        changed = [name for name in self._desks if everything or _parts(before.of(name)) != _parts(loaded.of(name))]
        done = await asyncio.gather(*(self._again(name, before, drain_s) for name in changed))
        return [name for name, fine in zip(changed, done, strict=True) if fine]

    async def _again(self, name: str, before: Loaded, drain_s: float) -> bool:
        """False if it goes on as it was."""
        async with self._doors.setdefault(name, asyncio.Lock()):
            desk, agent = self._desks[name], self._agents[name]
            desk.hold()
            await settled(agent, drain_s)
            await agent.aclose()
            fine = True
            try:
                agent = await self._agent_of(name)
            except MainstayError as error:
                fine = False
                log.error("the workspace %s keeps its settings: %s", name, error)
                self.loaded, wanted = before, self.loaded
                try:
                    agent = await self._agent_of(name)
                finally:
                    self.loaded = wanted
            self._agents[name] = agent
            desk.use(agent, await agent.opened())
            self._told(desk)
            return fine

    # --- the end ---------------------------------------------------------------------------------

    async def drain(self, seconds: float) -> None:
        """Let what runs come to its end, for so long."""
        await asyncio.gather(*(settled(agent, seconds) for agent in self._agents.values()))

    async def close(self) -> None:
        self._closed = True
        try:
            await asyncio.gather(*(agent.aclose() for agent in self._agents.values()))
        finally:
            self._agents.clear()
            self._desks.clear()
            self._lock.release()

    async def remove(self, name: str) -> None:
        """Close it, for somebody who takes its folder away."""
        if name == self.loaded.config.workspace:
            raise ConfigError(f"the workspace {name!r} is the configured one")
        async with self._doors.setdefault(name, asyncio.Lock()):
            self._desks.pop(name, None)
            if (agent := self._agents.pop(name, None)) is not None:
                await agent.aclose()

    def is_there(self, name: str) -> bool:
        return workspace_path(self.home, name).exists()


async def settled(agent: Agent, seconds: float) -> None:
    try:
        await asyncio.wait_for(agent.settled(), seconds)
    except TimeoutError:
        log.info("turns that still run are put aside, and taken up again")


def _parts(config: Config) -> Config:
    """What an agent is made of: where the gateway listens, and to whom, is not."""
    return msgspec.structs.replace(config, server=Config().server, channels={}, people={}, workspaces={})
