"""Searchable catalogue for many tools: `tool_search` finds schemas, and one stable `call_tool` runs any of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from mainstay.core.errors import InputRefused
from mainstay.core.json_types import JsonObject
from mainstay.core.ports import Tool
from mainstay.core.tools import FunctionTool, parameter_names

SEARCH_TOOL, CALL_TOOL = "tool_search", "call_tool"
NAMES_CHARS_MAX = 800
HITS_MAX = 5
_WORD = re.compile(r"[^\W_]+")


class CallToolArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `call_tool`."""

    name: str
    arguments: JsonObject = {}


class ToolCatalogue:
    """An index over tools; `tools` are the two that the model is offered in their place."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tuple(tools)
        self._word_weights = [_weigh_words(tool) for tool in tools]
        names = ", ".join(tool.name for tool in tools)
        listed = names if len(names) <= NAMES_CHARS_MAX else names[:NAMES_CHARS_MAX].rpartition(", ")[0] + ", …"

        async def tool_search(query: str) -> str:
            return "\n".join(_describe_tool(tool) for tool in self.search(query)) or "Nothing fits. " + about

        async def call_tool(name: str, arguments: JsonObject | None = None) -> str:
            raise InputRefused("a call is resolved before it runs")

        about = f"There are {len(tools)} more tools: {listed}"
        self.tools = (
            FunctionTool(
                tool_search,
                effect="pure",
                description=f"Find a tool by what it does. {about}",
                untrusted=False,
                sink=False,
            ),
            # the found tool is the one that the policy decides about, and whose results are labelled
            FunctionTool(call_tool, description=f"Run a tool that {SEARCH_TOOL} found.", untrusted=False, sink=False),
        )

    def search(self, query: str, hits_max: int = HITS_MAX) -> list[Tool]:
        """Return the best matches, best first; tools that match no word are left out."""
        stems = {_stem(word) for word in _WORD.findall(query.lower())}
        scores = [sum(weights.get(stem, 0.0) for stem in stems) for weights in self._word_weights]
        ranked = sorted(range(len(scores)), key=lambda index: (-scores[index], index))
        return [self._tools[index] for index in ranked[:hits_max] if scores[index] > 0]


def parse_catalogue_call(input: str) -> CallToolArguments | None:
    """Parse the input of `call_tool`; None if it is malformed."""
    try:
        return msgspec.json.decode(input or "{}", type=CallToolArguments)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def encode_catalogue_call(name: str, arguments: str) -> str:
    """Return the input of `call_tool` that calls this tool with these arguments."""
    return msgspec.json.encode({"name": name, "arguments": msgspec.Raw(arguments.encode(errors="replace"))}).decode()


def _weigh_words(tool: Tool) -> dict[str, float]:
    """Return search weights by word stem: the name counts most, then the description, then argument names."""
    weights: dict[str, float] = {}
    arguments = " ".join(parameter_names(tool.schema))
    for text, weight in ((arguments, 0.5), (tool.description, 1.0), (tool.name, 3.0)):
        for word in _WORD.findall(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower()):
            weights[_stem(word)] = weight
    return weights


def _stem(word: str) -> str:
    """Strip common endings, so that `files` matches `file` and `searching` matches `search`."""
    for ending in ("ing", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word.removesuffix("e") if len(word) > 3 else word


def _describe_tool(tool: Tool) -> str:
    description = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return msgspec.json.encode(description).decode()
