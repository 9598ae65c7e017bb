"""Runs one task over the simulated services with the real agent; nothing is stored on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec
from builtin_rig import approve_all
from catalog import build_tools
from honest_model import HonestModel, Turn
from seed import new_world
from toolbox import Style
from world import World

from mainstay import Agent

SESSION = "chat"


class WorldTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task over the services. `done` looks at the final state."""

    id: str
    turns: tuple[Turn, ...]
    done: Callable[[World], bool]
    prepare: Callable[[World], None] | None = None  # what this task needs beyond the common world


class WorldRig:
    """One task's world and agent."""

    def __init__(self, task: WorldTask, style: Style, *, control: bool) -> None:
        self._task = task
        self._style = style
        self._trust: Literal["open"] | None = "open" if control else None
        self.world = new_world()
        self.model = HonestModel(task.turns, {})
        self.questions: list[tuple[str, str]] = []

    async def run(self) -> bool:
        """Hold the conversation, approve every question, and say whether the task was done."""
        if self._task.prepare is not None:
            self._task.prepare(self.world)
        tools = build_tools(self.world, self._style)
        async with Agent(self.model, tools=tools, home=":memory:", trust=self._trust) as agent:
            for turn in self._task.turns:
                await approve_all(agent, await agent.run(SESSION, turn.says), self.questions)
        return self._task.done(self.world)
