"""The workspaces of a home in the process that owns it: each has an agent of its own, opened when it is first used."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from mainstay.agent.agent import Agent
from mainstay.agent.workspace_stores import list_known_workspaces, list_used_workspaces
from mainstay.config.loader import LoadedConfig
from mainstay.config.schema import Config, resolve_data_folder
from mainstay.core.errors import AgentClosed, ConfigError, MainstayError, WorkspaceUnknown
from mainstay.gateway.workspace import Workspace
from mainstay.store.home import LOCK_FILE, HomeLock, prepare_home

log = logging.getLogger("mainstay.gateway")

STOPPING_MESSAGE = "the server is stopping"
AgentFactory = Callable[[Config], Agent]  # creates an agent that is not open yet and does not take the home's lock
WorkspaceCallback = Callable[[Workspace], None]


class WorkspaceRegistry:
    """Opens, reloads and closes workspaces. `on_open` is called with every workspace that was opened, also when it was
    opened again with other settings."""

    def __init__(
        self,
        home: Path,
        loaded: LoadedConfig,
        create_agent: AgentFactory,
        on_open: WorkspaceCallback = lambda workspace: None,
    ) -> None:
        self.loaded = loaded
        self.home = resolve_data_folder(home, loaded.config)
        self.problems: dict[str, str] = {}  # by workspace: why it could not be opened
        self._create_agent = create_agent
        self._on_open = on_open
        self._lock = HomeLock(self.home)
        self._agents: dict[str, Agent] = {}
        self._open: dict[str, Workspace] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._known: set[str] = set()  # workspaces that the home knows events of, also if their databases are missing
        self._is_closed = False

    def acquire_home(self) -> None:
        """Take the home's lock. Raises HomeTaken if another process owns the home."""
        prepare_home(self.home)
        self._lock.acquire()
        self._known = set(list_known_workspaces(self.loaded.config.storage, self.home))

    def set_config_time(self, at: float) -> None:
        """Record when the configuration in force was read, as the time of the lock file: other processes compare it
        with the configuration file."""
        os.utime(self.home / LOCK_FILE, (at, at))

    def list_names(self) -> list[str]:
        """Return the names of workspaces that exist or are configured."""
        config = self.loaded.config
        existing = {folder.name for folder in list_used_workspaces(config.storage, self.home)}
        return sorted(existing | self._known | set(config.workspaces) | {config.workspace})

    @property
    def open_workspaces(self) -> dict[str, Workspace]:
        return dict(self._open)

    async def open_all(self) -> None:
        """Open all workspaces, which resumes their unfinished turns. One that cannot be opened is logged and skipped,
        except the default workspace: its error is raised."""
        main = self.loaded.config.workspace
        await self.get_workspace(main)
        for name in self.list_names():
            if name != main:
                try:
                    await self.get_workspace(name)
                except MainstayError as error:
                    log.error("the workspace %s cannot be opened: %s", name, error)

    async def get_workspace(self, name: str, *, create: bool = False) -> Workspace:
        """Return a workspace, opened if it is not; concurrent callers wait for the same opening. Raises
        WorkspaceUnknown for one that neither exists nor is configured, unless `create`."""
        if (workspace := self._open.get(name)) is not None:
            return workspace
        if name not in self.list_names() and not create:
            raise WorkspaceUnknown(f"there is no workspace {name[:80]!r}")
        async with self._locks.setdefault(name, asyncio.Lock()):
            if (workspace := self._open.get(name)) is not None:
                return workspace
            if self._is_closed:
                raise AgentClosed(STOPPING_MESSAGE)
            return await self._open_workspace(name)

    async def get_agent(self, name: str) -> Agent:
        """Return the agent of a workspace, which is created if it does not exist: for commands of the owner."""
        await self.get_workspace(name, create=True)
        return self._agents[name]

    async def _open_workspace(self, name: str) -> Workspace:
        agent = await self._open_agent(name)
        self._agents[name] = agent
        workspace = self._open[name] = Workspace(agent)
        self._on_open(workspace)
        return workspace

    async def _open_agent(self, name: str) -> Agent:
        agent: Agent | None = None
        try:
            agent = self._create_agent(self.loaded.for_workspace(name))
            await agent.runtime()
            if self._is_closed:
                raise AgentClosed(STOPPING_MESSAGE)
        except BaseException as error:  # also a caller that left: the next one opens another agent
            if agent is not None:
                await agent.aclose()
            if isinstance(error, MainstayError):
                self.problems[name] = str(error)
            raise
        self.problems.pop(name, None)
        for problem in await agent.problems():
            log.warning("workspace %s: %s", name, problem)
        return agent

    # --- reload ----------------------------------------------------------------------------------

    async def reload(self, loaded: LoadedConfig, drain_s: float, *, everything: bool = False) -> list[str]:
        """Use another configuration, and return the workspaces that were opened again: those with changed settings, or
        all with `everything`. Each is opened again when its turns have ended, at most after `drain_s`; callers wait
        meanwhile."""
        before, self.loaded = self.loaded, loaded
        changed = [
            name
            for name in self._open
            if everything or _agent_settings(before.for_workspace(name)) != _agent_settings(loaded.for_workspace(name))
        ]
        results = await asyncio.gather(*(self._reopen(name, before, drain_s) for name in changed))
        return [name for name, reopened in zip(changed, results, strict=True) if reopened]

    async def _reopen(self, name: str, before: LoadedConfig, drain_s: float) -> bool:
        """Close a workspace and open it with the new settings. Returns False if that failed and it has the settings of
        before."""
        async with self._locks.setdefault(name, asyncio.Lock()):
            workspace, agent = self._open[name], self._agents[name]
            workspace.suspend()
            await wait_until_settled(agent, drain_s)
            await agent.aclose()
            reopened = True
            try:
                agent = await self._open_agent(name)
            except MainstayError as error:
                reopened = False
                log.error("the workspace %s keeps its earlier settings: %s", name, error)
                self.loaded, after = before, self.loaded
                try:
                    agent = await self._open_agent(name)
                finally:
                    self.loaded = after
            self._agents[name] = agent
            workspace.replace_agent(agent)
            self._on_open(workspace)
            return reopened

    # --- closing ---------------------------------------------------------------------------------

    async def drain(self, seconds: float) -> None:
        """Wait until no turn is running, at most for so long."""
        await asyncio.gather(*(wait_until_settled(agent, seconds) for agent in self._agents.values()))

    async def close(self) -> None:
        self._is_closed = True
        try:
            await asyncio.gather(*(agent.aclose() for agent in self._agents.values()))
        finally:
            self._agents.clear()
            self._open.clear()
            self._lock.release()

    async def remove(self, name: str) -> None:
        """Close a workspace whose folder is about to be moved. Raises ConfigError for the default workspace."""
        if name == self.loaded.config.workspace:
            raise ConfigError(f"the workspace {name!r} is the default workspace and cannot be removed")
        async with self._locks.setdefault(name, asyncio.Lock()):
            self._open.pop(name, None)
            self._known.discard(name)
            if (agent := self._agents.pop(name, None)) is not None:
                await agent.aclose()


async def wait_until_settled(agent: Agent, seconds: float) -> None:
    """Wait until no turn is running, at most for so long. If the process is killed meanwhile, no turn is to blame."""
    await (await agent.runtime()).lanes.mark_stopping()
    try:
        await asyncio.wait_for(agent.settled(), seconds)
    except TimeoutError:
        log.info("turns are still running; they are interrupted, and resumed when the agent is opened again")


def _agent_settings(config: Config) -> Config:
    """Return the settings that an agent depends on, without those of the gateway itself."""
    return msgspec.structs.replace(config, server=Config().server, channels={}, people={}, workspaces={})
