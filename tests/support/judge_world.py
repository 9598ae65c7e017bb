"""The kernel test world with judges."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

from mainstay.core.events import Event, Judged, MessageAdded
from mainstay.core.judges import JudgeInput
from mainstay.core.messages import parts_text
from mainstay.judges.function_judge import FunctionJudge
from mainstay.judges.panel import ConcurrentJudgePanel
from mainstay.lane.draft_filter import DraftFilter, filter_drafts
from support.kernel_world import World, envelope

__all__ = ["World", "envelope"]


def by_answer(scores: dict[str, float]) -> Callable[[JudgeInput], Any]:
    """A judge that knows what it will be shown; what it does not know is worth nothing."""

    async def judge(exhibit: JudgeInput) -> tuple[float, str]:
        score = scores.get(exhibit.answer, 0.0)
        return score, f"{exhibit.answer!r} is worth {score}"

    return judge


def panel_of(
    judge: Callable[[JudgeInput], Any], *, corrections: int = 3, streaming: Literal["hold", "draft"] = "hold"
) -> dict[str, Any]:
    """For the `more` of a world."""
    return {
        "judges": ConcurrentJudgePanel(
            [FunctionJudge("judge", judge)], corrections_max=corrections, streaming=streaming
        )
    }


class PublicWatcher:
    """What a watcher is told that is kept from what is not to be shown, as every surface is."""

    def __init__(self, world: World, *, drafts: bool = False, key: str = "s") -> None:
        self.events: list[Event] = []
        self._hub = world.hub
        self._watcher = world.hub.watch(key)
        self._curtain = DraftFilter(hold_drafts=drafts)
        self._task = asyncio.ensure_future(self._listen())

    async def _listen(self) -> None:
        async for event in filter_drafts(self._curtain, self._watcher):
            self.events.append(event)

    async def leave(self) -> list[Event]:
        self._hub.unwatch(self._watcher)
        self._watcher.close()
        await self._task
        return self.events


def words(events: list[Event]) -> str:
    """All text of the model that a watcher could have read."""
    said = [parts_text(one.parts) for one in events if isinstance(one, MessageAdded) and one.role == "assistant"]
    deltas = [getattr(one, "text", "") for one in events if not isinstance(one, MessageAdded)]
    return " ".join([*said, *deltas])


def verdicts(events: list[Any]) -> list[tuple[int, float, bool, bool]]:
    """Attempt, score, passed, last."""
    return [(one.attempt, one.score, one.passed, one.last) for one in events if isinstance(one, Judged)]
