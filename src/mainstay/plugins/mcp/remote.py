"""What can be asked of a server, each as a function of its session. Imports the SDK, and is the door to it: whoever
needs a server imports this when it is first wanted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import mcp_types as types
from mcp import MCPError
from mcp.client.session import ClientSession
from pydantic import TypeAdapter

from mainstay.core.outside import Sandbox
from mainstay.plugins.logs import PluginLog
from mainstay.plugins.mcp.connection import Connection, Dial, quieten
from mainstay.plugins.mcp.gate import Gate
from mainstay.plugins.mcp.hints import hint_of
from mainstay.plugins.mcp.listing import read_all, shown
from mainstay.plugins.mcp.nouns import Answer, Prompt, PromptArgument, Resource, Resources
from mainstay.plugins.mcp.results import answer_of, contents_of, plain, text_of
from mainstay.plugins.mcp.server import McpLimits, McpServer
from mainstay.plugins.mcp.sieve import PARTS_MAX
from mainstay.plugins.mcp.stdio import piped
from mainstay.plugins.mcp.trouble import CallFailed
from mainstay.plugins.mcp.web import reached

ROUNDS_MAX = 10  # of "not yet, ask me again"
ROUND_S = 0.25
TEMPLATES_MAX = 100

Heed = Callable[[float, float | None, str], None]  # progress, of how much, and in words
T = TypeVar("T")
Work = Callable[[ClientSession], Awaitable[T]]

_called: TypeAdapter[Any] = TypeAdapter(types.CallToolResult | types.InputRequiredResult)
_read: TypeAdapter[Any] = TypeAdapter(types.ReadResourceResult | types.InputRequiredResult)
_prompted: TypeAdapter[Any] = TypeAdapter(types.GetPromptResult | types.InputRequiredResult)


def connect(server: McpServer, sandbox: Sandbox | None, folder: Path, limits: McpLimits, log: PluginLog) -> Connection:
    """One that has yet to be started."""
    quieten()
    gate = Gate(limits, asyncio.get_running_loop().time)
    dial: Dial = partial(reached, server, limits, gate)
    if sandbox is not None and server.local:
        dial = partial(piped, server, sandbox, folder, limits, gate, log)
    made = Connection(server.name, dial, limits, gate, lambda: log.reason)
    made.hint = lambda late: hint_of(server, log.last_words, late=late)
    return made


def calling(name: str, arguments: dict[str, Any], heed: Heed, limits: McpLimits) -> Work[Answer]:
    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        heed(progress, total, plain(message or ""))

    def request(state: str | None) -> types.CallToolRequest:
        params = types.CallToolRequestParams(name=name, arguments=arguments, request_state=state)
        return types.CallToolRequest(params=params)

    async def work(session: ClientSession) -> Answer:
        # Not by the session's own `call_tool`: that checks answers against a schema of the server's making, and takes
        # as long for it as the server likes.
        return answer_of(await _to_the_end(session, request, _called, progressed), limits)

    return work


def reading(uri: str, limits: McpLimits) -> Work[Answer]:
    def request(state: str | None) -> types.ReadResourceRequest:
        return types.ReadResourceRequest(params=types.ReadResourceRequestParams(uri=uri, request_state=state))

    async def work(session: ClientSession) -> Answer:
        return contents_of((await _to_the_end(session, request, _read)).contents, limits)

    return work


def prompting(name: str, arguments: dict[str, str], limits: McpLimits) -> Work[list[tuple[str, str]]]:
    def request(state: str | None) -> types.GetPromptRequest:
        params = types.GetPromptRequestParams(name=name, arguments=arguments, request_state=state)
        return types.GetPromptRequest(params=params)

    async def work(session: ClientSession) -> list[tuple[str, str]]:
        said = await _to_the_end(session, request, _prompted)
        return [(message.role, text_of(message.content, limits)) for message in said.messages[:PARTS_MAX]]

    return work


def resources_from(cursor: str, limits: McpLimits) -> Work[Resources]:
    """A page; with the first one come the templates."""

    async def work(session: ClientSession) -> Resources:
        can = session.server_capabilities
        if can is None or can.resources is None:
            return Resources(resources=())
        page = await session.list_resources(params=types.PaginatedRequestParams(cursor=cursor or None))
        found = [_resource(one.uri, one, limits) for one in page.resources[: limits.tools_max]]
        if not cursor:
            found += [_resource(one.uri_template, one, limits, template=True) for one in await _templates(session)]
        return Resources(resources=tuple(found), cursor=page.next_cursor or "")

    return work


def prompts(limits: McpLimits) -> Work[list[Prompt]]:
    async def work(session: ClientSession) -> list[Prompt]:
        can = session.server_capabilities
        if can is None or can.prompts is None:
            return []
        found = await read_all(session.list_prompts, lambda page: page.prompts, limits.pages_max, limits.tools_max)
        return [_prompt(one, limits) for one in found]

    return work


def _prompt(prompt: types.Prompt, limits: McpLimits) -> Prompt:
    most = limits.description_chars_max
    arguments = tuple(
        PromptArgument(name=one.name, description=shown(one.description or "", most), required=bool(one.required))
        for one in prompt.arguments or ()
    )
    return Prompt(name=prompt.name, description=shown(prompt.description or "", most), arguments=arguments)


def _resource(
    uri: str, said: types.Resource | types.ResourceTemplate, limits: McpLimits, *, template: bool = False
) -> Resource:
    return Resource(
        uri=uri,
        name=plain(said.name),
        description=shown(said.description or "", limits.description_chars_max),
        mime=plain(said.mime_type or ""),
        template=template,
    )


async def _templates(session: ClientSession) -> list[types.ResourceTemplate]:
    try:
        return (await session.list_resource_templates()).resource_templates[:TEMPLATES_MAX]
    except MCPError as error:
        if error.code == types.METHOD_NOT_FOUND:  # many have none, and say it so
            return []
        raise


async def _to_the_end(
    session: ClientSession,
    request: Callable[[str | None], Any],
    result: TypeAdapter[Any],
    progressed: Any = None,
) -> Any:
    """A server may want to be asked again. One that wants an answer of the model's or of the person's gets none."""
    state: str | None = None
    for _ in range(ROUNDS_MAX):
        said = await session.send_request(request(state), result, progress_callback=progressed)
        if not isinstance(said, types.InputRequiredResult):
            return said
        if said.input_requests:
            raise CallFailed("The server wants something from the model or the person, which it is not given.")
        state = said.request_state
        await asyncio.sleep(ROUND_S)
    raise CallFailed(f"The server asked to be asked again {ROUNDS_MAX} times, and is not.")
