"""The MCP server: tools to run, steer and abort turns, search memory and list sessions.

Imports the `mcp` library, so import it only to serve.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol

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
from mainstay.core.errors import MainstayError, SessionUnknown
from mainstay.core.events import ApprovalAsked
from mainstay.core.memory_tiers import SearchHit
from mainstay.core.outcome import Aborted, Answered, Exhausted, Failed, Outcome, Paused
from mainstay.core.ports import SessionInfo
from mainstay.core.tool_arguments import parse_arguments
from mainstay.core.tools import BadArguments
from mainstay.operations import memory, sessions, turns
from mainstay.operations.client_protocol import OperationClient
from mainstay.server.mcp_operations import McpOperations
from mainstay.server.mcp_tools import (
    MCP_TOOLS,
    AbortToolArguments,
    AbortToolResult,
    ApprovalSummary,
    MemorySearchHit,
    MemorySearchToolArguments,
    MemorySearchToolResult,
    RunToolArguments,
    RunToolResult,
    SessionRow,
    SessionsToolArguments,
    SessionsToolResult,
    SteerToolArguments,
    SteerToolResult,
)
from mainstay.server.mcp_turns import EndedTurn, McpTurns, OnProgress

McpContext = ServerRequestContext[Any]

REQUESTS_MAX = 64  # running at a time
BUSY_ERROR_CODE = -32000  # JSON-RPC error code
INSTRUCTIONS = (
    "Mainstay is a durable agent on this machine. `run` gives it a task in a stored conversation; pass the same "
    "session to continue it. `memory_search` searches all conversations."
)


class McpHomeClient(OperationClient, Protocol):
    """Runs operations for the MCP server, names new sessions and describes approvals."""

    def new_session(self) -> str:
        """Return the name of a new session."""
        ...

    def describe_approval(self, approval: ApprovalAsked) -> str:
        """Return what waits for approval, with nothing hidden, and how the owner answers it."""
        ...


class McpServer:
    """The server and its running turns. Set `turns.stopping` before ending it, so that turns are not aborted."""

    def __init__(self, client: McpHomeClient) -> None:
        self._client = client
        self._operations = McpOperations(client)
        self.turns = McpTurns(client)
        self.running_requests = 0  # running
        self.server: Server[Any] = Server(
            "mainstay",
            version=__version__,
            title="Mainstay",
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )
        self.server.middleware.append(self._limit_requests)

    async def _limit_requests(self, ctx: McpContext, call_next: CallNext) -> HandlerResult:
        """Middleware that limits the number of concurrent requests."""
        if ctx.request_id is None:  # a notification
            return await call_next(ctx)
        if self.running_requests >= REQUESTS_MAX:
            raise MCPError(
                code=BUSY_ERROR_CODE, message=f"{REQUESTS_MAX} requests are running already; try again later"
            )
        self.running_requests += 1
        try:
            return await call_next(ctx)
        finally:
            self.running_requests -= 1

    async def _list_tools(self, context: McpContext, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[_describe_tool(name) for name in MCP_TOOLS])

    async def _call_tool(self, context: McpContext, params: CallToolRequestParams) -> CallToolResult:
        offer = MCP_TOOLS.get(params.name)
        if offer is None:
            raise MCPError(code=INVALID_PARAMS, message=f"there is no tool {params.name[:80]!r}")
        try:
            encoded = msgspec.json.encode(params.arguments or {}).decode()
            arguments = parse_arguments(encoded, offer.arguments, offer.input_schema())
            return await self._run_tool(arguments, _create_progress_callback(context))
        except (BadArguments, MainstayError) as error:
            return CallToolResult(content=[TextContent(text=str(error))], is_error=True)

    async def _run_tool(self, arguments: msgspec.Struct, on_progress: OnProgress) -> CallToolResult:
        match arguments:
            case RunToolArguments(prompt=prompt, session=session):
                name = self._client.new_session() if session is msgspec.UNSET else session
                ended = await self.turns.run(name, prompt, on_progress)
                return self._format_run_result(ended)
            case SteerToolArguments(session=session, text=text):
                await self._operations.execute(turns.Steer(session=session, text=text, shared=True))
                return _build_result(SteerToolResult(session), f"Added to {session}.")
            case AbortToolArguments(session=session):
                try:
                    aborted = (await self._operations.execute(turns.Abort(session=session))).aborted
                except SessionUnknown:
                    aborted = False
                text = "The turn was aborted." if aborted else "Nothing was running."
                return _build_result(AbortToolResult(session, aborted), text)
            case MemorySearchToolArguments(query=query, k=k):
                return _format_hits((await self._operations.execute(memory.SearchMemory(q=query, k=k))).hits)
            case SessionsToolArguments(limit=limit):
                return _format_sessions(await self._operations.execute(sessions.ListSessions(limit=limit)))
        raise AssertionError(f"{type(arguments).__name__} has no implementation")

    def _format_run_result(self, ended: EndedTurn) -> CallToolResult:
        text = _outcome_text(ended.outcome, ended.text)
        approval = None
        if (pending := ended.approval) is not None:
            text = self._client.describe_approval(pending)
            approval = ApprovalSummary(pending.id, pending.name, pending.input, pending.why)
        outcome = type(ended.outcome).__name__
        result = RunToolResult(ended.session, ended.turn, outcome, ended.text or text, approval)
        note = f"(session {ended.session}: name it to continue this conversation)"
        return _build_result(result, text, note, is_error=isinstance(ended.outcome, Failed | Aborted))


def _outcome_text(outcome: Outcome, text: str) -> str:
    """Return the answer, or why there is none. An answer that a limit cut short is one."""
    match outcome:
        case Answered() | Paused():
            return text
        case Exhausted(bound=bound):
            return text or f"The turn stopped at a limit: {bound}."
        case Aborted():
            return f"{text}\n\n(aborted here)" if text else "The turn was aborted."
        case Failed(sentence=sentence):
            return sentence


def _create_progress_callback(context: McpContext) -> OnProgress:
    """Return a callback that sends progress notifications; the library drops them unless the host asked for them."""
    count = 0

    async def report(text: str) -> None:
        nonlocal count
        count += 1
        await context.session.report_progress(count, message=text)

    return report


def _build_result(result: msgspec.Struct, *texts: str, is_error: bool = False) -> CallToolResult:
    """Return a tool result: structured for programs, as text for models."""
    content = [TextContent(text=text) for text in texts if text]
    return CallToolResult(content=list(content), structured_content=msgspec.to_builtins(result), is_error=is_error)


def _describe_tool(name: str) -> Tool:
    tool = MCP_TOOLS[name]
    hints = ToolAnnotations(
        title=tool.title,
        read_only_hint=tool.read_only,
        destructive_hint=tool.destructive,
        idempotent_hint=tool.idempotent,
        open_world_hint=tool.open_world,
    )
    return Tool(
        name=name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema(),
        output_schema=tool.output_schema(),
        annotations=hints,
    )


def _format_hits(hits: Sequence[SearchHit]) -> CallToolResult:
    rows = [
        MemorySearchHit(
            hit.text, hit.session, hit.message_id, hit.at, hit.score, hit.kind, hit.speaker, bool(hit.origin)
        )
        for hit in hits
    ]
    lines = [f"{row.message_id or row.session} {_format_day(row.at)} {row.speaker}: {row.text}" for row in rows]
    return _build_result(MemorySearchToolResult(rows), "\n\n".join(lines) or "No results.")


def _format_sessions(infos: list[SessionInfo]) -> CallToolResult:
    rows = [
        SessionRow(
            info.key,
            info.title,
            info.status,
            info.turns,
            info.updated,
            info.approval.id if info.approval is not None else "",
        )
        for info in infos
    ]
    lines = [
        f"{row.session}  {_format_day(row.updated)}  {row.turns} turn{'' if row.turns == 1 else 's'}"
        + (f"  {row.title}" if row.title else "")
        + (f"  waits for approval {row.waits_for}" if row.waits_for else "")
        for row in rows
    ]
    return _build_result(SessionsToolResult(rows), "\n".join(lines) or "There are no conversations.")


def _format_day(at_ms: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(at_ms / 1000)) if at_ms else ""
