"""A gateway with chat platforms in one process: real agents on real homes, platforms in memory, a script as model.

`World` can be ended at any moment and begun again on what is on disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mainstay import Agent, Config
from mainstay.agent.system_clock import SystemClock
from mainstay.core.channels import ChannelQueue, ChatChannel
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.errors import WorkspaceUnknown
from mainstay.core.events import Delivered, Received
from mainstay.core.messages import Text
from mainstay.core.people import ChannelIdentity, Person
from mainstay.core.ports import Context, Options
from mainstay.core.tool_ports import AttachmentsFolder
from mainstay.gateway.channel_router import ChannelRouter
from mainstay.gateway.operation_gateway import OperationGateway
from mainstay.gateway.people import People
from mainstay.gateway.room_routing import ChannelRoutingSettings
from mainstay.gateway.workspace import Workspace
from mainstay.lane.replies import PendingReply
from mainstay.operations.input_submission import accept_prompt
from mainstay.providers.scripted import Script, ScriptedProvider, Step
from mainstay.store.memory.people_store import InMemoryPeopleStore
from mainstay.testing.channel_rig import ChannelRig, PostedMessage, eventually
from support.fixed_home import FixedHome, opened_workspace

ANN = Person(name="ann", display_name="Ann Lee", roles={"main": "admin"})
BOB = Person(name="bob", display_name="Bob", roles={"main": "member"})


def echo(context: Context, options: Options) -> Step:
    """Says what it was told, so that one can see what it was told."""
    return f"re: {context.messages[-1].text.strip()}"


class World:
    """What one process has, and what outlives it."""

    def __init__(
        self, where: Path, *rigs: ChannelRig, script: Script = echo, people: Sequence[Person] = (ANN, BOB)
    ) -> None:
        self.where = where
        self.rigs = rigs
        self.script = script
        self.declared = people
        self.rules: dict[str, ChannelRoutingSettings] = {
            rig.channel.name: ChannelRoutingSettings(workspace="main") for rig in rigs
        }
        self.accounts = [
            ChannelIdentity(channel=rig.channel.name, user=user, person=person.name)
            for rig in rigs
            for person, user in zip(people, (rig.user, rig.other_user), strict=False)
        ]
        self.tools: Sequence[Any] = ()
        self.config: Mapping[str, Any] = {}
        self.models: dict[str, ScriptedProvider] = {}
        self.workspaces: dict[str, Workspace] = {}
        self.mails: dict[str, ChannelQueue] = {}
        self._agents: dict[str, Agent] = {}

    async def workspace(self, workspace: str) -> Workspace:
        if workspace not in self.workspaces:
            if not any(workspace in one.roles for one in self.declared):
                raise WorkspaceUnknown(f"there is no workspace {workspace!r}")
            self.models[workspace] = ScriptedProvider(self.script)
            config = Config(workspace=workspace, **self.config)
            home = self.where / workspace
            agent = Agent(self.models[workspace], home=home, tools=self.tools, config=config)
            opened = await opened_workspace(agent)
            self._agents[workspace] = agent
            self.workspaces[workspace] = opened
            self.mails[workspace] = opened.channel_queue()
        return self.workspaces[workspace]

    async def agent(self, workspace: str = "main") -> Agent:
        return (await self.workspace(workspace)).agent

    async def accept(self, session: str, text: str, workspace: str = "main", **more: Any) -> PendingReply:
        """A prompt that did not come through a channel."""
        runtime = await (await self.workspace(workspace)).runtime()
        return await accept_prompt(runtime, session, (Text(text),), **more)

    def folder(self, workspace: str, session: str) -> AttachmentsFolder:
        path = str(self.where / "attachments" / workspace)
        return AttachmentsFolder(path, path)

    async def begin(self, *channels: ChatChannel) -> None:
        self.people = People(InMemoryPeopleStore(), SystemClock(), self.declared, self.accounts)
        await self.people.open()
        self.board = self.make_board()
        await self.board.start(channels or [rig.channel for rig in self.rigs])

    def make_board(self) -> ChannelRouter:
        gateway = OperationGateway(self.workspace, self.people, FixedHome(self.people, "main"))
        return ChannelRouter(gateway, self.rules, SystemClock(), lambda name: self.mails[name], self.folder)

    async def end(self, drain_s: float = 5.0) -> None:
        await self.board.close(drain_s=drain_s)
        for agent in self._agents.values():
            await agent.aclose()
        self._agents.clear()
        self.workspaces.clear()
        await self.people.close()

    async def restart(self) -> None:
        """Another process on the same home and the same platforms."""
        await self.end(0.0)
        await self.begin(*[rig.recreate_channel() for rig in self.rigs])

    # --- looking ---------------------------------------------------------------------------------

    def seen_by_the_model(self, workspace: str = "main") -> str:
        model = self.models.get(workspace)
        return "\n".join(repr(one) for one in model.asked) if model is not None else ""

    async def records(self, session: str, workspace: str = "main") -> list[Any]:
        agent = await self.agent(workspace)
        return [record.event for record in await agent.sessions.records(session)]

    async def receipts(self, session: str, workspace: str = "main") -> list[Delivered]:
        return [one for one in await self.records(session, workspace) if isinstance(one, Delivered)]

    async def received(self, session: str, workspace: str = "main") -> list[Received]:
        return [one for one in await self.records(session, workspace) if isinstance(one, Received)]

    async def shown(self, rig: ChannelRig, room: str, text: str) -> PostedMessage:
        async def look() -> PostedMessage | None:
            return next((one for one in await rig.posted_messages(room) if text in one.text), None)

        return await eventually(look, f"{text!r} is shown in {room}")

    async def told(self, session: str, count: int = 1, workspace: str = "main") -> list[Delivered]:
        """So many turns were delivered, one way or another."""

        async def look() -> list[Delivered] | None:
            found = [one for one in await self.receipts(session, workspace) if one.turn]
            return found if len(found) >= count else None

        return await eventually(look, f"{count} receipts in {session}")

    def session(self, rig: ChannelRig, room: str, thread: str) -> str:
        at = ChatAddress(rig.channel.name, room, thread)
        return str(at) if thread else f"{at}:"


@asynccontextmanager
async def running(world: World) -> AsyncIterator[World]:
    await world.begin()
    try:
        yield world
    finally:
        await world.end(0.0)


async def never(look: Callable[[], Any], turns: int = 50) -> None:
    """What must not happen has not happened after the loop went round so often."""
    for _ in range(turns):
        assert not look()
        await asyncio.sleep(0)
