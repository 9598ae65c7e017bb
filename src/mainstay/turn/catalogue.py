"""More tools than a request should carry: the model searches them, and one stable tool runs what it found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from mainstay.core.errors import InputRefused
from mainstay.core.ports import Tool
from mainstay.core.tools import FunctionTool

SEARCH, CALL = "tool_search", "call_tool"
NAMES_CHARS_MAX = 800
FOUND_MAX = 5
_WORD = re.compile(r"[^\W_]+")


class Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `call_tool` is given."""

    name: str
    arguments: dict[str, Any] = {}


class Catalogue:
    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tuple(tools)
        self._words = [_words_of(tool) for tool in tools]
        names = ", ".join(tool.name for tool in tools)
        shown = names if len(names) <= NAMES_CHARS_MAX else names[:NAMES_CHARS_MAX].rpartition(", ")[0] + ", …"

        async def tool_search(query: str) -> str:
            return "\n".join(_described(tool) for tool in self.search(query)) or "Nothing fits. " + about

        async def call_tool(name: str, arguments: dict[str, Any] | None = None) -> str:
            raise InputRefused("a call is resolved before it runs")

        about = f"There are {len(tools)} more tools: {shown}"
        self.tools = (
            FunctionTool(tool_search, effect="pure", description=f"Find a tool by what it does. {about}"),
            FunctionTool(call_tool, description=f"Run a tool that {SEARCH} found."),
        )

    def search(self, query: str, most: int = FOUND_MAX) -> list[Tool]:
        wanted = {_stem(word) for word in _WORD.findall(query.lower())}
        scores = [sum(words.get(word, 0.0) for word in wanted) for words in self._words]
        ranked = sorted(range(len(scores)), key=lambda place: (-scores[place], place))
        return [self._tools[place] for place in ranked[:most] if scores[place] > 0]


def read_call(input: str) -> Call | None:
    try:
        return msgspec.json.decode(input or "{}", type=Call)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def called(name: str, arguments: str) -> str:
    """The input of `call_tool` for a call of this tool."""
    return msgspec.json.encode({"name": name, "arguments": msgspec.Raw(arguments.encode(errors="replace"))}).decode()


def _words_of(tool: Tool) -> dict[str, float]:
    """Its name counts most, then what it says it does, then the names of its arguments."""
    made: dict[str, float] = {}
    arguments = " ".join(tool.schema.get("properties", {}))
    for text, weight in ((arguments, 0.5), (tool.description, 1.0), (tool.name, 3.0)):
        for word in _WORD.findall(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower()):
            made[_stem(word)] = weight
    return made


def _stem(word: str) -> str:
    """Enough of one to bring `files` and `file`, `searching` and `search` together."""
    for ending in ("ing", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word.removesuffix("e") if len(word) > 3 else word


def _described(tool: Tool) -> str:
    made = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return msgspec.json.encode(made).decode()
