"""What comes in from chat platforms: to whom it belongs, whether it is for us, and into the lane, once.

A message is durable before its platform is told that we have it. What takes time (files, what was missed in the thread)
happens after that, in the order of the conversation.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

import msgspec

from mainstay.core.addresses import FileSaid
from mainstay.core.channels import Arrival, ChatChannel, Delivery, Incoming, Mail
from mainstay.core.errors import AgentClosed, InputRefused, LaneFull, MainstayError, SessionArchived, WorkspaceUnknown
from mainstay.core.messages import AnyPart, Text
from mainstay.core.people import Person
from mainstay.core.ports import Clock
from mainstay.core.recall import RUNTIME
from mainstay.gateway.attachments import fetch_files, named_files
from mainstay.gateway.backfill import known_of, missed
from mainstay.gateway.commands import Speaker, obey, read_command, sentence
from mainstay.gateway.engagement import envelope_id, fit, follows, heard_of, parts_of, room_of, standing_of
from mainstay.gateway.office import Office
from mainstay.gateway.reporter import key_of
from mainstay.gateway.rooms import Rooms
from mainstay.gateway.strangers import Strangers

log = logging.getLogger("mainstay.channels")

WAITING_MAX = 20  # messages of one conversation whose files and history are being fetched
RETRY_S = 1.0
RETRY_MAX_S = 60.0
BUSY = "I am busy here: too many messages wait already. Try again later."
TROUBLE = "Something went wrong with this message inside the runtime; its log says what."

Folder = Callable[[str, str], str]  # where the attachments of a session of a workspace go


class Workroom(msgspec.Struct, frozen=True):
    """A workspace, as far as conversations in it go."""

    office: Office
    mail: Mail
    deliver: Callable[[Delivery], object]


class Hallway:
    """Messages of one conversation on their way in, one after another."""

    def __init__(self) -> None:
        self.waiting: deque[Arrival] = deque()
        self.task: asyncio.Task[None] | None = None


class Conversation:
    """Of all channels and workspaces. `enter` opens a workspace."""

    def __init__(
        self,
        rooms: Rooms,
        strangers: Strangers,
        enter: Callable[[str], Awaitable[Workroom]],
        clock: Clock,
        folder: Folder,
    ) -> None:
        self._rooms = rooms
        self._strangers = strangers
        self._enter = enter
        self._clock = clock
        self._folder = folder
        self._hearing: dict[str, asyncio.Future[None]] = {}
        self._hallways: dict[tuple[str, str], Hallway] = {}

    @property
    def busy(self) -> bool:
        return bool(self._hearing or self._hallways)

    async def close(self) -> None:
        tasks = [hallway.task for hallway in self._hallways.values() if hallway.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def resume(self, room: Workroom) -> None:
        """What had arrived when the process before this one ended."""
        for arrival in await room.mail.arrivals():
            if self._rooms.channel(arrival.message.address.channel) is not None:
                self._walk_in(room, arrival)

    # --- hearing ---------------------------------------------------------------------------------

    async def hear(self, message: Incoming) -> None:
        """Returns when it is durable, or nothing to us. The same message at the same time waits for the first."""
        channel = self._rooms.channel(message.address.channel)
        if message.own or channel is None or not (message.text.strip() or message.files):
            return
        message = fit(message)
        id = envelope_id(message)
        while (first := self._hearing.get(id)) is not None:
            await asyncio.wait((first,))
        done = self._hearing[id] = asyncio.get_running_loop().create_future()
        try:
            await self._hear(message, id, channel)
        except WorkspaceUnknown as error:  # telling it again would not help, and would keep others waiting
            log.error("%s: a message was left out: %s", channel.name, error)
        finally:
            del self._hearing[id]
            done.set_result(None)

    async def _hear(self, message: Incoming, id: str, channel: ChatChannel) -> None:
        place = self._rooms.place(message)
        if place.person is None:
            if not message.direct:
                await self._overhear(await self._enter(place.workspace), message, id, None)
            await self._strangers.meet(message, channel)
            return
        room = await self._enter(place.workspace)
        session = room.office.key("", place.person.name, heard_of(message))
        standing = await standing_of(room.office, session)
        coming = (place.workspace, session) in self._hallways  # its first message waits for its files
        if not (message.direct or message.mentioned or coming or follows(message, standing)):
            await self._overhear(room, message, id, place.person)
            return
        if await room.office.seen(session, id):
            return
        if (command := read_command(message.text)) is not None:
            if await room.mail.find(_reply_key(room, id)) is not None:
                return
            said = await obey(command, Speaker(room.office, place.person, session, id))
            if said is not None:
                await self._reply(room, message, id, said)
                return
            message = msgspec.structs.replace(message, text=command.rest)
        await self._take_in(room, Arrival(id=id, session=session, person=place.person.name, message=message))

    async def _overhear(self, room: Workroom, message: Incoming, id: str, person: Person | None) -> None:
        """Kept in its thread if that is a conversation of ours, else with the room."""
        office, heard = room.office, heard_of(message)
        sender = person.name if person is not None else ""
        # what somebody is called on a platform is their own choice: it must not be another's name here
        speaker = sender or f"?{message.user}"
        session = office.key("", speaker, heard)
        if await standing_of(office, session) is None:
            session = office.key("", speaker, room_of(message))
        if await office.seen(session, id):
            return
        parts = parts_of(message, person, named_files(message.files))
        try:
            await office.overhear(session, parts, id=id, sender=sender, heard=heard)
        except InputRefused as error:
            log.info("%s: something that was said is not kept: %s", message.address.channel, error)

    async def _reply(self, room: Workroom, message: Incoming, id: str, text: str, *, alone: bool = False) -> None:
        """The runtime's own word, where the message was; `alone`: for whoever wrote that, where it can be."""
        whom = message.user if alone and not message.direct else ""
        made = Delivery(key=_reply_key(room, id), to=message.address, alone=whom, text=text, at=self._clock.now_ms())
        room.deliver(await room.mail.put(made))

    # --- on the way in ---------------------------------------------------------------------------

    async def _take_in(self, room: Workroom, arrival: Arrival) -> None:
        message = arrival.message
        channel = self._rooms.channel(message.address.channel)
        assert channel is not None, "it was heard there"
        walking = self._hallways.get((room.office.workspace, arrival.session))
        if walking is not None and len(walking.waiting) >= WAITING_MAX:
            await self._reply(room, message, arrival.id, BUSY, alone=True)
            return
        at_once = walking is None and not message.files and not (channel.shows.history and self._backfill(channel))
        if at_once:
            await self._prompt(room, arrival, (), ())
        elif await room.mail.arrive(msgspec.structs.replace(arrival, at=self._clock.now_ms())):
            self._walk_in(room, arrival)

    def _backfill(self, channel: ChatChannel) -> int:
        return self._rooms.rules(channel.name).backfill

    def _walk_in(self, room: Workroom, arrival: Arrival) -> None:
        place = (room.office.workspace, arrival.session)
        hallway = self._hallways.setdefault(place, Hallway())
        hallway.waiting.append(arrival)
        if hallway.task is None:
            hallway.task = asyncio.get_running_loop().create_task(self._walk(room, place, hallway))

    async def _walk(self, room: Workroom, place: tuple[str, str], hallway: Hallway) -> None:
        tries = 0
        try:
            while hallway.waiting:
                try:
                    await self._arrive(room, hallway.waiting[0])
                    hallway.waiting.popleft()
                    tries = 0
                except AgentClosed:  # it is taken up by whoever opens the home next
                    return
                except MainstayError as error:
                    log.warning("a message in %s waits: %s", place[1], error)
                    tries += 1
                    await self._clock.sleep(min(RETRY_S * 2.0 ** min(tries - 1, 10), RETRY_MAX_S))
        finally:
            self._hallways.pop(place, None)

    async def _arrive(self, room: Workroom, arrival: Arrival) -> None:
        message, session = arrival.message, arrival.session
        channel = self._rooms.channel(message.address.channel)
        if channel is not None and not await room.office.seen(session, arrival.id):
            await self._catch_up(room, arrival, channel)
            parts, files = await self._files(room, arrival, channel)
            await self._prompt(room, arrival, parts, files)
        await room.mail.arrived(arrival.id)

    async def _files(
        self, room: Workroom, arrival: Arrival, channel: ChatChannel
    ) -> tuple[tuple[AnyPart, ...], tuple[FileSaid, ...]]:
        rules, message = self._rooms.rules(channel.name), arrival.message
        if not message.files:
            return (), ()
        if not rules.attachments:
            return (Text(named_files(message.files), origin=RUNTIME),), ()
        folder = self._folder(room.office.workspace, arrival.session)
        return await fetch_files(channel, message, folder, rules.attachment_bytes_max)

    async def _catch_up(self, room: Workroom, arrival: Arrival, channel: ChatChannel) -> None:
        """What was said in the thread and never heard, before what is said now."""
        if not channel.shows.history or not self._backfill(channel):
            return
        known = await known_of(room.office, arrival.session)
        for one in await missed(channel, arrival.message, known, self._backfill(channel)):
            one = fit(msgspec.structs.replace(one, address=arrival.message.address, direct=arrival.message.direct))
            place = self._rooms.place(one)
            if await room.office.seen(arrival.session, envelope_id(one)):
                continue
            person = place.person if place.workspace == room.office.workspace else None
            parts = parts_of(one, person, named_files(one.files))
            sender = person.name if person is not None else ""
            heard = heard_of(one)
            try:
                await room.office.overhear(arrival.session, parts, id=envelope_id(one), sender=sender, heard=heard)
            except InputRefused as error:
                log.info("%s: something that was missed is not kept: %s", channel.name, error)

    async def _prompt(
        self, room: Workroom, arrival: Arrival, parts: tuple[AnyPart, ...], files: tuple[FileSaid, ...]
    ) -> None:
        """Into the lane. What the lane does not take, whoever said it is told."""
        message = arrival.message
        person = self._rooms.place(message).person
        if person is None or person.name != arrival.person:  # they were let in when they said it, and are not any more
            return
        given = (*parts_of(message, person), *parts)
        try:
            heard = heard_of(message, files)
            await room.office.accept(arrival.session, given, id=arrival.id, sender=arrival.person, heard=heard)
        except LaneFull:
            await self._reply(room, message, arrival.id, BUSY, alone=True)
        except (InputRefused, SessionArchived) as error:
            await self._reply(room, message, arrival.id, sentence(error))


def _reply_key(room: Workroom, id: str) -> str:
    return key_of("reply", room.office.workspace, id)
