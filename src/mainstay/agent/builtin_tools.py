"""The built-in tools of an agent, with what they work on."""

from __future__ import annotations

import os
from collections.abc import Callable

from mainstay.agent.opened import Beside
from mainstay.agent.outbox import LocalOutbox
from mainstay.agent.workplace import Workplace
from mainstay.config.schema import Config
from mainstay.core.outside import Errand, Labels, Report, Sandbox, Scheduler, Spawner
from mainstay.core.ports import Tool
from mainstay.io.fetch import FetchRules, private_places
from mainstay.sandbox.choose import choose
from mainstay.sandbox.limits import SandboxRules
from mainstay.tools.apply_patch import apply_patch_tool
from mainstay.tools.bash import bash_tool
from mainstay.tools.common import Files
from mainstay.tools.edit import edit_tool
from mainstay.tools.fetch import fetch_tool
from mainstay.tools.glob import glob_tool
from mainstay.tools.grep import grep_tool
from mainstay.tools.ls import ls_tool
from mainstay.tools.message import message_tool
from mainstay.tools.process import Processes, process_tool
from mainstay.tools.read import read_tool
from mainstay.tools.schedule import schedule_tool
from mainstay.tools.search_channel import search_channel_tool
from mainstay.tools.spawn import spawn_tool
from mainstay.tools.upload import upload_tool
from mainstay.tools.work import resting, was_made
from mainstay.tools.write import write_tool


class LateSpawner:
    """Tools are made before the lanes that sub-agents run on."""

    real: Spawner | None = None

    async def run(self, errand: Errand) -> Report:
        assert self.real is not None, "wired when the lanes are there"
        return await self.real.run(errand)


class Builtins:
    def __init__(
        self,
        config: Config,
        names: tuple[str, ...],
        workplace: Workplace,
        labels: Labels,
        scheduler: Scheduler | None = None,
        beside: Beside | None = None,
    ) -> None:
        """Without a `scheduler`, nobody would remember what was scheduled."""
        self.scheduler = scheduler
        self.spawner = LateSpawner()
        self.outbox = LocalOutbox(beside.outbox if beside is not None else None)
        self.channels = beside.channels if beside is not None else lambda session: None
        self.files = Files(workplace.grounds, labels)
        self.sandbox = sandbox_of(config) if {"bash", "process"} & set(names) else None
        self.network = config.sandbox.network
        self.processes = Processes(self.files, self.sandbox, self.network) if self.sandbox is not None else None
        self.fetching = FetchRules(private_ok=private_places(config.tools.fetch_private))
        self.denies: Callable[[Tool, str], bool] = lambda tool, url: False  # a rule forbids this address
        offered = [name for name in names if name != "schedule" or scheduler is not None]
        self.tools: tuple[Tool, ...] = tuple(_MAKERS[name](self) for name in offered)

    def made(self, session: str, path: str) -> bool:
        """This session made what is there; or nothing is, and what a command itself makes it may remove."""
        if any(char in path for char in "*?[{~"):  # that is not a name yet
            return False
        real = resting(path)
        guards = self.sandbox is not None and self.sandbox.guards
        return was_made(self.files.labels, session, real) or (guards and not os.path.lexists(real))

    async def end(self, session: str) -> None:
        """A session is over: what it still runs is ended."""
        if self.processes is not None:
            await self.processes.end(session)

    async def close(self) -> None:
        if self.processes is not None:
            await self.processes.close()
        if self.sandbox is not None:
            await self.sandbox.close()


def sandbox_of(config: Config) -> Sandbox:
    given = config.sandbox
    rules = SandboxRules(memory_mb=given.memory_mb, processes=given.processes, file_mb=given.file_mb)
    return choose(given.kind, rules, given.container)


def _bash(made: Builtins) -> Tool:
    assert made.sandbox is not None
    return bash_tool(made.files, made.sandbox, made.files.labels, made.network)


def _fetch(made: Builtins) -> Tool:
    """Wherever a server sends us on to is looked at like what was asked for."""

    tool = fetch_tool(made.fetching, lambda url: not made.denies(tool, url))
    return tool


def _process(made: Builtins) -> Tool:
    assert made.processes is not None
    return process_tool(made.processes)


def _schedule(made: Builtins) -> Tool:
    assert made.scheduler is not None
    return schedule_tool(made.scheduler)


_MAKERS: dict[str, Callable[[Builtins], Tool]] = {
    "read": lambda made: read_tool(made.files),
    "grep": lambda made: grep_tool(made.files),
    "glob": lambda made: glob_tool(made.files),
    "ls": lambda made: ls_tool(made.files),
    "write": lambda made: write_tool(made.files),
    "edit": lambda made: edit_tool(made.files),
    "apply_patch": lambda made: apply_patch_tool(made.files),
    "bash": _bash,
    "process": _process,
    "fetch": _fetch,
    "spawn": lambda made: spawn_tool(made.spawner),
    "message": lambda made: message_tool(made.outbox),
    "schedule": _schedule,
    "upload": lambda made: upload_tool(made.files, made.outbox),
    "search_channel": lambda made: search_channel_tool(made.channels),
}
