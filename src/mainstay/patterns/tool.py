"""The `pattern` tool: searches patterns, shows one, or fills in a template."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Literal

import msgspec

from mainstay.core.errors import MainstayError
from mainstay.core.json_types import JsonObject, JsonValue
from mainstay.core.memory_tiers import is_untrusted
from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.core.tool_arguments import build_schema, parse_arguments
from mainstay.patterns.library import PatternLibrary
from mainstay.patterns.pattern_template import InstructionPattern, PatternTemplate, fill_template
from mainstay.patterns.prompt_text import SHOWN_BYTES_MAX, describe_briefly, render_pattern, render_template

RESULTS_MAX = 10
SIMILARITY_MIN = 0.05  # lowest similarity of a search result; lower than for automatic matches
_NEAR_CHARS = 80


class PatternUnknown(MainstayError):
    """The pattern or the template does not exist, or the call does not name one."""


class _PatternToolArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    action: Literal["search", "show", "fill"]
    query: str | None = None
    name: str | None = None
    template: str | None = None
    parameters: JsonObject | JsonValue = None  # should be an object


class PatternTool:
    """Read-only tool. Its result is trusted, unless the pattern's file has an untrusted origin."""

    name = "pattern"
    description = (
        "Known ways of doing things: search (query), show (name; template: that one alone), "
        "fill (name, template, parameters: a value for each {{place}})."
    )
    schema = build_schema(_PatternToolArguments)
    effect: Effect = "pure"
    timeout_s: float | None = None
    untrusted = False
    sink: bool | tuple[str, ...] = False
    capabilities: tuple[str, ...] = ("pattern.read",)

    def __init__(self, library: PatternLibrary) -> None:
        self._library = library

    def is_available(self) -> bool:
        """Return whether the tool is offered: only while there are patterns."""
        return bool(self._library.snapshot.patterns)

    def parse(self, input: str) -> _PatternToolArguments:
        return parse_arguments(input, _PatternToolArguments, self.schema)

    async def run(self, arguments: _PatternToolArguments, context: ToolContext) -> str:
        match arguments.action:
            case "search":
                return self._search_patterns(arguments.query or arguments.name or "", context)
            case "show":
                return self._show_pattern(arguments, context)
            case _:
                return self._fill_template(arguments, context)

    async def reconcile(self, arguments: _PatternToolArguments, context: ToolContext) -> str | None:
        return None  # it is pure, so it can run again

    def _search_patterns(self, query: str, context: ToolContext) -> str:
        if not query.strip():
            raise PatternUnknown("To search, give a query: what is to be done, in a few words.")
        snapshot = self._library.snapshot
        matches = snapshot.index.match(query, RESULTS_MAX, SIMILARITY_MIN)
        if not matches:
            return f"None of the {len(snapshot.patterns)} patterns matches that."
        self._mark_tainted(context, *(match.pattern for match in matches))
        return "\n".join(
            f"{match.pattern.name} ({match.score:.2f}): {describe_briefly(match.pattern)}" for match in matches
        )

    def _show_pattern(self, arguments: _PatternToolArguments, context: ToolContext) -> str:
        pattern = self._find_pattern(arguments.name)
        self._mark_tainted(context, pattern)
        if arguments.template:
            return _truncate(render_template(_find_template(pattern, arguments.template)))
        return render_pattern(pattern, SHOWN_BYTES_MAX)

    def _fill_template(self, arguments: _PatternToolArguments, context: ToolContext) -> str:
        pattern = self._find_pattern(arguments.name)
        values = {} if arguments.parameters is None else arguments.parameters
        if not isinstance(values, Mapping):
            raise PatternUnknown("Give parameters as an object: a name and a value for each place of the template.")
        filled = fill_template(pattern, _find_template(pattern, arguments.template or ""), values)
        self._mark_tainted(context, pattern)
        return filled

    def _find_pattern(self, name: str | None) -> InstructionPattern:
        patterns = self._library.snapshot.patterns
        if not name:
            raise PatternUnknown("Give the name of a pattern; search finds them.")
        if name not in patterns:
            near = get_close_matches(name[:_NEAR_CHARS], patterns, n=1)
            hint = f"did you mean {near[0]}?" if near else "search finds patterns."
            raise PatternUnknown(f"There is no pattern {name[:_NEAR_CHARS]!r}; {hint}")
        return patterns[name]

    def _mark_tainted(self, context: ToolContext, *patterns: InstructionPattern) -> None:
        is_tainted = any(is_untrusted(self._library.pattern_origin(pattern)) for pattern in patterns)
        context.untrusted = context.untrusted or is_tainted


def _find_template(pattern: InstructionPattern, name: str) -> PatternTemplate:
    """Return a template by name; without a name, the only one. Raises PatternUnknown."""
    template = pattern.find_template(name) if name else pattern.templates[0] if len(pattern.templates) == 1 else None
    if template is None:
        names = ", ".join(other.name for other in pattern.templates[:30]) or "none"
        problem = f"has no template {name[:_NEAR_CHARS]!r}" if name else "has more than one template, or none"
        raise PatternUnknown(f"The pattern {pattern.name} {problem}; there are: {names}.")
    return template


def _truncate(text: str) -> str:
    if len(text.encode()) <= SHOWN_BYTES_MAX:
        return text
    return text.encode()[:SHOWN_BYTES_MAX].decode(errors="ignore") + "\n(cut: it is longer than can be shown)"


def build_pattern_tool(library: PatternLibrary) -> Tool:
    return PatternTool(library)
