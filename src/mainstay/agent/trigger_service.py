"""Trigger service of an open agent: trigger files, run log, webhooks, and the engine that fires what is due."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import msgspec

from mainstay.agent.home_paths import EVENTS_FOLDER
from mainstay.agent.workspace_stores import list_used_workspaces
from mainstay.config.check_webhooks import build_webhook
from mainstay.config.loader import load_config
from mainstay.config.schema import Config, StorageSettings
from mainstay.core.asgi import ASGIApp
from mainstay.core.errors import ConfigError, TriggerUnknown
from mainstay.core.ports import Clock
from mainstay.core.supervision import start_supervised_task
from mainstay.core.triggers import PromptSubmitter, Trigger, TriggerLog, TriggerRun, TriggerStatus, WakeCheck
from mainstay.core.worker_threads import run_in_thread
from mainstay.io.file_watcher import FileWatcher
from mainstay.triggers.async_event_folder import AsyncEventFolder
from mainstay.triggers.engine import TriggerEngine
from mainstay.triggers.event_folder import EventFolder
from mainstay.triggers.file_scheduler import FileScheduler
from mainstay.triggers.misfire_policy import TriggerEngineSettings
from mainstay.triggers.webhook_app import build_webhook_app
from mainstay.triggers.webhook_delivery_handler import WebhookDeliveryHandler

log = logging.getLogger("mainstay.triggers")

DEFAULT_WORKSPACE = "default"
OUTCOME_RUNS_MAX = 1_000  # newest runs that are searched for the outcomes of the last ones


class HomeTriggerService:
    """The TriggerService of a home. Created with the tools, connected when there are lanes, idle until `start`."""

    def __init__(self, config: Config, home: Path, trigger_log: TriggerLog, clock: Clock) -> None:
        self._config = config
        self._home = home
        self._log = trigger_log
        self._clock = clock
        self.folder = EventFolder(str(home / EVENTS_FOLDER), clock)
        self.scheduler = FileScheduler(self.folder, clock, self._has_fired, workspace=config.workspace)
        self._engine: TriggerEngine | None = None
        self._watcher: FileWatcher | None = None
        self._engine_task: asyncio.Task[None] | None = None
        self.deliveries: WebhookDeliveryHandler | None = None

    def connect(self, submitter: PromptSubmitter, wake_check: WakeCheck) -> None:
        """Connect the service to the agent: `submitter` submits prompts, `wake_check` runs check commands."""
        settings = self._config.triggers
        rules = TriggerEngineSettings(
            workspace=self._config.workspace,
            main_workspace=find_main_workspace(self._home, self._config.workspace, self._config.storage),
            grace_s=settings.grace_s,
            catch_up_max=settings.catch_up_max,
            scan_interval_s=settings.poll_s,
        )
        self._engine = TriggerEngine(
            AsyncEventFolder(self.folder), self._log, submitter, check=wake_check, clock=self._clock, rules=rules
        )
        self.deliveries = WebhookDeliveryHandler(submitter, self._log, self._clock, self._engine.follow)

    @property
    def engine(self) -> TriggerEngine:
        assert self._engine is not None, "connected when the lanes are created"
        return self._engine

    def start(self) -> None:
        """Fire what is due from now on. Calling it again has no effect."""
        if self._engine_task is not None:
            return
        name = f"triggers of workspace {self._config.workspace!r}"
        self._engine_task = start_supervised_task(name, self.engine.run)
        self._watcher = FileWatcher([self.folder.path], self.engine.wake, poll_s=self._config.triggers.poll_s)
        self._watcher.start()

    # --- operations ------------------------------------------------------------------------------

    async def list(self) -> Sequence[TriggerStatus]:
        """Return every trigger with its last run and that run's outcome."""
        runs = {(run.trigger, run.key): run for run in await self._log.list_runs(limit=OUTCOME_RUNS_MAX)}
        statuses = await self.engine.scan_status()
        return [_with_outcome(status, runs) for status in statuses]

    async def add(self, trigger: Trigger, *, replace: bool = False) -> None:
        """Store a trigger; it belongs to this workspace unless it names another."""
        if not trigger.target.workspace and self._config.workspace != DEFAULT_WORKSPACE:
            target = msgspec.structs.replace(trigger.target, workspace=self._config.workspace)
            trigger = msgspec.structs.replace(trigger, target=target)
        await run_in_thread(lambda: self.folder.write(trigger, replace=replace))
        self.engine.wake()

    async def remove(self, name: str) -> None:
        """Remove a trigger, or the file of an invalid one from the folder failed."""
        await self._change_trigger(name, lambda: self.folder.remove(name) or self.folder.remove_failed(name))

    async def pause(self, name: str, *, paused: bool = True) -> None:
        await self._change_trigger(name, lambda: self.folder.pause(name, paused))

    async def run(self, name: str) -> TriggerRun:
        return await self.engine.run_now(name)

    async def history(self, name: str = "", limit: int = 100) -> Sequence[TriggerRun]:
        """Return runs, newest first; of all triggers without a name."""
        return await self._log.list_runs(name, limit=limit)

    def app(self, *, alone: bool = False, without: Collection[str] = ()) -> ASGIApp:
        """Return the ASGI application of the configured webhooks. Raises ConfigError if one cannot be served."""
        assert self.deliveries is not None, "connected when the lanes are created"
        entries = {name: entry for name, entry in self._config.triggers.webhooks.items() if name not in without}
        hooks = {name: build_webhook(name, entry) for name, entry in entries.items()}
        return build_webhook_app(hooks, self.deliveries.deliver, clock=self._clock, standalone=alone)

    async def _change_trigger(self, name: str, change: Callable[[], bool]) -> None:
        if not await run_in_thread(change):
            raise TriggerUnknown(f"there is no trigger {name[:80]!r}")
        self.engine.wake()

    async def close(self) -> None:
        if self._watcher is not None:
            await run_in_thread(self._watcher.close)
        if self._engine_task is not None:
            self._engine_task.cancel()
            await asyncio.gather(self._engine_task, return_exceptions=True)
        await self.engine.close()

    async def _has_fired(self, name: str) -> bool:
        return bool(await self._log.list_runs(name, limit=1))


def _with_outcome(status: TriggerStatus, runs: dict[tuple[str, str], TriggerRun]) -> TriggerStatus:
    last = runs.get((status.last.trigger, status.last.key)) if status.last is not None else None
    return msgspec.structs.replace(status, last=last) if last is not None else status


def find_main_workspace(home: Path, current: str, storage: StorageSettings) -> str:
    """Return the workspace of triggers that name none: the only one of the home, else the configured one."""
    names = {folder.name for folder in list_used_workspaces(storage, home)}
    if names <= {current}:
        return current
    try:
        return load_config(home, env=os.environ).config.workspace
    except ConfigError:  # the file is broken now; this agent was opened with a valid one
        return current
