"""Mainstay as an MCP server: run, steer, abort, search, for hosts of other makers.

Loads the `mcp` library, so it is imported by those who serve, when they do.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from mainstay import __version__
from mainstay.core.arguments import read_arguments
from mainstay.core.errors import MainstayError
from mainstay.core.outcome import Aborted, Answered, Exhausted, Failed, Outcome, Paused
from mainstay.core.ports import Standing
from mainstay.core.recall import Hit
from mainstay.core.tools import BadArguments
from mainstay.server.mcp_tools import (
    OFFERS,
    Abort,
    AbortResult,
    Approval,
    Found,
    ListSessions,
    MemorySearch,
    Run,
    RunResult,
    SearchResult,
    SessionRow,
    SessionsResult,
    Steer,
    SteerResult,
)
from mainstay.server.operations import Operations
from mainstay.server.turns import Ended, Tell, Turns

Context = ServerRequestContext[Any]

REQUESTS_MAX = 64  # at once
BUSY = -32000
INSTRUCTIONS = (
    "Mainstay is a durable agent on this machine. `run` gives it work in a conversation that is kept; name the "
    "conversation again to go on with it. `memory_search` finds what was said in all of them."
)


class McpServer:
    """The server, and what is under way in it. `turns.ending` is set by whoever ends it, before it is ended."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self.turns = Turns(operations)
        self.requests = 0  # under way
        self.server: Server[Any] = Server(
            "mainstay",
            version=__version__,
            title="Mainstay",
            instructions=INSTRUCTIONS,
            on_list_tools=self._list,
            on_call_tool=self._call,
        )
        self.server.middleware.append(self._bounded)

    async def _bounded(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """A host that asks faster than it can be answered is told so, instead of being remembered without end."""
        if ctx.request_id is None:  # a notification
            return await call_next(ctx)
        if self.requests >= REQUESTS_MAX:
            raise MCPError(code=BUSY, message=f"{REQUESTS_MAX} requests are under way already; try again later")
        self.requests += 1
        try:
            return await call_next(ctx)
        finally:
            self.requests -= 1

    async def _list(self, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[_described(name) for name in OFFERS])

    async def _call(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        offer = OFFERS.get(params.name)
        if offer is None:
            raise MCPError(code=INVALID_PARAMS, message=f"there is no tool {params.name[:80]!r}")
        try:
            given = msgspec.json.encode(params.arguments or {}).decode()
            arguments = read_arguments(given, offer.arguments, offer.input_schema())
            return await self._do(arguments, _progress(context))
        except (BadArguments, MainstayError) as error:
            return CallToolResult(content=[TextContent(text=str(error))], is_error=True)

    async def _do(self, arguments: msgspec.Struct, tell: Tell) -> CallToolResult:
        match arguments:
            case Run(prompt=prompt, session=session):
                ended = await self.turns.run(session or self._operations.new_session(), prompt, tell)
                return self._ran(ended)
            case Steer(session=session, text=text):
                await self._operations.steer(session, text)
                return _told(SteerResult(session), f"It was put into {session}.")
            case Abort(session=session):
                aborted = await self._operations.abort(session)
                what = "Its turn was ended." if aborted else "Nothing was running."
                return _told(AbortResult(session, aborted), what)
            case MemorySearch(query=query, k=k):
                return _found(await self._operations.search(query, k))
            case ListSessions(limit=limit):
                return _listed(await self._operations.sessions(limit))
        raise AssertionError(f"{type(arguments).__name__} is offered and not done")

    def _ran(self, ended: Ended) -> CallToolResult:
        said = _said(ended.outcome, ended.text)
        approval = None
        if (asked := ended.asked) is not None:
            said = self._operations.question(asked)
            approval = Approval(asked.id, asked.name, asked.input, asked.why)
        outcome = type(ended.outcome).__name__
        result = RunResult(ended.session, ended.turn, outcome, ended.text or said, approval)
        note = f"(session {ended.session}: name it to go on with this conversation)"
        return _told(result, said, note, failed=isinstance(ended.outcome, Failed | Aborted))


def _said(outcome: Outcome, text: str) -> str:
    """An answer, or why there is none. What a limit cut short is still an answer."""
    match outcome:
        case Answered() | Paused():
            return text
        case Exhausted(bound=bound):
            return text or f"It stopped at its limit: {bound}."
        case Aborted():
            return f"{text}\n\n(it was stopped here)" if text else "It was stopped."
        case Failed(sentence=sentence):
            return sentence


def _progress(context: Context) -> Tell:
    """Sent only if the host asked for it; each number is above the last."""
    count = 0

    async def tell(news: str) -> None:
        nonlocal count
        count += 1
        await context.session.report_progress(count, message=news)

    return tell


def _told(result: msgspec.Struct, *said: str, failed: bool = False) -> CallToolResult:
    """For programs as a structure, for models as text."""
    texts = [TextContent(text=one) for one in said if one]
    return CallToolResult(content=list(texts), structured_content=msgspec.to_builtins(result), is_error=failed)


def _described(name: str) -> Tool:
    offer = OFFERS[name]
    hints = ToolAnnotations(
        title=offer.title,
        read_only_hint=offer.read_only,
        destructive_hint=offer.destructive,
        idempotent_hint=offer.idempotent,
        open_world_hint=offer.open_world,
    )
    return Tool(
        name=name,
        title=offer.title,
        description=offer.description,
        input_schema=offer.input_schema(),
        output_schema=offer.output_schema(),
        annotations=hints,
    )


def _found(hits: Sequence[Hit]) -> CallToolResult:
    rows = [
        Found(one.text, one.session, one.message_id, one.at, one.score, one.kind, one.speaker, bool(one.origin))
        for one in hits
    ]
    lines = [f"{one.message_id or one.session} {_day(one.at)} {one.speaker}: {one.text}" for one in rows]
    return _told(SearchResult(rows), "\n\n".join(lines) or "Nothing was found.")


def _listed(standings: Sequence[Standing]) -> CallToolResult:
    rows = [
        SessionRow(
            one.key, one.title, one.status, one.turns, one.updated, one.approval.id if one.approval is not None else ""
        )
        for one in standings
    ]
    lines = [
        f"{one.session}  {_day(one.updated)}  {one.turns} turn{'' if one.turns == 1 else 's'}"
        + (f"  {one.title}" if one.title else "")
        + (f"  waits for approval {one.waits_for}" if one.waits_for else "")
        for one in rows
    ]
    return _told(SessionsResult(rows), "\n".join(lines) or "There are no conversations.")


def _day(at_ms: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(at_ms / 1000)) if at_ms else ""
