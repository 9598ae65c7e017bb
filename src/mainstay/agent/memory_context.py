"""Connects a workspace's memory to an agent's contexts: memory files, pinned memories, workflows, summaries, tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from mainstay.agent.workspace_memory import WorkspaceMemory, open_workspace_memory
from mainstay.config.schema import Config
from mainstay.context.token_budget import ContextSizeSettings
from mainstay.core.memory_tiers import Memory
from mainstay.core.ports import Clock, Provider, Store, Summariser, Tool
from mainstay.core.store_components import AuxiliaryStores
from mainstay.memory.agent_files import MemoryFiles
from mainstay.memory.contributor import MemoryContributor
from mainstay.memory.prompt_loader import PromptLoader
from mainstay.memory.recorded_workflows import WORKFLOWS_MAX, WorkflowIndex
from mainstay.memory.summariser import ModelSummariser
from mainstay.memory.tools import build_memory_tools
from mainstay.memory.types import WORKFLOW_TAG, memory_to_hit

IDENTITY_REFRESH_S = 1.0  # least interval between two checks of the identity files


class AgentFolders(msgspec.Struct, frozen=True):
    """The folders of an agent's data: its home, and its workspace's folder in the home."""

    home: Path
    workspace: Path


class MemoryContext:
    """The memory of an open agent: its service, its tools, and the contributor that adds it to contexts."""

    def __init__(
        self,
        workspace_memory: WorkspaceMemory,
        contributor: MemoryContributor,
        tools: tuple[Tool, ...],
        files: MemoryFiles | None,
        store: Store,
    ) -> None:
        self._files = files
        self.service = workspace_memory.service
        self.indexer = workspace_memory.indexer
        self.contributor = contributor
        self.tools = tools
        self._workspace_memory = workspace_memory
        self._store = store
        self.service.connect(on_change=self.refresh)
        self.indexer.connect(self._add_workflows)

    @classmethod
    async def open(
        cls,
        config: Config,
        store: Store,
        auxiliary_stores: AuxiliaryStores,
        folders: AgentFolders | None,
        clock: Clock,
        *,
        offers_tools: bool,
    ) -> MemoryContext:
        """Open the memory of a workspace. `offers_tools`: the memory tools are offered from the first turn, so the
        system prompt explains them."""
        workspace_memory = await open_workspace_memory(
            store, auxiliary_stores, config, clock, folders.workspace if folders is not None else None
        )
        tools = build_memory_tools(workspace_memory.service)
        files = MemoryFiles(folders.home, folders.workspace) if folders is not None else None
        contributor = MemoryContributor(
            files,
            tools=tools if offers_tools else (),
            prompts=PromptLoader(folders.home if folders is not None else None),
            profile_tokens=config.context.profile_tokens,
            refresh_s=IDENTITY_REFRESH_S,
        )
        memory = cls(workspace_memory, contributor, tools, files, store)
        await memory.refresh()
        return memory

    def writable_files(self, session: str) -> tuple[str, ...]:
        """Return the memory files that a session may write and that its contexts include."""
        return self._files.writable_paths(session) if self._files is not None else ()

    async def hide_secrets(self, redact: Callable[[str], str]) -> None:
        """Remove secrets with `redact` from what memory shows to others, and from what is in every context."""
        self.service.secret_hiding.redact = redact
        await self.refresh()

    def _hide(self, memories: Iterable[Memory]) -> list[Memory]:
        redact = self.service.secret_hiding.redact
        return [
            msgspec.structs.replace(memory, text=redact(memory.text), data=redact(memory.data)) for memory in memories
        ]

    async def refresh(self) -> None:
        """Load pinned memories and workflows from the tiers into the contributor."""
        pinned = [memory for memory in await self.service.list_pinned() if await self._is_shared(memory)]
        self.contributor.set_pinned(self._hide(pinned))
        workflows = await self._workspace_memory.tiers.memories.list_memories(tag=WORKFLOW_TAG, limit=WORKFLOWS_MAX)
        self.contributor.set_workflows(WorkflowIndex(self._hide(reversed(workflows))))

    async def _is_shared(self, memory: Memory) -> bool:
        """Return whether a pinned memory may be in every context: not what a member's session pinned, in a release
        that let it."""
        session = memory_to_hit(memory).session
        info = await self._store.get_session(session) if session else None
        return info is None or not self.service.secret_hiding.is_limited(info.person, session)

    def _add_workflows(self, memories: Sequence[Memory]) -> None:
        for memory in self._hide(memories):
            self.contributor.workflows.add(memory)

    async def close(self) -> None:
        await self._workspace_memory.close()

    async def delete_session(self, session: str) -> None:
        """Delete everything that was derived from a deleted session from every tier."""
        await self.indexer.forget(session)
        await self.refresh()


def build_context_rules(config: Config) -> ContextSizeSettings:
    """Return the token budget of contexts, as configured."""
    context, memory = config.context, config.sessions.memory
    return ContextSizeSettings(
        window=context.window,
        reserve_tokens=context.reserve_tokens,
        recent_tokens=context.recent_tokens,
        summary_tokens=context.summary_tokens,
        profile_tokens=context.profile_tokens,
        fixed_tokens=context.fixed_tokens,
        high_share=context.high,
        low_share=context.low,
        early_share=(context.high * 5 + context.low) / 6,
        active_window=memory.active_window,
        batch_size=memory.compaction.batch_size,
    )


def build_summariser(
    config: Config, provider_for: Callable[[str], Provider], folders: AgentFolders | None
) -> Summariser | None:
    """Return the summariser that folds use; None if summaries are disabled."""
    memory = config.sessions.memory
    if not memory.summaries.enabled:
        return None
    return ModelSummariser(
        provider_for,
        model=memory.compaction.summary_model or "",
        prompts=PromptLoader(folders.home if folders is not None else None),
        timeout_s=config.limits.summary_timeout_s,
        attempts=config.limits.summary_attempts_max,
        window=config.context.window if memory.compaction.summary_model is None else None,
    )
