"""Operations on a home without a running agent: read and change sessions and memory; no turn runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from mainstay.agent.allow_rule_store import AllowRuleStore
from mainstay.agent.budget_report import build_budget_report
from mainstay.agent.client import AgentClient
from mainstay.agent.home_audit import build_redactor
from mainstay.agent.home_paths import checked_workspace_folder
from mainstay.agent.observability import WorkspaceObservability, run_without_agent
from mainstay.agent.system_clock import SystemClock
from mainstay.agent.workspace_memory import WorkspaceMemory, open_workspace_memory
from mainstay.agent.workspace_stores import get_auxiliary_stores, open_store_locked
from mainstay.config.schema import Config
from mainstay.core.budget_reports import BudgetReport
from mainstay.core.chat_addresses import PlatformMessage
from mainstay.core.errors import ConfigError, InputRefused
from mainstay.core.events import Event
from mainstay.core.input_envelope import InputEnvelope, check_session_name
from mainstay.core.model_info import ModelInfo
from mainstay.core.ports import Context, Options, Piece
from mainstay.core.tool_ports import AttachmentsFolder
from mainstay.core.worker_threads import run_in_thread
from mainstay.lane.event_hub import EventHub
from mainstay.lane.lane import Lane
from mainstay.lane.registry import LaneRegistry
from mainstay.lane.replies import PendingReply
from mainstay.lane.services import LaneServices
from mainstay.memory.service import MemoryService
from mainstay.operations.caller import OWNER, Caller
from mainstay.operations.execute import execute
from mainstay.operations.operation import Operation
from mainstay.operations.runtime_protocols import SkillInfo
from mainstay.turn.dependencies import AnswerValidator
from mainstay.turn.toolbox import Toolbox

if TYPE_CHECKING:
    from mainstay.io.undo_restore import WorkspaceUndo
    from mainstay.observe.span_types import TelemetryOptions

R = TypeVar("R")


NO_TURN_SENTENCE = "no turn can run offline"


class UnavailableProvider:
    """The `Provider` of a workspace whose agent is not running: it has limits, and answers nothing."""

    def model(self) -> ModelInfo:
        return ModelInfo(name="")

    def stream(self, context: Context, options: Options) -> AsyncIterator[Piece]:
        raise ConfigError("no model can be used offline")

    async def close(self) -> None:
        """Nothing to close."""


class RecordOnlyLane(Lane):
    """A lane that records events and runs no turn: the next agent resumes what is unfinished."""

    __slots__ = ()

    async def accept(self, envelope: InputEnvelope, validate_answer: AnswerValidator | None = None) -> PendingReply:
        raise InputRefused(NO_TURN_SENTENCE)

    def wake(self) -> None:
        """Start nothing."""


class OfflineLaneRegistry(LaneRegistry):
    def get(self, key: str) -> Lane:
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = RecordOnlyLane(key, self._services)
        return lane


class OfflineRuntime:
    """The `Runtime` of a workspace without model, tools and triggers."""

    is_main = True
    has_model = False
    error_store = None
    audit_reader = None
    problems = ()
    trigger_service = None

    def __init__(self, config: Config, services: LaneServices, data_folder: Path) -> None:
        self.config = config
        self.services = services
        self.lanes: LaneRegistry = OfflineLaneRegistry(services)
        self.allow_rules = AllowRuleStore(checked_workspace_folder(data_folder, config.workspace))
        self._data_folder = data_folder
        self._workspace_memory: WorkspaceMemory | None = None
        self._observability: WorkspaceObservability | None = None
        self._exit_stack = AsyncExitStack()

    @property
    def workspace(self) -> str:
        return self.config.workspace

    @property
    def memory(self) -> MemoryService:
        assert self._workspace_memory is not None, "call `open_memory` first"
        return self._workspace_memory.service

    async def open_memory(self, *, wait_for_vectors: bool) -> None:
        """Open the memory of the workspace; with `wait_for_vectors`, wait until the embedding model is loaded."""
        folder = checked_workspace_folder(self._data_folder, self.workspace)
        store, limits = self.services.store, self.config.limits
        self._workspace_memory = await open_workspace_memory(
            store, get_auxiliary_stores(store, limits), self.config, self.services.clock, folder
        )
        self._exit_stack.push_async_callback(self._workspace_memory.close)
        self._workspace_memory.service.connect(redact=self._redact_records)
        if wait_for_vectors:
            await self._workspace_memory.wait_for_embedder()

    async def _redact_records(self, session: str, seqs: Sequence[int]) -> None:
        """Blank records of a journal once the audit log covers them."""
        await self.wait_for_audit()
        await self.services.store.redact_records(session, seqs)
        assert self._observability is not None
        await self._observability.record_deletion(session, seqs)

    def telemetry_options(self) -> TelemetryOptions:
        from mainstay.agent.telemetry import build_telemetry_options  # imports the HTTP client

        return build_telemetry_options(self.config, build_redactor(self.config))

    def list_skills(self, session: str) -> list[SkillInfo]:
        return []

    def build_session_key(self, session: str, sender: str, platform_message: PlatformMessage | None = None) -> str:
        return check_session_name(session, self.config.limits)

    async def record_audit(self, kind: str, subject: str) -> None:
        await self.wait_for_audit()
        if self._observability is not None and self._observability.audit_recorder is not None:
            await self._observability.audit_recorder.record(kind, subject, workspace=self.workspace)

    async def wait_for_audit(self) -> None:
        if self._observability is None:
            context = run_without_agent(self._data_folder, self.config, self.services.store)
            self._observability = await self._exit_stack.enter_async_context(context)
        else:
            await self._observability.wait_for_audit()

    async def load_budget_report(self, person: str | None = None) -> BudgetReport:
        now_ms = self.services.clock.now_ms()
        return await run_in_thread(lambda: build_budget_report(self._data_folder, [self.config], now_ms, person))

    async def delete_derived(self, session: str) -> None:
        if self._observability is not None:
            await self._observability.record_deletion(session)
        store = (await self.open_undo()).store
        await run_in_thread(lambda: store.remove_session(session))

    async def open_undo(self) -> WorkspaceUndo:
        from mainstay.agent.memory_context import AgentFolders  # rarely used
        from mainstay.agent.session_folders import SessionFolderRegistry
        from mainstay.io.undo_restore import WorkspaceUndo
        from mainstay.io.undo_store import UndoStore

        workspace = checked_workspace_folder(self._data_folder, self.workspace)
        folders = SessionFolderRegistry(self.config, AgentFolders(self._data_folder, workspace), lambda session: ())
        limits = self.config.limits
        labels = await get_auxiliary_stores(self.services.store, limits).load_file_labels()
        return WorkspaceUndo(UndoStore(folders.undo_folder, limits), folders.folders_of, labels)

    def attachments_folder(self, session: str) -> AttachmentsFolder:
        raise InputRefused("attachments need a running agent; start `mainstay serve` or `mainstay chat`")

    async def set_working_folder(self, session: str, folder: str) -> str:
        return ""

    async def stop_commands(self, session: str) -> None:
        """Nothing to do: no command runs offline."""

    async def close(self) -> None:
        await self.lanes.close()
        self.services.hub.close()
        await self._exit_stack.aclose()


class OfflineAgent(AgentClient):
    """Runs operations as the owner, on a workspace whose agent is not running."""

    def __init__(self, runtime: OfflineRuntime) -> None:
        self._runtime = runtime
        self._caller = Caller(OWNER, self)

    async def runtime(self) -> OfflineRuntime:
        return self._runtime

    @property
    def current(self) -> OfflineRuntime:
        return self._runtime

    async def execute(self, operation: Operation[R]) -> R:
        return await execute(self._caller, operation)

    def open_stream(self, operation: Operation[Any]) -> AsyncIterator[Event]:
        raise InputRefused(NO_TURN_SENTENCE)

    async def settled(self) -> None:
        """Nothing to wait for: no turn runs offline."""

    async def aclose(self) -> None:
        await self._runtime.close()


@asynccontextmanager
async def open_offline_agent(
    data_folder: Path, config: Config, *, with_memory: bool = False, wait_for_vectors: bool = False
) -> AsyncIterator[OfflineAgent]:
    """Open a workspace without an agent, and own its home while the block runs. Raises HomeTaken if another process
    owns it."""
    checked_workspace_folder(data_folder, config.workspace)
    async with open_store_locked(config.storage, data_folder, config.workspace) as store:
        limits, no_model = config.limits, UnavailableProvider()
        services = LaneServices(
            store=store,
            provider_for=lambda name: no_model,
            tools=Toolbox((), limits),
            limits=limits,
            clock=SystemClock(),
            hub=EventHub(limits.watcher_buffer_max),
        )
        agent = OfflineAgent(OfflineRuntime(config, services, data_folder))
        try:
            if with_memory:
                await agent.current.open_memory(wait_for_vectors=wait_for_vectors)
            yield agent
        finally:
            await agent.aclose()


def select_workspace(config: Config, workspace: str) -> Config:
    """Return the configuration with `workspace` as its workspace."""
    return config if config.workspace == workspace else msgspec.structs.replace(config, workspace=workspace)
