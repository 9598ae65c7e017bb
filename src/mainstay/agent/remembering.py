"""An agent's memory, wired to its contexts: files, pins, workflows, summaries, tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from mainstay.agent.recollection import Recollection, recollect
from mainstay.config.schema import Config
from mainstay.context.rules import Rules
from mainstay.core.ports import Clock, Provider, Store, Summariser, Tool
from mainstay.core.recall import Memory
from mainstay.memory.contribute import MemoryContributor
from mainstay.memory.files import MemoryFiles
from mainstay.memory.prompts import Prompts
from mainstay.memory.summarise import ModelSummariser
from mainstay.memory.tools import memory_tools
from mainstay.memory.workflows import WORKFLOWS_MAX, Workflows

WORKFLOW = "workflow"
IDENTITY_S = 1.0  # between two looks at who the agent is


class Place(msgspec.Struct, frozen=True):
    """Where an agent keeps things: its home, and its workspace's folder in it."""

    home: Path
    workspace: Path


class Remembering:
    """The memory of one workspace, for as long as its agent is open, and what it puts into contexts."""

    def __init__(
        self,
        recollection: Recollection,
        contributor: MemoryContributor,
        tools: tuple[Tool, ...],
        files: MemoryFiles | None,
    ) -> None:
        self._files = files
        self.library = recollection.library
        self.follower = recollection.follower
        self.contributor = contributor
        self.tools = tools
        self._recollection = recollection

    @classmethod
    async def start(
        cls, config: Config, store: Store, place: Place | None, clock: Clock, *, speaks: bool
    ) -> Remembering:
        """`speaks`: its tools are offered from the beginning, and so the model is told about memory."""
        recollection = await recollect(store, config, clock, place.workspace if place is not None else None)
        tools = memory_tools(recollection.library)
        files = MemoryFiles(place.home, place.workspace) if place is not None else None
        contributor = MemoryContributor(
            files,
            tools=tools if speaks else (),
            prompts=Prompts(place.home if place is not None else None),
            profile_tokens=config.context.profile_tokens,
            again_s=IDENTITY_S,
        )
        made = cls(recollection, contributor, tools, files)
        recollection.library.on_change = made.refresh
        recollection.follower.on_workflows = made._learned
        await made.refresh()
        return made

    def notes(self, session: str) -> tuple[str, ...]:
        """The files that a session may keep notes in, and that its contexts are made of."""
        return self._files.writable(session) if self._files is not None else ()

    async def refresh(self) -> None:
        """What is pinned and which workflows there are, as the tiers have it now."""
        self.contributor.set_pinned(await self.library.pinned())
        kept = await self._recollection.tiers.memories.memories(tag=WORKFLOW, limit=WORKFLOWS_MAX)
        self.contributor.workflows = Workflows(reversed(kept))

    def _learned(self, memories: Sequence[Memory]) -> None:
        for memory in memories:
            self.contributor.workflows.add(memory)

    async def close(self) -> None:
        await self._recollection.close()

    async def drop(self, session: str) -> None:
        """A session was deleted: what came of it goes from every tier."""
        await self.follower.forget(session)
        await self.refresh()


def rules_of(config: Config) -> Rules:
    context, memory = config.context, config.sessions.memory
    return Rules(
        window=context.window,
        reserve_tokens=context.reserve_tokens,
        recent_tokens=context.recent_tokens,
        summary_tokens=context.summary_tokens,
        profile_tokens=context.profile_tokens,
        fixed_tokens=context.fixed_tokens,
        high=context.high,
        low=context.low,
        early=(context.high * 5 + context.low) / 6,
        active_window=memory.active_window,
        batch_size=memory.compaction.batch_size,
    )


def summariser_of(config: Config, choose: Callable[[str], Provider], place: Place | None) -> Summariser | None:
    memory = config.sessions.memory
    if not memory.summaries.enabled:
        return None
    return ModelSummariser(
        choose,
        model=memory.compaction.summary_model or "",
        prompts=Prompts(place.home if place is not None else None),
        timeout_s=config.limits.summary_timeout_s,
        attempts=config.limits.summary_attempts_max,
        window=config.context.window if memory.compaction.summary_model is None else None,
    )
