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
from mainstay.agent.world import SystemClock
from mainstay.core.addresses import Address
from mainstay.core.channels import ChatChannel, Mail
from mainstay.core.errors import WorkspaceUnknown
from mainstay.core.events import Delivered, Received
from mainstay.core.people import Identity, Person
from mainstay.core.ports import Context, Options
from mainstay.gateway.desk import Desk
from mainstay.gateway.gateway import Gateway
from mainstay.gateway.office import Office
from mainstay.gateway.people import People
from mainstay.gateway.rooms import ChannelRules
from mainstay.gateway.switchboard import Switchboard
from mainstay.providers.scripted import Script, ScriptedProvider, Step
from mainstay.testing.channel_rig import Rig, Shown, eventually
from mainstay.testing.memory_gateway import MemoryGateway

ANN = Person(name="ann", called="Ann Lee", roles={"main": "admin"})
BOB = Person(name="bob", called="Bob", roles={"main": "member"})


def echo(context: Context, options: Options) -> Step:
    """Says what it was told, so that one can see what it was told."""
    return f"re: {context.messages[-1].text.strip()}"


class World:
    """What one process has, and what outlives it."""

    def __init__(self, where: Path, *rigs: Rig, script: Script = echo, people: Sequence[Person] = (ANN, BOB)) -> None:
        self.where = where
        self.rigs = rigs
        self.script = script
        self.declared = people
        self.rules: dict[str, ChannelRules] = {rig.channel.name: ChannelRules(workspace="main") for rig in rigs}
        self.accounts = [
            Identity(channel=rig.channel.name, user=user, person=person.name)
            for rig in rigs
            for person, user in zip(people, (rig.user, rig.other), strict=False)
        ]
        self.tools: Sequence[Any] = ()
        self.config: Mapping[str, Any] = {}
        self.models: dict[str, ScriptedProvider] = {}
        self.offices: dict[str, Office] = {}
        self.mails: dict[str, Mail] = {}
        self.wrap_office: Callable[[Office], Office] = lambda office: office
        self.wrap_mail: Callable[[Mail], Mail] = lambda mail: mail
        self._agents: dict[str, Agent] = {}

    async def office(self, workspace: str) -> Office:
        if workspace not in self.offices:
            if not any(workspace in one.roles for one in self.declared):
                raise WorkspaceUnknown(f"there is no workspace {workspace!r}")
            self.models[workspace] = ScriptedProvider(self.script)
            config = Config(workspace=workspace, **self.config)
            home = self.where / workspace
            agent = Agent(self.models[workspace], home=home, tools=self.tools, config=config)
            desk = await Desk.of(agent)
            self._agents[workspace] = agent
            self.offices[workspace] = self.wrap_office(desk)
            self.mails[workspace] = self.wrap_mail(desk.mail())
        return self.offices[workspace]

    def folder(self, workspace: str, session: str) -> str:
        return str(self.where / "attachments" / workspace)

    async def begin(self, *channels: ChatChannel) -> None:
        self.people = People(MemoryGateway(), SystemClock(), self.declared, self.accounts)
        await self.people.open()
        self.board = self.make_board()
        await self.board.start(channels or [rig.channel for rig in self.rigs])

    def make_board(self) -> Switchboard:
        gateway = Gateway(self.office, self.people)
        return Switchboard(gateway, self.rules, SystemClock(), lambda name: self.mails[name], self.folder)

    async def end(self, drain_s: float = 5.0) -> None:
        await self.board.close(drain_s=drain_s)
        for agent in self._agents.values():
            await agent.aclose()
        self._agents.clear()
        self.offices.clear()
        await self.people.close()

    async def restart(self) -> None:
        """Another process on the same home and the same platforms."""
        await self.end(0.0)
        await self.begin(*[rig.renew() for rig in self.rigs])

    # --- looking ---------------------------------------------------------------------------------

    def seen_by_the_model(self, workspace: str = "main") -> str:
        model = self.models.get(workspace)
        return "\n".join(repr(one) for one in model.asked) if model is not None else ""

    async def records(self, session: str, workspace: str = "main") -> list[Any]:
        office = await self.office(workspace)
        return [record.event for record in await office.sessions.records(session)]

    async def receipts(self, session: str, workspace: str = "main") -> list[Delivered]:
        return [one for one in await self.records(session, workspace) if isinstance(one, Delivered)]

    async def received(self, session: str, workspace: str = "main") -> list[Received]:
        return [one for one in await self.records(session, workspace) if isinstance(one, Received)]

    async def shown(self, rig: Rig, room: str, text: str) -> Shown:
        async def look() -> Shown | None:
            return next((one for one in await rig.shown(room) if text in one.text), None)

        return await eventually(look, f"{text!r} is shown in {room}")

    async def told(self, session: str, count: int = 1, workspace: str = "main") -> list[Delivered]:
        """So many turns were delivered, one way or another."""

        async def look() -> list[Delivered] | None:
            found = [one for one in await self.receipts(session, workspace) if one.turn]
            return found if len(found) >= count else None

        return await eventually(look, f"{count} receipts in {session}")

    def session(self, rig: Rig, room: str, thread: str) -> str:
        at = Address(rig.channel.name, room, thread)
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
