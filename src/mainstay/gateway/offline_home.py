"""Administration of a home that no server runs: people, keys and workspaces, changed under the home's lock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NoReturn, TypeVar

from mainstay.agent.budget_report import build_budget_report
from mainstay.agent.home_audit import open_home_audit, record_workspace_creation, record_workspace_removal
from mainstay.agent.home_paths import GATEWAY_DATABASE
from mainstay.agent.system_clock import SystemClock
from mainstay.config.check_gateway import build_people
from mainstay.config.loader import LoadedConfig
from mainstay.config.schema import Config
from mainstay.core.audit import AdminAuditRecorder
from mainstay.core.budget_reports import BudgetReport
from mainstay.core.errors import HomeTaken
from mainstay.core.worker_threads import run_in_thread
from mainstay.gateway.audited_people_store import AuditedPeopleStore
from mainstay.gateway.people import People
from mainstay.gateway.workspace_folders import create_workspace, list_workspace_names, move_to_removed, select_configs
from mainstay.operations.caller import OWNER, Caller
from mainstay.operations.execute import execute
from mainstay.operations.operation import Operation
from mainstay.operations.runtime_protocols import RemovedWorkspace, ServerStatus
from mainstay.store.home import HomeLock, prepare_home
from mainstay.store.memory.people_store import InMemoryPeopleStore

R = TypeVar("R")


def create_people(
    home: Path, config: Config, get_recorder: Callable[[], AdminAuditRecorder | None] = lambda: None
) -> People:
    """Return the people of a home, to be opened by the process that owns it. Changes go to the audit log through the
    recorder, if there is one."""
    from mainstay.store.sqlite.people_store import SqlitePeopleStore  # SQLite is loaded only where it is used

    declared, accounts = build_people(config)
    return People(
        AuditedPeopleStore(SqlitePeopleStore(str(home / GATEWAY_DATABASE)), get_recorder),
        SystemClock(),
        declared,
        accounts,
    )


class OfflineHome:
    """The `Home` port over the files of a home."""

    def __init__(self, home: Path, config: Config, people: People, loaded: LoadedConfig | None = None) -> None:
        """`loaded` has the settings of each workspace, for reports about all of them."""
        self._home = home
        self._config = config
        self._loaded = loaded
        self.people = people

    @property
    def main_workspace(self) -> str:
        return self._config.workspace

    def workspace_names(self) -> Sequence[str]:
        return list_workspace_names(self._home, self._config)

    async def create_workspace(self, name: str) -> None:
        await create_workspace(self._home, self._config, name)
        async with open_home_audit(self._home, self._config) as audit:
            await record_workspace_creation(name, audit)

    async def remove_workspace(self, name: str) -> RemovedWorkspace:
        removed = await move_to_removed(self._home, self._config, self.people, name)
        async with open_home_audit(self._home, self._config) as audit:
            await record_workspace_removal(name, audit)
        return removed

    async def load_budget_report(self, workspace: str | None) -> BudgetReport:
        if self._loaded is None:
            raise HomeTaken("no server runs for this home")
        configs, now_ms = select_configs(self._loaded, self.workspace_names(), workspace), SystemClock().now_ms()
        return await run_in_thread(lambda: build_budget_report(self._home, configs, now_ms))

    async def status(self) -> ServerStatus:
        raise HomeTaken("no server runs for this home")


class _NoRuntimeSource:
    """The runtime source of operations on the home itself, which use none."""

    async def runtime(self) -> NoReturn:
        raise HomeTaken("this runs without a workspace")

    @property
    def current(self) -> NoReturn:
        raise HomeTaken("this runs without a workspace")


async def run_offline(home: Path, config: Config, operation: Operation[R]) -> R:
    """Run an operation on the home as its owner. Raises HomeTaken if another process owns it."""
    # reading creates nothing
    if not (home / GATEWAY_DATABASE).exists() and type(operation).__name__.startswith("List"):
        people = People(InMemoryPeopleStore(), SystemClock(), *build_people(config))
        await people.open()
        return await execute(Caller(OWNER, _NoRuntimeSource(), OfflineHome(home, config, people)), operation)
    async with open_people(home, config) as people:
        return await execute(Caller(OWNER, _NoRuntimeSource(), OfflineHome(home, config, people)), operation)


async def read_offline(home: Path, loaded: LoadedConfig, operation: Operation[R]) -> R:
    """Run an operation that reads databases of the home only, as the owner; another process may own the home."""
    people = People(InMemoryPeopleStore(), SystemClock())
    return await execute(Caller(OWNER, _NoRuntimeSource(), OfflineHome(home, loaded.config, people, loaded)), operation)


@asynccontextmanager
async def open_people(home: Path, config: Config) -> AsyncIterator[People]:
    """Open the people of a home under its lock, for as long as the block runs. Raises HomeTaken."""
    prepare_home(home)
    lock = HomeLock(home)
    lock.acquire()
    try:
        async with open_home_audit(home, config) as audit:
            people = create_people(home, config, lambda: audit.recorder)
            await people.open()
            try:
                yield people
            finally:
                await people.close()
    finally:
        lock.release()
