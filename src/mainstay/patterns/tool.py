"""`pattern`: the library as the model uses it."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Literal

import msgspec

from mainstay.core.arguments import read_arguments, schema_of
from mainstay.core.errors import MainstayError
from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.core.recall import is_untrusted
from mainstay.patterns.library import Library
from mainstay.patterns.pattern import Pattern, Template, fill
from mainstay.patterns.render import brief, render, show_template

FOUND_MAX = 10
FLOOR = 0.05  # whoever searches wants to see what is only near, too
SHOWN_BYTES = 15_000  # below what a context makes a stub of
_NEAR_CHARS = 80


class PatternUnknown(MainstayError):
    """There is no such pattern, or no such template in it."""


class _Wanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    action: Literal["search", "show", "fill"]
    query: str | None = None
    name: str | None = None
    template: str | None = None
    parameters: Any = None


class PatternTool:
    """Reads only; what it says is its owner's own, unless the file is known to hold somebody else's words."""

    name = "pattern"
    description = (
        "Known ways of doing things: search (query), show (name; template: that one alone), "
        "fill (name, template, parameters: a value for each {{place}})."
    )
    schema = schema_of(_Wanted)
    schema["properties"]["parameters"] = {"type": "object"}
    effect: Effect = "pure"
    timeout_s: float | None = None
    untrusted = False
    sink: bool | tuple[str, ...] = False
    capabilities: tuple[str, ...] = ("pattern.read",)

    def __init__(self, library: Library) -> None:
        self._library = library

    def wanted(self) -> bool:
        """It is offered while there are patterns."""
        return bool(self._library.snapshot.patterns)

    def parse(self, input: str) -> Any:
        return read_arguments(input, _Wanted, self.schema)

    async def run(self, arguments: _Wanted, context: ToolContext) -> str:
        match arguments.action:
            case "search":
                return self._search(arguments.query or arguments.name or "", context)
            case "show":
                return self._show(arguments, context)
            case _:
                return self._fill(arguments, context)

    async def reconcile(self, arguments: _Wanted, context: ToolContext) -> str | None:
        return None  # may simply be run again

    def _search(self, query: str, context: ToolContext) -> str:
        if not query.strip():
            raise PatternUnknown("To search, give a query: what is to be done, in a few words.")
        snapshot = self._library.snapshot
        found = snapshot.index.match(query, FOUND_MAX, FLOOR)
        if not found:
            return f"None of the {len(snapshot.patterns)} patterns is about that."
        self._label(context, *(match.pattern for match in found))
        return "\n".join(f"{one.pattern.name} ({one.score:.2f}): {brief(one.pattern)}" for one in found)

    def _show(self, wanted: _Wanted, context: ToolContext) -> str:
        pattern = self._pattern(wanted.name)
        self._label(context, pattern)
        if wanted.template:
            return _bounded(show_template(_template(pattern, wanted.template)))
        return render(pattern, SHOWN_BYTES)

    def _fill(self, wanted: _Wanted, context: ToolContext) -> str:
        pattern = self._pattern(wanted.name)
        given = {} if wanted.parameters is None else wanted.parameters
        if not isinstance(given, Mapping):
            raise PatternUnknown("Give parameters as an object: a name and a value for each place of the template.")
        filled = fill(pattern, _template(pattern, wanted.template or ""), given)
        self._label(context, pattern)
        return filled

    def _pattern(self, name: str | None) -> Pattern:
        patterns = self._library.snapshot.patterns
        if not name:
            raise PatternUnknown("Give the name of a pattern; search finds them.")
        if name not in patterns:
            near = get_close_matches(name[:_NEAR_CHARS], patterns, n=1)
            hint = f"did you mean {near[0]}?" if near else "search finds those that there are."
            raise PatternUnknown(f"There is no pattern {name[:_NEAR_CHARS]!r}; {hint}")
        return patterns[name]

    def _label(self, context: ToolContext, *patterns: Pattern) -> None:
        outside = any(is_untrusted(self._library.origin(one)) for one in patterns)
        context.untrusted = context.untrusted or outside


def _template(pattern: Pattern, name: str) -> Template:
    """Without a name it is the only one."""
    found = pattern.template(name) if name else pattern.templates[0] if len(pattern.templates) == 1 else None
    if found is None:
        there = ", ".join(one.name for one in pattern.templates[:30]) or "none"
        said = f"has no template {name[:_NEAR_CHARS]!r}" if name else "has more than one template, or none"
        raise PatternUnknown(f"The pattern {pattern.name} {said}; there are: {there}.")
    return found


def _bounded(text: str) -> str:
    if len(text.encode()) <= SHOWN_BYTES:
        return text
    return text.encode()[:SHOWN_BYTES].decode(errors="ignore") + "\n(cut: it is longer than can be shown)"


def pattern_tool(library: Library) -> Tool:
    return PatternTool(library)
