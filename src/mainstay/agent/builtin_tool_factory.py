"""Built-in tools of an agent, and what they share: file access, sandbox, background processes, outbox."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from mainstay.agent.outbox_router import OutboxRouter
from mainstay.config.component_options import resolve_sandbox_options
from mainstay.config.schema import Config
from mainstay.core.builtin_tool_table import BUILT_IN_TOOLS
from mainstay.core.ports import Tool
from mainstay.core.tool_ports import Sandbox, ScheduledPrompt, Scheduler, Spawner, SubAgentResult, SubAgentTask
from mainstay.io.fetch import FetchRules, parse_private_hosts
from mainstay.sandbox.limits import SandboxLimits
from mainstay.sandbox.selection import create_sandbox
from mainstay.tools.dependencies import ToolBuilder, ToolDependencies
from mainstay.tools.process import BackgroundProcesses
from mainstay.tools.tool_call_file_access import resolve_parent, was_created_by

OWN_FILE_BYTES_MAX = 64 * 1024  # of a file that names destinations

if TYPE_CHECKING:
    from mainstay.tools.read_access import SessionReadAccess


class LateBoundSpawner:
    """A Spawner whose implementation is set later: tools are created before the lanes that sub-agents run on."""

    def __init__(self) -> None:
        self._spawner: Spawner | None = None

    def connect(self, spawner: Spawner) -> None:
        self._spawner = spawner

    async def run(self, task: SubAgentTask) -> SubAgentResult:
        assert self._spawner is not None, "connected when the lanes are there"
        return await self._spawner.run(task)


class LateBoundScheduler:
    """A Scheduler whose implementation is set later and opened on first use: few sessions schedule anything."""

    def __init__(self) -> None:
        self._open: Callable[[], Scheduler] | None = None

    def connect(self, open_scheduler: Callable[[], Scheduler]) -> None:
        self._open = open_scheduler

    @cached_property
    def _scheduler(self) -> Scheduler:
        assert self._open is not None, "connected when the lanes are there"
        return self._open()

    def check_time(self, when: str, timezone: str) -> None:
        self._scheduler.check_time(when, timezone)

    async def add(self, prompt: ScheduledPrompt) -> str:
        return await self._scheduler.add(prompt)

    async def list(self, session: str) -> list[ScheduledPrompt]:
        return await self._scheduler.list(session)

    async def remove(self, session: str, id: str) -> bool:
        return await self._scheduler.remove(session, id)


class BuiltInTools:
    """The built-in tools of an agent. `names` are the tools to create; one that cannot be offered is left out. The
    spawner and the outbox are connected later."""

    def __init__(self, names: tuple[str, ...], dependencies: ToolDependencies) -> None:
        self.file_access = dependencies.file_access
        self.sandbox = dependencies.sandbox
        self.spawner = LateBoundSpawner()
        self.scheduler = LateBoundScheduler()
        self.outbox = OutboxRouter(dependencies.outbox)
        self.processes = (
            BackgroundProcesses(self.file_access, self.sandbox, dependencies.has_network)
            if self.sandbox is not None
            else None
        )
        dependencies = msgspec.structs.replace(
            dependencies,
            spawner=self.spawner,
            outbox=self.outbox,
            processes=self.processes,
            scheduler=self.scheduler if dependencies.can_schedule else None,
        )
        built = (load_tool_builder(name)(dependencies) for name in names)
        self.tools: tuple[Tool, ...] = tuple(tool for tool in built if tool is not None)

    def is_own_file(self, session: str, path: str) -> bool:
        """Return True if a command may delete `path` without approval: this session created the file, or there is none
        yet and the sandbox protects other files from deletion."""
        if any(char in path for char in "*?[{~"):  # a shell pattern, not a file's name
            return False
        real = resolve_parent(path)
        guards = self.sandbox is not None and self.sandbox.can_protect_deletions
        return was_created_by(self.file_access.labels, session, real) or (guards and not os.path.lexists(real))

    def read_access(self, session: str) -> SessionReadAccess:
        """Return what a session may read, for the proof that a command only reads."""
        from mainstay.tools.read_access import SessionReadAccess  # only needed for commands without a sandbox

        return SessionReadAccess(self.file_access.folders_of(session))

    def read_own_file(self, session: str, path: str) -> str:
        """Return the text of a file of the workspace that no session has written; empty for others, and where commands
        can write files unnoticed."""
        from mainstay.io.confined_files import ConfinedFiles  # only needed for destinations from files
        from mainstay.io.path_resolver import PathRefused

        if self.sandbox is not None and not self.sandbox.can_protect_deletions:
            return ""
        confined = ConfinedFiles(self.file_access.folders_of(session))
        try:
            data, opened = confined.read_bytes(path, OWN_FILE_BYTES_MAX)
        except PathRefused:  # none, too large, or outside
            return ""
        return "" if self.file_access.labels.get(opened.path) is not None else data.decode(errors="replace")

    async def stop_commands(self, session: str) -> None:
        """Stop the background processes of a session that has ended."""
        if self.processes is not None:
            await self.processes.end_session(session)

    async def close(self) -> None:
        if self.processes is not None:
            await self.processes.close()
        if self.sandbox is not None:
            await self.sandbox.close()


def load_tool_builder(name: str) -> ToolBuilder:
    """Import the builder of a tool in the table."""
    module, _, function = BUILT_IN_TOOLS[name].builder.partition(":")
    builder: ToolBuilder = getattr(importlib.import_module(module), function)
    return builder


def build_sandbox(config: Config) -> Sandbox:
    settings = config.sandbox
    limits = SandboxLimits(memory_mb=settings.memory_mb, processes=settings.processes, file_mb=settings.file_mb)
    return create_sandbox(settings.kind, limits, resolve_sandbox_options(settings))


def build_fetch_rules(config: Config) -> FetchRules:
    return FetchRules(private_hosts=parse_private_hosts(config.tools.fetch_private))
