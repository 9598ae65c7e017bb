"""Listening to a homeserver: syncs one after another, each kept as read only when all of it has been heard."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from mainstay.channels.matrix.events import (
    Event,
    Place,
    Synced,
    Us,
    direct_rooms,
    events_of,
    inviter_of,
    message_of,
    since_we_came,
)
from mainstay.channels.matrix.homeserver import SYNC_S, Homeserver, LoggedOut
from mainstay.channels.matrix.kept import INVITATIONS_MAX, TOLD_MAX, Kept, KeptFile
from mainstay.channels.matrix.rooms import Rooms
from mainstay.channels.telling import growing, tell
from mainstay.core.channels import ChannelError, Hear, NeverSent, NotSent

GAP_PAGES_MAX = 20  # of 100 events, of one room, that were more than a sync tells

Welcome = Callable[[str], bool]
_log = logging.getLogger(__name__)


class Listener:
    """Who we are (`us`) is known once somebody has logged in."""

    def __init__(self, name: str, homeserver: Homeserver, rooms: Rooms, file: KeptFile, kept: Kept) -> None:
        self.name = name
        self.us = Us("")
        self.trouble = ""  # in a few words, what keeps us from hearing
        self._homeserver = homeserver
        self._rooms = rooms
        self._file = file
        self._kept = kept

    async def begin(self) -> None:
        """On the first start of all: what was said before was not said to us."""
        synced = await self._homeserver.sync("", 0)
        self._note_invitations(synced)
        await self._keep(synced.next_batch)

    async def run(
        self,
        hear: Hear,
        welcome: Welcome,
        login: Callable[[], Awaitable[None]],
        cannot_read: Callable[[str], Awaitable[None]],
    ) -> None:
        """Until it is cancelled. `login` gets another token when ours is not accepted any more; `cannot_read` tells a
        room that what is encrypted there is lost on us."""
        tries = 0
        while True:
            try:
                await self._join_those(welcome)
                synced = await self._homeserver.sync(self._kept.since, SYNC_S)
                self.trouble = ""
                await self._take(synced, hear, cannot_read)
                await self._keep(synced.next_batch)
                tries = 0
            except LoggedOut as error:
                await self._pause(f"logged out: {error}", None, tries)
                tries += 1
                await self._again(login)
            except ChannelError as error:
                asked_s = error.retry_after_s if isinstance(error, NotSent) else None
                await self._pause(str(error), asked_s, tries)
                tries += 1
            except Exception:  # the library may raise anything, and so may whoever says who is welcome
                _log.exception("%s: listening broke, and goes on", self.name)
                await self._pause("listening broke, and goes on", None, tries)
                tries += 1

    async def _pause(self, why: str, asked_s: float | None, tries: int) -> None:
        if why != self.trouble:
            _log.warning("%s: not connected: %s", self.name, why)
        self.trouble = why
        await asyncio.sleep(max(asked_s or 0.0, growing(tries)))

    async def _again(self, login: Callable[[], Awaitable[None]]) -> None:
        try:
            await login()
        except ChannelError as error:
            self.trouble = str(error)

    async def _keep(self, since: str) -> None:
        self._kept.since = since
        try:
            await self._file.save(self._kept)
        except OSError as error:  # it goes on: after a restart some is told again, and known by its ids
            _log.error("%s: how far was read cannot be kept: %s", self.name, error)

    # --- rooms that we are asked to --------------------------------------------------------------

    def _note_invitations(self, synced: Synced) -> None:
        for room, invited in synced.rooms.invite.items():
            if inviter := inviter_of(invited, self.us):
                self._kept.invitations[room] = inviter
        for room in (*synced.rooms.join, *synced.rooms.leave):
            self._kept.invitations.pop(room, None)
        while len(self._kept.invitations) > INVITATIONS_MAX:
            self._kept.invitations.pop(next(iter(self._kept.invitations)))

    async def _join_those(self, welcome: Welcome) -> None:
        """Who is not welcome now may be later: they are left alone, and asked about again."""
        for room, inviter in tuple(self._kept.invitations.items()):
            if not welcome(inviter):
                continue
            try:
                await self._homeserver.say(self._homeserver.client.join(room))
            except NeverSent as error:  # it was taken back, or the room is gone
                _log.info("%s: a room cannot be joined: %s", self.name, error)
            self._kept.invitations.pop(room, None)

    # --- what was said ---------------------------------------------------------------------------

    async def _take(self, synced: Synced, hear: Hear, cannot_read: Callable[[str], Awaitable[None]]) -> None:
        for event in events_of(synced.account_data.events):
            if event.type == "m.direct":
                self._rooms.marked = direct_rooms(event)
        self._note_invitations(synced)
        for room in synced.rooms.leave:
            self._rooms.forget(room)
        for room, joined in synced.rooms.join.items():
            events, came = since_we_came(events_of(joined.timeline.events), self.us)
            self._rooms.take(room, joined, events)
            if joined.timeline.limited and joined.timeline.prev_batch and not came:
                events = [*await self._between(room, joined.timeline.prev_batch), *events]
            for event in events:
                await self._hear(room, event, hear, cannot_read)

    async def _between(self, room: str, until: str) -> list[Event]:
        """What was said since the last sync and is not in this one, the oldest first."""
        found: list[Event] = []
        for _ in range(GAP_PAGES_MAX):
            page = await self._homeserver.messages(room, until, self._kept.since)
            found += events_of(page.chunk)
            if not page.chunk or not page.end or page.end == until:
                return since_we_came(found[::-1], self.us)[0]
            until = page.end
        _log.warning("%s: more was said in a room than can be caught up with; the oldest of it is left out", self.name)
        return found[::-1]

    async def _hear(self, room: str, event: Event, hear: Hear, cannot_read: Callable[[str], Awaitable[None]]) -> None:
        if event.sender == self.us.user:
            return
        if event.type == "m.room.encrypted":
            await self._tell_once(room, cannot_read)
        elif event.type == "m.room.message":
            place = Place(self.name, room, await self._rooms.is_direct(room))
            message = message_of(event, self.us, place, await self._rooms.name(room, event.sender))
            if message is not None:
                await tell(hear, message)

    async def _tell_once(self, room: str, cannot_read: Callable[[str], Awaitable[None]]) -> None:
        if room in self._kept.told:
            return
        try:
            await cannot_read(room)
        except NeverSent as error:
            _log.info("%s: a room cannot be told that it cannot be read: %s", self.name, error)
        self._kept.told = [*self._kept.told, room][-TOLD_MAX:]
