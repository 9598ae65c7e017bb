"""Built-in tools of an agent, and what they share: file access, sandbox, background processes, outbox."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import msgspec

from mainstay.agent.outbox import WorkspaceOutbox
from mainstay.config.component_options import resolve_sandbox_options
from mainstay.config.schema import Config
from mainstay.core.ports import Tool
from mainstay.core.tool_ports import (
    ChannelSearch,
    Outbox,
    Sandbox,
    Scheduler,
    Spawner,
    SubAgentResult,
    SubAgentTask,
)
from mainstay.io.fetch import FetchRules, parse_private_hosts
from mainstay.sandbox.limits import SandboxLimits
from mainstay.sandbox.selection import create_sandbox
from mainstay.tools.apply_patch import create_apply_patch_tool
from mainstay.tools.base import SessionFileAccess
from mainstay.tools.bash import create_bash_tool
from mainstay.tools.edit import create_edit_tool
from mainstay.tools.fetch import create_fetch_tool
from mainstay.tools.glob import create_glob_tool
from mainstay.tools.grep import create_grep_tool
from mainstay.tools.ls import create_ls_tool
from mainstay.tools.message import create_message_tool
from mainstay.tools.process import BackgroundProcesses, create_process_tool
from mainstay.tools.read import create_read_tool
from mainstay.tools.schedule import create_schedule_tool
from mainstay.tools.search_channel import create_search_channel_tool
from mainstay.tools.spawn import create_spawn_tool
from mainstay.tools.tool_call_files import resolve_parent, was_created_by
from mainstay.tools.upload import create_upload_tool
from mainstay.tools.write import create_write_tool


class LateBoundSpawner:
    """A Spawner whose implementation is set later: tools are created before the lanes that sub-agents run on."""

    def __init__(self) -> None:
        self._spawner: Spawner | None = None

    def connect(self, spawner: Spawner) -> None:
        self._spawner = spawner

    async def run(self, task: SubAgentTask) -> SubAgentResult:
        assert self._spawner is not None, "connected when the lanes are there"
        return await self._spawner.run(task)


class BuiltInToolDependencies(msgspec.Struct, frozen=True, kw_only=True):
    """What built-in tools use."""

    file_access: SessionFileAccess
    sandbox: Sandbox | None = None  # for commands; None: no tool runs any
    has_network: bool = False  # commands have network access
    fetch_rules: FetchRules = FetchRules()
    is_url_denied: Callable[[Tool, str], bool] = lambda tool, url: False  # True: a policy rule denies this URL
    scheduler: Scheduler | None = None  # None: nothing would store what the `schedule` tool schedules
    outbox: Outbox | None = None  # to people on channels
    find_channel: Callable[[str], ChannelSearch | None] = lambda session: None  # the channel of a session


class BuiltInTools:
    """The built-in tools of an agent. `names` are the tools to create; there is no `schedule` without a scheduler."""

    def __init__(self, names: tuple[str, ...], dependencies: BuiltInToolDependencies) -> None:
        self.dependencies = dependencies
        self.file_access = dependencies.file_access
        self.sandbox = dependencies.sandbox
        self.spawner = LateBoundSpawner()
        self.outbox = WorkspaceOutbox(dependencies.outbox)
        self.processes = (
            BackgroundProcesses(self.file_access, self.sandbox, dependencies.has_network)
            if self.sandbox is not None
            else None
        )
        offered = [name for name in names if name != "schedule" or dependencies.scheduler is not None]
        self.tools: tuple[Tool, ...] = tuple(_BUILDERS[name](self) for name in offered)

    def is_own_file(self, session: str, path: str) -> bool:
        """Return True if a command may delete `path` without approval: this session created the file, or there is none
        yet and the sandbox protects other files from deletion."""
        if any(char in path for char in "*?[{~"):  # a shell pattern, not a file's name
            return False
        real = resolve_parent(path)
        guards = self.sandbox is not None and self.sandbox.can_protect_deletions
        return was_created_by(self.file_access.labels, session, real) or (guards and not os.path.lexists(real))

    async def stop_commands(self, session: str) -> None:
        """Stop the background processes of a session that has ended."""
        if self.processes is not None:
            await self.processes.end_session(session)

    async def close(self) -> None:
        if self.processes is not None:
            await self.processes.close()
        if self.sandbox is not None:
            await self.sandbox.close()


def needs_sandbox(names: Iterable[str]) -> bool:
    """Return True if one of these tools runs commands."""
    return not {"bash", "process"}.isdisjoint(names)


def build_sandbox(config: Config) -> Sandbox:
    settings = config.sandbox
    limits = SandboxLimits(memory_mb=settings.memory_mb, processes=settings.processes, file_mb=settings.file_mb)
    return create_sandbox(settings.kind, limits, resolve_sandbox_options(settings))


def build_fetch_rules(config: Config) -> FetchRules:
    return FetchRules(private_hosts=parse_private_hosts(config.tools.fetch_private))


def _build_bash(builtins: BuiltInTools) -> Tool:
    assert builtins.sandbox is not None
    labels = builtins.file_access.labels
    return create_bash_tool(builtins.file_access, builtins.sandbox, labels, builtins.dependencies.has_network)


def _build_fetch(builtins: BuiltInTools) -> Tool:
    """Create the fetch tool; redirect targets are checked against the policy like the requested URL."""
    dependencies = builtins.dependencies
    tool = create_fetch_tool(dependencies.fetch_rules, lambda url: not dependencies.is_url_denied(tool, url))
    return tool


def _build_process(builtins: BuiltInTools) -> Tool:
    assert builtins.processes is not None
    return create_process_tool(builtins.processes)


def _build_schedule(builtins: BuiltInTools) -> Tool:
    assert builtins.dependencies.scheduler is not None
    return create_schedule_tool(builtins.dependencies.scheduler)


_BUILDERS: dict[str, Callable[[BuiltInTools], Tool]] = {
    "read": lambda builtins: create_read_tool(builtins.file_access),
    "grep": lambda builtins: create_grep_tool(builtins.file_access),
    "glob": lambda builtins: create_glob_tool(builtins.file_access),
    "ls": lambda builtins: create_ls_tool(builtins.file_access),
    "write": lambda builtins: create_write_tool(builtins.file_access),
    "edit": lambda builtins: create_edit_tool(builtins.file_access),
    "apply_patch": lambda builtins: create_apply_patch_tool(builtins.file_access),
    "bash": _build_bash,
    "process": _build_process,
    "fetch": _build_fetch,
    "spawn": lambda builtins: create_spawn_tool(builtins.spawner),
    "message": lambda builtins: create_message_tool(builtins.outbox),
    "schedule": _build_schedule,
    "upload": lambda builtins: create_upload_tool(builtins.file_access, builtins.outbox),
    "search_channel": lambda builtins: create_search_channel_tool(builtins.dependencies.find_channel),
}
