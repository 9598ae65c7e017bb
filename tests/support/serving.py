"""What the server's tests share: the operations of a real agent that keeps nothing, with a scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import cast

from mainstay import Agent
from mainstay.core.errors import MainstayError
from mainstay.core.events import ApprovalAsked, Event
from mainstay.core.ports import Standing, Tool
from mainstay.core.recall import Hit
from mainstay.providers.scripted import ScriptedProvider, Step
from mainstay.server.mcp import McpServer

HOLDS_S = 20.0


class Operated:
    """An agent, as the server sees one."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.aborted: list[str] = []
        self.broken: MainstayError | None = None
        self._count = 0

    def new_session(self) -> str:
        self._count += 1
        return f"new-{self._count}"

    async def turn(self, session: str, prompt: str) -> AsyncGenerator[Event, None]:
        if self.broken is not None:
            raise self.broken
        stream = cast(AsyncGenerator[Event, None], self.agent.stream(session, prompt))
        async with aclosing(stream) as events:
            async for event in events:
                yield event

    async def steer(self, session: str, text: str) -> None:
        await self.agent.steer(session, text)

    async def abort(self, session: str) -> bool:
        self.aborted.append(session)
        return await self.agent.abort(session)

    async def search(self, query: str, k: int) -> Sequence[Hit]:
        return await self.agent.memory.search(query, k)

    async def sessions(self, limit: int) -> Sequence[Standing]:
        return await self.agent.sessions.list(limit=limit)

    def question(self, asked: ApprovalAsked) -> str:
        return f"{asked.name} waits: {asked.id}"


@asynccontextmanager
async def operated(steps: Sequence[Step], tools: Sequence[Tool] = ()) -> AsyncIterator[tuple[Operated, McpServer]]:
    async with Agent(ScriptedProvider(list(steps)), tools=list(tools), home=":memory:") as agent:
        operations = Operated(agent)
        offered = McpServer(operations)
        try:
            yield operations, offered
        finally:
            await offered.turns.close()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(HOLDS_S):
        while not true():
            await asyncio.sleep(0.005)
