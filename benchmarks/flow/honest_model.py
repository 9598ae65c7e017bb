"""What a task is, and a scripted model that does it: the types that all task files share.

A turn has the person's words and a script. A script is a list of steps, or a generator function that yields a call (or
a list of calls that go out together), is sent what came back, and may return the answer:

    def reply_to_lena() -> Script:
        found = yield call("search_mail", query="Lena")
        yield call("reply", id=found.data[0]["id"], text="I can come.")
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from typing import Any

import msgspec

from mainstay.core.messages import Message, ToolResult
from mainstay.core.ports import Context, Options
from mainstay.testing import Call, ScriptedProvider

Step = Call | list[Call] | str  # a text ends the turn; the script goes on with the person's next words
Script = Generator[Step, Any, str | None]
Does = Callable[[], Script] | tuple[Step, ...]

SUMMARY_PROMPT = "You write the memory"
ANSWER = "Done."


class ResultSeen(msgspec.Struct, frozen=True):
    """A tool result as the model got it."""

    tool: str
    text: str
    is_error: bool = False

    @property
    def data(self) -> Any:
        """The result decoded, if it is JSON; otherwise its text."""
        try:
            return json.loads(self.text)
        except ValueError:
            return self.text


class Turn(msgspec.Struct, frozen=True):
    """The person's words, and what a good model does about them before it answers."""

    says: str
    does: Does = ()
    answer: str = ANSWER


class Mode(msgspec.Struct, frozen=True):
    """How the tasks are run. `control`: without information flow control; `idle`: the model does nothing."""

    control: bool = False
    idle: bool = False


def call(tool: str, /, **arguments: Any) -> Call:
    return Call(tool, arguments)


def ask(says: str, *does: Any, answer: str = ANSWER) -> Turn:
    """A turn, with its steps one by one or with one generator function."""
    if len(does) == 1 and not isinstance(does[0], Call | list):
        return Turn(says, does[0], answer)
    return Turn(says, tuple(does), answer)


class HonestModel(ScriptedProvider):
    """Plays the scripts of a task's turns; those of sub-agents are found by the beginning of their prompt."""

    def __init__(self, turns: Sequence[Turn], children: dict[str, tuple[Step, ...]], site: str = "") -> None:
        super().__init__(self._next)
        self._turns = turns
        self._children = children
        self._site = site
        # one generator for all turns
        self._conversation = len(turns) > 1 and all(turn.does is turns[0].does for turn in turns)
        self._running: dict[str, Script] = {}
        self._ended: set[str] = set()
        self.seen: list[ResultSeen] = []
        self.broken: list[str] = []  # why scripts could not go on

    def _next(self, context: Context, options: Options) -> Any:
        if context.system.startswith(SUMMARY_PROMPT):
            return "They worked on the person's files."
        first = context.messages[0].text if context.messages else ""
        for prompt, steps in self._children.items():
            if first.startswith(prompt):
                return self._advance(f"child {prompt}", Turn(prompt, steps, f"Report on: {prompt}"), context)
        number = min(options.turn, len(self._turns)) - 1
        key = "conversation" if self._conversation else f"turn {number}"
        return self._advance(key, self._turns[0 if self._conversation else number], context)

    def _advance(self, key: str, turn: Turn, context: Context) -> Any:
        if key in self._ended:
            return turn.answer
        results = last_results(context.messages)
        try:
            if key not in self._running:
                self._running[key] = turn.does() if callable(turn.does) else play(turn.does)
                step = next(self._running[key])
            else:
                self.seen += results
                sent = results if len(results) > 1 else results[0] if results else None
                step = self._running[key].send(sent)
        except StopIteration as ended:
            self._ended.add(key)
            return ended.value or turn.answer
        except (LookupError, TypeError, ValueError, AttributeError, AssertionError) as problem:
            self._ended.add(key)
            self.broken.append(f"{type(problem).__name__}: {problem}")
            return f"I could not go on: {problem}"
        return place_site(step, self._site)


def play(steps: Sequence[Step]) -> Script:
    for step in steps:
        _ = yield step  # not `yield from`: a tuple takes no results
    return None


def last_results(messages: Sequence[Message]) -> list[ResultSeen]:
    """The tool results after the model's last message, in the order of its calls."""
    found: list[ResultSeen] = []
    for message in reversed(messages):
        parts = [part for part in message.parts if isinstance(part, ToolResult)]
        if not parts:
            break
        found = [ResultSeen(part.name, part.content, part.is_error) for part in parts] + found
    return found


def place_site(value: Any, site: str) -> Any:
    """Write the address of the local web site for `<site>`."""
    match value:
        case str():
            return value.replace("<site>", site)
        case Call(name=name, input=given):
            return Call(name, place_site(given, site))
        case dict():
            return {key: place_site(one, site) for key, one in value.items()}
        case list():
            return [place_site(one, site) for one in value]
    return value


# --- the built-in tools, in short ----------------------------------------------------------------


def bash(command: str) -> Call:
    return Call("bash", {"command": command})


def read(path: str) -> Call:
    return Call("read", {"path": path})


def write(path: str, content: str) -> Call:
    return Call("write", {"path": path, "content": content})


def edit(path: str, old: str, new: str, *, every: bool = False) -> Call:
    return Call("edit", {"path": path, "old": old, "new": new} | ({"replace_all": True} if every else {}))


def grep(pattern: str, path: str = ".") -> Call:
    return Call("grep", {"pattern": pattern, "path": path})


def fetch(url: str) -> Call:
    return Call("fetch", {"url": url})
