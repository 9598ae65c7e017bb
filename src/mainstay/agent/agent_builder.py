"""Builds an open agent from its options and configuration: store, memory, tools, policy, observability, lanes."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mainstay.agent.agent_options import AgentOptions, GatewayServices
from mainstay.agent.allow_rule_store import AllowRuleStore
from mainstay.agent.home_paths import checked_workspace_folder
from mainstay.agent.memory_context import AgentFolders, MemoryContext, build_context_rules, build_summariser
from mainstay.agent.model_providers import ModelProviders
from mainstay.agent.observability import (
    ObservabilityDependencies,
    WorkspaceObservability,
    build_observability,
    combine_callbacks,
)
from mainstay.agent.session_folders import SessionFolderRegistry, WorkingFolderContributor
from mainstay.agent.system_clock import SystemClock
from mainstay.agent.trust_setup import (
    ComputedApiKey,
    build_guardrails,
    build_input_scan,
    build_policy,
    filter_by_name,
    has_external_tools,
    has_skills_or_patterns,
    is_url_denied,
    log_rule_warnings,
)
from mainstay.agent.workspace_stores import build_store, get_auxiliary_stores, warn_unused_store
from mainstay.config.schema import Config, expand_builtin_tools, expand_tool_groups
from mainstay.core.audit import AuditReader
from mainstay.core.budget_reports import BudgetReport
from mainstay.core.builtin_tool_table import CHANNEL_TOOLS, runs_commands
from mainstay.core.chat_addresses import PlatformMessage
from mainstay.core.error_reports import ErrorStore
from mainstay.core.input_envelope import InputEnvelope, check_session_name, session_key
from mainstay.core.judges import JudgePanel
from mainstay.core.ports import Clock, ContextContributor, Store, Tool
from mainstay.core.store_components import AuxiliaryStores
from mainstay.core.tool_ports import AttachmentsFolder, FileLabelStore, Sandbox, Scheduler
from mainstay.core.worker_threads import run_in_thread
from mainstay.guards.guardrails import Guardrails
from mainstay.lane.event_hub import EventHub
from mainstay.lane.registry import LaneRegistry
from mainstay.lane.services import LaneServices
from mainstay.lane.sub_agents import SubAgentRules, SubAgentRunner
from mainstay.memory.service import MemoryService
from mainstay.metering.circuit_breaker import CircuitBreakerRegistry
from mainstay.operations.runtime_protocols import SkillInfo
from mainstay.store.home import HomeLock, create_workspace_folder, prepare_home
from mainstay.trust.policy import Policy
from mainstay.trust.tool_declaration import apply_declarations
from mainstay.turn.dependencies import TrustServices
from mainstay.turn.toolbox import Toolbox

if TYPE_CHECKING:
    from mainstay.agent.builtin_tool_factory import BuiltInTools
    from mainstay.agent.external_tools import ExternalTools
    from mainstay.agent.skills_and_patterns import SkillsAndPatterns
    from mainstay.agent.trigger_service import HomeTriggerService
    from mainstay.core.health import HealthCheck
    from mainstay.io.undo_restore import WorkspaceUndo
    from mainstay.observe.span_types import TelemetryOptions

log = logging.getLogger("mainstay")
# Mainstay's own tools for small models
SMALL_MODEL_TOOLS = frozenset({"read", "write", "bash", "remember", "memory_recall"})


class OpenAgent:
    """An open agent: its lanes, its memory, and what they share. Implements `Runtime`."""

    has_model = True

    def __init__(
        self,
        config: Config,
        services: LaneServices,
        memory_context: MemoryContext,
        parts: AgentParts,
        observability: WorkspaceObservability,
        exit_stack: AsyncExitStack,
    ) -> None:
        """`exit_stack` closes what the parts use: memory, store, home."""
        self.config = config
        self.observability = observability
        self.services = services
        self.memory_context = memory_context
        self.lanes = LaneRegistry(services)
        self.allow_rules = parts.allow_rules
        self.session_folders = parts.session_folders
        self._parts = parts
        self._exit_stack = exit_stack
        self._trigger_service: HomeTriggerService | None = None  # created on first use
        memory_context.service.connect(redact=self._redact_records)
        if (builtins := parts.builtins) is not None:
            rules = SubAgentRules(expand_tool_groups(config.tools.sub_agents), parts.session_folders.share_folder)
            builtins.spawner.connect(SubAgentRunner(self.lanes, services, rules))
            builtins.scheduler.connect(self._open_scheduler)
            builtins.outbox.connect(self.lanes, services.store, services.limits.agent_hops_max)
            builtins.file_access.find_turn_owner = self._find_turn_owner

    @property
    def workspace(self) -> str:
        return self.config.workspace

    @property
    def auxiliary_stores(self) -> AuxiliaryStores:
        return self._parts.workspace.auxiliary_stores

    @property
    def is_main(self) -> bool:
        gateway = self._parts.gateway
        return gateway is None or gateway.is_main

    @property
    def problems(self) -> list[str]:
        return self._parts.problems

    @property
    def error_store(self) -> ErrorStore | None:
        return self.observability.error_store

    @property
    def audit_reader(self) -> AuditReader | None:
        return self.observability.audit_reader

    @property
    def memory(self) -> MemoryService:
        return self.memory_context.service

    @property
    def trigger_service(self) -> HomeTriggerService | None:
        """The trigger service, created on first use. None without a home."""
        if self._trigger_service is None:
            self._trigger_service = _build_trigger_service(self._parts.workspace)
            if self._trigger_service is not None:
                self._connect_triggers(self._trigger_service)
        return self._trigger_service

    def _open_scheduler(self) -> Scheduler:
        assert self.trigger_service is not None, "the `schedule` tool is offered only with a home"
        return self.trigger_service.scheduler

    def _connect_triggers(self, trigger_service: HomeTriggerService) -> None:
        """Connect the trigger service to the lanes and to the sandbox."""
        from mainstay.agent.trigger_adapters import LanePromptSubmitter, SandboxWakeCheck  # only needed for triggers

        gateway = self._parts.gateway
        threads = gateway.channel_threads if gateway is not None else None
        submitter = LanePromptSubmitter(self.lanes, self.services.store, self._parts.guards, self.config, threads)
        wake_check = SandboxWakeCheck(self._parts.sandbox, self.session_folders, self.config)
        trigger_service.connect(submitter, wake_check)

    def health_checks(self) -> Sequence[HealthCheck]:
        from mainstay.core.health import collect_health_checks  # for servers only

        return collect_health_checks([self.services.store, self.observability])

    def telemetry_options(self) -> TelemetryOptions:
        return self.observability.telemetry_options()

    def list_skills(self, session: str) -> list[SkillInfo]:
        skills = self._parts.skills_and_patterns
        return skills.list_skills(session) if skills is not None else []

    async def open_undo(self) -> WorkspaceUndo | None:
        if self._parts.builtins is None or self._parts.builtins.file_access.undo_store is None:
            return None
        from mainstay.io.undo_restore import WorkspaceUndo  # rarely used

        file_access = self._parts.builtins.file_access
        assert file_access.undo_store is not None
        return WorkspaceUndo(file_access.undo_store, file_access.folders_of, file_access.labels)

    async def _find_turn_owner(self, session: str, turn: int) -> tuple[str, int]:
        """Return the session and the turn that a sub-agent's turn is part of; for others, the same."""
        state = await self.lanes.get(session).load_session()
        while state.spawned is not None:
            parent = await self.lanes.get(state.spawned.parent).load_session()
            if parent.open_turn is None:
                break
            session, turn, state = parent.key, parent.open_turn.turn, parent
        return session, turn

    async def record_audit(self, kind: str, subject: str) -> None:
        if self.observability.audit_recorder is not None:
            await self.observability.audit_recorder.record(kind, subject, workspace=self.config.workspace)

    async def wait_for_audit(self) -> None:
        await self.observability.wait_for_audit()

    async def load_budget_report(self, person: str | None = None) -> BudgetReport:
        return await self.observability.load_budget_report(person)

    async def delete_derived(self, session: str) -> None:
        await self.observability.record_deletion(session)
        await self.memory_context.delete_session(session)
        await self.stop_commands(session)
        if self._parts.builtins is not None:
            await self._parts.builtins.file_access.labels.clear_session(session)
            if (undo_store := self._parts.builtins.file_access.undo_store) is not None:
                await run_in_thread(lambda: undo_store.remove_session(session))
        self.session_folders.remove_session(session)

    def attachments_folder(self, session: str) -> AttachmentsFolder:
        return self.session_folders.attachments_folder(session)

    async def set_working_folder(self, session: str, folder: str) -> str:
        if self._parts.builtins is None:
            return ""
        if (await self.lanes.get(session).load_session()).open_turn is None:
            self.session_folders.set_working_folder(session, folder)
        return self.session_folders.cwd(session)

    async def stop_commands(self, session: str) -> None:
        if self._parts.builtins is not None:
            await self._parts.builtins.stop_commands(session)

    def build_session_key(self, session: str, sender: str, platform_message: PlatformMessage | None = None) -> str:
        if platform_message is None:
            check_session_name(session, self.config.limits)
            return session_key(InputEnvelope(parts=(), thread=session, sender=sender), self.config.lanes.key)
        address = platform_message.address
        envelope = InputEnvelope(
            parts=(), channel=address.channel, room=address.room, thread=address.thread, sender=sender
        )
        return check_session_name(session_key(envelope, self.config.lanes.key), self.config.limits)

    async def close(self) -> None:
        try:
            if self._trigger_service is not None:
                await self._trigger_service.close()
            await self.lanes.close()
            await self._parts.close()
            self.services.hub.close()
            await self.observability.close()
        finally:
            await self._exit_stack.aclose()

    async def _redact_records(self, session: str, seqs: Sequence[int]) -> None:
        """Blank records in the journal, and then in the lane that has them in memory."""
        await self.wait_for_audit()
        await self.services.store.redact_records(session, seqs)
        self.lanes.refresh(session)
        await self.observability.record_deletion(session, seqs)


class OpenWorkspace(msgspec.Struct, frozen=True):
    """The workspace that an agent is built on: its configuration, its store and its folders."""

    config: Config
    store: Store
    auxiliary_stores: AuxiliaryStores
    folders: AgentFolders | None = None  # None: in memory only

    @property
    def home(self) -> Path | None:
        return self.folders.home if self.folders is not None else None


async def open_agent(options: AgentOptions, config: Config, home: Path | None) -> OpenAgent:
    """Open an agent: lock its home (None: in memory only), open its store, build its parts, resume unfinished turns.
    Raises HomeTaken if another process owns the home."""
    if callable(options.api_key):
        options = msgspec.structs.replace(options, api_key=ComputedApiKey(options.api_key))
    rate_limiters = options.gateway.rate_limiters if options.gateway is not None else None
    models = ModelProviders(options.model, options.base_url, options.api_key, config, rate_limiters)
    workspace = _prepare_workspace(options.store, config, home)
    exit_stack = AsyncExitStack()
    agent: OpenAgent | None = None
    try:
        if workspace.home is not None and options.gateway is None:  # a gateway owns the home itself
            lock = HomeLock(workspace.home)
            lock.acquire()
            exit_stack.callback(lock.release)
        exit_stack.push_async_callback(workspace.store.close)
        await workspace.store.open()
        agent = await _build_agent(options, workspace, models, exit_stack)
        resumed = await agent.lanes.resume_unfinished()
    except BaseException:
        await (agent.close() if agent is not None else exit_stack.aclose())
        raise
    exit_stack.push_async_callback(models.close)  # not before: the caller may try again with the same provider
    if resumed:
        log.info("resuming %d unfinished sessions", len(resumed))
    return agent


def _prepare_workspace(store: Store | None, config: Config, home: Path | None) -> OpenWorkspace:
    """Return the workspace with its store, which is not open yet; its folders are created. `store` replaces the
    configured one. Without a home, the default is an in-memory store. Raises ConfigError."""
    folders = None
    if home is not None:
        folder = checked_workspace_folder(home, config.workspace)
        prepare_home(home)
        create_workspace_folder(home, config.workspace)
        folders = AgentFolders(home, folder)
        store = store or build_store(config.storage, folder, limits=config.limits)
    elif store is None:
        from mainstay.store.memory.store import MemoryStore  # only needed without a home

        warn_unused_store(config.storage)
        store = MemoryStore()
    if folders is not None and not isinstance(store, AuxiliaryStores):
        log.warning(
            "%s keeps journals only: file labels, trigger runs, plugin state and queued messages end with this process",
            type(store).__name__,
        )
    return OpenWorkspace(config, store, get_auxiliary_stores(store, config.limits), folders)


async def _build_agent(
    options: AgentOptions, workspace: OpenWorkspace, models: ModelProviders, exit_stack: AsyncExitStack
) -> OpenAgent:
    """Build the parts of an agent on an open store, in order of their dependencies."""
    config, store, folders = workspace.config, workspace.store, workspace.folders
    # First: a judge that cannot be loaded fails before anything starts.
    judges = _build_judges(options, workspace, models)
    clock = SystemClock()
    memory_mode = config.tools.memory
    offers_memory = memory_mode == "on" or (memory_mode == "auto" and bool(options.tools))
    memory = await MemoryContext.open(
        config, store, workspace.auxiliary_stores, folders, clock, offers_tools=offers_memory
    )
    exit_stack.push_async_callback(memory.close)
    memory_settings = config.sessions.memory
    guards = build_guardrails(config, folders, os.environ, options.api_key)
    if options.gateway is not None:
        memory.service.secret_hiding.can_read_all = options.gateway.can_read_all
    await memory.hide_secrets(guards.redact_secrets)
    parts = await _build_parts(options.gateway, workspace, memory, guards)
    tools = parts.select_tools(options.tools, memory.tools)
    memory_tools = filter_by_name(memory.tools, config.tools.only) if memory_mode != "off" else ()
    toolbox = _build_toolbox(tools, memory_tools, config, store, guards, clock)
    if parts.external_tools is not None:
        toolbox.explain_denied(parts.external_tools.list_denied_names(parts.policy))
    memory.contributor.find_tool = toolbox.find_tool
    log_rule_warnings(config, (*tools, *memory.tools))
    model = options.model if isinstance(options.model, str) else ""
    observed = ObservabilityDependencies(
        config,
        store,
        clock,
        redact_secrets=guards.redact_secrets,
        home=workspace.home,
        model=model,
        redact_text=guards.redact_text,
    )
    observability = await build_observability(observed, options.gateway)
    services = LaneServices(
        store=store,
        provider_for=models.provider_for,
        tools=toolbox,
        limits=config.limits,
        clock=clock,
        hub=EventHub(config.limits.watcher_buffer_max),
        instructions=options.instructions or config.instructions,
        contributors=(memory.contributor, *parts.list_contributors(tools)),
        summariser=build_summariser(config, models.provider_for, folders),
        extract_facts=memory_settings.summaries.extract_facts and memory_settings.knowledge.enabled,
        context_rules=build_context_rules(config),
        memory_tools=memory_mode,
        small_model_tools=_select_small_model_tools((*tools, *memory_tools), options, parts, memory.tools),
        trust=parts.build_trust_services(clock),
        scan_input=build_input_scan(guards, config),
        on_stored=combine_callbacks(memory.indexer.mark_changed, observability.on_stored),
        judges=judges,
        check_turn_allowed=observability.check_turn_allowed,
        budget_manager=await observability.open_budget_manager(),
    )
    observability.start()
    return OpenAgent(config, services, memory, parts, observability, exit_stack)


def _build_toolbox(
    tools: Sequence[Tool],
    memory_tools: Sequence[Tool],
    config: Config,
    store: Store,
    guards: Guardrails,
    clock: Clock,
) -> Toolbox:
    return Toolbox(
        tools,
        config.limits,
        memory=memory_tools,
        store_result=store.save_value,
        guards=guards,
        breaker_for=CircuitBreakerRegistry(clock, config.limits).get_breaker,
    )


def _build_judges(options: AgentOptions, workspace: OpenWorkspace, models: ModelProviders) -> JudgePanel | None:
    settings = workspace.config.judges
    if not settings.panel and not options.judges:
        return None
    from mainstay.agent.judges import build_panel  # only needed for judges

    return build_panel(settings, models, workspace.home, options.judges)


def _select_small_model_tools(
    offered: Sequence[Tool], options: AgentOptions, parts: AgentParts, memory_tools: Sequence[Tool]
) -> tuple[str, ...]:
    """Return the names of the tools that a small model is offered: a few of Mainstay's own, and all others."""
    sources = [source for source in (parts.builtins, parts.skills_and_patterns) if source is not None]
    builtin = {tool.name for source in sources for tool in source.tools} | {tool.name for tool in memory_tools}
    omitted = builtin - SMALL_MODEL_TOOLS - {tool.name for tool in options.tools}
    return tuple(tool.name for tool in offered if tool.name not in omitted)


class AgentParts(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of an agent apart from its memory. Modules of parts that an agent does not have are not imported."""

    workspace: OpenWorkspace
    session_folders: SessionFolderRegistry
    allow_rules: AllowRuleStore
    policy: Policy
    guards: Guardrails
    sandbox: Sandbox | None = None  # None: no built-in tool runs commands
    builtins: BuiltInTools | None = None  # None: `tools.builtin` is empty
    skills_and_patterns: SkillsAndPatterns | None = None
    gateway: GatewayServices | None = None  # None: not in a gateway
    external_tools: ExternalTools | None = None

    @property
    def problems(self) -> list[str]:
        """One sentence for each part that cannot be used."""
        return [
            problem
            for part in (self.external_tools, self.skills_and_patterns)
            if part is not None
            for problem in part.problems
        ]

    async def close(self) -> None:
        for part in (self.external_tools, self.skills_and_patterns, self.builtins):
            if part is not None:
                await part.close()
        self.session_folders.close()

    def select_tools(self, passed: tuple[Tool, ...], memory_tools: Sequence[Tool]) -> tuple[Tool, ...]:
        """Return the tools to offer, without those of the memory. A tool that was `passed` in code replaces a built-in
        one of the same name."""
        tools, names = passed, {tool.name for tool in passed}
        for source in (self.builtins, self.skills_and_patterns):
            if source is not None:
                tools += tuple(tool for tool in source.tools if tool.name not in names)
        if self.external_tools is not None:
            tools += self.external_tools.select_tools(self.policy, (*tools, *memory_tools))
        settings = self.workspace.config.tools
        return apply_declarations(filter_by_name(tools, settings.only), settings.declare)

    def list_contributors(self, tools: Sequence[Tool]) -> tuple[ContextContributor, ...]:
        """Return what adds to the contexts of an agent with these tools."""
        contributors: list[ContextContributor] = []
        if self.gateway is not None:
            contributors += self.gateway.contributors
        if self.skills_and_patterns is not None:
            contributors += self.skills_and_patterns.contributors
        if self.external_tools is not None:
            contributors += self.external_tools.build_contributors(self.policy)
        if self.builtins is not None or any(tool.untrusted for tool in tools):
            contributors.append(self._build_folder_contributor())
        return tuple(contributors)

    def build_trust_services(self, clock: Clock) -> TrustServices:
        services = TrustServices(self.policy, self.guards, clock.now_ms)
        if self.builtins is not None:  # without file tools there are no paths to judge
            services = msgspec.structs.replace(
                services,
                cwd=self.session_folders.cwd,
                to_host_path=self.session_folders.paths.to_host,
                is_own_file=self.builtins.is_own_file,
                read_access=self.builtins.read_access,
                read_own_file=self.builtins.read_own_file,
            )
        if self.skills_and_patterns is not None:
            services = msgspec.structs.replace(
                services,
                untrusted_skills=self.skills_and_patterns.untrusted_skills,
                skill_restrictions=self.skills_and_patterns.skill_restrictions,
            )
        return services

    def _build_folder_contributor(self) -> WorkingFolderContributor:
        config = self.workspace.config
        writes_skills = config.skills.enabled and "write" in expand_builtin_tools(config.tools.builtin)
        return WorkingFolderContributor(
            self.session_folders,
            self.sandbox,
            has_network=config.sandbox.network,
            has_files=self.builtins is not None,
            writes_skills=writes_skills,
        )


async def _build_parts(
    gateway: GatewayServices | None, workspace: OpenWorkspace, memory: MemoryContext, guards: Guardrails
) -> AgentParts:
    config, folders = workspace.config, workspace.folders
    names = expand_builtin_tools(config.tools.builtin)
    if gateway is not None and gateway.outbox is not None and names:
        names += CHANNEL_TOOLS
    labels = await workspace.auxiliary_stores.load_file_labels() if names else None
    skills = await _open_skills_and_patterns(config, folders, labels)
    skill_folders = skills.skill_folders if skills is not None else None
    allow_rules = AllowRuleStore(folders.workspace if folders is not None else None)
    sandbox = _build_sandbox(names, config)
    session_folders = SessionFolderRegistry(config, folders, memory.writable_files, skill_folders, sandbox)
    memory.contributor.to_shown_path = session_folders.paths.to_shown
    if skills is not None:
        skills.show_paths(session_folders.paths.to_shown)
    policy = build_policy(config, allow_rules, sandbox, gateway.is_guest if gateway is not None else None)
    parts = AgentParts(
        workspace=workspace,
        session_folders=session_folders,
        allow_rules=allow_rules,
        policy=policy,
        guards=guards,
        sandbox=sandbox,
        skills_and_patterns=skills,
        gateway=gateway,
        external_tools=await _open_external_tools(workspace, policy, guards),
    )
    if labels is None:
        return parts
    return msgspec.structs.replace(parts, builtins=_build_builtins(names, parts, labels))


def _build_sandbox(names: tuple[str, ...], config: Config) -> Sandbox | None:
    if not runs_commands(names):
        return None
    from mainstay.agent.builtin_tool_factory import build_sandbox  # only needed for commands

    return build_sandbox(config)


def _build_builtins(names: tuple[str, ...], parts: AgentParts, labels: FileLabelStore) -> BuiltInTools:
    from mainstay.agent.builtin_tool_factory import BuiltInTools, build_fetch_rules  # only needed for agents with tools
    from mainstay.io.undo_store import UndoStore
    from mainstay.tools.base import SessionFileAccess
    from mainstay.tools.dependencies import ToolDependencies

    config, gateway = parts.workspace.config, parts.gateway or GatewayServices()
    keeps_contents = config.limits.undo_turn_bytes_max > 0
    undo_store = UndoStore(parts.session_folders.undo_folder, config.limits) if keeps_contents else None
    dependencies = ToolDependencies(
        file_access=SessionFileAccess(parts.session_folders.folders_of, labels, undo_store),
        sandbox=parts.sandbox,
        has_network=config.sandbox.network,
        fetch_rules=build_fetch_rules(config),
        is_url_denied=partial(is_url_denied, parts.policy),
        can_schedule=parts.workspace.home is not None,
        outbox=gateway.outbox,
        find_channel=gateway.find_channel,
        is_guest=gateway.is_guest,
    )
    return BuiltInTools(names, dependencies)


def _build_trigger_service(workspace: OpenWorkspace) -> HomeTriggerService | None:
    """Return the trigger service, not connected yet; None without a home: its files are there."""
    if workspace.home is None:
        return None
    from mainstay.agent.trigger_service import HomeTriggerService  # only needed for triggers

    log = workspace.auxiliary_stores.trigger_log()
    return HomeTriggerService(workspace.config, workspace.home, log, SystemClock())


async def _open_skills_and_patterns(
    config: Config, folders: AgentFolders | None, labels: FileLabelStore | None
) -> SkillsAndPatterns | None:
    """Open the skills and patterns; None if there are none and no file tools (`labels`) that could write some later."""
    if labels is None and not has_skills_or_patterns(config, folders):
        return None
    from mainstay.agent.skills_and_patterns import SkillsAndPatterns  # only needed for skills and patterns

    return await SkillsAndPatterns(config, folders, labels).open()


async def _open_external_tools(workspace: OpenWorkspace, policy: Policy, guards: Guardrails) -> ExternalTools | None:
    if not has_external_tools(workspace.config, workspace.home):
        return None
    from mainstay.agent.external_tools import open_external_tools  # only needed for external tools

    state = workspace.auxiliary_stores.plugin_state()
    return await open_external_tools(workspace.config, workspace.folders, state, policy, guards)
