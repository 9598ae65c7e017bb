"""What somebody may do in one workspace. Whoever has a `Visit` has passed the door, and gets no further than this."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from mainstay.core.addresses import Address, named, plain
from mainstay.core.audit import AuditReading
from mainstay.core.error_list import ErrorList
from mainstay.core.errors import ApprovalUnknown, InputRefused, MainstayError, SessionUnknown
from mainstay.core.events import ApprovalAsked, Event, SessionChanged, Steered, TurnEnded, TurnStarted
from mainstay.core.guests import GuestTool
from mainstay.core.journal import Record
from mainstay.core.messages import AnyPart
from mainstay.core.outcome import Reply
from mainstay.core.people import Principal, Scope
from mainstay.core.ports import Standing
from mainstay.core.recall import Hit
from mainstay.core.triggers import Run, Status, Trigger
from mainstay.core.where import Where
from mainstay.core.withheld import told, verdicts
from mainstay.gateway.office import Office
from mainstay.lane.curtain import Curtain, behind
from mainstay.lane.pausing import Pending
from mainstay.lane.tickets import Ticket as Ticket

WEB = "web"  # the channel of those who come with a key
LISTED_MAX = 1_000
SEARCHED_MAX = 100  # as many as memory gives
FOR_THE_OWNER = (
    "commands run on the machine itself here, so only whoever runs it may approve this (`mainstay approvals`)"
)
_PAGE = 1_000

Following = AsyncGenerator[Event, None]


class NotAllowed(MainstayError):
    """Whoever asks may not do this, here or anywhere."""


class Visit:
    """A person's way into a workspace. Sessions are called by the names that this person knows them by: their own,
    and for an admin all there are. What is not theirs does not exist."""

    def __init__(self, principal: Principal, office: Office) -> None:
        self.principal = principal
        self._office = office
        self._since: tuple[Ticket, object] | None = None  # the last that was accepted, and since when it is listened to
        self._sees_all = principal.role == "admin" and principal.may("read")
        self._own = f"{Address(WEB, principal.person)}:"  # how keys of theirs begin

    @property
    def workspace(self) -> str:
        return self._office.workspace

    @property
    def model(self) -> str:
        return self._office.title()

    # --- names -----------------------------------------------------------------------------------

    def key(self, session: str) -> str:
        """Raises InputRefused if no session can have this name."""
        if self._sees_all:
            return self._office.key(session, self.principal.person)
        return self._office.key(f"{self._own}{plain(session)}", self.principal.person)

    def name(self, key: str) -> str | None:
        """What this person calls it; None: it is not theirs."""
        if self._sees_all:
            return key
        return named(key.removeprefix(self._own)) if key.startswith(self._own) else None

    def must(self, scope: Scope) -> None:
        if not self.principal.may(scope):
            raise NotAllowed(f"this needs the scope {scope!r}, which was not given")

    def where(self, where: Where | None) -> Where | None:
        """As this person may know it; None: it is not theirs, or nobody knows."""
        name = self.name(where.session) if where is not None else None
        return msgspec.structs.replace(where, session=name) if where is not None and name is not None else None

    # --- a conversation --------------------------------------------------------------------------

    async def accept(self, session: str, parts: Sequence[AnyPart], *, id: str = "") -> Ticket:
        """Durable when it returns."""
        self.must("chat")
        key = self.key(session)
        since = self._office.expect(key)  # its turn may begin to speak before anybody can ask for that
        ticket = await self._office.accept(key, parts, id=id, sender=self.principal.person)
        self._since = ticket, since
        return ticket

    async def turn(self, session: str, ticket: Ticket, *, drafts: bool = True) -> AsyncIterator[Event]:
        """What comes of something accepted, from its own record on; the last is its `TurnEnded`, or an `ApprovalAsked`
        that nobody has answered. Without `drafts`, no answer is told before judges have passed it."""
        turn = ticket.turn
        key = self.key(session)
        name = self.name(key) or ""
        since = self._since[1] if self._since is not None and self._since[0] is ticket else None
        async with aclosing(self._follow(key, ticket.seq - 1, since, drafts=drafts)) as events:
            async for event in events:
                if not event.sequence and event.turn == turn:  # a few letters of the answer, as most are
                    yield event if self._sees_all else msgspec.structs.replace(event, session=name)
                    continue
                if isinstance(event, TurnStarted | Steered) and ticket.seq in event.inputs:
                    turn = event.turn
                if event.turn not in (0, turn):  # another one is still under way
                    continue
                yield self._told(event)
                if isinstance(event, TurnEnded):
                    return
                if isinstance(event, ApprovalAsked) and await self._waits(session, event):
                    return

    async def trace(self, session: str, turn: int) -> str:
        """What a turn of theirs is found under; empty if it has not begun."""
        self.must("chat")
        return await self._office.trace(self.key(session), turn) if turn else ""

    def _follow(self, key: str, after: int, since: object = None, *, drafts: bool, upto: int = 0) -> Following:
        return behind(Curtain(drafts=not drafts), self._office.follow(key, after, since), upto)

    async def _waits(self, session: str, asked: ApprovalAsked) -> bool:
        pending = (await self._office.sessions.get(self.key(session))).approval
        return pending is not None and pending.id == asked.id

    async def steer(self, session: str, parts: Sequence[AnyPart], *, id: str = "") -> Ticket:
        self.must("chat")
        return await self._office.steer(self.key(session), parts, id=id, sender=self.principal.person)

    async def abort(self, session: str) -> bool:
        self.must("chat")
        return await self._office.abort(self.key(session))

    async def follow(self, session: str, after: int = 0, *, upto: int = 0, drafts: bool = True) -> AsyncIterator[Event]:
        """What is on disk, and then what happens; `upto` a sequence, only that."""
        self.must("chat")
        key = self.key(session)
        await self._office.sessions.get(key)
        async with aclosing(self._follow(key, after, drafts=drafts, upto=upto)) as events:
            async for event in events:
                yield self._told(event)

    def _told(self, event: Event) -> Event:
        """As this person may know it: the session by their name for it, and nothing of what the owner has told the
        agent."""
        if self._sees_all:
            return event
        name = self.name(event.session) or ""
        if isinstance(event, SessionChanged):
            return msgspec.structs.replace(event, session=name, instructions=None, amended=None, told=())
        return msgspec.structs.replace(event, session=name)

    async def offer(self, session: str, tools: Sequence[GuestTool]) -> None:
        self.must("chat")
        await self._office.offer(self.key(session), tools)

    async def hand_in(self, session: str, call_id: str, content: str) -> Ticket:
        self.must("chat")
        return await self._office.hand_in(self.key(session), call_id, content)

    async def import_history(self, session: str, messages: Sequence[dict[str, Any]]) -> None:
        self.must("chat")
        await self._office.import_history(self.key(session), messages)

    # --- conversations as a whole ----------------------------------------------------------------

    async def sessions(self, limit: int = 100, offset: int = 0) -> Sequence[Standing]:
        """The newest first, under the names that this person knows."""
        self.must("chat")
        if self._sees_all:
            return await self._office.sessions.list(limit=limit, offset=offset)
        return await self._own_sessions(min(limit, LISTED_MAX), offset)

    async def _own_sessions(self, limit: int, offset: int) -> Sequence[Standing]:
        found: list[Standing] = []
        looked = 0
        while len(found) < offset + limit and (page := await self._office.sessions.list(limit=_PAGE, offset=looked)):
            looked += len(page)
            found += [shown for one in page if (shown := self._shown(one)) is not None]
        return found[offset : offset + limit]

    def _shown(self, standing: Standing) -> Standing | None:
        name = self.name(standing.key)
        return msgspec.structs.replace(standing, key=name) if name is not None else None

    async def session(self, session: str) -> Standing:
        """Raises SessionUnknown."""
        self.must("chat")
        try:
            found = self._shown(await self._office.sessions.get(self.key(session)))
        except SessionUnknown:
            found = None
        if found is None:
            raise SessionUnknown(f"there is no session {session[:80]!r}")
        return found

    async def records(self, session: str, after: int = 0, limit: int = _PAGE) -> Sequence[Record]:
        """Its journal, a page at a time. It ends before an answer that judges still think about, so that whoever goes
        on from there reads it when it has passed."""
        await self.session(session)
        key = self.key(session)
        page = await self._office.sessions.records(key, after=after, limit=min(limit, _PAGE))
        if self._sees_all:
            return page
        later: list[Record] = []
        while (waiting := verdicts([*page, *later]).waiting) is not None and waiting <= page[-1].seq:
            last = later[-1].seq if later else page[-1].seq
            more = await self._office.sessions.records(key, after=last, limit=_PAGE)
            if not more:
                page = [one for one in page if one.seq < waiting]
                break
            later += more
        return [msgspec.structs.replace(one, event=self._told(one.event)) for one in told(page, later)]

    async def delete(self, session: str) -> None:
        await self.session(session)
        await self._office.sessions.delete(self.key(session))

    async def archive(self, session: str) -> None:
        await self.session(session)
        await self._office.sessions.archive(self.key(session))

    async def activate(self, session: str) -> None:
        await self.session(session)
        await self._office.sessions.activate(self.key(session))

    async def rename(self, session: str, title: str) -> None:
        await self.session(session)
        await self._office.sessions.rename(self.key(session), title)

    async def fork(self, session: str, target: str, upto: int | None = None) -> Standing:
        await self.session(session)
        made = self._shown(await self._office.sessions.fork(self.key(session), self.key(target), upto=upto))
        assert made is not None, "it was made under a name of theirs"
        return made

    async def compact(self, session: str, focus: str = "") -> str | None:
        await self.session(session)
        return await self._office.sessions.compact(self.key(session), focus)

    # --- approvals -------------------------------------------------------------------------------

    async def approvals(self) -> Sequence[Pending]:
        self.must("chat")
        return [
            msgspec.structs.replace(one, session=name)
            for one in await self._office.approvals.list()
            if (name := self.name(one.session)) is not None
        ]

    async def approve(self, id: str, *, input: str | None = None, always: bool = False) -> Reply | None:
        self.must("approve")
        needed = self._office.approved_by((await self._pending(id)).asked.name)
        if needed == "owner" and self.principal.person:
            raise NotAllowed(f"{FOR_THE_OWNER}; it can be denied here")
        if always or needed == "admin":
            self.must("admin")
        return await self._office.approvals.approve(id, input=input, always=always, by=self._by, wait=False)

    async def deny(self, id: str, reason: str = "") -> Reply | None:
        self.must("approve")
        await self._pending(id)
        return await self._office.approvals.deny(id, reason, by=self._by, wait=False)

    @property
    def _by(self) -> str:
        return self.principal.person or "owner"

    async def _pending(self, id: str) -> Pending:
        for one in await self.approvals():
            if one.asked.id == id:
                return one
        raise ApprovalUnknown(f"nothing waits under {id[:40]!r}; it was answered, or it expired")

    # --- what went wrong -------------------------------------------------------------------------

    @property
    def errors(self) -> ErrorList | None:
        """For whoever looks after a workspace. What they may see of it is up to whoever asks."""
        self.must("admin")
        return self._office.errors

    @property
    def audit(self) -> AuditReading | None:
        """Likewise."""
        self.must("admin")
        return self._office.audit

    # --- what the workspace has ------------------------------------------------------------------

    async def search(self, query: str, k: int = 10) -> Sequence[Hit]:
        """Of what was said in sessions that are theirs."""
        self.must("chat")
        found = await self._office.memory.search(query, k if self._sees_all else SEARCHED_MAX)
        named = ((hit, self.name(hit.session)) for hit in found)
        return [msgspec.structs.replace(hit, session=name) for hit, name in named if name is not None][:k]

    async def triggers(self) -> Sequence[Status]:
        """Those of this workspace; the owner sees what cannot be read, too."""
        return [self._status(one) for one in await self._kept_triggers()]

    async def _kept_triggers(self) -> list[Status]:
        """As their files are called."""
        self.must("admin")
        return [one for one in await self._office.triggers.list() if self._is_here(one)]

    def _is_here(self, status: Status) -> bool:
        if status.trigger is None:
            return not self.principal.person
        return status.trigger.target.workspace in ("", self.workspace)

    @property
    def _prefix(self) -> str:
        """All workspaces keep their triggers in one folder; nobody is to learn by a name that another has it."""
        return f"{self.workspace}." if self.principal.person else ""

    def _status(self, kept: Status) -> Status:
        last = self._run(kept.last) if kept.last is not None else None
        return msgspec.structs.replace(kept, name=kept.name.removeprefix(self._prefix), last=last)

    def _run(self, run: Run) -> Run:
        return msgspec.structs.replace(run, trigger=run.trigger.removeprefix(self._prefix))

    async def _trigger_of(self, name: str) -> str | None:
        """Its file's name."""
        for one in await self._kept_triggers():
            if self._status(one).name == name:
                return one.name
        return None

    async def _known_trigger(self, name: str) -> str:
        found = await self._trigger_of(name)
        if found is None:
            raise InputRefused(f"there is no trigger {name[:80]!r}")
        return found

    async def add_trigger(self, trigger: Trigger, *, replace: bool = False) -> None:
        known = await self._trigger_of(trigger.name)
        if trigger.target.workspace not in ("", self.workspace):
            raise NotAllowed("a trigger is for the workspace that it is made in")
        if known is not None and not replace:
            raise InputRefused(f"there is a trigger {trigger.name[:80]!r} already")
        here = msgspec.structs.replace(trigger.target, workspace=self.workspace)
        if self.principal.person:  # it may do no more than whoever made it, and runs no command of theirs out here
            if trigger.check:
                raise NotAllowed("a trigger with a check is made by the owner, on the machine itself")
            trigger = msgspec.structs.replace(trigger, person=self.principal.person)
        kept = msgspec.structs.replace(trigger, name=known or self._prefix + trigger.name, target=here)
        await self._office.triggers.add(kept, replace=known is not None)

    async def remove_trigger(self, name: str) -> None:
        await self._office.triggers.remove(await self._known_trigger(name))

    async def run_trigger(self, name: str) -> Run:
        return self._run(await self._office.triggers.run(await self._known_trigger(name)))
