"""A task: what the person typed, the calls of an honest model, and how "done" is checked.

    task("mail-layout", "Tell Jonas we take layout B.", [do.inbox_search(query="layout"),
         do.inbox_reply(id="m-101", body="We take layout B.")], done=["mail.sent | jonas.weber@ | layout B"])

The world is always the same, so a plan can name the ids that earlier results contain. A line of `done` is found if one
line of the world's log contains all of its parts; there must be as many changes as lines. A line that begins with `saw`
is found if one result contains its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from world import World

from mainstay.testing import Call


class _Calls:
    def __getattr__(self, name: str) -> Callable[..., Call]:
        return lambda **arguments: Call(name, arguments)


do = _Calls()


@dataclass(frozen=True)
class Turn:
    prompt: str
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True)
class Task:
    name: str
    turns: tuple[Turn, ...]
    done: tuple[str, ...]

    @property
    def calls(self) -> list[Call]:
        return [call for turn in self.turns for call in turn.calls]

    @property
    def prompts(self) -> list[str]:
        return [turn.prompt for turn in self.turns]


TASKS: list[Task] = []


def task(name: str, *parts: str | list[Call], done: Sequence[str]) -> None:
    """Add a task; the parts are prompts, each followed by its calls."""
    prompts = [part for part in parts if isinstance(part, str)]
    plans = [part for part in parts if isinstance(part, list)]
    turns = tuple(Turn(prompt, tuple(calls)) for prompt, calls in zip(prompts, plans, strict=True))
    TASKS.append(Task(name, turns, tuple(done)))


def is_done(task: Task, world: World, results: Sequence[str]) -> bool:
    """Whether all lines of `done` are found, and nothing else was changed."""
    changes = [line for line in world.log if not line.startswith("web.get")]
    wanted = [line for line in task.done if not line.startswith("saw")]
    seen = [line.removeprefix("saw").strip() for line in task.done if line.startswith("saw")]
    return (
        len(changes) == len(wanted)
        and all(_has_line(changes, line) for line in wanted)
        and all(_has_line(results, line) for line in seen)
    )


def _has_line(lines: Sequence[str], parts: str) -> bool:
    return any(all(part.strip() in line for part in parts.split("|")) for line in lines)


def values_of(value: Any) -> list[str]:
    """All texts and numbers in the arguments of a call."""
    match value:
        case dict():
            return [text for one in value.values() for text in values_of(one)]
        case list():
            return [text for one in value for text in values_of(one)]
    return [str(value)]
