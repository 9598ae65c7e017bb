"""A Discord bot as a chat channel."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import io
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from mainstay.channels.discord.connection import Connection, Refused, asked, library
from mainstay.channels.discord.markup import discord_of
from mainstay.channels.discord.messages import Place, message_of, place_of
from mainstay.channels.local_files import keep_file, read_file
from mainstay.channels.telling import tell
from mainstay.core.addresses import Address
from mainstay.core.channels import Attached, ChannelError, Hear, Incoming, NeverSent, NotSent, Sent, Shows
from mainstay.core.errors import ConfigError
from mainstay.core.outside import Said
from mainstay.io.addresses import AddressRefused
from mainstay.io.addresses import place_of as address_of
from mainstay.io.fetch import FetchRules, fetch
from mainstay.io.response import FetchFailed, TooLarge

LENGTH = 2_000
FILE_BYTES_MAX = 10 * 1024 * 1024
QUEUE_MAX = 10_000  # messages that wait to be heard
REMEMBERED_MAX = 2_000
CHANNELS_CAUGHT_UP_MAX = 100
CAUGHT_UP_MAX = 200  # messages of each
SEARCHED_MAX = 500  # messages
TITLE_CHARS_MAX = 80
ARCHIVE_MIN = 1_440
MEDIA_S = 120.0
TYPING_S = 5.0
CDN = ("cdn.discordapp.com", "media.discordapp.net")
NO_SUCH_CHANNEL = 10003
HAS_A_THREAD = 160004
NO_THREADS_HERE = (50024, 50035)

_log = logging.getLogger(__name__)


class DiscordChannel:
    """`base` is where Discord's API is, if not where everybody's is. What is posted has a nonce made from its key, by
    which Discord knows it for some minutes; what it tells of our own messages is remembered for longer."""

    kind = "discord"
    shows = Shows(
        markup="markdown",
        length=LENGTH,
        edits=True,
        deletes=True,
        files=True,
        typing=True,
        threads=True,
        history=True,
        search=True,
        once="key",
        once_s=120.0,  # its nonces hold for a few minutes
        edit_every_s=1.2,
        file_bytes_max=FILE_BYTES_MAX,
    )

    def __init__(self, name: str, token: str, *, base: str = "") -> None:
        if not token:
            raise ConfigError(f"{name}: Discord needs the bot's token")
        try:
            self._files_at = address_of(base) if base else None
        except AddressRefused as error:
            raise ConfigError(f"{name}: base_url: {error}") from None
        self.name = name
        self._token = token
        self._base = base
        self._connection: Connection | None = None
        self._telling: asyncio.Task[None] | None = None
        self._said: asyncio.Queue[Any] = asyncio.Queue(QUEUE_MAX)
        self._places: OrderedDict[int, Place] = OrderedDict()
        self._latest: OrderedDict[int, int] = OrderedDict()  # of a channel, the newest message that was heard
        self._begun: OrderedDict[str, str] = OrderedDict()  # messages that may become threads -> what to call those
        self._posted: OrderedDict[str, str] = OrderedDict()  # nonce -> message

    @property
    def account(self) -> str:
        """Who we are there, once connected; for people."""
        user = self._connection.client.user if self._connection is not None and self._connection.client else None
        return str(user) if user is not None else ""

    @property
    def state(self) -> str:
        return (self._connection.trouble or "connected") if self._connection is not None else "not started"

    # --- coming and going ------------------------------------------------------------------------

    async def start(self, hear: Hear) -> None:
        if self._connection is not None:
            raise ConfigError(f"{self.name} was started before")
        self._connection = Connection(self.name, self._base, self._listen)
        await self._connection.open(self._token)
        self._telling = asyncio.create_task(self._tell(hear), name=f"discord {self.name} hears")

    async def close(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.gather(self._telling, return_exceptions=True)
        if self._connection is not None:
            await self._connection.close()

    @property
    def _client(self) -> Any:
        if self._connection is None or self._connection.trouble == "closed":
            raise NotSent(f"{self.name} is not connected: {self.state}")
        return self._connection.client

    # --- hearing ---------------------------------------------------------------------------------

    def _listen(self, message: Any) -> None:
        try:
            self._said.put_nowait(message)
        except asyncio.QueueFull:
            _log.error("%s: more is said than can be heard; a message was left out", self.name)

    async def _tell(self, hear: Hear) -> None:
        while True:
            message = await self._said.get()
            for one in [message] if message is not None else await self._missed():
                if (incoming := await self._heard(one)) is not None:
                    await tell(hear, incoming)

    async def _heard(self, message: Any) -> Incoming | None:
        us = self._us()
        if message.author.id == us:
            if message.nonce:
                _keep(self._posted, str(message.nonce), str(message.id))
            return None
        if message.author.bot:  # programs that answer each other never end
            return None
        incoming = message_of(message, us, self.name, await self._place(message.channel.id, message.channel))
        if incoming is not None:
            _keep(self._latest, message.channel.id, message.id)
            if incoming.address.thread == incoming.id:
                _keep(self._begun, incoming.id, " ".join(incoming.text.split())[:TITLE_CHARS_MAX])
            else:
                self._begun.pop(incoming.address.thread, None)  # somebody has made it
        return incoming

    async def _missed(self) -> list[Any]:
        """What was said in rooms that we know, since the last that we heard there."""
        found: list[Any] = []
        for channel, newest in list(self._latest.items())[-CHANNELS_CAUGHT_UP_MAX:]:
            try:
                told = await self._history(channel, CAUGHT_UP_MAX, newest)
            except ChannelError as error:
                _log.warning("%s: what was missed in a room cannot be had: %s", self.name, error)
            else:
                found += reversed(told)
        return found

    async def _place(self, id: int, channel: Any = None) -> Place:
        """Where a channel of Discord's belongs: asked once, where the library does not know it."""
        if (known := self._places.get(id)) is not None:
            return known
        kind = getattr(channel, "type", None)
        if kind is not None:
            place = place_of(id, kind.value, getattr(channel, "parent_id", None))
        else:
            try:
                told = await asked(self._client.http.get_channel(id))
            except ChannelError as error:
                _log.warning("%s: nothing is known of a room: %s", self.name, error)
                return Place(str(id))
            place = place_of(id, told.get("type"), int(told.get("parent_id") or 0))
        _keep(self._places, id, place)
        return place

    # --- saying ----------------------------------------------------------------------------------

    async def post(self, to: Address, text: str, *, key: str) -> Sent:
        nonce = _nonce(key)
        return await self._send(to, nonce, lambda channel: channel.send(text, nonce=nonce, suppress_embeds=True))

    async def upload(self, to: Address, path: str, name: str, comment: str, *, key: str) -> Sent:
        content = await read_file(path, FILE_BYTES_MAX)
        nonce, discord = _nonce(key), library()

        async def send(channel: Any) -> Any:
            file = discord.File(io.BytesIO(content), filename=name)
            return await channel.send(comment or None, file=file, nonce=nonce, suppress_embeds=True)

        return await self._send(to, nonce, send)

    async def _send(self, to: Address, nonce: str, send: Callable[[Any], Awaitable[Any]]) -> Sent:
        _check(to)
        client = self._client
        if known := self._posted.get(nonce):  # it was taken, and we were told so by another way
            return await self._receipt(to, known)
        target = int(to.thread or to.room)
        if to.thread in self._begun:
            target = await self._begin(to)
        try:
            sent = await asked(send(client.get_partial_messageable(target)), MEDIA_S)
        except Refused as error:
            if error.code != NO_SUCH_CHANNEL or not to.thread:
                raise
            sent = await asked(send(client.get_partial_messageable(await self._begin(to))), MEDIA_S)
        _keep(self._posted, nonce, str(sent.id))
        return await self._receipt(to, str(sent.id))

    async def _receipt(self, to: Address, id: str) -> Sent:
        if to.thread or (await self._place(int(to.room))).direct:
            return Sent(id=id, thread=to.thread)
        _keep(self._begun, id, "")
        return Sent(id=id, thread=id)

    async def _begin(self, to: Address) -> int:
        """The thread that begins with a message: made when there is something to say in it. Where there can be none it
        is said in the room."""
        title = self._begun.get(to.thread) or "Conversation"
        making = self._client.http.start_thread_with_message(
            int(to.room), int(to.thread), name=title, auto_archive_duration=ARCHIVE_MIN
        )
        target = int(to.thread)
        try:
            await asked(making)
        except Refused as error:
            if error.code in NO_THREADS_HERE:
                target = int(to.room)
            elif error.code != HAS_A_THREAD:
                raise
        self._begun.pop(to.thread, None)
        return target

    def _message(self, to: Address, id: str) -> Any:
        """A thread's first message is in the room."""
        _check(to, id)
        where = to.room if id == to.thread or not to.thread else to.thread
        return self._client.get_partial_messageable(int(where)).get_partial_message(int(id))

    async def find(self, to: Address, key: str) -> Sent | None:
        return None  # Discord keeps no nonce with a message

    async def edit(self, to: Address, id: str, text: str) -> None:
        await asked(self._message(to, id).edit(content=text))

    async def delete(self, to: Address, id: str) -> None:
        await asked(self._message(to, id).delete())

    async def typing(self, to: Address, note: str = "") -> None:
        try:
            _check(to)
            where = to.room if not to.thread or to.thread in self._begun else to.thread
            await asked(self._client.http.send_typing(int(where)), TYPING_S)
        except ChannelError:
            pass  # it is a courtesy

    # --- what was said ---------------------------------------------------------------------------

    async def download(self, file: Attached, target: str, bytes_max: int) -> str:
        """From Discord's own servers for files, or from where its API is; the token stays here."""
        own = self._files_at

        def allowed(url: str) -> bool:
            place = address_of(url)
            if own is not None and (place.scheme, place.host, place.port) == (own.scheme, own.host, own.port):
                return True
            return place.scheme == "https" and place.host in CDN and place.port == 443

        private = (f"{own.host}:{own.port}",) if own is not None else ()
        rules = FetchRules(bytes_max=bytes_max, time_s=MEDIA_S, redirects_max=2, private_ok=private)
        try:
            found = await fetch(file.ref, rules=rules, allow=allowed)
        except (AddressRefused, TooLarge) as error:
            raise NeverSent(f"{file.name} is not fetched: {error}") from None
        except FetchFailed as error:
            raise NotSent(f"{file.name} could not be fetched: {error}") from None
        if found.status != 200:
            raise NeverSent(f"{file.name} cannot be had: Discord says {found.status}")
        await keep_file(found.body, target)
        return found.mime

    async def history(self, at: Address, after: int, limit: int) -> Sequence[Incoming]:
        _check(at)
        since = 0
        if after:
            when = datetime.datetime.fromtimestamp(after / 1000, datetime.UTC)
            since = library().utils.time_snowflake(when, high=True)
        found: list[Any] = []
        try:
            found = await self._history(int(at.thread or at.room), limit, since)
        except Refused as error:
            if not at.thread or error.code != NO_SUCH_CHANNEL:  # nobody has said anything in it yet
                raise
        if at.thread and len(found) < limit and int(at.thread) > since:
            found += await self._root(at)
        place = await self._place(int(at.room))
        told = [message_of(one, self._us(), self.name, place) for one in reversed(found)]
        return [msgspec.structs.replace(one, address=at) for one in told if one is not None]

    async def _root(self, at: Address) -> list[Any]:
        room = self._client.get_partial_messageable(int(at.room))
        try:
            return [await asked(room.fetch_message(int(at.thread)))]
        except NeverSent:  # it began without one
            return []

    async def _history(self, channel: int, limit: int, after: int = 0) -> list[Any]:
        """The newest first."""
        discord = library()
        messages = self._client.get_partial_messageable(channel).history(
            limit=limit, after=discord.Object(after) if after else None, oldest_first=False
        )

        async def read() -> list[Any]:
            return [message async for message in messages]

        return await asked(read())

    async def search(self, at: Address, query: str, limit: int) -> Sequence[Said]:
        """Bots may not search: the newest messages are looked through."""
        _check(at)
        words = query.casefold().split()
        place = await self._place(int(at.room))
        found: list[Said] = []
        for message in await self._history(int(at.room), SEARCHED_MAX):
            told = message_of(message, self._us(), self.name, place)
            if told is not None and all(word in told.text.casefold() for word in words):
                found.append(Said(author=told.name, at=told.at, text=told.text, id=told.id))
        return found[:limit]

    def format(self, text: str) -> str:
        return discord_of(text)

    def app(self) -> Any:
        return None

    def _us(self) -> int:
        return int(self._client.user.id)


def _keep(kept: OrderedDict[Any, Any], name: Any, value: Any) -> None:
    kept[name] = value
    kept.move_to_end(name)
    while len(kept) > REMEMBERED_MAX:
        kept.popitem(last=False)


def _nonce(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:25]


def _check(to: Address, id: str = "0") -> None:
    """An address may be somebody's word."""
    for part in (to.room, to.thread or "0", id):
        if not (part.isascii() and part.isdecimal() and len(part) <= 20):
            raise NeverSent(f"{str(to)[:100]!r} is no room of Discord")
