"""What the server's tests share: the operations of a real agent that keeps nothing, with a scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from mainstay import Agent
from mainstay.core.errors import MainstayError
from mainstay.core.events import ApprovalAsked, Event
from mainstay.core.ports import Tool
from mainstay.operations.operation import Operation
from mainstay.operations.turns import Abort
from mainstay.providers.scripted import ScriptedProvider, Step
from mainstay.server.mcp_server import McpServer
from mainstay.server.mcp_turns import closing_stream

R = TypeVar("R")
HOLDS_S = 120.0


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

    async def open_stream(self, operation: Operation[Any]) -> AsyncIterator[Event]:
        if self.broken is not None:
            raise self.broken
        async with closing_stream(self.agent.open_stream(operation)) as events:
            async for event in events:
                yield event

    async def execute(self, operation: Operation[R]) -> R:
        if isinstance(operation, Abort):
            self.aborted.append(operation.session)
        return await self.agent.execute(operation)

    def describe_approval(self, approval: ApprovalAsked) -> str:
        return f"{approval.name} waits: {approval.id}"


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
