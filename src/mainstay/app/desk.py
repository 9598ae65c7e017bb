"""The agent of a workspace as the gateway uses it: the Office port on an `Agent` that is open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from mainstay.app.agent import Agent, unspoken
from mainstay.app.approvals import AgentApprovals
from mainstay.app.memory import AgentMemory
from mainstay.app.opened import Opened
from mainstay.app.sessions import Sessions
from mainstay.app.triggers import AgentTriggers
from mainstay.core.addresses import Heard
from mainstay.core.channels import Mail
from mainstay.core.envelope import Envelope, check_session_name, session_key
from mainstay.core.errors import ApprovalUnknown, InputRefused, StoreFailed
from mainstay.core.events import ApprovalAnswered, Delivered, Event, Lagged, SessionChanged
from mainstay.core.guests import GuestTool
from mainstay.core.mail import MemoryMail
from mainstay.core.messages import AnyPart
from mainstay.lane.tickets import Ticket

GUESTS_MAX = 128
GUEST_BYTES_MAX = 256 * 1024
LOOK_S = 0.005  # between two looks for what is about to be on disk
SETTLE_S = 30.0


class Desk:
    """Made once the agent is open, and used no longer than that is."""

    def __init__(self, agent: Agent, opened: Opened) -> None:
        self._agent = agent
        self._open = opened
        self._mail: Mail | None = None
        self.sessions: Sessions = agent.sessions
        self.approvals: AgentApprovals = agent.approvals
        self.memory: AgentMemory = agent.memory
        self.triggers: AgentTriggers = agent.triggers

    @classmethod
    async def of(cls, agent: Agent) -> Desk:
        return cls(agent, await agent.opened())

    @property
    def workspace(self) -> str:
        return self._open.config.workspace

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
        return await self._open.lanes.get(key).accept(self._envelope(key, parts, id, sender, heard))

    async def overhear(
        self, key: str, parts: Sequence[AnyPart], *, id: str, sender: str = "", heard: Heard | None = None
    ) -> bool:
        return await self._open.lanes.get(key).overhear(self._envelope(key, parts, id, sender, heard))

    async def steer(self, key: str, parts: Sequence[AnyPart], *, id: str = "", sender: str = "") -> Ticket:
        return await self._open.lanes.get(key).steer(self._envelope(key, parts, id, sender, None))

    async def abort(self, key: str) -> bool:
        if await self._open.services.store.get(key) is None:
            return False
        return await self._open.lanes.get(key).abort()

    def _envelope(self, key: str, parts: Sequence[AnyPart], id: str, sender: str, heard: Heard | None) -> Envelope:
        guards = self._open.services.trust.guards
        shown = tuple(unspoken(part, guards) for part in parts)
        return Envelope(parts=shown, thread=key, sender=sender, id=id, heard=heard)

    async def seen(self, key: str, id: str) -> bool:
        return await self._open.services.store.seen(key, id) is not None

    async def record(self, key: str, event: Delivered) -> None:
        await self._open.lanes.get(key).change(event)

    async def import_history(self, key: str, messages: Sequence[dict[str, Any]]) -> None:
        await self._agent.import_history(key, messages)

    async def set_model(self, key: str, model: str) -> None:
        await self._agent.sessions.set_model(key, model)

    # --- tools that whoever asks runs ------------------------------------------------------------

    async def offer(self, key: str, tools: Sequence[GuestTool]) -> None:
        lane = self._open.lanes.get(key)
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

    async def hand_in(self, key: str, call_id: str, content: str) -> Ticket:
        lane = self._open.lanes.get(key)
        pending = (await lane.view()).pending
        if pending is None or not pending.client or pending.call_id != call_id:
            raise ApprovalUnknown(f"nothing waits for the result of the call {call_id[:80]!r}")
        guards = self._open.services.trust.guards
        said = guards.shown(content) if guards is not None else content
        return await lane.answer(ApprovalAnswered(pending.id, "approved", result=said))

    # --- what channels keep here ------------------------------------------------------------------

    def mail(self) -> Mail:
        """What has arrived here and what is to be delivered."""
        if self._mail is None:
            from mainstay.store.sqlite import SqliteStore  # only for those who have channels

            store = self._open.services.store
            self._mail = store.mail() if isinstance(store, SqliteStore) else MemoryMail()
        return self._mail

    def attachments(self, session: str) -> str:
        """The folder for files that come with messages of a session."""
        return self._open.attachments(session)

    # --- out -------------------------------------------------------------------------------------

    async def watch(self) -> AsyncIterator[Event]:
        async for event in self._agent.watch():
            yield event

    async def follow(self, key: str, after: int = 0) -> AsyncIterator[Event]:
        """Listening begins before the journal is read, so that nothing falls between the two."""
        hub = self._open.services.hub
        watcher = hub.watch(key)
        last = after
        try:
            async for event in self._kept(key, last, (await self._open.lanes.get(key).view()).head):
                last = event.sequence
                yield event
            async for event in watcher:
                if isinstance(event, Lagged) or event.sequence > last + 1:  # something was missed: the journal has it
                    async for kept in self._kept(key, last, event.sequence - 1):
                        last = kept.sequence
                        yield kept
                if not event.sequence:
                    yield event
                elif event.sequence > last:
                    last = event.sequence
                    yield event
        finally:
            hub.leave(watcher)

    async def _kept(self, key: str, after: int, upto: int) -> AsyncIterator[Event]:
        """What is on disk, and at least as far as this, which is about to be."""
        deadline = asyncio.get_running_loop().time() + SETTLE_S
        while True:
            page = await self.sessions.records(key, after=after)
            for record in page:
                after = record.seq
                yield msgspec.structs.replace(record.event, session=key, sequence=record.seq)
            if page:
                continue
            if after >= upto:
                return
            if asyncio.get_running_loop().time() > deadline:
                raise StoreFailed(f"session {key[:80]!r} is not being written; try again")
            await asyncio.sleep(LOOK_S)
