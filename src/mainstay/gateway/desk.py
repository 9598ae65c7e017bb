"""The agent of a workspace as the gateway uses it: the Office port on an `Agent` that is open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

import msgspec

from mainstay.agent.agent import Agent, unspoken
from mainstay.agent.approvals import AgentApprovals
from mainstay.agent.memory import AgentMemory
from mainstay.agent.opened import Opened
from mainstay.agent.sessions import Sessions
from mainstay.agent.triggers import AgentTriggers
from mainstay.core.addresses import Heard
from mainstay.core.audit import AuditReading
from mainstay.core.channels import Mail
from mainstay.core.envelope import Envelope, check_session_name, session_key
from mainstay.core.error_list import ErrorList
from mainstay.core.errors import ApprovalUnknown, InputRefused, StoreFailed
from mainstay.core.events import ApprovalAnswered, Delivered, Event, SessionChanged
from mainstay.core.guests import GuestTool
from mainstay.core.messages import AnyPart
from mainstay.core.tracing import trace_id
from mainstay.gateway.desk_mail import DeskMail
from mainstay.gateway.office import Approver
from mainstay.lane.hub import Hub, Watcher
from mainstay.lane.tickets import Ticket
from mainstay.trust.calls import runs_commands

GUESTS_MAX = 128
GUEST_BYTES_MAX = 256 * 1024
LOOK_S = 0.005  # between two looks for what is about to be on disk
SETTLE_S = 30.0
EXPECT_S = 10.0  # between somebody's word that they will listen, and their doing so


class Desk:
    """Made once the agent is open. Another agent of the same workspace may take its place (`hold`, then `use`): whoever
    comes meanwhile waits, and whoever follows goes on following."""

    def __init__(self, agent: Agent, opened: Opened) -> None:
        self._agent = agent
        self._open = opened
        self._free = asyncio.Event()
        self._free.set()
        self._kept_mail = DeskMail(self._mail)
        self._early: dict[Watcher, Hub] = {}  # of those who are about to follow

    @classmethod
    async def of(cls, agent: Agent) -> Desk:
        return cls(agent, await agent.opened())

    def hold(self) -> None:
        """Nothing new is taken until another agent is there."""
        self._free.clear()

    def use(self, agent: Agent, opened: Opened) -> None:
        self._agent, self._open = agent, opened
        self._free.set()

    async def _ready(self) -> Opened:
        await self._free.wait()
        return self._open

    @property
    def now(self) -> Opened:
        """As it is at this moment, for whoever only counts."""
        return self._open

    @property
    def workspace(self) -> str:
        return self._open.config.workspace

    @property
    def sessions(self) -> Sessions:
        return self._agent.sessions

    @property
    def approvals(self) -> AgentApprovals:
        return self._agent.approvals

    @property
    def memory(self) -> AgentMemory:
        return self._agent.memory

    @property
    def triggers(self) -> AgentTriggers:
        return self._agent.triggers

    @property
    def errors(self) -> ErrorList | None:
        return self._open.errors

    @property
    def audit(self) -> AuditReading | None:
        return self._open.audit

    def title(self) -> str:
        return self._open.services.choose("").model().name

    def key(self, session: str, sender: str, heard: Heard | None = None) -> str:
        if heard is None:
            return self._open.key(session, sender)
        at = heard.address
        envelope = Envelope(parts=(), channel=at.channel, room=at.room, thread=at.thread, sender=sender)
        return check_session_name(session_key(envelope, self._open.config.lanes.key), self._open.config.limits)

    # --- in --------------------------------------------------------------------------------------

    async def accept(
        self, key: str, parts: Sequence[AnyPart], *, id: str = "", sender: str = "", heard: Heard | None = None
    ) -> Ticket:
        opened = await self._ready()
        return await opened.lanes.get(key).accept(self._envelope(key, parts, id, sender, heard))

    async def overhear(
        self, key: str, parts: Sequence[AnyPart], *, id: str, sender: str = "", heard: Heard | None = None
    ) -> bool:
        opened = await self._ready()
        return await opened.lanes.get(key).overhear(self._envelope(key, parts, id, sender, heard))

    async def steer(self, key: str, parts: Sequence[AnyPart], *, id: str = "", sender: str = "") -> Ticket:
        """Whose rules hold is settled when a turn begins: what somebody else says waits for the next one."""
        lane = (await self._ready()).lanes.get(key)
        envelope = self._envelope(key, parts, id, sender, None)
        turn = (await lane.view()).open
        return await (lane.steer(envelope) if turn is None or turn.sender == sender else lane.accept(envelope))

    async def abort(self, key: str) -> bool:
        opened = self._open  # what runs can be stopped at any time
        if await opened.services.store.get(key) is None:
            return False
        return await opened.lanes.get(key).abort()

    def _envelope(self, key: str, parts: Sequence[AnyPart], id: str, sender: str, heard: Heard | None) -> Envelope:
        guards = self._open.services.trust.guards
        shown = tuple(unspoken(part, guards) for part in parts)
        return Envelope(parts=shown, thread=key, sender=sender, id=id, heard=heard)

    async def trace(self, key: str, turn: int) -> str:
        return trace_id(key, (await (await self._ready()).lanes.get(key).view()).created, turn)

    async def seen(self, key: str, id: str) -> bool:
        return await (await self._ready()).services.store.seen(key, id) is not None

    async def record(self, key: str, event: Delivered) -> None:
        await (await self._ready()).lanes.get(key).change(event)

    async def import_history(self, key: str, messages: Sequence[dict[str, Any]]) -> None:
        await self._ready()
        await self._agent.import_history(key, messages)

    async def set_model(self, key: str, model: str) -> None:
        await self._ready()
        await self._agent.sessions.set_model(key, model)

    # --- tools that whoever asks runs ------------------------------------------------------------

    async def offer(self, key: str, tools: Sequence[GuestTool]) -> None:
        lane = (await self._ready()).lanes.get(key)
        given = tuple(tools)
        if (await lane.view()).guests == given:
            return
        own = {tool.name for tool in self._open.services.tools.offered}
        if taken := next((one.name for one in given if one.name in own), None):
            raise InputRefused(f"the agent has a tool of its own that is called {taken!r}; call yours otherwise")
        if len({one.name for one in given}) != len(given):
            raise InputRefused("two of the tools have the same name")
        if len(given) > GUESTS_MAX or len(msgspec.json.encode(given)) > GUEST_BYTES_MAX:
            raise InputRefused(f"at most {GUESTS_MAX} tools of {GUEST_BYTES_MAX} bytes together can be brought along")
        await lane.change(SessionChanged(guests=given))

    def approved_by(self, tool: str) -> Approver:
        services = self._open.services
        policy = services.trust.policy
        found = next((one for one in services.tools.offered if one.name == tool), None)
        if found is None or policy is None or policy.confinement.confined or not runs_commands(found):
            return "member"
        beside = self._agent._beside
        return "admin" if beside is None or beside.main else "owner"

    async def hand_in(self, key: str, call_id: str, content: str) -> Ticket:
        lane = (await self._ready()).lanes.get(key)
        pending = (await lane.view()).pending
        if pending is None or not pending.client or pending.call_id != call_id:
            raise ApprovalUnknown(f"nothing waits for the result of the call {call_id[:80]!r}")
        guards = self._open.services.trust.guards
        said = guards.shown(content) if guards is not None else content
        return await lane.answer(ApprovalAnswered(pending.id, "approved", result=said))

    # --- what channels keep here ------------------------------------------------------------------

    def mail(self) -> Mail:
        """What has arrived here and what is to be delivered."""
        return self._kept_mail

    async def _mail(self) -> Mail:
        from mainstay.store.sqlite import SqliteStore  # only for those who have channels

        store = (await self._ready()).services.store
        if not isinstance(store, SqliteStore):
            raise StoreFailed("an agent without a home keeps no mail")
        return store.mail()

    def attachments(self, session: str) -> str:
        """The folder for files that come with messages of a session."""
        return self._open.attachments(session)

    # --- out -------------------------------------------------------------------------------------

    async def watch(self) -> AsyncIterator[Event]:
        await self._ready()
        async for event in self._agent.watch():
            yield event

    def expect(self, key: str) -> object:
        hub = self._open.services.hub
        watcher = hub.watch(key)
        self._early[watcher] = hub
        asyncio.get_running_loop().call_later(EXPECT_S, self._give_up, watcher)
        return watcher

    def _give_up(self, watcher: Watcher) -> None:
        if (hub := self._early.pop(watcher, None)) is not None:
            hub.leave(watcher)

    async def follow(self, key: str, after: int = 0, since: object = None) -> AsyncGenerator[Event, None]:
        """Until one stops listening, or the agent is closed and no other takes its place."""
        opened = None
        while (now := await self._ready()) is not opened:
            opened = now
            hub = opened.services.hub
            early = isinstance(since, Watcher) and self._early.pop(since, None) is hub
            watcher = since if early and isinstance(since, Watcher) else hub.watch(key)
            try:
                head = (await opened.lanes.get(key).view()).head  # the journal, as far as it is not heard anyway
                async for event in self._kept(key, after, watcher.first - 1 if watcher.first else head):
                    after = event.sequence
                    yield event
                async for event in watcher:
                    sequence = event.sequence
                    if not sequence:
                        yield event
                        continue
                    if sequence > after + 1:  # something was missed, for being slow: the journal has it
                        async for kept in self._kept(key, after, sequence - 1):
                            after = kept.sequence
                            yield kept
                    if sequence > after:
                        after = sequence
                        yield event
            finally:
                hub.leave(watcher)

    async def _kept(self, key: str, after: int, upto: int) -> AsyncIterator[Event]:
        """What is on disk as far as this, or about to be. What is later is heard by listening."""
        deadline = asyncio.get_running_loop().time() + SETTLE_S
        while after < upto:
            page = await self.sessions.records(key, after=after)
            for record in page:
                if record.seq > upto:
                    return
                after = record.seq
                yield msgspec.structs.replace(record.event, session=key, sequence=record.seq)
            if page:
                continue
            if asyncio.get_running_loop().time() > deadline:
                raise StoreFailed(f"session {key[:80]!r} is not being written; try again")
            await asyncio.sleep(LOOK_S)
