"""Flow declarations of the configuration (`tools.declare`), for tools that the owner cannot edit."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from typing import Annotated, Any

from msgspec import Meta

from mainstay.core.ports import Tool, ToolContext
from mainstay.core.settings import ConfigSection
from mainstay.core.tool_ports import declared_readers, is_declared_private, undeclared_fields


class ToolDeclaration(ConfigSection, frozen=True, kw_only=True):
    """What the owner declares about one tool; None: what the tool itself declares."""

    untrusted: Annotated[
        bool | None,
        Meta(description="Whether its results contain text from outside: mail, web pages, other files."),
    ] = None
    sink: Annotated[
        bool | tuple[str, ...] | None,
        Meta(
            description="Whether a call sends data out or changes something that outlives the session; a list names "
            "the parameters that are destinations."
        ),
    ] = None
    private: Annotated[
        bool | None,
        Meta(
            description="Whether its results are private: false for public ones (web pages); true: sending data out "
            "then needs approval, even before anything untrusted was read. Not declared: they count as private once "
            "something untrusted was read."
        ),
    ] = None
    readers: Annotated[
        tuple[str, ...] | None,
        Meta(description="Parameters, or fields of the result, that name who can read the result already."),
    ] = None


class DeclaredTool:
    """A tool with the owner's declaration in place of its own. Everything else is the tool's."""

    def __init__(self, tool: Tool, declaration: ToolDeclaration) -> None:
        self._tool = tool
        self.name = tool.name
        self.description = tool.description
        self.schema = tool.schema
        self.effect = tool.effect
        self.timeout_s = tool.timeout_s
        self.capabilities = tool.capabilities
        self.untrusted = tool.untrusted if declaration.untrusted is None else declaration.untrusted
        self.sink = tool.sink if declaration.sink is None else declaration.sink
        self.reach = getattr(tool, "reach", None) if declaration.sink is None else None
        self.private = is_declared_private(tool) if declaration.private is None else declaration.private
        self.readers = declared_readers(tool) if declaration.readers is None else declaration.readers
        self.undeclared = tuple(name for name in undeclared_fields(tool) if getattr(declaration, name) is None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tool, name)  # optional members, such as `origin` and `needs`

    def parse(self, input: str) -> object:
        return self._tool.parse(input)

    def run(self, arguments: Any, context: ToolContext) -> Awaitable[str]:
        return self._tool.run(arguments, context)

    def reconcile(self, arguments: Any, context: ToolContext) -> Awaitable[str | None]:
        return self._tool.reconcile(arguments, context)


def apply_declarations(tools: Iterable[Tool], declarations: Mapping[str, ToolDeclaration]) -> tuple[Tool, ...]:
    """Return the tools, those that `declarations` name with these in place of their own."""
    return tuple(DeclaredTool(tool, declarations[tool.name]) if tool.name in declarations else tool for tool in tools)


def find_undeclared_tools(tools: Iterable[Tool], declarations: Mapping[str, ToolDeclaration]) -> list[str]:
    """Return the names of the tools of which neither their author nor the owner declares `untrusted` or `sink`."""
    declared = apply_declarations(tools, declarations)
    return sorted(tool.name for tool in declared if {"untrusted", "sink"} <= set(undeclared_fields(tool)))


def format_declaration_hint(name: str, field: str = "sink") -> str:
    """Return the line of code and the line of configuration that declare a tool."""
    return f"@tool({field}=False) in code, or tools.declare.{name}: {{{field}: false}} in mainstay.yaml"
