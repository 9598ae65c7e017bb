"""Where triggers come in: lanes for their prompts, the sandbox for their checks."""

from __future__ import annotations

import hashlib

from mainstay.agent.builtin_tools import sandbox_of
from mainstay.agent.opened import Rooms
from mainstay.agent.workplace import Workplace
from mainstay.config.schema import Config
from mainstay.core.addresses import Address
from mainstay.core.envelope import Envelope, check_session_name, session_key
from mainstay.core.errors import LaneFull, MainstayError
from mainstay.core.messages import AnyPart, Text
from mainstay.core.outcome import Aborted, Answered, Exhausted, Failed, Outcome, Paused
from mainstay.core.outside import Command, Sandbox
from mainstay.core.ports import Store
from mainstay.core.recall import origin_of
from mainstay.core.triggers import TRIGGER, Checked, Prompted, Trigger
from mainstay.io.beneath import brief
from mainstay.lane.ending import find_reply
from mainstay.lane.lanes import Lanes
from mainstay.trust.guards.guard import Guards

ASLEEP = 1  # how a check ends that found nothing to do
SAID_BYTES_MAX = 64 * 1024


class LaneDoor:
    """The Door port on the lanes of an agent."""

    def __init__(self, lanes: Lanes, store: Store, guards: Guards, config: Config) -> None:
        self._lanes = lanes
        self._store = store
        self._guards = guards
        self._config = config
        self.rooms: Rooms | None = None  # where there are channels

    async def accept(self, trigger: Trigger, key: str) -> Prompted:
        if (before := await self.taken(trigger, key)) is not None:  # also if its words were others then
            return before
        id, session = _id_of(trigger, key), await self._session(trigger, key)
        lane = self._lanes.get(session)
        waiting = (await lane.view()).pending
        if waiting is not None:  # a person's word would be an answer to it; a trigger is nobody's
            raise LaneFull(f"session {session!r} waits for somebody's approval ({waiting.id})")
        parts = self._parts(trigger, f"{session}/{id}")
        envelope = Envelope(parts=parts, thread=session, sender=trigger.person, id=id)
        ticket = await lane.accept(envelope)
        return Prompted(session, ticket.seq, ticket.reply)

    async def taken(self, trigger: Trigger, key: str) -> Prompted | None:
        id = _id_of(trigger, key)
        if trigger.target.new and self.rooms is not None:
            thread = await self.rooms.thread_of(self._config.workspace, id)
            if thread is None:
                return None
            session = self._placed(thread, trigger)
        else:
            session = session_of(trigger, key, self._config)
        seen = await self._store.seen(session, id)
        return Prompted(session, seen[0]) if seen is not None else None

    async def _session(self, trigger: Trigger, key: str) -> str:
        """In a room of a channel, the thread that what is posted there begins."""
        if not trigger.target.new or self.rooms is None:
            return session_of(trigger, key, self._config)
        room = Address(trigger.target.channel, trigger.target.room)
        said = self._guards.shown(trigger.text) or f"[{trigger.name}]"
        thread = await self.rooms.open_thread(self._config.workspace, room, said, _id_of(trigger, key))
        return self._placed(thread, trigger)

    def _placed(self, thread: Address, trigger: Trigger) -> str:
        placed = Envelope(
            parts=(), channel=thread.channel, room=thread.room, thread=thread.thread, sender=trigger.person
        )
        return check_session_name(session_key(placed, self._config.lanes.key), self._config.limits)

    async def outcome(self, session: str, seq: int) -> str:
        reply = await find_reply(self._store, session, seq)
        return word_of(reply.outcome) if reply is not None else ""

    def _parts(self, trigger: Trigger, call: str) -> tuple[AnyPart, ...]:
        """What was meant in somebody's words, and what came from outside as data."""
        parts: list[AnyPart] = []
        if trigger.text:
            parts.append(Text(self._guards.shown(trigger.text), origin=trigger.origin))
        if trigger.data:
            cleaned = self._guards.result(trigger.data, foreign=True).content
            mark = self._guards.mark(call)
            source = f"{TRIGGER}{trigger.name}"
            block = f"\n<data {mark} from {source}>\n{cleaned.replace(mark, '…')}\n</data {mark}>"
            parts.append(Text(block, origin=origin_of(source, untrusted=True)))
        return tuple(parts)


def _id_of(trigger: Trigger, key: str) -> str:
    return f"{TRIGGER}{trigger.name}:{key}"


def session_of(trigger: Trigger, key: str, config: Config) -> str:
    """The lane that it speaks to. In a room, every run is a thread of its own, found again under the same key."""
    target = trigger.target
    if not target.new:
        check_session_name(target.session, config.limits)
        return session_key(Envelope(parts=(), thread=target.session, sender=trigger.person), config.lanes.key)
    digest = hashlib.sha256(f"{trigger.name}\n{key}".encode()).hexdigest()[:12]
    thread = f"{trigger.name}-{digest}"
    placed = Envelope(parts=(), channel=target.channel, room=target.room, thread=thread, sender=trigger.person)
    return check_session_name(session_key(placed, config.lanes.key), config.limits)


def word_of(outcome: Outcome) -> str:
    """How a turn ended, for a list."""
    match outcome:
        case Answered():
            return "answered"
        case Aborted():
            return "aborted"
        case Exhausted(bound=bound):
            return f"exhausted: {bound}"
        case Paused():
            return "waits for an approval"
        case Failed(sentence=sentence):
            return f"failed: {sentence}"


class Checks:
    """Runs the commands that say whether there is anything to do: where the agent's own run, if it has any."""

    def __init__(self, sandbox: Sandbox | None, workplace: Workplace, config: Config) -> None:
        self._given = sandbox
        self._workplace = workplace
        self._config = config

    async def __call__(self, trigger: Trigger) -> Checked:
        """0: there is, and what it said is shown to the model. 1: there is nothing to do. Else it is broken."""
        command = Command(
            script=trigger.check,
            grounds=self._workplace.grounds(trigger.target.session or f"{TRIGGER}{trigger.name}"),
            timeout_s=self._config.triggers.check_timeout_s,
            network=self._config.sandbox.network,
        )
        try:
            sandbox = self._given or sandbox_of(self._config)
            try:
                ran = await sandbox.exec(command)
            finally:
                if sandbox is not self._given:
                    await sandbox.close()
        except (MainstayError, OSError) as error:
            return Checked(False, trouble=f"its check could not be run: {error}")
        if ran.timed_out:
            return Checked(False, trouble=f"its check did not end within {command.timeout_s:g} s")
        if ran.code == 0:
            return Checked(True, ran.stdout[:SAID_BYTES_MAX].decode(errors="replace").strip())
        if ran.code == ASLEEP:
            return Checked(False)
        said = ran.stderr[:200].decode(errors="replace").strip().splitlines()
        return Checked(False, trouble=f"its check ended with {ran.code}{': ' + brief(said[0]) if said else ''}")
