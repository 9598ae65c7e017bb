"""Discord channel: a bot that receives over Discord's gateway."""

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

from mainstay.channels.attachment_files import read_file, write_new_file
from mainstay.channels.discord.connection import DiscordConnection, DiscordRequestRefused, call_api, import_discord
from mainstay.channels.discord.events import DiscordRoomAndThread, decode_message, locate_channel
from mainstay.channels.discord.manifest import DiscordSettings
from mainstay.channels.discord.markup import markdown_to_discord
from mainstay.channels.incoming_dispatch import dispatch_message
from mainstay.core.channel_settings import ChannelFactoryContext
from mainstay.core.channels import (
    ChannelCapabilities,
    ChannelError,
    DeliveryDeferred,
    DeliveryRejected,
    IncomingFile,
    IncomingMessage,
    MessageHandler,
    SentMessage,
)
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.errors import ConfigError
from mainstay.core.tool_ports import RoomMessage
from mainstay.io.fetch import FetchRules, fetch
from mainstay.io.http_response import FetchFailed, ResponseTooLarge
from mainstay.io.urls import AddressRefused
from mainstay.io.urls import parse_url as address_of

MESSAGE_CHARS_MAX = 2_000
FILE_BYTES_MAX = 10 * 1024 * 1024
QUEUE_MAX = 10_000  # received messages that wait for the handler
CACHE_ENTRIES_MAX = 2_000  # entries of each cache
BACKFILL_CHANNELS_MAX = 100  # whose missed messages are fetched after a reconnect
BACKFILL_MESSAGES_MAX = 200  # messages of each of them
SEARCH_MESSAGES_MAX = 500  # messages that a search looks through
TITLE_CHARS_MAX = 80
THREAD_ARCHIVE_MIN = 1_440  # minutes without messages after which Discord archives a thread
MEDIA_TIMEOUT_S = 120.0
TYPING_TIMEOUT_S = 5.0
CDN_HOSTS = ("cdn.discordapp.com", "media.discordapp.net")
UNKNOWN_CHANNEL_CODE = 10003
THREAD_EXISTS_CODE = 160004
NO_THREADS_CODES = (50024, 50035)

_log = logging.getLogger(__name__)


class DiscordChannel:
    """`base_url` replaces the address of Discord's API. Every post has a nonce derived from its idempotency key, by
    which Discord recognises duplicates for some minutes; nonces of our own messages are remembered here for longer."""

    kind = "discord"
    capabilities = ChannelCapabilities(
        markup="markdown",
        length_max=MESSAGE_CHARS_MAX,
        edits=True,
        deletes=True,
        files=True,
        typing=True,
        threads=True,
        history=True,
        search=True,
        idempotency="key",
        idempotency_window_s=120.0,  # Discord remembers nonces for a few minutes
        edit_interval_s=1.2,
        file_bytes_max=FILE_BYTES_MAX,
    )

    def __init__(self, name: str, token: str, *, base_url: str = "") -> None:
        if not token:
            raise ConfigError(f"{name}: the bot token is missing")
        try:
            self._api_address = address_of(base_url) if base_url else None
        except AddressRefused as error:
            raise ConfigError(f"{name}: base_url: {error}") from None
        self.name = name
        self._token = token
        self._base_url = base_url
        self._connection: DiscordConnection | None = None
        self._dispatch_task: asyncio.Task[None] | None = None
        self._received: asyncio.Queue[Any] = asyncio.Queue(QUEUE_MAX)
        self._locations: OrderedDict[int, DiscordRoomAndThread] = OrderedDict()
        self._newest_received: OrderedDict[int, int] = OrderedDict()  # channel id -> newest received message id
        self._thread_titles: OrderedDict[str, str] = OrderedDict()  # message without a thread yet -> title for it
        self._posted_by_nonce: OrderedDict[str, str] = OrderedDict()  # nonce -> message id

    @property
    def account(self) -> str:
        """The bot's name, for display; empty before it is connected."""
        user = self._connection.client.user if self._connection is not None and self._connection.client else None
        return str(user) if user is not None else ""

    @property
    def state(self) -> str:
        return (self._connection.problem or "connected") if self._connection is not None else "not started"

    # --- lifecycle -------------------------------------------------------------------------------

    async def start(self, on_message: MessageHandler) -> None:
        if self._connection is not None and self._connection.problem != "closed":
            raise ConfigError(f"{self.name} is already started")
        self._connection = DiscordConnection(self.name, self._base_url, self._enqueue)
        await self._connection.open(self._token)
        self._dispatch_task = asyncio.create_task(
            self._dispatch_received(on_message), name=f"discord {self.name} hears"
        )

    async def close(self) -> None:
        if self._dispatch_task is not None:
            self._dispatch_task.cancel()
            await asyncio.gather(self._dispatch_task, return_exceptions=True)
        if self._connection is not None:
            await self._connection.close()

    @property
    def _client(self) -> Any:
        if self._connection is None or self._connection.problem == "closed":
            raise DeliveryDeferred(f"{self.name} is not connected: {self.state}")
        return self._connection.client

    # --- receiving -------------------------------------------------------------------------------

    def _enqueue(self, message: Any) -> None:
        try:
            self._received.put_nowait(message)
        except asyncio.QueueFull:
            _log.error("%s: the queue of received messages is full; a message was dropped", self.name)

    async def _dispatch_received(self, hear: MessageHandler) -> None:
        while True:
            message = await self._received.get()
            for received in [message] if message is not None else await self._fetch_missed():
                if (incoming := await self._decode(received)) is not None:
                    await dispatch_message(hear, incoming)

    async def _decode(self, message: Any) -> IncomingMessage | None:
        us = self._bot_id()
        if message.author.id == us:
            if message.nonce:
                _cache_put(self._posted_by_nonce, str(message.nonce), str(message.id))
            return None
        if message.author.bot:  # bots that answer each other never stop
            return None
        incoming = decode_message(message, us, self.name, await self._locate(message.channel.id, message.channel))
        if incoming is not None:
            _cache_put(self._newest_received, message.channel.id, message.id)
            if incoming.address.thread == incoming.id:
                _cache_put(self._thread_titles, incoming.id, " ".join(incoming.text.split())[:TITLE_CHARS_MAX])
            else:
                self._thread_titles.pop(incoming.address.thread, None)  # the thread exists now
        return incoming

    async def _fetch_missed(self) -> list[Any]:
        """Fetch messages after the newest received one in each known channel, oldest first."""
        messages: list[Any] = []
        for channel, newest in list(self._newest_received.items())[-BACKFILL_CHANNELS_MAX:]:
            try:
                newer = await self._fetch_newest(channel, BACKFILL_MESSAGES_MAX, newest)
            except ChannelError as error:
                _log.warning("%s: missed messages of a room could not be fetched: %s", self.name, error)
            else:
                messages += reversed(newer)
        return messages

    async def _locate(self, id: int, channel: Any = None) -> DiscordRoomAndThread:
        """Return the room and thread of a Discord channel; fetched once if the library does not know it."""
        if (known := self._locations.get(id)) is not None:
            return known
        kind = getattr(channel, "type", None)
        if kind is not None:
            place = locate_channel(id, kind.value, getattr(channel, "parent_id", None))
        else:
            try:
                fields = await call_api(self._client.http.get_channel(id))
            except ChannelError as error:
                _log.warning("%s: a room could not be looked up: %s", self.name, error)
                return DiscordRoomAndThread(str(id))
            place = locate_channel(id, fields.get("type"), int(fields.get("parent_id") or 0))
        _cache_put(self._locations, id, place)
        return place

    # --- sending ---------------------------------------------------------------------------------

    async def post(self, to: ChatAddress, text: str, *, key: str) -> SentMessage:
        nonce = _nonce_from_key(key)
        return await self._send(to, nonce, lambda channel: channel.send(text, nonce=nonce, suppress_embeds=True))

    async def upload(self, to: ChatAddress, path: str, name: str, comment: str, *, key: str) -> SentMessage:
        content = await read_file(path, FILE_BYTES_MAX)
        nonce, discord = _nonce_from_key(key), import_discord()

        async def send(channel: Any) -> Any:
            file = discord.File(io.BytesIO(content), filename=name)
            return await channel.send(comment or None, file=file, nonce=nonce, suppress_embeds=True)

        return await self._send(to, nonce, send)

    async def _send(self, to: ChatAddress, nonce: str, send: Callable[[Any], Awaitable[Any]]) -> SentMessage:
        _check_ids(to)
        client = self._client
        if message_id := self._posted_by_nonce.get(nonce):  # it was posted: the gateway has reported the message
            return await self._build_receipt(to, message_id)
        target = int(to.thread or to.room)
        if to.thread in self._thread_titles:
            target = await self._create_thread(to)
        try:
            sent = await call_api(send(client.get_partial_messageable(target)), MEDIA_TIMEOUT_S)
        except DiscordRequestRefused as error:
            if error.code != UNKNOWN_CHANNEL_CODE or not to.thread:
                raise
            sent = await call_api(send(client.get_partial_messageable(await self._create_thread(to))), MEDIA_TIMEOUT_S)
        _cache_put(self._posted_by_nonce, nonce, str(sent.id))
        return await self._build_receipt(to, str(sent.id))

    async def _build_receipt(self, to: ChatAddress, id: str) -> SentMessage:
        if to.thread or (await self._locate(int(to.room))).direct:
            return SentMessage(id=id, thread=to.thread)
        _cache_put(self._thread_titles, id, "")
        return SentMessage(id=id, thread=id)

    async def _create_thread(self, to: ChatAddress) -> int:
        """Create the thread of a message, when there is something to post in it. Return the thread's id, or the room's
        if threads are not possible there."""
        title = self._thread_titles.get(to.thread) or "Conversation"
        request = self._client.http.start_thread_with_message(
            int(to.room), int(to.thread), name=title, auto_archive_duration=THREAD_ARCHIVE_MIN
        )
        target = int(to.thread)
        try:
            await call_api(request)
        except DiscordRequestRefused as error:
            if error.code in NO_THREADS_CODES:
                target = int(to.room)
            elif error.code != THREAD_EXISTS_CODE:
                raise
        self._thread_titles.pop(to.thread, None)
        return target

    def _message_handle(self, to: ChatAddress, id: str) -> Any:
        """Return a handle of a message. The message that a thread begins with is in the room."""
        _check_ids(to, id)
        channel = to.room if id == to.thread or not to.thread else to.thread
        return self._client.get_partial_messageable(int(channel)).get_partial_message(int(id))

    async def find_posted(self, to: ChatAddress, key: str) -> SentMessage | None:
        return None  # Discord does not store nonces with messages

    async def edit(self, to: ChatAddress, id: str, text: str) -> None:
        await call_api(self._message_handle(to, id).edit(content=text))

    async def delete(self, to: ChatAddress, id: str) -> None:
        await call_api(self._message_handle(to, id).delete())

    async def show_typing(self, to: ChatAddress, note: str = "") -> None:
        try:
            _check_ids(to)
            channel = to.room if not to.thread or to.thread in self._thread_titles else to.thread
            await call_api(self._client.http.send_typing(int(channel)), TYPING_TIMEOUT_S)
        except ChannelError:
            pass  # the typing indicator is optional

    # --- attachments, history and search ---------------------------------------------------------

    async def download(self, file: IncomingFile, target: str, bytes_max: int) -> str:
        """Download from Discord's CDN or the configured API host only; the token is not sent."""
        own = self._api_address

        def allowed(url: str) -> bool:
            address = address_of(url)
            if own is not None and (address.scheme, address.host, address.port) == (own.scheme, own.host, own.port):
                return True
            return address.scheme == "https" and address.host in CDN_HOSTS and address.port == 443

        private_ok = (f"{own.host}:{own.port}",) if own is not None else ()
        rules = FetchRules(bytes_max=bytes_max, timeout_s=MEDIA_TIMEOUT_S, redirects_max=2, private_hosts=private_ok)
        try:
            response = await fetch(file.ref, rules=rules, allow=allowed)
        except (AddressRefused, ResponseTooLarge) as error:
            raise DeliveryRejected(f"{file.name} is not fetched: {error}") from None
        except FetchFailed as error:
            raise DeliveryDeferred(f"{file.name} could not be fetched: {error}") from None
        if response.status != 200:
            raise DeliveryRejected(f"{file.name} could not be fetched: Discord answered with {response.status}")
        await write_new_file(response.body, target)
        return response.mime

    async def history(self, at: ChatAddress, after: int, limit: int) -> Sequence[IncomingMessage]:
        _check_ids(at)
        since = 0
        if after:
            time = datetime.datetime.fromtimestamp(after / 1000, datetime.UTC)
            since = import_discord().utils.time_snowflake(time, high=True)
        messages: list[Any] = []
        try:
            messages = await self._fetch_newest(int(at.thread or at.room), limit, since)
        except DiscordRequestRefused as error:
            if not at.thread or error.code != UNKNOWN_CHANNEL_CODE:  # the thread has no messages yet
                raise
        if at.thread and len(messages) < limit and int(at.thread) > since:
            messages += await self._fetch_thread_root(at)
        place = await self._locate(int(at.room))
        decoded = [decode_message(message, self._bot_id(), self.name, place) for message in reversed(messages)]
        return [msgspec.structs.replace(message, address=at) for message in decoded if message is not None]

    async def _fetch_thread_root(self, at: ChatAddress) -> list[Any]:
        room = self._client.get_partial_messageable(int(at.room))
        try:
            return [await call_api(room.fetch_message(int(at.thread)))]
        except DeliveryRejected:  # the thread has no first message in the room
            return []

    async def _fetch_newest(self, channel: int, limit: int, after: int = 0) -> list[Any]:
        """Return the newest messages of a channel, newest first."""
        discord = import_discord()
        messages = self._client.get_partial_messageable(channel).history(
            limit=limit, after=discord.Object(after) if after else None, oldest_first=False
        )

        async def read() -> list[Any]:
            return [message async for message in messages]

        return await call_api(read())

    async def search(self, at: ChatAddress, query: str, limit: int) -> Sequence[RoomMessage]:
        """Search the newest SEARCH_MESSAGES_MAX messages: bots may not use Discord's own search."""
        _check_ids(at)
        words = query.casefold().split()
        place = await self._locate(int(at.room))
        hits: list[RoomMessage] = []
        for message in await self._fetch_newest(int(at.room), SEARCH_MESSAGES_MAX):
            decoded = decode_message(message, self._bot_id(), self.name, place)
            if decoded is not None and all(word in decoded.full_text.casefold() for word in words):
                hits.append(RoomMessage(author=decoded.name, at=decoded.at, text=decoded.full_text, id=decoded.id))
        return hits[:limit]

    def format(self, text: str) -> str:
        return markdown_to_discord(text)

    def asgi_app(self) -> Any:
        return None

    def _bot_id(self) -> int:
        return int(self._client.user.id)


def _cache_put(cache: OrderedDict[Any, Any], name: Any, value: Any) -> None:
    cache[name] = value
    cache.move_to_end(name)
    while len(cache) > CACHE_ENTRIES_MAX:
        cache.popitem(last=False)


def _nonce_from_key(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:25]


def _check_ids(to: ChatAddress, id: str = "0") -> None:
    """Raise DeliveryRejected unless all ids are numbers: an address may come from the model or a user."""
    for part in (to.room, to.thread or "0", id):
        if not (part.isascii() and part.isdecimal() and len(part) <= 20):
            raise DeliveryRejected(f"{str(to)[:100]!r} is not a Discord room")


def build_discord_channel(name: str, settings: DiscordSettings, context: ChannelFactoryContext) -> DiscordChannel:
    return DiscordChannel(name, settings.token, base_url=settings.base_url)
