"""What goes out: each thing under its key, in its room's order, at least once, and once where the platform can tell.

Before something is posted it is on disk that it is about to be. Whoever finds that later, and no receipt, knows what
may have happened: then it is posted again only under a key that the platform knows, or after looking for it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

import msgspec
from msgspec.structs import replace

from mainstay.core.addresses import Address
from mainstay.core.channels import (
    ChannelError,
    ChatChannel,
    Delivery,
    DeliveryState,
    Mail,
    MaybeSent,
    NeverSent,
    NotSent,
    Sent,
    Whispers,
)
from mainstay.core.chunks import chunks
from mainstay.core.errors import MainstayError
from mainstay.core.ports import Clock

log = logging.getLogger("mainstay.delivery")

T = TypeVar("T")
TRY_FOR_MS = 24 * 3600 * 1000
CALL_S = 300.0  # a channel bounds itself; this is for one that does not
FIRST_WAIT_S = 1.0
WAIT_MAX_S = 60.0
RETRY_AFTER_MAX_S = 3600.0
NOTE_CHARS_MAX = 300
ENDED_MAX = 10_000
PARTS_MAX = 200  # messages of one answer

Record = Callable[[Delivery], Awaitable[None]]  # of what came of it, in the journal
Outdated = Callable[[Delivery], Awaitable[str]]  # why nobody needs it any more; empty if somebody does


class Errand(msgspec.Struct):
    """A delivery under way. Without mail it is kept nowhere."""

    delivery: Delivery
    channel: ChatChannel
    mail: Mail | None
    record: Record | None
    done: asyncio.Future[Delivery]
    outdated: Outdated | None = None


class Room:
    """What waits to be posted in a room, and whoever posts it."""

    def __init__(self) -> None:
        self.waiting: deque[Errand] = deque()
        self.task: asyncio.Task[None] | None = None
        self.lock = asyncio.Lock()  # one post at a time
        self.not_before = 0.0  # as the platform asks, by the monotonic clock
        self.rests_until = 0.0  # because it could not be reached
        self.roused = asyncio.Event()

    @property
    def ready_at(self) -> float:
        return max(self.not_before, self.rests_until)


class Courier:
    """Rooms never wait for each other."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rooms: dict[tuple[str, str], Room] = {}
        self._under_way: dict[str, Errand] = {}
        self._ended: dict[str, Delivery] = {}  # lately

    # --- in --------------------------------------------------------------------------------------

    def deliver(
        self,
        delivery: Delivery,
        channel: ChatChannel,
        mail: Mail | None,
        record: Record | None = None,
        outdated: Outdated | None = None,
    ) -> asyncio.Future[Delivery]:
        """What is in the mail already; the future has it as it is in the end. The same key is under way once."""
        if (known := self._under_way.get(delivery.key)) is not None:
            return known.done
        done: asyncio.Future[Delivery] = asyncio.get_running_loop().create_future()
        if (ended := self._ended.get(delivery.key)) is not None:  # whoever asks had looked before it was
            done.set_result(ended)
            return done
        errand = Errand(delivery, channel, mail, record, done, outdated)
        self._under_way[delivery.key] = errand
        room = self.room(delivery.to)
        room.waiting.append(errand)
        if room.task is None:
            at = (delivery.to.channel, delivery.to.room)
            room.task = asyncio.get_running_loop().create_task(self._work(room, at), name=f"room {delivery.to}")
        return done

    @property
    def pending(self) -> int:
        """So many are not handed over yet."""
        return len(self._under_way)

    def room(self, at: Address) -> Room:
        return self._rooms.setdefault((at.channel, at.room), Room())

    def free(self, at: Address) -> bool:
        """Nothing waits to be posted there, and the platform does not ask for patience."""
        room = self.room(at)
        return not room.waiting and not room.lock.locked() and self._clock.monotonic() >= room.ready_at

    def hold(self, at: Address, seconds: float) -> None:
        """Nothing is posted there for so long."""
        room = self.room(at)
        room.not_before = max(room.not_before, self._clock.monotonic() + min(seconds, RETRY_AFTER_MAX_S))

    def rouse(self, channel: str) -> None:
        """Somebody was heard there, so the platform is back: its rooms are tried again soon. What it asked for itself
        stands."""
        soon = self._clock.monotonic() + FIRST_WAIT_S  # and not for every word that is heard
        for (name, _), room in self._rooms.items():
            if name == channel and room.rests_until > soon:
                room.rests_until = soon
                room.roused.set()

    @property
    def busy(self) -> bool:
        return bool(self._under_way)

    async def idle(self) -> None:
        while self._under_way:
            await asyncio.wait([errand.done for errand in self._under_way.values()])

    async def close(self) -> None:
        """Where it stands; the mail has the rest."""
        tasks = [room.task for room in self._rooms.values() if room.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for errand in self._under_way.values():
            errand.done.cancel()
        self._under_way.clear()
        self._rooms.clear()

    # --- a room's work ---------------------------------------------------------------------------

    async def _work(self, room: Room, at: tuple[str, str]) -> None:
        try:
            while room.waiting:
                errand = room.waiting[0]
                await self._see_through(room, errand)
                room.waiting.popleft()
                self._under_way.pop(errand.delivery.key, None)
                self._remember(errand.delivery)
                if not errand.done.done():
                    errand.done.set_result(errand.delivery)
        finally:
            room.task = None
        if self._rooms.get(at) is room and not room.lock.locked() and self._clock.monotonic() >= room.ready_at:
            del self._rooms[at]

    def _remember(self, delivery: Delivery) -> None:
        self._ended[delivery.key] = replace(delivery, text="")
        while len(self._ended) > ENDED_MAX:
            del self._ended[next(iter(self._ended))]

    async def _see_through(self, room: Room, errand: Errand) -> None:
        """To its end, whatever the disk and the platform say meanwhile."""
        tries = 0
        while True:
            try:
                if not _finished(errand.delivery.state):
                    await self._post_all(room, errand)
                await self._settle(errand)
                return
            except MainstayError as error:  # the disk: what was posted is not posted again for that
                log.warning("a delivery to %s waits: %s", errand.delivery.to, error)
                tries += 1
                await self._clock.sleep(_growing(tries))

    async def _settle(self, errand: Errand) -> None:
        """The journal has the receipt before the mail forgets what it was for."""
        if errand.record is not None:
            await errand.record(errand.delivery)
        if errand.mail is not None:
            await errand.mail.update(replace(errand.delivery, text=""))

    async def _post_all(self, room: Room, errand: Errand) -> None:
        channel = errand.channel
        pieces = chunks(errand.delivery.text, channel.format, channel.shows.length)[:PARTS_MAX]
        unsure = errand.delivery.state == "sending"  # somebody began this part, and nobody knows what came of it
        while (delivery := errand.delivery).part < len(pieces) + len(delivery.files):
            await self._patience(room)
            if errand.outdated is not None and not delivery.part and (why := await errand.outdated(delivery)):
                errand.delivery = _ended(delivery, "unknown" if unsure else "sent", why)
                return
            try:
                async with room.lock:
                    await self._post_part(errand, pieces, unsure=unsure)
                unsure = False
            except NeverSent as error:
                errand.delivery = _ended(errand.delivery, "failed", str(error))
                return
            except MaybeSent as error:
                if self._once(errand) == "none" and not _editing(errand.delivery):
                    errand.delivery = _ended(errand.delivery, "unknown", str(error))
                    return
                unsure = True
                if not await self._rest(room, errand, error, unsure=True):
                    return
            except ChannelError as error:  # certainly not sent now; if it was before, that is still not known
                if not await self._rest(room, errand, error, unsure=unsure):
                    return
        errand.delivery = _ended(errand.delivery, "sent", "")

    async def _patience(self, room: Room) -> None:
        while (wait_s := room.ready_at - self._clock.monotonic()) > 0:
            room.roused.clear()
            try:
                async with asyncio.timeout(wait_s):
                    await room.roused.wait()
            except TimeoutError:
                pass

    async def _rest(self, room: Room, errand: Errand, error: ChannelError, *, unsure: bool) -> bool:
        """Before it is tried again. False: not any more."""
        delivery, now = errand.delivery, self._clock.now_ms()
        note = str(error)[:NOTE_CHARS_MAX]
        if now - delivery.at > TRY_FOR_MS:
            errand.delivery = _ended(delivery, "unknown" if unsure else "failed", f"it was tried for a day: {note}")
            return False
        attempts = delivery.attempts + 1
        asked_s = error.retry_after_s if isinstance(error, NotSent) else None
        if asked_s is not None:
            wait_s = min(asked_s, RETRY_AFTER_MAX_S)
            room.not_before = max(room.not_before, self._clock.monotonic() + wait_s)
        else:
            wait_s = _growing(attempts)
            room.rests_until = self._clock.monotonic() + wait_s
        state: DeliveryState = "sending" if unsure else "pending"
        next_at = now + int(wait_s * 1000)
        await self._keep(errand, replace(delivery, state=state, attempts=attempts, next_at=next_at, note=note))
        return True

    # --- one message or file ---------------------------------------------------------------------

    async def _post_part(self, errand: Errand, pieces: list[str], *, unsure: bool) -> None:
        channel, delivery = errand.channel, errand.delivery
        part, key = delivery.part, part_key(delivery)
        if delivery.draft and part == 0:
            if await self._finish_draft(errand, pieces, unsure=unsure):
                return
        elif unsure and (found := await self._look(errand, key)) is not None:
            await self._posted(errand, found)
            return
        if errand.mail is not None:
            await errand.mail.update(replace(errand.delivery, state="sending"))
        to = errand.delivery.to
        if part < len(pieces):
            text = channel.format(pieces[part])
            whispering = _whispering(errand)
            said = whispering.whisper(to, delivery.alone, text) if whispering else channel.post(to, text, key=key)
            sent = await bounded(said)
        else:
            path, name = delivery.files[part - len(pieces)]
            sent = await bounded(channel.upload(to, path, name, "", key=key))
        await self._posted(errand, sent)

    def _once(self, errand: Errand) -> Literal["key", "look", "none"]:
        """Whether the same is posted once though it is handed over twice. A key that the platform may have forgotten by
        now is none."""
        if _whispering(errand) is not None:
            return "none"
        shows = errand.channel.shows
        forgotten = shows.once_s and self._clock.now_ms() - errand.delivery.at > shows.once_s * 1000
        return "none" if shows.once == "key" and forgotten else shows.once

    async def _look(self, errand: Errand, key: str) -> Sent | None:
        """Whether it is there already. Under a key that the platform knows, it is simply posted again."""
        match self._once(errand):
            case "key":
                return None
            case "look":
                return await bounded(errand.channel.find(errand.delivery.to, key))
            case "none":
                raise MaybeSent(errand.delivery.note or "it is not known whether it was posted")

    async def _finish_draft(self, errand: Errand, pieces: list[str], *, unsure: bool) -> bool:
        """The message that was shown while the answer was written becomes its first part. False: there is none."""
        channel, delivery = errand.channel, errand.delivery
        id = delivery.ids[0] if delivery.ids else ""
        if not id and unsure:  # it was just being posted for the first time
            id = await self._lost_draft(errand)
        if id and pieces:
            try:
                await bounded(channel.edit(delivery.to, id, channel.format(pieces[0])))
            except NeverSent:  # somebody deleted it
                id = ""
        if not id or not pieces:
            await self._keep(errand, replace(errand.delivery, draft=False, ids=(), state="pending"))
            return False
        await self._keep(errand, replace(errand.delivery, draft=False, ids=(id,), part=1, state="pending"))
        return True

    async def _lost_draft(self, errand: Errand) -> str:
        """Where nobody can tell, it stays behind: the answer itself has not been posted yet, and must be."""
        channel, delivery = errand.channel, errand.delivery
        if (once := self._once(errand)) == "none":
            return ""
        if once == "key":
            first = chunks(delivery.text, channel.format, channel.shows.length)[:1]
            sent = await bounded(channel.post(delivery.to, channel.format("".join(first)), key=draft_key(delivery)))
            return sent.id
        found = await bounded(channel.find(delivery.to, draft_key(delivery)))
        return found.id if found is not None else ""

    async def _posted(self, errand: Errand, sent: Sent) -> None:
        delivery, to = errand.delivery, errand.delivery.to
        if not to.thread and sent.thread:  # a thread was begun: what follows belongs there
            to = replace(to, thread=sent.thread)
        made = replace(
            delivery, to=to, ids=(*delivery.ids, sent.id), part=delivery.part + 1, state="pending", attempts=0
        )
        await self._keep(errand, made)

    async def _keep(self, errand: Errand, delivery: Delivery) -> None:
        """What has happened has happened, whether or not it can be written down just now."""
        errand.delivery = delivery
        if errand.mail is not None:
            await errand.mail.update(delivery)


def part_key(delivery: Delivery) -> str:
    """What the platform knows a part by."""
    return f"{delivery.key}.{delivery.part}"


def draft_key(delivery: Delivery) -> str:
    """And the message that shows an answer while it is written; should somebody delete that, the answer has another."""
    return f"{delivery.key}.draft"


async def bounded(call: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(CALL_S):
            return await call
    except TimeoutError:
        raise MaybeSent("the platform did not answer in time") from None


def _whispering(errand: Errand) -> Whispers | None:
    """Its channel, if this is for one person alone and can be shown so."""
    return errand.channel if errand.delivery.alone and isinstance(errand.channel, Whispers) else None


def _editing(delivery: Delivery) -> bool:
    """An edit can be made again."""
    return delivery.draft and delivery.part == 0 and bool(delivery.ids)


def _finished(state: DeliveryState) -> bool:
    return state not in ("pending", "sending")


def _ended(delivery: Delivery, state: DeliveryState, note: str) -> Delivery:
    return replace(delivery, state=state, note=note[:NOTE_CHARS_MAX], draft=False)


def _growing(tries: int) -> float:
    """Longer each time, and not for everybody the same."""
    return min(FIRST_WAIT_S * 2.0 ** min(tries - 1, 10), WAIT_MAX_S) * random.uniform(0.75, 1.0)
