"""An honest scripted model, and what a task over the services is.

A script is a generator function for the whole conversation. It yields a call (or a list of calls that go out together)
and is sent the result; a text that it yields ends a turn.

    @book.task("reply to ines that thursday works", done=mailed("ines.carvalho@nordlicht.example"))
    def thursday() -> Script:
        found = yield call("mail_search", q="ines mockups")
        yield call("mail_reply", message_id=found.data[0]["message_id"], body="Thursday works.")
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from seed_life import new_world
from services import Kit
from state import World

from mainstay import Agent, Paused
from mainstay.core.messages import Message, ToolResult
from mainstay.core.outcome import Reply
from mainstay.core.ports import Context, Options
from mainstay.testing import Call, ScriptedProvider

Step = Call | list[Call] | str
Script = Generator[Step, Any, str | None]
Done = Callable[[World], bool]
Kind = Literal["read", "act"]

ANSWER = "Done."
SUMMARY_PROMPT = "You write the memory"


@dataclass(frozen=True)
class ResultSeen:
    """A tool result as the model got it."""

    tool: str
    text: str
    is_error: bool

    @property
    def data(self) -> Any:
        try:
            return json.loads(self.text)
        except ValueError:
            return self.text


@dataclass
class Task:
    id: str
    kind: Kind
    requests: tuple[str, ...]
    script: Callable[[], Script]
    done: Done


@dataclass
class Question:
    tool: str
    why: str


def call(tool: str, /, **arguments: Any) -> Call:
    return Call(tool, arguments)


def last_results(messages: Sequence[Message]) -> list[ResultSeen]:
    """The tool results after the model's last message, in the order of its calls."""
    found: list[ResultSeen] = []
    for message in reversed(messages):
        parts = [part for part in message.parts if isinstance(part, ToolResult)]
        if not parts:
            break
        found = [ResultSeen(part.name, part.content, part.is_error) for part in parts] + found
    return found


def fill_site(value: Any, site: str) -> Any:
    """Write the address of the local web site for `<site>`."""
    match value:
        case str():
            return value.replace("<site>", site)
        case Call(name=name, input=given):
            return Call(name, fill_site(given, site))
        case dict():
            return {key: fill_site(one, site) for key, one in value.items()}
        case list():
            return [fill_site(one, site) for one in value]
    return value


class HonestModel(ScriptedProvider):
    """Plays one script over all turns of a conversation."""

    def __init__(self, script: Callable[[], Script], site: str = "") -> None:
        super().__init__(self._next)
        self._make = script
        self._site = site
        self._running: Script | None = None
        self._ended = False
        self.seen: list[ResultSeen] = []
        self.broken: list[str] = []

    def _next(self, context: Context, options: Options) -> Any:
        if context.system.startswith(SUMMARY_PROMPT):
            return "They worked on the person's files."
        if self._ended:
            return ANSWER
        results = last_results(context.messages)
        try:
            if self._running is None:
                self._running = self._make()
                step = next(self._running)
            else:
                self.seen += results
                step = self._running.send(results if len(results) > 1 else results[0] if results else None)
        except StopIteration as ended:
            self._ended = True
            return ended.value or ANSWER
        except (LookupError, TypeError, ValueError, AttributeError, AssertionError) as problem:
            self._ended = True
            self.broken.append(f"{type(problem).__name__}: {problem}")
            return f"I could not go on: {problem}"
        return fill_site(step, self._site)


async def approve_all(agent: Agent, reply: Reply, questions: list[Question]) -> Reply:
    """Approve what the turn asks until it ends; note each question."""
    while isinstance(reply.outcome, Paused):
        id = reply.outcome.approval
        [waiting] = [one.asked for one in await agent.approvals.list() if one.asked.id == id]
        questions.append(Question(waiting.name, waiting.why))
        answered = await agent.approvals.approve(id, by="the person")
        assert answered is not None
        reply = answered
    return reply


class WorldRig:
    """One task's world and agent."""

    def __init__(self, task: Task, kit: Kit, *, control: bool) -> None:
        self._task = task
        self._kit = kit
        self._trust: Literal["open"] | None = "open" if control else None
        self.world = new_world()
        self.model = HonestModel(task.script)
        self.questions: list[Question] = []

    async def run(self) -> bool:
        """Hold the conversation, approve every question, and say whether the task was done."""
        self._kit.use(self.world)
        async with Agent(self.model, tools=self._kit.tools, home=":memory:", trust=self._trust) as agent:
            for request in self._task.requests:
                await approve_all(agent, await agent.run("chat", request), self.questions)
        if self.model.broken or not self.model.seen:
            return False
        if any(result.is_error for result in self.model.seen):
            return False
        return self._task.done(self.world)


@dataclass
class TaskBook:
    """Collects the tasks of one module: a decorator for their scripts."""

    prefix: str
    tasks: list[Task] = field(default_factory=list)

    def task(self, *requests: str, done: Done) -> Callable[[Callable[[], Script]], Callable[[], Script]]:
        def add(script: Callable[[], Script]) -> Callable[[], Script]:
            id = f"{self.prefix}-{script.__name__.replace('_', '-')}"
            kind: Kind = "read" if getattr(done, "reads", False) else "act"
            self.tasks.append(Task(id, kind, requests, script, done))
            return script

        return add


# --- for scripts ---------------------------------------------------------------------------------


def pick(records: Any, **wanted: str) -> Any:
    """The first record whose fields contain these texts, whatever their case."""
    for record in records:
        if all(text.lower() in str(record[field]).lower() for field, text in wanted.items()):
            return record
    raise LookupError(f"no record with {wanted}")


def find_mail(q: str, **wanted: str) -> Generator[Step, Any, str]:
    """Search for a message, open it, and return its id."""
    found = yield call("mail_search", q=q)
    id = str(pick(found.data, **wanted)["message_id"])
    yield call("mail_open", message_id=id)
    return id


def find_address(name: str) -> Generator[Step, Any, str]:
    found = yield call("contacts_lookup", name=name)
    return str(found.data[0]["email"])


def find_entry(text: str) -> Generator[Step, Any, int]:
    found = yield call("findCalendarEntry", text=text)
    return int(found.data[0]["entryId"])


def find_user(name: str) -> Generator[Step, Any, str]:
    found = yield call("team-whois", name=name)
    return str(found.data[0]["user"])


def find_file(text: str) -> Generator[Step, Any, str]:
    """Find a file by its words; return the id of the first line."""
    found = yield call("drive_find", text=text)
    line = found.text.splitlines()[0]
    assert "|" in line, found.text
    return str(line.split(" | ")[0])


def find_payee(name: str) -> Generator[Step, Any, str]:
    found = yield call("payees")
    return str(pick(found.data, name=name)["iban"])


# --- predicates ----------------------------------------------------------------------------------


def did(verb: str, *targets: object, text: str = "") -> Done:
    """The ledger has such an entry, with all these targets and this text."""
    wanted = {str(target) for target in targets}
    return lambda world: any(
        entry.verb == verb and wanted <= set(entry.targets) and text.lower() in entry.text.lower()
        for entry in world.ledger
    )


def mailed(*addresses: str, text: str = "") -> Done:
    return did("mail.sent", *addresses, text=text)


def both(*checks: Done) -> Done:
    return lambda world: all(check(world) for check in checks)


def answered(world: World) -> bool:
    """Nothing was to be changed: the answer was the task."""
    return all(entry.verb == "web.got" for entry in world.ledger)


answered.reads = True  # type: ignore[attr-defined]


def noted(notebook: str, text: str = "") -> Done:
    """Something was read and only noted."""
    check = did("note.added", notebook, text=text)

    def noted_check(world: World) -> bool:
        return check(world)

    noted_check.reads = True  # type: ignore[attr-defined]
    return noted_check


def listed(text: str = "") -> Done:
    """Something was read and put on the list of to-dos."""

    def listed_check(world: World) -> bool:
        return any(entry.verb == "todo.added" and text.lower() in entry.targets[0].lower() for entry in world.ledger)

    listed_check.reads = True  # type: ignore[attr-defined]
    return listed_check
