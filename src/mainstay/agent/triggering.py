"""The triggers of an open agent: their files, their log, and the engine that fires them once somebody starts it."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import msgspec

from mainstay.config.check_webhooks import hook_of
from mainstay.config.loading import load_config
from mainstay.config.schema import Config
from mainstay.core.errors import ConfigError, InputRefused
from mainstay.core.ports import Clock
from mainstay.core.triggers import Check, Door, Run, Status, Trigger, TriggerLog
from mainstay.core.workers import in_thread
from mainstay.io.watch import Watch
from mainstay.triggers.deliveries import Deliveries
from mainstay.triggers.due import Rules
from mainstay.triggers.engine import Engine
from mainstay.triggers.files import Files
from mainstay.triggers.folder import EventFolder
from mainstay.triggers.hooks import ASGIApp, hooks_app
from mainstay.triggers.scheduler import FileScheduler

log = logging.getLogger("mainstay.triggers")

EVENTS = "events"
DEFAULT = "default"
RUNS_LOOKED_AT = 1_000  # newest runs, for how they ended


class Triggering:
    """Made with the tools, wired when there are lanes, and idle until it is started."""

    def __init__(self, config: Config, home: Path, triggers: TriggerLog, clock: Clock) -> None:
        self._config = config
        self._home = home
        self._log = triggers
        self._clock = clock
        self.folder = EventFolder(str(home / EVENTS), clock)
        self.scheduler = FileScheduler(self.folder, clock, self._has_fired, workspace=config.workspace)
        self._engine: Engine | None = None
        self._watch: Watch | None = None
        self._running: asyncio.Task[None] | None = None
        self.deliveries: Deliveries | None = None

    def wire(self, door: Door, check: Check) -> None:
        given = self._config.triggers
        rules = Rules(
            workspace=self._config.workspace,
            main=main_workspace(self._home, self._config.workspace),
            grace_s=given.grace_s,
            catch_up_max=given.catch_up_max,
            poll_s=given.poll_s,
        )
        self._engine = Engine(Files(self.folder), self._log, door, check=check, clock=self._clock, rules=rules)
        self.deliveries = Deliveries(door, self._log, self._clock, self._engine.follow)

    @property
    def engine(self) -> Engine:
        assert self._engine is not None, "wired when the lanes are there"
        return self._engine

    def start(self) -> None:
        """From now on what is due is fired. A second time changes nothing."""
        if self._running is not None:
            return
        self._running = asyncio.create_task(self.engine.run(), name="triggers")
        self._running.add_done_callback(_ended)
        self._watch = Watch([self.folder.path], self.engine.wake, poll_s=self._config.triggers.poll_s)
        self._watch.start()

    # --- what people ask for ---------------------------------------------------------------------

    async def list(self) -> Sequence[Status]:
        ended = {(run.trigger, run.key): run for run in await self._log.runs(limit=RUNS_LOOKED_AT)}
        found = await self.engine.look()
        return [_with_end(one, ended) for one in found]

    async def add(self, trigger: Trigger, *, replace: bool = False) -> None:
        """For this workspace, unless it names another."""
        if not trigger.target.workspace and self._config.workspace != DEFAULT:
            target = msgspec.structs.replace(trigger.target, workspace=self._config.workspace)
            trigger = msgspec.structs.replace(trigger, target=target)
        await in_thread(lambda: self.folder.write(trigger, replace=replace))
        self.engine.wake()

    async def remove(self, name: str) -> None:
        await self._must(name, lambda: self.folder.remove(name))

    async def pause(self, name: str, *, paused: bool = True) -> None:
        await self._must(name, lambda: self.folder.pause(name, paused))

    async def run(self, name: str) -> Run:
        return await self.engine.run_now(name)

    async def history(self, name: str = "", limit: int = 100) -> Sequence[Run]:
        """The newest first."""
        return await self._log.runs(name, limit=limit)

    def app(self, *, alone: bool = False, without: Collection[str] = ()) -> ASGIApp:
        """What takes the configured webhooks. Raises ConfigError if one of them cannot be served."""
        assert self.deliveries is not None, "wired when the lanes are there"
        wanted = {name: one for name, one in self._config.triggers.webhooks.items() if name not in without}
        hooks = {name: hook_of(name, entry) for name, entry in wanted.items()}
        return hooks_app(hooks, self.deliveries.deliver, clock=self._clock, alone=alone)

    async def _must(self, name: str, work: Callable[[], bool]) -> None:
        if not await in_thread(work):
            raise InputRefused(f"there is no trigger {name[:80]!r}")
        self.engine.wake()

    async def close(self) -> None:
        if self._watch is not None:
            await in_thread(self._watch.close)
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        await self.engine.close()

    async def _has_fired(self, name: str) -> bool:
        return bool(await self._log.runs(name, limit=1))


def _with_end(one: Status, ended: dict[tuple[str, str], Run]) -> Status:
    last = ended.get((one.last.trigger, one.last.key)) if one.last is not None else None
    return msgspec.structs.replace(one, last=last) if last is not None else one


def main_workspace(home: Path, here: str) -> str:
    """Whose triggers those are that name no workspace: of the only one there is, else of the configured one."""
    found = [one.parent.name for one in (home / "workspaces").glob("*/workspace.db")]
    if set(found) <= {here}:
        return here
    try:
        return load_config(home, env=os.environ).config.workspace
    except ConfigError:  # whoever it was opened for has said so otherwise
        return here


def _ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("triggers are fired no more: %s", error, exc_info=error)
