"""A tool of an MCP server as the model meets it: described as it was approved, and called where it lives."""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import Any, ClassVar

import msgspec

from mainstay.core.arguments import read_arguments, schema_of
from mainstay.core.outside import Reach
from mainstay.core.ports import Effect, ToolContext
from mainstay.io.json_schema import Schema, object_arguments
from mainstay.plugins.mcp.keeper import Keeper
from mainstay.plugins.mcp.nouns import Answer, Hints, Listed, Resources
from mainstay.plugins.mcp.server import McpLimits, McpServer, slug_of
from mainstay.plugins.mcp.trouble import CallFailed

SLACK_S = 5.0


class OfServer:
    """What all tools of a server have in common."""

    schema: dict[str, Any]
    effect: Effect = "pure"
    untrusted = True
    sink: bool | tuple[str, ...] = False  # `reach` says more

    def __init__(self, name: str, description: str, keeper: Keeper, limits: McpLimits) -> None:
        server = keeper.server
        self.name = name
        self.description = description
        self.origin = f"mcp:{server.name}"
        self.capabilities: tuple[str, ...] = (f"mcp.{slug_of(server.name)}", *(("net",) if server.outward else ()))
        # The call's own deadline is the keeper's; this one only bounds what may come before it.
        self.timeout_s: float | None = server.timeout_s + limits.start_s + max(limits.backoff_s, default=0.0) + SLACK_S
        self._keeper = keeper
        self._limits = limits

    def reach(self, arguments: Any, context: ToolContext) -> Reach:
        return reach_of(self._keeper.server)

    async def reconcile(self, arguments: Any, context: ToolContext) -> str | None:
        return None  # nobody can be asked what became of a call


class McpTool(OfServer):
    """One that the server has."""

    def __init__(self, name: str, listed: Listed, keeper: Keeper, limits: McpLimits) -> None:
        super().__init__(name, listed.description, keeper, limits)
        self.listed = listed
        self.schema = listed.schema
        self.effect = effect_of(listed.hints)

    @cached_property
    def _checked(self) -> Schema:
        """Made when it is first called: it was looked through when it was pinned."""
        return Schema(self.schema, bytes_max=self._limits.schema_bytes_max)

    def parse(self, input: str) -> dict[str, Any]:
        return object_arguments(input, self._checked)

    def reach(self, arguments: Any, context: ToolContext) -> Reach:
        return reach_of(self._keeper.server, self.listed.hints)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> str:
        heed = _Progress(context, self._limits.progress_s).heed
        name, limits = self.listed.name, self._limits
        answer: Answer = await self._keeper.ask(
            lambda remote: remote.calling(name, arguments, heed, limits), tool=self.listed
        )
        if answer.is_error:
            raise CallFailed(answer.text or "The tool failed, and does not say why.")
        return given(answer, context)


class _Page(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cursor: str | None = None


class _Uri(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    uri: str


class ListResources(OfServer):
    arguments: ClassVar[type[msgspec.Struct]] = _Page
    schema = schema_of(_Page)

    def parse(self, input: str) -> _Page:
        return read_arguments(input, _Page, self.schema)

    async def run(self, arguments: _Page, context: ToolContext) -> str:
        limits = self._limits
        page: Resources = await self._keeper.ask(lambda remote: remote.resources_from(arguments.cursor or "", limits))
        return told(page)


class ReadResource(OfServer):
    arguments: ClassVar[type[msgspec.Struct]] = _Uri
    schema = schema_of(_Uri)

    def parse(self, input: str) -> _Uri:
        return read_arguments(input, _Uri, self.schema)

    async def run(self, arguments: _Uri, context: ToolContext) -> str:
        limits = self._limits
        return given(await self._keeper.ask(lambda remote: remote.reading(arguments.uri, limits)), context)


def effect_of(hints: Hints) -> Effect:
    if hints.read_only:
        return "pure"
    return "idempotent" if hints.idempotent else "unsafe"


def reach_of(server: McpServer, hints: Hints | None = None) -> Reach:
    """A server that has no way out carries nothing out. Hints count for such a one alone: a lie gains it nothing that
    it could not do unasked."""
    if not server.outward:
        if (hints is not None and hints.read_only) or not server.needs.write:
            return Reach()
        what = f"may change files, through the MCP server {server.name}"
        return Reach(sink=True, destinations=(f"mcp:{server.name}",), what=what)
    where = "elsewhere" if not server.local else "with a way out"
    return Reach(
        sink=True,
        outward=True,
        destinations=(f"mcp:{server.name}",),
        what=f"sends this to the MCP server {server.name}, which is {where}",
    )


def given(answer: Answer, context: ToolContext) -> str:
    for kind, data in answer.images:
        context.attach(kind, data)
    return answer.text


def told(page: Resources) -> str:
    lines = []
    for one in page.resources:
        about = ": ".join(part for part in (one.name, one.description) if part and part != one.uri)
        lines.append(" ".join(part for part in (one.uri, f"({one.mime})" if one.mime else "", about) if part))
    if page.cursor:
        lines.append(f"[more with cursor={page.cursor!r}]")
    return "\n".join(lines) or "(none)"


class _Progress:
    """Passed on to whoever watches, now and then."""

    def __init__(self, context: ToolContext, every_s: float) -> None:
        self._context = context
        self._every_s = every_s
        self._next = 0.0

    def heed(self, progress: float, total: float | None, words: str) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._next:
            return
        self._next = now + self._every_s
        count = f"{progress:g} of {total:g}" if total else f"{progress:g}"
        self._context.progress(f"{count}: {words}" if words else count)
