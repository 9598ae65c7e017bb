"""In-memory chat platform and channel for tests: every capability can be switched off and every failure simulated."""

from __future__ import annotations

import asyncio
import os
from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path

import msgspec

from mainstay.core.channels import (
    ChannelCapabilities,
    ChannelError,
    DeliveryDeferred,
    DeliveryRejected,
    DeliveryUnknown,
    IncomingFile,
    IncomingMessage,
    MessageHandler,
    QuotedText,
    SentMessage,
)
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.errors import MainstayError
from mainstay.core.tool_ports import RoomMessage
from mainstay.testing.channel_rig import PostedMessage

BOT_USER = "BOT"
REDELIVERY_S = 0.01  # before a message that the handler rejected is delivered again
ALL_CAPABILITIES = ChannelCapabilities(
    markup="markdown",
    edits=True,
    deletes=True,
    files=True,
    typing=True,
    threads=True,
    history=True,
    search=True,
    idempotency="key",
    edit_interval_s=0.0,
)


class LoopbackMessage(msgspec.Struct, kw_only=True):
    """A message as the platform stores it."""

    id: str
    room: str
    user: str
    text: str
    at: int
    thread: str = ""
    key: str = ""
    mention: bool = False
    edited: bool = False
    files: tuple[tuple[str, bytes], ...] = ()
    quoted: tuple[QuotedText, ...] = ()


class LoopbackPlatform:
    """A chat platform; it outlives the channels that connect to it. `start_ms`: time of the first message."""

    def __init__(
        self, *, direct: Sequence[str] = ("D1",), rooms: Sequence[str] = ("C1", "C2"), start_ms: int = 0
    ) -> None:
        self.rooms = {*rooms, *direct}
        self.direct = set(direct)
        self.room_names: dict[str, str] = {}
        self.messages: list[LoopbackMessage] = []
        self.undelivered: deque[str] = deque()  # ids of messages that the channel has not accepted yet
        self.has_undelivered = asyncio.Event()  # set when a message is to be delivered
        self.typing_notifications: list[tuple[ChatAddress, str]] = []  # typing notifications: address and note
        self.request_counts: Counter[str] = Counter()  # requests, by room
        self.edits: list[tuple[str, str]] = []  # message id and new text
        self.rate_limits_s: dict[str, float] = {}  # rooms that reject one request with a rate limit of so many seconds
        self.refusals_left: dict[str, int] = {}  # rooms that reject so many more requests as unreachable
        self.lost_responses_left = 0  # so many more posts are accepted without a response
        self.dropped_connections = 0  # how often the connection was dropped
        self.unreachable_files: set[str] = set()  # references of files that cannot be downloaded
        self._start_ms = start_ms or 1_700_000_000_000
        self._count = 0

    def add_message(self, message: LoopbackMessage) -> None:
        self.messages.append(message)
        self.deliver(message.id)

    def deliver(self, id: str) -> None:
        self.undelivered.append(id)
        self.has_undelivered.set()

    def next_id_and_time(self) -> tuple[str, int]:
        """Return the next message id and its time in ms."""
        self._count += 1
        return f"m{self._count}", self._start_ms + self._count

    def find_message(self, id: str) -> LoopbackMessage:
        return next(message for message in self.messages if message.id == id)

    def bot_messages(self, room: str) -> list[PostedMessage]:
        messages = (message for message in self.messages if message.room == room and message.user == BOT_USER)
        return [
            PostedMessage(
                id=message.id, text=message.text, thread=message.thread, edited=message.edited, files=message.files
            )
            for message in messages
        ]

    def drop_connection(self) -> None:
        self.dropped_connections += 1
        self.has_undelivered.set()


class LoopbackChannel:
    """A ChatChannel to a LoopbackPlatform."""

    kind = "loopback"

    def __init__(
        self, platform: LoopbackPlatform, name: str = "chat", capabilities: ChannelCapabilities = ALL_CAPABILITIES
    ) -> None:
        self.name = name
        self.capabilities = capabilities
        self.platform = platform
        self.state = "not started"
        self._delivery_task: asyncio.Task[None] | None = None

    async def start(self, on_message: MessageHandler) -> None:
        self.state = "connected"
        self._delivery_task = asyncio.get_running_loop().create_task(self._deliver_messages(on_message))

    async def close(self) -> None:
        self.state = "closed"
        if self._delivery_task is not None:
            task, self._delivery_task = self._delivery_task, None
            task.cancel()
            await asyncio.wait((task,))

    async def _deliver_messages(self, on_message: MessageHandler) -> None:
        platform = self.platform
        while True:
            while platform.undelivered:
                message = self._incoming(platform.find_message(platform.undelivered[0]))
                try:
                    await on_message(message)
                except MainstayError:
                    await asyncio.sleep(REDELIVERY_S)
                    continue
                platform.undelivered.popleft()
            platform.has_undelivered.clear()
            await platform.has_undelivered.wait()

    # --- sending ---------------------------------------------------------------------------------

    async def post(self, to: ChatAddress, text: str, *, key: str) -> SentMessage:
        await self._check_request(to.room)
        if len(text) > self.capabilities.length_max:
            raise DeliveryRejected(f"{len(text)} characters are too many for one message")
        return self._save_post(to, key, text)

    async def upload(self, to: ChatAddress, path: str, name: str, comment: str, *, key: str) -> SentMessage:
        await self._check_request(to.room)
        try:
            content = await asyncio.get_running_loop().run_in_executor(None, Path(path).read_bytes)
        except OSError as error:
            raise DeliveryRejected(f"the file cannot be read: {error}") from None
        return self._save_post(to, key, comment, ((name, content),))

    def _save_post(
        self, to: ChatAddress, key: str, text: str, files: tuple[tuple[str, bytes], ...] = ()
    ) -> SentMessage:
        known = (
            [message for message in self.platform.messages if message.key == key]
            if self.capabilities.idempotency == "key"
            else []
        )
        if known:
            message = known[0]
        else:
            id, at = self.platform.next_id_and_time()
            thread = (to.thread or id) if self._has_threads(to.room) else ""
            message = LoopbackMessage(
                id=id, room=to.room, user=BOT_USER, text=text, at=at, thread=thread, key=key, files=files
            )
            self.platform.messages.append(message)
        if self.platform.lost_responses_left:
            self.platform.lost_responses_left -= 1
            raise DeliveryUnknown("the connection was lost before the response")
        return SentMessage(id=message.id, thread=message.thread)

    async def _check_request(self, room: str) -> None:
        await asyncio.sleep(0)
        platform = self.platform
        platform.request_counts[room] += 1
        if self.state != "connected":
            raise DeliveryDeferred("the channel is not connected")
        if room not in platform.rooms:
            raise DeliveryRejected(f"there is no room {room!r}")
        if (wait_s := platform.rate_limits_s.pop(room, None)) is not None:
            raise DeliveryDeferred("the rate limit is reached", retry_after_s=wait_s)
        if platform.refusals_left.get(room, 0):
            platform.refusals_left[room] -= 1
            raise DeliveryDeferred("the platform cannot be reached")

    async def find_posted(self, to: ChatAddress, key: str) -> SentMessage | None:
        await asyncio.sleep(0)
        match = next(
            (message for message in self.platform.messages if message.key == key and message.room == to.room), None
        )
        return SentMessage(id=match.id, thread=match.thread) if match is not None else None

    async def edit(self, to: ChatAddress, id: str, text: str) -> None:
        await self._check_request(to.room)
        message = self._find_own(id)
        message.text, message.edited = text, True
        self.platform.edits.append((id, text))

    async def delete(self, to: ChatAddress, id: str) -> None:
        await self._check_request(to.room)
        self.platform.messages.remove(self._find_own(id))

    def _find_own(self, id: str) -> LoopbackMessage:
        match = next(
            (message for message in self.platform.messages if message.id == id and message.user == BOT_USER), None
        )
        if match is None:
            raise DeliveryRejected("there is no such message")
        return match

    async def show_typing(self, to: ChatAddress, note: str = "") -> None:
        await asyncio.sleep(0)
        if self.state == "connected" and to.room in self.platform.rooms:
            self.platform.typing_notifications.append((to, note))

    # --- reading ---------------------------------------------------------------------------------

    async def download(self, file: IncomingFile, target: str, bytes_max: int) -> str:
        await asyncio.sleep(0)
        if file.ref in self.platform.unreachable_files:
            raise DeliveryDeferred("the file cannot be downloaded")
        id, _, number = file.ref.partition("/")
        _, content = self.platform.find_message(id).files[int(number)]
        if len(content) > bytes_max:
            raise ChannelError(f"the file has more than {bytes_max} bytes")
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "wb") as out:
            out.write(content)
        return file.mime

    async def history(self, at: ChatAddress, after: int, limit: int) -> Sequence[IncomingMessage]:
        await asyncio.sleep(0)
        if self.state != "connected":
            raise DeliveryDeferred("the channel is not connected")
        has_threads = self._has_threads(at.room)
        found = [
            self._incoming(message)
            for message in self.platform.messages
            if message.room == at.room
            and message.at >= after
            and (not has_threads or ((message.thread or message.id) == at.thread if at.thread else not message.thread))
        ]
        return found[-limit:]

    async def search(self, at: ChatAddress, query: str, limit: int) -> Sequence[RoomMessage]:
        await asyncio.sleep(0)
        matches = [
            message for message in reversed(self.platform.messages) if message.room == at.room and query in message.text
        ]
        return [
            RoomMessage(author=message.user, at=message.at, text=message.text, id=message.id)
            for message in matches[:limit]
        ]

    def format(self, text: str) -> str:
        return text if self.capabilities.markup != "plain" else text.replace("**", "").replace("`", "")

    def asgi_app(self) -> None:
        return None

    def _incoming(self, message: LoopbackMessage) -> IncomingMessage:
        thread = (message.thread or message.id) if self._has_threads(message.room) else ""
        return IncomingMessage(
            id=message.id,
            address=ChatAddress(self.name, message.room, thread),
            user=message.user,
            name=message.user.title(),
            text=message.text,
            at=message.at,
            direct=message.room in self.platform.direct,
            mentioned=message.mention,
            own=message.user == BOT_USER,
            files=tuple(
                IncomingFile(ref=f"{message.id}/{number}", name=name, size=len(content))
                for number, (name, content) in enumerate(message.files)
            ),
            quoted=message.quoted,
            room_name=self.platform.room_names.get(message.room, ""),
        )

    def _has_threads(self, room: str) -> bool:
        return self.capabilities.threads and room not in self.platform.direct


class LoopbackRig:
    """ChannelRig on the in-memory platform."""

    room, direct_room, user, other_user, delivers_missed = "C1", "D1", "ann", "bob", True

    def __init__(
        self,
        capabilities: ChannelCapabilities = ALL_CAPABILITIES,
        name: str = "chat",
        platform: LoopbackPlatform | None = None,
    ) -> None:
        self.platform = platform or LoopbackPlatform()
        self.channel = LoopbackChannel(self.platform, name, capabilities)

    def recreate_channel(self) -> LoopbackChannel:
        self.channel = LoopbackChannel(self.platform, self.channel.name, self.channel.capabilities)
        return self.channel

    async def send_message(
        self,
        room: str,
        text: str,
        *,
        user: str = "",
        thread: str = "",
        mention: bool = False,
        files: Sequence[tuple[str, bytes]] = (),
    ) -> str:
        id, at = self.platform.next_id_and_time()
        sender = user or self.user
        message = LoopbackMessage(
            id=id, room=room, user=sender, text=text, at=at, thread=thread, mention=mention, files=tuple(files)
        )
        self.platform.add_message(message)
        return id

    async def redeliver(self, id: str) -> None:
        self.platform.deliver(id)

    async def posted_messages(self, room: str) -> Sequence[PostedMessage]:
        return self.platform.bot_messages(room)

    async def count_typing(self, room: str) -> int:
        return sum(at.room == room for at, _ in self.platform.typing_notifications)

    async def drop_connection(self) -> None:
        self.platform.drop_connection()

    async def limit_rate(self, seconds: float) -> None:
        self.platform.rate_limits_s[self.room] = seconds

    async def accept_then_drop(self) -> None:
        self.platform.lost_responses_left += 1
