"""The open agent of one workspace, as the gateway holds it: it can be replaced while callers use it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from mainstay.agent.agent import Agent
from mainstay.agent.agent_builder import OpenAgent
from mainstay.core.channels import ChannelQueue, Delivery, PendingMessage


class Workspace:
    """Source of the workspace's open agent. `suspend` stops new work, `replace_agent` continues it on another agent:
    callers meanwhile wait, and streams continue on the new one."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.name = agent.current.workspace
        self._runtime = agent.current
        self._available = asyncio.Event()
        self._available.set()
        self._store_queue: ChannelQueue | None = None  # of the agent that is open now; opened when it is first used
        self._channel_queue = WorkspaceChannelQueue(self._get_queue)

    def suspend(self) -> None:
        """Make callers of `runtime` wait until `replace_agent`."""
        self._available.clear()

    def replace_agent(self, agent: Agent) -> None:
        self.agent, self._runtime = agent, agent.current
        self._store_queue = None
        self._available.set()

    async def runtime(self) -> OpenAgent:
        await self._available.wait()
        return self._runtime

    @property
    def current(self) -> OpenAgent:
        return self._runtime

    def channel_queue(self) -> ChannelQueue:
        """Return the queue of messages from channels and deliveries to them, in the workspace's store."""
        return self._channel_queue

    async def _get_queue(self) -> ChannelQueue:
        await self._available.wait()
        if self._store_queue is None:
            self._store_queue = self._runtime.auxiliary_stores.channel_queue()
        return self._store_queue


class WorkspaceChannelQueue:
    """The workspace's `ChannelQueue`, in the store of the agent that is open now.

    `get_queue` returns the queue in use; it is called every time, because a reload may replace the agent.
    """

    def __init__(self, get_queue: Callable[[], Awaitable[ChannelQueue]]) -> None:
        self._get_queue = get_queue

    async def add_pending(self, message: PendingMessage) -> bool:
        return await (await self._get_queue()).add_pending(message)

    async def list_pending(self) -> Sequence[PendingMessage]:
        return await (await self._get_queue()).list_pending()

    async def remove_pending(self, id: str) -> None:
        await (await self._get_queue()).remove_pending(id)

    async def add_delivery(self, delivery: Delivery) -> Delivery:
        return await (await self._get_queue()).add_delivery(delivery)

    async def update_delivery(self, delivery: Delivery) -> None:
        await (await self._get_queue()).update_delivery(delivery)

    async def find_delivery(self, key: str) -> Delivery | None:
        return await (await self._get_queue()).find_delivery(key)

    async def list_due(self) -> Sequence[Delivery]:
        return await (await self._get_queue()).list_due()

    async def list_recent(self, limit: int = 100) -> Sequence[Delivery]:
        return await (await self._get_queue()).list_recent(limit)

    async def prune(self, before_ms: int) -> None:
        await (await self._get_queue()).prune(before_ms)
