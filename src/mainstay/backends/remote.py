"""`mcp`: an MCP server as a source of data: its resources, and those of its tools that the owner names.

The server is somebody else's program, spoken to through a `Source`. What it says of its tools is a claim: one that it
does not even claim to be reading is not run by `query`. It is started when it is first asked something.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol
from urllib.parse import unquote

import msgspec

from mainstay.backends.common import (
    Arguments,
    BackendRefused,
    BackendTool,
    Traits,
    clean_line,
    clean_name,
    cut,
    fit_lines,
    page,
)
from mainstay.core.outside import Reach
from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.trust.globs import glob

URI_CHARS_MAX = 2_000
SCHEMA_CHARS_MAX = 4_000
ANSWER_BYTES_MAX = 1024 * 1024


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """Something that can be read."""

    uri: str
    name: str = ""
    about: str = ""
    mime: str = ""


class RemoteTool(msgspec.Struct, frozen=True, kw_only=True):
    """Something that can be called. `reads`: the server says that it changes nothing."""

    name: str
    about: str = ""
    schema: dict[str, Any] = {}
    reads: bool = False


class Source(Protocol):
    """An MCP server, as far as this goes. What it raises is a sentence for the model."""

    async def resources(self) -> Sequence[Resource]: ...
    async def read(self, uri: str) -> str: ...
    async def tools(self) -> Sequence[RemoteTool]: ...
    async def call(self, tool: str, arguments: dict[str, Any], context: ToolContext) -> str: ...


class RemoteSettings(Traits, frozen=True, kw_only=True):
    """What the owner says of it. Tools are reached only if they are named; resources all, unless some are."""

    operations: tuple[str, ...] = ()  # globs over the names of tools
    paths: tuple[str, ...] = ()  # and over the addresses of resources
    outward: str = ""  # the destination that it is, if what it is told may leave the machine


class RemoteBackend:
    def __init__(self, settings: RemoteSettings, source: Source) -> None:
        self.settings = settings
        self.name = settings.name
        self._source = source
        self._names = [glob(one) for one in settings.operations]
        self._uris = [glob(one) for one in settings.paths]
        self._known: Sequence[str] = settings.operations
        self.tools: tuple[Tool, ...] = (Describe(self), Query(self), *((Change(self),) if settings.write else ()))

    async def start(self) -> None:
        """Nothing: the server is started when it is first asked something."""

    async def close(self) -> None:
        """Nothing: whoever gave the source ends it."""

    def schema(self) -> str:
        rights = "reading and changing" if self.settings.write else "reading only"
        lines = [f"### {self.name}: an MCP server, {rights}", *([self.settings.about] if self.settings.about else [])]
        lines.append(f"{self.name}__describe lists its resources{' and tools' if self._names else ''}.")
        left = max(self.settings.schema_tokens - len("\n".join(lines)) // 3, 20)
        names = [f"- {clean_name(name)}" for name in self._known]
        return "\n".join((*lines, fit_lines(names, left, "tools"))) if names else "\n".join(lines)

    # --- what is there ---------------------------------------------------------------------------

    async def resources(self) -> list[Resource]:
        return [one for one in await self._source.resources() if self._holds(one.uri)]

    async def listed(self) -> list[RemoteTool]:
        """Tools in scope: named by the owner, and reading unless changes are granted."""
        if not self._names:
            return []
        every = await self._source.tools()
        named = [one for one in every if any(fits(one.name) for fits in self._names)]
        listed = [one for one in named if one.reads or self.settings.write]
        self._known = [one.name for one in listed]
        return listed

    async def tool(self, name: str) -> RemoteTool:
        listed = await self.listed()
        found = next((one for one in listed if one.name == name), None)
        if found is None:
            known = ", ".join(clean_name(one.name) for one in listed[:30]) or "none"
            raise BackendRefused(f"There is no tool {clean_name(name)} to be called here. There are: {known}.")
        return found

    def _holds(self, uri: str) -> bool:
        return not self._uris or any(fits(uri) for fits in self._uris)

    # --- asking ----------------------------------------------------------------------------------

    async def read(self, uri: str) -> str:
        if len(uri) > URI_CHARS_MAX or not uri.isprintable() or " " in uri:
            raise BackendRefused("This is no address of a resource.")
        if not self._holds(uri) or _leads_up(uri):
            raise BackendRefused(f"{clean_name(uri)} is out of what can be reached here.")
        return cut(await self._source.read(uri), ANSWER_BYTES_MAX, "\n[the rest is left out]")

    async def call(self, tool: RemoteTool, arguments: dict[str, Any], context: ToolContext) -> str:
        said = await self._source.call(tool.name, arguments, context)
        return cut(said, ANSWER_BYTES_MAX, "\n[the rest is left out]")


def _leads_up(uri: str) -> bool:
    """A scope that is a text's beginning must not be left by its end."""
    plain = unquote(unquote(uri)).replace("\\", "/")
    return any(step == ".." for step in plain.split("/"))


# --- the tools -----------------------------------------------------------------------------------


class _Describe(Arguments, frozen=True):
    tool: str | None = None
    offset: int | None = None


class _Query(Arguments, frozen=True):
    uri: str | None = None
    tool: str | None = None
    arguments: dict[str, Any] = {}
    offset: int | None = None


class _Change(Arguments, frozen=True):
    tool: str
    arguments: dict[str, Any] = {}


class Describe(BackendTool):
    action = "describe"
    arguments = _Describe

    def __init__(self, backend: RemoteBackend) -> None:
        about = f" ({backend.settings.about})" if backend.settings.about else ""
        does = "lists resources and tools; tool: what that one takes."
        super().__init__(backend.settings, f"The data of {backend.name}{about}: {does}")
        self._backend = backend

    async def answer(self, arguments: _Describe, context: ToolContext) -> str:
        if arguments.tool:
            tool = await self._backend.tool(arguments.tool)
            schema = clean_line(msgspec.json.encode(tool.schema).decode(), SCHEMA_CHARS_MAX)
            return f"{_tool_line(tool)}\n  arguments: {schema}"
        tools = await self._backend.listed()
        lines = [_tool_line(one) for one in tools]
        lines += [_resource_line(one) for one in await self._backend.resources()]
        shown, note = page(lines, arguments.offset, self._backend.settings.rows_max)
        return "\n".join((*shown, note) if note else shown) or "There is nothing in scope."


class Query(BackendTool):
    action = "query"
    arguments = _Query
    schema = {
        "type": "object",
        "properties": {
            "uri": {"type": "string", "description": "of a resource"},
            "tool": {"type": "string"},
            "arguments": {"type": "object", "description": "of the tool"},
            "offset": {"type": "integer"},
        },
    }

    def reach(self, arguments: Any, context: ToolContext) -> Reach:
        """As by the server's own tools: what is asked for is told to it."""
        where = self._backend.settings.outward
        if not where:
            return Reach()
        return Reach(sink=True, outward=True, destinations=(where,), what=f"asks {where}, which is elsewhere")

    def __init__(self, backend: RemoteBackend) -> None:
        super().__init__(
            backend.settings, f"Read a resource of {backend.name} (uri), or call one of its reading tools."
        )
        self._backend = backend

    async def answer(self, arguments: _Query, context: ToolContext) -> str:
        if bool(arguments.uri) == bool(arguments.tool):
            raise BackendRefused("Give a uri or a tool, and not both.")
        if arguments.uri:
            said = await self._backend.read(arguments.uri)
        else:
            tool = await self._backend.tool(arguments.tool or "")
            if not tool.reads:
                raise BackendRefused(f"{clean_name(tool.name)} may change something: use {self._backend.name}__change.")
            said = await self._backend.call(tool, arguments.arguments, context)
        shown, note = page(said.splitlines(), arguments.offset, self._backend.settings.rows_max * 10)
        return "\n".join((*shown, note)) if note else said


class Change(BackendTool):
    action = "change"
    arguments = _Change
    writes = True
    effect: Effect = "unsafe"
    schema = {
        "type": "object",
        "properties": {"tool": {"type": "string"}, "arguments": {"type": "object"}},
        "required": ["tool"],
    }

    def __init__(self, backend: RemoteBackend) -> None:
        super().__init__(backend.settings, f"Call a tool of {backend.name} that may change something.")
        self._backend = backend

    async def answer(self, arguments: _Change, context: ToolContext) -> str:
        tool = await self._backend.tool(arguments.tool)
        return await self._backend.call(tool, arguments.arguments, context)


def _tool_line(tool: RemoteTool) -> str:
    how = "" if tool.reads else ", may change something"
    return f"{clean_name(tool.name)} (tool{how})" + (f" — {clean_line(tool.about)}" if tool.about else "")


def _resource_line(one: Resource) -> str:
    said = clean_line(" — ".join(text for text in (one.name, one.about) if text))
    kind = f" ({clean_line(one.mime, 60)})" if one.mime else ""
    return f"{clean_line(one.uri, 300)}{kind}" + (f" — {said}" if said else "")
