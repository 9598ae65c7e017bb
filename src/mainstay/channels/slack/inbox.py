"""From what Slack tells to whoever hears: each message once, and those of a room in their order.

The same message comes up to three times: as a mention, as a message of its room, and again whenever we did not say in
time that we have it. In memory it is known by room and time; whoever hears knows it for good.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from mainstay.channels.slack.bounds import Bounds
from mainstay.channels.slack.events import (
    Callback,
    Me,
    address_of,
    command_of,
    commanded,
    decoded,
    incoming,
    message_of,
    people_of,
)
from mainstay.channels.slack.web import Web
from mainstay.channels.telling import tell
from mainstay.core.channels import ChannelError, Hear, Incoming


class Names:
    """What people are called. Not to know it holds nothing up."""

    def __init__(self, web: Web, bounds: Bounds) -> None:
        self._web = web
        self._bounds = bounds
        self._known: OrderedDict[str, tuple[str, float]] = OrderedDict()  # the name, and until when it is good

    async def of(self, ids: Iterable[str]) -> dict[str, str]:
        """Those that could be had in time."""
        wanted = list(dict.fromkeys(ids))
        now = time.monotonic()
        missing = [id for id in wanted if self._known.get(id, ("", 0.0))[1] <= now and not id.startswith("B")]
        try:
            async with asyncio.timeout(self._bounds.name_s):
                for id in missing:
                    self._remember(id, await self._ask(id))
        except TimeoutError:
            pass
        return {id: self._known[id][0] for id in wanted if id in self._known}

    async def _ask(self, id: str) -> str:
        try:
            answer = await self._web.call("users.info", {"user": id})
        except ChannelError:
            return ""
        user = answer.get("user")
        profile = user.get("profile") if isinstance(user, dict) else None
        for place, key in ((profile, "display_name"), (profile, "real_name"), (user, "real_name"), (user, "name")):
            if isinstance(place, dict) and isinstance(found := place.get(key), str) and found:
                return found[:100]
        return ""

    def _remember(self, id: str, name: str) -> None:
        # a name that could not be had is asked for again, but not with every message
        kept_s = self._bounds.name_kept_s if name else self._bounds.name_kept_s / 60
        self._known[id] = (name, time.monotonic() + kept_s)
        self._known.move_to_end(id)
        while len(self._known) > self._bounds.names_max:
            self._known.popitem(last=False)


class Inbox:
    def __init__(self, name: str, me: Me, names: Names, hear: Hear, bounds: Bounds) -> None:
        self._name = name
        self._me = me
        self._names = names
        self._hear = hear
        self._bounds = bounds
        self._heard: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._rooms: dict[str, tuple[asyncio.Lock, int]] = {}  # and how many hold or want it

    async def take(self, kind: str, payload: Any) -> None:
        """Returns once it is durable, or there is nothing in it for us; raises TimeoutError if it cannot be kept. The
        kinds are those of socket mode."""
        match kind:
            case "events_api":
                await self._take_event(payload)
            case "slash_commands":
                await self._take_command(payload)

    async def _take_event(self, payload: Any) -> None:
        callback = decoded(payload, Callback)
        message = message_of(callback.event) if callback and callback.type == "event_callback" else None
        if message is None:
            return
        async with self._turn(message.channel):
            if (message.channel, message.ts) in self._heard:
                return
            names = await self._names.of(people_of(message))
            await self._tell(incoming(message, address_of(message, self._name), self._me, names))

    async def _take_command(self, payload: Any) -> None:
        command = command_of(payload)
        if command is None:
            return
        told = commanded(command, self._name, int(time.time() * 1000))
        async with self._turn(command.channel_id):
            if (command.channel_id, told.id) not in self._heard:
                await self._tell(told)

    async def _tell(self, message: Incoming) -> None:
        async with asyncio.timeout(self._bounds.hold_s):
            await tell(self._hear, message)
        self._heard[message.address.room, message.id] = None
        while len(self._heard) > self._bounds.heard_max:
            self._heard.popitem(last=False)

    @asynccontextmanager
    async def _turn(self, room: str) -> AsyncIterator[None]:
        """First come, first served; a room that nobody waits for is forgotten."""
        lock, users = self._rooms.get(room) or (asyncio.Lock(), 0)
        self._rooms[room] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._rooms[room]
            if users == 1:
                del self._rooms[room]
            else:
                self._rooms[room] = (lock, users - 1)
