"""Requests to an MCP server, each built as a function of its session, and the factory of connections.

Imports the SDK. The only module that the rest of the package imports to reach it, when a server is first used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import mcp_types as types
from mcp import MCPError
from mcp.client.session import ClientSession
from pydantic import TypeAdapter

from mainstay.core.json_types import JsonObject
from mainstay.core.tool_ports import Sandbox
from mainstay.plugins.mcp.connection import McpConnection, OpenTransport, silence_sdk_logging
from mainstay.plugins.mcp.data_types import (
    McpAnswer,
    McpProgressCallback,
    McpPrompt,
    McpPromptArgument,
    McpResource,
    McpResourcePage,
)
from mainstay.plugins.mcp.errors import CallFailed
from mainstay.plugins.mcp.flood_guard import FloodGuard
from mainstay.plugins.mcp.http_transport import open_http
from mainstay.plugins.mcp.message_filter import LIST_ITEMS_MAX
from mainstay.plugins.mcp.results import call_result_to_answer, prompt_part_to_text, resource_to_answer, shorten_line
from mainstay.plugins.mcp.server_config import McpLimits, McpServerConfig
from mainstay.plugins.mcp.startup_hints import startup_hint
from mainstay.plugins.mcp.stdio_transport import open_stdio
from mainstay.plugins.mcp.tool_listing import clean_text, read_paginated
from mainstay.plugins.output_log import PluginLog

if TYPE_CHECKING:
    from mcp.shared.dispatcher import ProgressFnT

RETRY_ROUNDS_MAX = 10  # answers of a server that ask for the request to be sent again
RETRY_INTERVAL_S = 0.25  # delay before that
TEMPLATES_MAX = 100

T = TypeVar("T")
ResultT = TypeVar("ResultT", bound=types.Result)
SessionRequest = Callable[[ClientSession], Awaitable[T]]

_call_result_adapter: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)
_read_result_adapter: TypeAdapter[types.ReadResourceResult | types.InputRequiredResult] = TypeAdapter(
    types.ReadResourceResult | types.InputRequiredResult
)
_prompt_result_adapter: TypeAdapter[types.GetPromptResult | types.InputRequiredResult] = TypeAdapter(
    types.GetPromptResult | types.InputRequiredResult
)


def build_connection(
    server: McpServerConfig, sandbox: Sandbox | None, folder: Path, limits: McpLimits, log: PluginLog
) -> McpConnection:
    """Build a connection, which is not started yet."""
    silence_sdk_logging()
    gate = FloodGuard(limits, asyncio.get_running_loop().time)
    dial: OpenTransport = partial(open_http, server, limits, gate)
    if sandbox is not None and server.is_local:
        dial = partial(open_stdio, server, sandbox, folder, limits, gate, log)
    connection = McpConnection(server.name, dial, limits, gate, lambda: log.error_summary)
    connection.startup_hint = lambda late: startup_hint(server, log.last_output, timed_out=late)
    return connection


def build_tool_call(
    name: str, arguments: JsonObject, on_progress: McpProgressCallback, limits: McpLimits
) -> SessionRequest[McpAnswer]:
    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        on_progress(progress, total, shorten_line(message or ""))

    def request(state: str | None) -> types.CallToolRequest:
        params = types.CallToolRequestParams(name=name, arguments=arguments, request_state=state)
        return types.CallToolRequest(params=params)

    async def work(session: ClientSession) -> McpAnswer:
        # Not the session's own `call_tool`: that validates results against a schema from the server, which may take
        # unbounded time.
        return call_result_to_answer(
            await _send_until_complete(session, request, _call_result_adapter, progressed), limits
        )

    return work


def build_resource_read(uri: str, limits: McpLimits) -> SessionRequest[McpAnswer]:
    def request(state: str | None) -> types.ReadResourceRequest:
        return types.ReadResourceRequest(params=types.ReadResourceRequestParams(uri=uri, request_state=state))

    async def work(session: ClientSession) -> McpAnswer:
        return resource_to_answer((await _send_until_complete(session, request, _read_result_adapter)).contents, limits)

    return work


def build_prompt_get(name: str, arguments: dict[str, str], limits: McpLimits) -> SessionRequest[list[tuple[str, str]]]:
    def request(state: str | None) -> types.GetPromptRequest:
        params = types.GetPromptRequestParams(name=name, arguments=arguments, request_state=state)
        return types.GetPromptRequest(params=params)

    async def work(session: ClientSession) -> list[tuple[str, str]]:
        result = await _send_until_complete(session, request, _prompt_result_adapter)
        return [
            (message.role, prompt_part_to_text(message.content, limits)) for message in result.messages[:LIST_ITEMS_MAX]
        ]

    return work


def build_resource_list(cursor: str, limits: McpLimits) -> SessionRequest[McpResourcePage]:
    """Build a request for one page of resources; the first page (empty cursor) includes the templates."""

    async def work(session: ClientSession) -> McpResourcePage:
        capabilities = session.server_capabilities
        if capabilities is None or capabilities.resources is None:
            return McpResourcePage(resources=())
        page = await session.list_resources(params=types.PaginatedRequestParams(cursor=cursor or None))
        resources = [_to_resource(resource.uri, resource, limits) for resource in page.resources[: limits.tools_max]]
        if not cursor:
            templates = await _list_templates(session)
            resources += [
                _to_resource(template.uri_template, template, limits, template=True) for template in templates
            ]
        return McpResourcePage(resources=tuple(resources), cursor=page.next_cursor or "")

    return work


def build_prompt_list(limits: McpLimits) -> SessionRequest[list[McpPrompt]]:
    async def work(session: ClientSession) -> list[McpPrompt]:
        capabilities = session.server_capabilities
        if capabilities is None or capabilities.prompts is None:
            return []
        listed = await read_paginated(
            session.list_prompts, lambda page: page.prompts, limits.pages_max, limits.tools_max
        )
        return [_to_prompt(prompt, limits) for prompt in listed]

    return work


def _to_prompt(prompt: types.Prompt, limits: McpLimits) -> McpPrompt:
    chars_max = limits.description_chars_max
    arguments = tuple(
        McpPromptArgument(
            name=argument.name,
            description=clean_text(argument.description or "", chars_max),
            required=bool(argument.required),
        )
        for argument in prompt.arguments or ()
    )
    return McpPrompt(name=prompt.name, description=clean_text(prompt.description or "", chars_max), arguments=arguments)


def _to_resource(
    uri: str, resource: types.Resource | types.ResourceTemplate, limits: McpLimits, *, template: bool = False
) -> McpResource:
    return McpResource(
        uri=uri,
        name=shorten_line(resource.name),
        description=clean_text(resource.description or "", limits.description_chars_max),
        mime=shorten_line(resource.mime_type or ""),
        template=template,
    )


async def _list_templates(session: ClientSession) -> list[types.ResourceTemplate]:
    try:
        return (await session.list_resource_templates()).resource_templates[:TEMPLATES_MAX]
    except MCPError as error:
        if error.code == types.METHOD_NOT_FOUND:  # many servers have no templates
            return []
        raise


async def _send_until_complete(
    session: ClientSession,
    build_request: Callable[[str | None], types.ClientRequest],
    result_adapter: TypeAdapter[ResultT | types.InputRequiredResult],
    on_progress: ProgressFnT | None = None,
) -> ResultT:
    """Send a request, again as often as the server asks for that, within a limit. Sampling and elicitation (input from
    the model or the user) are refused."""
    state: str | None = None
    for _ in range(RETRY_ROUNDS_MAX):
        answer = await session.send_request(build_request(state), result_adapter, progress_callback=on_progress)
        if not isinstance(answer, types.InputRequiredResult):
            return answer
        if answer.input_requests:
            raise CallFailed("The server requests input from the model or the user, which is not supported.")
        state = answer.request_state
        await asyncio.sleep(RETRY_INTERVAL_S)
    raise CallFailed(f"The server asked for another attempt {RETRY_ROUNDS_MAX} times; no more are made.")
