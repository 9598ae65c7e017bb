"""The service behind `mainstay serve`: home lock, workspaces, channels, webhooks, reload, metrics, administration."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Literal

import msgspec

from mainstay import __version__
from mainstay.agent.agent import Agent
from mainstay.agent.agent_options import GatewayServices
from mainstay.agent.budget_report import load_budget_report
from mainstay.agent.home_audit import (
    AuditedHomeDatabase,
    open_home_database,
    record_workspace_creation,
    record_workspace_removal,
)
from mainstay.agent.home_budgets import HomeBudgets
from mainstay.agent.home_error_reports import get_error_store, store_logged_errors
from mainstay.agent.rate_limit_metrics import build_rate_limit_gauges
from mainstay.agent.system_clock import SystemClock
from mainstay.agent.telemetry import Telemetry
from mainstay.config.check_gateway import build_people
from mainstay.config.check_webhooks import build_webhook
from mainstay.config.loader import LoadedConfig
from mainstay.config.schema import Config, expand_builtin_tools, resolve_data_folder
from mainstay.core.asgi import ASGIApp
from mainstay.core.budget_reports import BudgetReport
from mainstay.core.builtin_tool_table import runs_commands
from mainstay.core.channels import ChannelQueue, ChatChannel
from mainstay.core.chat_addresses import PERSONAL_CHANNELS
from mainstay.core.errors import ConfigError, MainstayError, WorkspaceUnknown
from mainstay.core.health import HealthCheck, collect_health_checks
from mainstay.core.supervision import list_task_failures, log_task_exception, start_supervised_task
from mainstay.core.tool_ports import AttachmentsFolder, OutgoingMessage
from mainstay.gateway.channel_factory import build_channel, build_channel_rules
from mainstay.gateway.channel_router import ChannelRouter
from mainstay.gateway.health_monitor import HealthMonitor
from mainstay.gateway.home_socket import serve_socket
from mainstay.gateway.offline_home import create_people
from mainstay.gateway.operation_gateway import OperationGateway
from mainstay.gateway.person_contributor import PersonContributor
from mainstay.gateway.prometheus_metrics import budget_gauges, build_metrics_page
from mainstay.gateway.room_routing import ChannelRoutingSettings
from mainstay.gateway.webhook_mounts import PathDispatcher, respond_unavailable
from mainstay.gateway.workspace import Workspace
from mainstay.gateway.workspace_folders import (
    create_workspace,
    list_workspace_names,
    move_to_removed,
    select_configs,
)
from mainstay.gateway.workspace_registry import AgentFactory, WorkspaceRegistry
from mainstay.metering.rate_limiter import RateLimiterRegistry
from mainstay.operations.caller import OWNER, Caller
from mainstay.operations.runtime_protocols import RemovedWorkspace, ServerStatus
from mainstay.store.home_health import DiskSpaceCheck

log = logging.getLogger("mainstay.gateway")

_PERSONAL_PREFIXES = tuple(f"{channel}:" for channel in PERSONAL_CHANNELS)
CONNECT_WAIT_S = 20.0  # how long the start waits for channels to connect


class GatewayService:
    """A running gateway. `create_agent` creates the agent of a workspace from its settings; `channels` are connected
    beside the configured ones."""

    def __init__(
        self, home: Path, loaded: LoadedConfig, create_agent: AgentFactory, channels: Sequence[ChatChannel] = ()
    ) -> None:
        self._home = home
        self._create_agent = create_agent
        self._extra_channels = tuple(channels)
        self.workspaces = WorkspaceRegistry(home, loaded, self._build_agent, self._on_workspace_opened)
        self.audit = AuditedHomeDatabase()
        self.people = create_people(self.workspaces.home, loaded.config, lambda: self.audit.recorder)
        self.gateway = OperationGateway(self.workspaces.get_workspace, self.people, self)
        self.telemetry = Telemetry(with_metrics=True)
        self.rate_limiters = RateLimiterRegistry(SystemClock())
        self.home_database: Any = None  # database of projections of all workspaces' journals (audit, errors, spending)
        self.home_budgets = HomeBudgets(self.workspaces.home, SystemClock())
        self.channel_router = ChannelRouter(
            self.gateway,
            self._channel_rules(loaded.config),
            SystemClock(),
            get_queue=self._get_queue,
            attachment_folder=self._attachment_folder,
        )
        self.workspaces_opened = asyncio.Event()  # all workspaces are open that can be
        self.started = asyncio.Event()  # and all channels are connected, or took longer than the start waits
        self.listen_addresses: tuple[str, ...] = ()  # addresses that the server listens on
        # called after a reload with the configuration of before; returns what the server changed
        self.on_reload: Callable[[Config], list[str]] = lambda before: []
        self._is_stopping = False
        self._channel_errors: dict[str, str] = {}  # by channel: why it could not be created
        self._webhook_apps: dict[str, tuple[Workspace, ASGIApp]] = {}  # by workspace
        self._key_requirement: tuple[LoadedConfig, Literal["auto", "required"]] | None = (
            None  # cached, with its configuration
        )
        self._health = HealthMonitor(self.list_health_checks)
        self._reload_lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stack = AsyncExitStack()

    @property
    def config(self) -> Config:
        return self.workspaces.loaded.config

    def _channel_rules(self, config: Config) -> Mapping[str, ChannelRoutingSettings]:
        extra = {channel.name: ChannelRoutingSettings(workspace=config.workspace) for channel in self._extra_channels}
        return {**extra, **build_channel_rules(config)}

    @property
    def key_requirement(self) -> Literal["auto", "required"]:
        """Whether requests from this machine need an API key: as configured, but always "required" if the commands of
        any agent can reach the network. Such a command could call this server, and would be the owner without a key."""
        loaded = self.workspaces.loaded
        if self._key_requirement is None or self._key_requirement[0] is not loaded:
            configs = (loaded.for_workspace(name) for name in self.workspaces.list_names())
            self._key_requirement = (
                loaded,
                "required" if any(map(_has_network_commands, configs)) else self.config.server.keys,
            )
        return self._key_requirement[1]

    def find_broken_webhooks(self) -> dict[str, str]:
        """Return the webhooks that cannot be served as configured, with the reason."""
        broken: dict[str, str] = {}
        for name, entry in self.config.triggers.webhooks.items():
            try:
                build_webhook(name, entry)
            except ConfigError as error:
                broken[f"webhook {name}"] = str(error)
        return broken

    # --- start and stop --------------------------------------------------------------------------

    async def open(self) -> None:
        """Acquire the home and start. Raises HomeTaken, or ConfigError if the configuration cannot be served at all."""
        await self.acquire_home()
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise

    async def acquire_home(self) -> None:
        """Take the home's lock, open its databases and people, and serve its socket. Raises HomeTaken."""
        self.workspaces.acquire_home()
        async with AsyncExitStack() as stack:
            self.home_database = database = await open_home_database(
                self.workspaces.home, self.config.limits.store_busy_s
            )
            self.audit = AuditedHomeDatabase.from_database(database, self.config)
            stack.push_async_callback(database.close)  # closed after the workspaces, which write into it until then
            stack.push_async_callback(self.audit.close)
            await stack.enter_async_context(
                store_logged_errors(get_error_store(self.home_database), lambda: self.config)
            )
            stack.push_async_callback(self.telemetry.close)
            stack.push_async_callback(self.workspaces.close)
            await self.people.open()
            stack.push_async_callback(self.people.close)
            stack.push_async_callback(self._stop_tasks)
            await stack.enter_async_context(serve_socket(self._owner_caller, self.workspaces.home))
            self._stack = stack.pop_all()

    async def start(self) -> None:
        """Open the workspaces, then connect the channels. Callers of a workspace wait until it is open. A second call
        does nothing."""
        if self.started.is_set():
            return
        await self.workspaces.open_all()
        self.workspaces_opened.set()
        await self._connect_within_limit(
            self.channel_router.start([*self._build_channels(self.config), *self._extra_channels]), "channels"
        )
        self.started.set()

    async def close(self) -> None:
        """Close at once. Running turns are interrupted; the next process that opens the home resumes them."""
        self._is_stopping = True
        await self._stack.aclose()

    async def drain(self, seconds: float) -> None:
        """Wait until running turns have ended, at most for so long."""
        self._is_stopping = True
        await self.workspaces.drain(seconds)

    async def _stop_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.channel_router.close(drain_s=2.0)

    # --- agents ----------------------------------------------------------------------------------

    def _build_agent(self, config: Config) -> Agent:
        agent = self._create_agent(config)
        workspace = config.workspace
        has_channels = self._has_channels(self.config)
        shared = GatewayServices(
            outbox=_ChannelOutbox(self.channel_router, workspace) if has_channels else None,
            find_channel=self.channel_router.room_search_factory(workspace) if has_channels else lambda session: None,
            contributors=(
                PersonContributor(self.people, lambda address: self.channel_router.find_direct_person(address)),
                *((self.channel_router.channel_hints(workspace),) if has_channels else ()),
            ),
            is_guest=lambda person: self._is_guest(person, workspace),
            can_read_all=lambda person, session: self._can_read_all(person, workspace, session),
            channel_threads=self.channel_router if has_channels else None,
            telemetry=self.telemetry,
            rate_limiters=self.rate_limiters,
            database=self.home_database,
            budgets=self.home_budgets,
            is_main=workspace == self.config.workspace,
        )
        agent.join_gateway(shared)
        return agent

    def _has_channels(self, config: Config) -> bool:
        """True if there are channels at all: without any, agents get no tools for them."""
        return bool(build_channel_rules(config)) or bool(self._extra_channels)

    def _is_guest(self, name: str, workspace: str) -> bool:
        """True for a guest of the workspace, and for a person who has no role in it any more."""
        person = self.people.get_person(name)
        return person is None or person.roles.get(workspace, "guest") == "guest"

    def _can_read_all(self, name: str, workspace: str, session: str) -> bool:
        """True for an admin of the workspace, but not in a session of an API key without the right to see them all."""
        person = self.people.get_person(name)
        is_admin = person is not None and person.roles.get(workspace) == "admin"
        return is_admin and not session.startswith(_PERSONAL_PREFIXES)

    def _on_workspace_opened(self, workspace: Workspace) -> None:
        name = f"start of the triggers of workspace {workspace.name!r}"
        self._track_task(start_supervised_task(name, lambda: self._start_triggers(workspace)))

    async def _start_triggers(self, workspace: Workspace) -> None:
        if self.config.triggers.enabled:
            await workspace.agent.triggers.start()

    def run_in_background(self, coroutine: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run a coroutine as a background task, which is cancelled when the service closes."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        task.add_done_callback(log_task_exception)
        self._track_task(task)
        return task

    def _track_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _get_queue(self, workspace: str) -> ChannelQueue:
        return self.workspaces.open_workspaces[workspace].channel_queue()

    def _attachment_folder(self, workspace: str, session: str) -> AttachmentsFolder:
        return self.workspaces.open_workspaces[workspace].current.attachments_folder(session)

    # --- channels --------------------------------------------------------------------------------

    def _build_channels(self, config: Config) -> list[ChatChannel]:
        channels: list[ChatChannel] = []
        for name, entry in config.channels.items():
            self._channel_errors.pop(name, None)
            if entry.enabled:
                try:
                    channels.append(build_channel(name, entry, self.workspaces.home, self._is_inviter_allowed))
                except MainstayError as error:
                    self._channel_errors[name] = str(error)
                    log.error("%s", error, extra={"kind": "channel"}, exc_info=error.__cause__)
        return channels

    def _is_inviter_allowed(self, channel: str, user: str) -> bool:
        return self.people.find_by_account(channel, user) is not None

    async def _connect_within_limit(self, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        """Connect channels, and wait at most `CONNECT_WAIT_S`; after that it goes on in the background."""
        task = self.run_in_background(coroutine, name)
        await asyncio.wait((task,), timeout=CONNECT_WAIT_S)
        if not task.done():
            log.error("%s: not connected within %g s; still trying", name, CONNECT_WAIT_S, extra={"kind": "channel"})

    # --- reload ----------------------------------------------------------------------------------

    async def reload(self, load: Callable[[], LoadedConfig]) -> list[str]:
        """Load and apply another configuration; return what changed. Raises ConfigError: then nothing has changed."""
        async with self._reload_lock:
            await self.started.wait()
            before, since = self.config, time.time()
            loaded = load()
            after = loaded.config
            if resolve_data_folder(self._home, after) != self.workspaces.home:
                raise ConfigError("state.data_dir cannot be changed while the server runs; restart it")
            declared, accounts = build_people(after)
            everything = self._has_channels(before) != self._has_channels(after)
            added = sorted(set(after.workspaces) - set(self.workspaces.open_workspaces))
            reopened = await self.workspaces.reload(loaded, after.server.drain_s, everything=everything)
            changed = [f"workspace {name}" for name in (*reopened, *added)]
            self.people.set_declared(declared, accounts)
            if after.people != before.people:
                changed.append("people")
            changed += await self._reconnect_changed(before, after)
            changed += self.on_reload(before)
            self._webhook_apps.clear()
            self.workspaces.set_config_time(since)
            if self.audit.recorder is not None:
                await self.audit.recorder.record("configured", ", ".join(changed) or "nothing that is in use")
            return changed

    async def _reconnect_changed(self, before: Config, after: Config) -> list[str]:
        """Close channels whose settings changed and connect them again; return them. The others stay connected."""
        old_rules, rules = build_channel_rules(before), build_channel_rules(after)
        names = {*before.channels, *after.channels}
        changed = sorted(
            name
            for name in names
            if (before.channels.get(name), old_rules.get(name)) != (after.channels.get(name), rules.get(name))
        )
        for name in changed:
            self._channel_errors.pop(name, None)
        await asyncio.gather(
            *(self.channel_router.disconnect_channel(name) for name in changed if name in before.channels)
        )
        entries = {name: after.channels[name] for name in changed if name in after.channels}
        channels = self._build_channels(msgspec.structs.replace(after, channels=entries))
        connecting = (
            self._connect_within_limit(self.channel_router.connect_channel(channel, rules[channel.name]), channel.name)
            for channel in channels
        )
        await asyncio.gather(*connecting)
        return [f"channel {name}" for name in changed]

    # --- over HTTP -------------------------------------------------------------------------------

    def build_mounts(self) -> dict[str, Any]:
        """Return the ASGI applications of webhooks and channels, by the path to mount them at."""
        return {
            "/hooks": PathDispatcher(self._find_webhook_app, keep_path=True),
            "/channels": PathDispatcher(self._find_channel_app),
        }

    async def _find_webhook_app(self, name: str) -> ASGIApp | None:
        entry = self.config.triggers.webhooks.get(name)
        broken = {key.removeprefix("webhook ") for key in self.find_broken_webhooks()}
        if entry is None or name in broken:
            return None
        workspace = entry.workspace or self.config.workspace
        opened = await self.workspaces.get_workspace(workspace)
        cached = self._webhook_apps.get(workspace)
        if cached is None or cached[0] is not opened:
            cached = self._webhook_apps[workspace] = opened, await opened.agent.triggers.app(without=broken)
        return cached[1]

    async def _find_channel_app(self, name: str) -> ASGIApp | None:
        channel = self.channel_router.get_channel(name)
        if channel is None:
            entry = self.config.channels.get(name)
            return respond_unavailable if entry is not None and entry.enabled else None
        app: ASGIApp | None = channel.asgi_app()
        return app

    async def find_unready(self) -> dict[str, str]:
        """Return what is not ready, with the reason."""
        reasons = list_task_failures() | await self._health.find_failures()
        reasons |= {f"workspace {name}": problem for name, problem in self.workspaces.problems.items()}
        if self._is_stopping or not self.started.is_set():
            reasons["server"] = "it is stopping" if self._is_stopping else "it is starting"
        return reasons

    def list_health_checks(self) -> list[HealthCheck]:
        """Return the checks of what the server uses: the disk, the home's database, each open workspace."""
        agents = [workspace.current for workspace in self.workspaces.open_workspaces.values()]
        return [DiskSpaceCheck(self.workspaces.home), *collect_health_checks([self.home_database, *agents])]

    def build_metrics_page(self) -> str:
        """Return the metrics page for Prometheus."""
        runtimes = [workspace.current for workspace in self.workspaces.open_workspaces.values()]
        sources = (
            lambda: build_rate_limit_gauges(self.rate_limiters),
            lambda: budget_gauges(self.home_budgets.used_shares(self.config.budgets)),
        )
        return build_metrics_page(self.telemetry, runtimes, self.channel_router.pending_deliveries, sources)

    # --- administration of the home (the `Home` port of operations) ------------------------------

    async def _owner_caller(self, workspace: str) -> Caller:
        """Return the owner's caller for a command on the socket. Opens the workspace; raises WorkspaceUnknown if it
        neither exists nor is configured."""
        name = workspace or self.config.workspace
        if name not in self.workspaces.list_names():
            raise WorkspaceUnknown(f"there is no workspace {name[:80]!r}; `mainstay workspace create` creates one")
        return Caller(OWNER, await self.workspaces.get_workspace(name, create=True), self)

    @property
    def main_workspace(self) -> str:
        return self.config.workspace

    def workspace_names(self) -> list[str]:
        return self.workspaces.list_names()

    async def create_workspace(self, name: str) -> None:
        await create_workspace(self.workspaces.home, self.config, name)
        await record_workspace_creation(name, self.audit)

    async def remove_workspace(self, name: str) -> RemovedWorkspace:
        removed = await move_to_removed(self.workspaces.home, self.config, self.people, name, self.workspaces.remove)
        await record_workspace_removal(name, self.audit)
        return removed

    async def load_budget_report(self, workspace: str | None) -> BudgetReport:
        names = list_workspace_names(self.workspaces.home, self.config)
        configs = select_configs(self.workspaces.loaded, names, workspace)
        return await load_budget_report(self.home_budgets, self.home_database, configs)

    def channel_states(self) -> dict[str, str]:
        """Return the state of each channel in a few words, by name."""
        return self.channel_router.channel_states() | self._channel_errors

    async def status(self) -> ServerStatus:
        return ServerStatus(
            version=__version__,
            at=list(self.listen_addresses),
            workspaces=sorted(self.workspaces.open_workspaces),
            channels=self.channel_states(),
            unready=await self.find_unready(),
            failed_tasks=list_task_failures(is_isolated=True),
        )


def _has_network_commands(config: Config) -> bool:
    """True if the agent can run commands that reach the network."""
    return config.sandbox.network and runs_commands(expand_builtin_tools(config.tools.builtin))


class _ChannelOutbox:
    """The `Outbox` port for the tools of one workspace."""

    def __init__(self, channel_router: ChannelRouter, workspace: str) -> None:
        self._channel_router = channel_router
        self._workspace = workspace

    async def send(self, message: OutgoingMessage) -> str:
        return await self._channel_router.send(self._workspace, message)
