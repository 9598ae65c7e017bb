"""Hands Slack events to the message handler: deduplicated, and in order within a room.

Slack sends the same message up to three times: as a mention, as a message of its room, and again whenever it was not
acknowledged in time. Duplicates are recognised in memory by room and timestamp; the handler recognises them durably.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from mainstay.channels.incoming_dispatch import dispatch_message
from mainstay.channels.slack.client import SlackClient, SlackRequestRefused
from mainstay.channels.slack.events import (
    SlackEventCallback,
    SlackIdentity,
    collect_user_ids,
    command_to_incoming,
    decode_as,
    decode_command,
    decode_message,
    message_address,
    to_incoming,
)
from mainstay.channels.slack.limits import SlackLimits
from mainstay.core.channels import ChannelError, IncomingMessage, MessageHandler


class SlackNameCache:
    """Cache of the names of users and rooms. A failed lookup delays no message."""

    def __init__(self, client: SlackClient, limits: SlackLimits) -> None:
        self._client = client
        self._limits = limits
        # user, or "#" and room -> name, and when it expires
        self._cache: OrderedDict[str, tuple[str, float]] = OrderedDict()

    async def look_up(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the names of these users by id, without those that could not be fetched in time."""
        wanted = list(dict.fromkeys(ids))
        now = time.monotonic()
        missing = [id for id in wanted if self._cache.get(id, ("", 0.0))[1] <= now and not id.startswith("B")]
        try:
            async with asyncio.timeout(self._limits.name_lookup_timeout_s):
                for id in missing:
                    self._cache_name(id, await self._fetch_name(id))
        except TimeoutError:
            pass
        return {id: self._cache[id][0] for id in wanted if id in self._cache}

    async def look_up_room(self, room: str) -> str:
        """Return a room's name; empty for "", if it could not be fetched in time, or if the app may not read it."""
        if not room:
            return ""
        key = f"#{room}"
        if self._cache.get(key, ("", 0.0))[1] <= time.monotonic():
            name = ""
            try:
                async with asyncio.timeout(self._limits.name_lookup_timeout_s):
                    name = _room_name(await self._client.call("conversations.info", {"channel": room}))
            except SlackRequestRefused:  # most apps do not have the scope: do not ask again
                self._cache[key] = "", math.inf
                return ""
            except (ChannelError, TimeoutError):
                pass
            self._cache_name(key, name)
        return self._cache[key][0]

    async def _fetch_name(self, id: str) -> str:
        try:
            answer = await self._client.call("users.info", {"user": id})
        except ChannelError:
            return ""
        user = answer.get("user")
        profile = user.get("profile") if isinstance(user, dict) else None
        for record, key in ((profile, "display_name"), (profile, "real_name"), (user, "real_name"), (user, "name")):
            if isinstance(record, dict) and isinstance(value := record.get(key), str) and value:
                return value[:100]
        return ""

    def _cache_name(self, id: str, name: str) -> None:
        # a failed lookup is repeated sooner, but not for every message
        lifetime_s = self._limits.name_ttl_s if name else self._limits.name_ttl_s / 60
        self._cache[id] = (name, time.monotonic() + lifetime_s)
        self._cache.move_to_end(id)
        while len(self._cache) > self._limits.names_cached_max:
            self._cache.popitem(last=False)


def _room_name(answer: Mapping[str, Any]) -> str:
    match answer.get("channel"):
        case {"name": str(name)}:
            return name[:100]
    return ""


class SlackInbox:
    def __init__(
        self,
        name: str,
        identity: SlackIdentity,
        names: SlackNameCache,
        on_message: MessageHandler,
        limits: SlackLimits,
    ) -> None:
        self._name = name
        self._identity = identity
        self._names = names
        self._on_message = on_message
        self._limits = limits
        self._accepted: OrderedDict[tuple[str, str], None] = OrderedDict()
        # room -> its lock, and how many tasks hold or await it
        self._room_locks: dict[str, tuple[asyncio.Lock, int]] = {}

    async def handle_envelope(self, kind: str, payload: Any) -> None:
        """Handle an envelope; `kind` is its type in Socket Mode. Returns once the message is durable or if there is
        none. Raises TimeoutError if it does not become durable in time."""
        match kind:
            case "events_api":
                await self._handle_event(payload)
            case "slash_commands":
                await self._handle_command(payload)

    async def _handle_event(self, payload: Any) -> None:
        callback = decode_as(payload, SlackEventCallback)
        message = decode_message(callback.event) if callback and callback.type == "event_callback" else None
        if message is None:
            return
        async with self._room_lock(message.channel):
            if (message.channel, message.ts) in self._accepted:
                return
            names, room_name = await asyncio.gather(
                self._names.look_up(collect_user_ids(message)),
                self._names.look_up_room("" if message.is_direct else message.channel),
            )
            incoming = to_incoming(message, message_address(message, self._name), self._identity, names)
            await self._dispatch(msgspec.structs.replace(incoming, room_name=room_name))

    async def _handle_command(self, payload: Any) -> None:
        command = decode_command(payload)
        if command is None:
            return
        message = command_to_incoming(command, self._name, int(time.time() * 1000))
        async with self._room_lock(command.channel_id):
            if (command.channel_id, message.id) not in self._accepted:
                await self._dispatch(message)

    async def _dispatch(self, message: IncomingMessage) -> None:
        async with asyncio.timeout(self._limits.accept_timeout_s):
            await dispatch_message(self._on_message, message)
        self._accepted[message.address.room, message.id] = None
        while len(self._accepted) > self._limits.dedup_entries_max:
            self._accepted.popitem(last=False)

    @asynccontextmanager
    async def _room_lock(self, room: str) -> AsyncIterator[None]:
        """Hold the room's lock, first come, first served. The lock is deleted with its last user."""
        lock, users = self._room_locks.get(room) or (asyncio.Lock(), 0)
        self._room_locks[room] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._room_locks[room]
            if users == 1:
                del self._room_locks[room]
            else:
                self._room_locks[room] = (lock, users - 1)
