"""MCP server on a home's agent, until the host or a signal ends it. Imports the `mcp` library."""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, TypeVar

from mainstay.agent.client import AgentClient
from mainstay.agent.system_clock import SystemClock
from mainstay.cli.commands.agent_setup import (
    AgentSetup,
    apply_requested_model,
    build_session_name,
    find_owner,
    load_agent_setup,
    print_note,
    set_working_folder,
)
from mainstay.core.errors import InputRefused, SessionUnknown
from mainstay.core.events import ApprovalAsked, Event
from mainstay.core.ports import SessionInfo
from mainstay.core.worker_threads import run_in_thread
from mainstay.gateway.home_socket import RemoteAgent
from mainstay.operations.operation import Operation
from mainstay.operations.turns import Prompt, Steer
from mainstay.server.mcp_http import MCP_HOST, MCP_PATH, serve_mcp_http
from mainstay.server.mcp_server import McpServer
from mainstay.server.mcp_stdio import serve_mcp_stdio
from mainstay.server.mcp_turns import closing_stream
from mainstay.server.uvicorn_server import bind_socket
from mainstay.terminal.approval_formatter import format_approval, format_shell_hints

R = TypeVar("R")
PROMPT_REFUSED = "this session waits for the owner's approval; the prompt was refused: send it again after the approval"
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def serve_home(options: argparse.Namespace, port: int | None) -> None:
    """Serve on this port of 127.0.0.1; without a port, on stdin and stdout."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop.set)
    try:
        async with LazyHomeAgent(partial(load_agent_setup, options)) as home:
            server = McpServer(home)
            try:
                await _serve_transport(server, port, stop)
            finally:
                await server.turns.close()
    finally:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)


async def _serve_transport(server: McpServer, port: int | None, stop: asyncio.Event) -> None:
    if port is None:
        await serve_mcp_stdio(server, stop)
        return
    with bind_socket(MCP_HOST, port) as socket:
        url = f"http://{MCP_HOST}:{socket.getsockname()[1]}{MCP_PATH}"
        print_note(f"serving MCP at {url} to every program on this machine; Ctrl-C ends it")
        await serve_mcp_http(server, socket, stop)


class LazyHomeAgent:
    """The home's agent, opened at the first request: through the process that owns the home, if there is one. When
    that process ends, the next request opens the home here."""

    def __init__(self, load_setup: Callable[[], AgentSetup]) -> None:
        self._load_setup = (
            load_setup  # called at each opening: an owner needs more of the configuration than its client
        )
        self._setup: AgentSetup | None = None
        self._lock = asyncio.Lock()
        self._agent: AgentClient | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> LazyHomeAgent:
        return self

    async def __aexit__(self, *left: object) -> None:
        async with self._lock:
            await self._stack.aclose()

    def new_session(self) -> str:
        return build_session_name("mcp")

    async def open_stream(self, operation: Operation[Any]) -> AsyncIterator[Event]:
        agent = await self._get_agent()
        assert self._setup is not None, "the agent is open"
        if isinstance(operation, Prompt):
            info = await _find_session(agent, operation.session)
            if info is None:  # an existing session keeps its model and folder: the host may be driven by a model
                await apply_requested_model(self._setup, agent, operation.session)
                await set_working_folder(self._setup, agent, operation.session)
            elif info.approval is not None and info.approval.expires > SystemClock().now_ms():
                raise InputRefused(_describe_paused_session(info.approval))  # the host would wait as long
        async with closing_stream(agent.open_stream(operation)) as events:
            async for event in events:
                yield event

    async def execute(self, operation: Operation[R]) -> R:
        agent = await self._get_agent()
        if isinstance(operation, Steer):
            await agent.sessions.get(operation.session)  # raises SessionUnknown: only `run` starts a session
        return await agent.execute(operation)

    def describe_approval(self, approval: ApprovalAsked) -> str:
        return "\n".join(
            ("This turn waits for the owner's approval.", *format_approval(approval), *format_shell_hints(approval))
        )

    async def _get_agent(self) -> AgentClient:
        """Open the agent in a task of its own, so that a cancelled request does not leave the home half open."""
        return await asyncio.shield(asyncio.ensure_future(self._open_agent()))

    async def _open_agent(self) -> AgentClient:
        async with self._lock:
            if (
                isinstance(self._agent, RemoteAgent)
                and self._setup is not None
                and find_owner(self._setup.location) is None
            ):
                self._agent = None
                await self._stack.aclose()
            if self._agent is None:
                setup: AgentSetup = await run_in_thread(self._load_setup)
                self._agent = await self._stack.enter_async_context(setup.open_agent())
                self._setup = setup
            return self._agent


async def _find_session(agent: AgentClient, session: str) -> SessionInfo | None:
    try:
        return await agent.sessions.get(session)
    except SessionUnknown:
        return None


def _describe_paused_session(approval: ApprovalAsked) -> str:
    return "\n".join((PROMPT_REFUSED, *format_approval(approval), *format_shell_hints(approval)))
