"""The open agent of one workspace, as the gateway holds it: it can be replaced while callers use it."""

from __future__ import annotations

import asyncio

from mainstay.agent.agent import Agent
from mainstay.agent.agent_builder import OpenAgent
from mainstay.core.channels import ChannelQueue
from mainstay.gateway.workspace_channel_queue import WorkspaceChannelQueue


class Workspace:
    """Source of the workspace's open agent. `suspend` stops new work, `replace_agent` continues it on another agent:
    callers meanwhile wait, and streams continue on the new one."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self._runtime = agent.current
        self._available = asyncio.Event()
        self._available.set()
        self._channel_queue = WorkspaceChannelQueue(self._get_queue)

    def suspend(self) -> None:
        """Make callers of `runtime` wait until `replace_agent`."""
        self._available.clear()

    def replace_agent(self, agent: Agent) -> None:
        self.agent, self._runtime = agent, agent.current
        self._available.set()

    async def runtime(self) -> OpenAgent:
        await self._available.wait()
        return self._runtime

    @property
    def current(self) -> OpenAgent:
        return self._runtime

    @property
    def name(self) -> str:
        return self._runtime.workspace

    def channel_queue(self) -> ChannelQueue:
        """Return the queue of messages from channels and deliveries to them, in the workspace's store."""
        return self._channel_queue

    async def _get_queue(self) -> ChannelQueue:
        return (await self.runtime()).workspace_store.channel_queue()
