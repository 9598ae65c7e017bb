"""Runs one task over the simulated services with the real agent; nothing is stored on disk."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Literal

import msgspec
from builtin_rig import approve_all
from catalog import build_tools
from honest_model import HonestModel, Mode, Script, Step, Turn, call
from seed import new_world
from toolbox import Style
from week import add_week
from world import World

from mainstay import Agent

SESSION = "chat"

Done = Callable[[World], bool]
# How the request speaks of people and things: by address, id or exact name; by a name to look up; by a description.
Refers = Literal["exact", "name", "described"]


class WorldTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task over the services: the requests, one script for all of them, and a predicate on the final state."""

    id: str
    requests: tuple[str, ...]
    script: Callable[[], Script]
    done: Done
    refers: Refers


class WorldRig:
    """One task's world and agent."""

    def __init__(self, task: WorldTask, style: Style, mode: Mode) -> None:
        self._task = task
        self._style = style
        self._trust: Literal["open"] | None = "open" if mode.control else None
        self.world = add_week(new_world())
        self.model = HonestModel([Turn(says, () if mode.idle else task.script) for says in task.requests], {})
        self.questions: list[tuple[str, str]] = []

    async def run(self) -> bool:
        """Hold the conversation, approve every question, and say whether the task was done."""
        tools = build_tools(self.world, self._style)
        async with Agent(self.model, tools=tools, home=":memory:", trust=self._trust) as agent:
            for request in self._task.requests:
                await approve_all(agent, await agent.run(SESSION, request), self.questions)
        if self.model.broken or not self.model.seen:
            return False
        if self._task.done is answered and any(result.is_error for result in self.model.seen):
            return False
        return self._task.done(self.world)


class TaskBook:
    """Collects the tasks of one module: a decorator for their scripts."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.tasks: list[WorldTask] = []

    def task(
        self, *requests: str, refers: Refers, done: Done
    ) -> Callable[[Callable[[], Script]], Callable[[], Script]]:
        def add(script: Callable[[], Script]) -> Callable[[], Script]:
            id = f"{self._prefix}-{script.__name__.replace('_', '-')}"
            self.tasks.append(WorldTask(id=id, requests=requests, script=script, done=done, refers=refers))
            return script

        return add


# --- steps that many scripts begin with ------------------------------------------------------------


def address_of(name: str) -> Generator[Step, Any, str]:
    """Look a person up in the address book."""
    found = yield call("search_contacts", name=name)
    return str(found.data[0]["email"])


def find_mail(query: str, **wanted: str) -> Generator[Step, Any, dict[str, Any]]:
    found = yield call("search_mails", query=query)
    return dict(pick(found.data, **wanted))


def find_event(query: str, **wanted: str) -> Generator[Step, Any, dict[str, Any]]:
    found = yield call("search_events", query=query)
    return dict(pick(found.data, **wanted))


def find_file(query: str, **wanted: str) -> Generator[Step, Any, dict[str, Any]]:
    """Find a file by its words and open it."""
    found = yield call("search_files", query=query)
    opened = yield call("open_file", file_id=pick(found.data, **wanted)["id"])
    return dict(opened.data)


def handle_of(name: str) -> Generator[Step, Any, str]:
    """Look a person up in the directory of the chat."""
    found = yield call("find_user", name=name)
    return str(found.data[0]["handle"])


# --- for scripts and predicates ------------------------------------------------------------------


def pick(records: Any, **wanted: str) -> Any:
    """The first record whose fields contain these texts, whatever their case."""
    for record in records:
        if all(text.lower() in str(record[field]).lower() for field, text in wanted.items()):
            return record
    raise LookupError(f"no record with {wanted}")


def did(verb: str, *targets: str, text: str = "") -> Done:
    """The ledger has such an entry, with all these targets and this text."""

    def check(world: World) -> bool:
        return any(
            entry.verb == verb and set(targets) <= set(entry.targets) and text.lower() in entry.text.lower()
            for entry in world.ledger
        )

    return check


def mailed(*addresses: str, text: str = "") -> Done:
    return did("mail.sent", *addresses, text=text)


def posted(room: str, text: str = "") -> Done:
    return did("chat.posted", room, text=text)


def paid(iban: str, amount: str) -> Done:
    return did("money.sent", iban, amount)


def both(*checks: Done) -> Done:
    return lambda world: all(check(world) for check in checks)


def answered(world: World) -> bool:
    """Nothing was to be changed: the answer was the task."""
    return all(entry.verb == "web.fetched" for entry in world.ledger)
