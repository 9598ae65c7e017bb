"""An MCP server on the agent of a home, until the host or a signal ends it. Loads the `mcp` library."""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from functools import partial
from typing import cast

from mainstay.agent.agent import Agent
from mainstay.agent.world import SystemClock
from mainstay.cli.chat.asking import asked_lines, elsewhere
from mainstay.cli.commands.talking import Setting, new_session, own_model, owner_of, setting, settle_in, tell
from mainstay.core.errors import InputRefused, SessionUnknown
from mainstay.core.events import ApprovalAsked, Event
from mainstay.core.ports import Standing
from mainstay.core.recall import Hit
from mainstay.core.workers import in_thread
from mainstay.gateway.owner import Remote
from mainstay.server.loopback import HOST, PATH, serve_http
from mainstay.server.mcp import McpServer
from mainstay.server.stdio import serve_stdio
from mainstay.server.web import bind

NOT_TAKEN = (
    "this conversation waits for the owner's approval; the prompt was not taken: go on with it when that is given"
)
SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def serve(options: argparse.Namespace, port: int | None) -> None:
    """On this port of loopback; without one, on the standard streams."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, stop.set)
    try:
        async with Home(partial(setting, options)) as home:
            offered = McpServer(home)
            try:
                await _served(offered, port, stop)
            finally:
                await offered.turns.close()
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


async def _served(offered: McpServer, port: int | None, stop: asyncio.Event) -> None:
    if port is None:
        await serve_stdio(offered, stop)
        return
    with bind(HOST, port) as at:
        url = f"http://{HOST}:{at.getsockname()[1]}{PATH}"
        tell(f"at {url}, for every program on this machine; Ctrl-C ends it")
        await serve_http(offered, at, stop)


class Home:
    """The home's agent for as long as this serves: opened when something is first asked, through its owner while it
    has one. When that one leaves, the next request takes the home over."""

    def __init__(self, look: Callable[[], Setting]) -> None:
        self._look = look  # at the configuration, whenever it is opened: who was not to be the owner needed less of it
        self._where: Setting | None = None
        self._door = asyncio.Lock()
        self._agent: Agent | Remote | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Home:
        return self

    async def __aexit__(self, *left: object) -> None:
        async with self._door:
            await self._stack.aclose()

    def new_session(self) -> str:
        return new_session("mcp")

    async def turn(self, session: str, prompt: str) -> AsyncGenerator[Event, None]:
        agent = await self._opened()
        assert self._where is not None, "it is open"
        await _refuse_waiting(agent, session)
        await own_model(self._where, agent, session)
        await settle_in(self._where, agent, session)
        stream = cast(AsyncGenerator[Event, None], agent.stream(session, prompt))
        async with aclosing(stream) as events:
            async for event in events:
                yield event

    async def steer(self, session: str, text: str) -> None:
        agent = await self._opened()
        await agent.sessions.get(session)  # raises: a conversation is begun with `run`, not by a name mistaken
        await agent.steer(session, text)

    async def abort(self, session: str) -> bool:
        return await (await self._opened()).abort(session)

    async def search(self, query: str, k: int) -> Sequence[Hit]:
        return await (await self._opened()).memory.search(query, k)

    async def sessions(self, limit: int) -> Sequence[Standing]:
        listed: Sequence[Standing] = await (await self._opened()).sessions.list(limit=limit)
        return listed

    def question(self, asked: ApprovalAsked) -> str:
        return "\n".join(("It waits for the owner's approval.", *asked_lines(asked), *elsewhere(asked)))

    async def _opened(self) -> Agent | Remote:
        """In a task of its own: a request that is cancelled must not leave a home half open."""
        return await asyncio.shield(asyncio.ensure_future(self._open()))

    async def _open(self) -> Agent | Remote:
        async with self._door:
            if isinstance(self._agent, Remote) and self._where is not None and owner_of(self._where.place) is None:
                self._agent = None
                await self._stack.aclose()
            if self._agent is None:
                where: Setting = await in_thread(self._look)
                self._agent = await self._stack.enter_async_context(where.agent())
                self._where = where
            return self._agent


async def _refuse_waiting(agent: Agent | Remote, session: str) -> None:
    """A prompt behind a question would wait as long as the owner does, and the host with it."""
    try:
        asked = (await agent.sessions.get(session)).approval
    except SessionUnknown:
        return
    if asked is not None and asked.expires > SystemClock().now_ms():
        raise InputRefused("\n".join((NOT_TAKEN, *asked_lines(asked), *elsewhere(asked))))
