"""Test rig of the channel suite: a channel with its platform, a recording message handler, and waiting helpers."""

from __future__ import annotations

import asyncio
import unittest
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from mainstay.core.channels import ChatChannel, DeliveryDeferred, IncomingMessage
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.errors import StoreFailed

T = TypeVar("T")
TIMEOUT_S = 120.0


class PostedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that the channel posted, as the platform stores it."""

    id: str
    text: str = ""  # as users see it, or as it was posted
    thread: str = ""
    edited: bool = False
    files: tuple[tuple[str, bytes], ...] = ()  # name and content


class ChannelRig(Protocol):
    """A channel and its platform. Rooms and users exist from the beginning."""

    channel: ChatChannel  # not yet started
    room: str  # with several users
    direct_room: str  # with only `user` and the bot; empty: the platform has no direct messages
    user: str  # the platform's id of a user
    other_user: str  # and of another user
    delivers_missed: bool  # the platform delivers later what was sent while the channel was not connected

    def recreate_channel(self) -> ChatChannel:
        """Replace `channel` by a new one on the same platform, as after a restart of the process."""
        ...

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
        """Send a message as a user (`user` of the rig by default); return its id."""
        ...

    async def redeliver(self, id: str) -> None:
        """Make the platform deliver this message to the channel again."""
        ...

    async def posted_messages(self, room: str) -> Sequence[PostedMessage]:
        """Return the messages that the channel posted and did not delete, oldest first."""
        ...

    async def count_typing(self, room: str) -> int:
        """Return how many typing notifications the channel sent."""
        ...

    async def drop_connection(self) -> None:
        """Close the channel's connection; it can reconnect at once."""
        ...

    async def limit_rate(self, seconds: float) -> None:
        """Reject the next post with a rate limit of so many seconds."""
        ...

    async def accept_then_drop(self) -> None:
        """Accept and show the next post, but drop the connection before the response."""
        ...


class RecordingMessageHandler:
    """Message handler that records messages and can be made to fail."""

    def __init__(self) -> None:
        self.received: list[IncomingMessage] = []
        self.failures_left = 0  # messages that will still be rejected
        self.rejected: list[IncomingMessage] = []

    async def __call__(self, message: IncomingMessage) -> None:
        if self.failures_left:
            self.failures_left -= 1
            self.rejected.append(message)
            raise StoreFailed("the disk is full")
        self.received.append(message)

    def from_others(self) -> list[IncomingMessage]:
        return [message for message in self.received if not message.own]

    async def wait_for(self, text: str, count: int = 1) -> IncomingMessage:
        """Wait until `count` messages contain the text; return the first."""

        async def probe() -> IncomingMessage | None:
            matches = [message for message in self.received if text in message.text]
            return matches[0] if len(matches) >= count else None

        return await eventually(probe, f"{text!r} is received")


async def eventually(probe: Callable[[], Awaitable[T | None]], description: str) -> T:
    """Call `probe` until it returns something, and return that. Raises AssertionError after `TIMEOUT_S`."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                if value := await probe():
                    return value
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"in {TIMEOUT_S:.0f} s it did not happen: {description}") from None


async def wait_until(condition: Callable[[], object], description: str) -> None:
    async def probe() -> bool:
        return bool(condition())

    await eventually(probe, description)


def skip_unless(condition: bool, feature: str) -> None:
    """Skip the test if the platform does not have a feature."""
    if not condition:
        raise unittest.SkipTest(f"this platform has no {feature}")


class ChannelSuiteBase:
    """Base of the channel suites: creates the rig under test."""

    def make(self, folder: Path) -> AbstractAsyncContextManager[ChannelRig]:
        raise NotImplementedError("override `make`: it creates the rig")


def room_address(rig: ChannelRig) -> ChatAddress:
    return ChatAddress(rig.channel.name, rig.room)


async def start_thread(rig: ChannelRig, handler: RecordingMessageHandler) -> ChatAddress:
    """Start a conversation by mentioning the bot; return its address: of a thread, where the platform has them."""
    await rig.send_message(rig.room, "the beginning", mention=True)
    return (await handler.wait_for("the beginning")).address


async def wait_for_post(rig: ChannelRig, room: str, text: str) -> PostedMessage:
    async def probe() -> PostedMessage | None:
        return next((message for message in await rig.posted_messages(room) if text in message.text), None)

    return await eventually(probe, f"{text!r} is shown")


async def post_with_retries(rig: ChannelRig, address: ChatAddress, text: str, key: str = "") -> None:
    """Post, and retry while the error says that it was certainly not sent, as the outbox does."""

    async def probe() -> bool:
        try:
            await rig.channel.post(address, text, key=key or text)
        except DeliveryDeferred as error:
            await asyncio.sleep(min(error.retry_after_s or 0.05, 2))
            return False
        return True

    await eventually(probe, "it is posted")


async def send_and_receive(rig: ChannelRig, handler: RecordingMessageHandler, text: str) -> None:
    await rig.send_message(rig.room, text, mention=True)
    await handler.wait_for(text)
