"""What the suite of channels is played on: a channel, the platform's side of it, and somebody who listens."""

from __future__ import annotations

import asyncio
import unittest
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from mainstay.core.addresses import Address
from mainstay.core.channels import ChatChannel, Incoming, NotSent
from mainstay.core.errors import StoreFailed

T = TypeVar("T")
PATIENCE_S = 30.0


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A message of ours as the platform keeps it."""

    id: str
    text: str = ""  # as its people see it, or as it was posted
    thread: str = ""
    edited: bool = False
    files: tuple[tuple[str, bytes], ...] = ()  # name and content


class Rig(Protocol):
    """A channel and its platform. Rooms and people are there before anything begins."""

    channel: ChatChannel  # not yet started
    room: str  # where several people are
    direct: str  # where only `user` and we are; "": the platform has no such thing
    user: str  # the platform's id of somebody else
    other: str  # and of somebody other than that
    keeps: bool  # the platform tells later what was said while nobody listened

    def renew(self) -> ChatChannel:
        """A channel as another process would make it, on the same platform; `channel` from now on."""
        ...

    async def say(
        self,
        room: str,
        text: str,
        *,
        user: str = "",
        thread: str = "",
        mention: bool = False,
        files: Sequence[tuple[str, bytes]] = (),
    ) -> str:
        """Somebody (`user` of the rig by default) says something; the message's id."""
        ...

    async def redeliver(self, id: str) -> None:
        """The platform tells us of this message once more."""
        ...

    async def shown(self, room: str) -> Sequence[Shown]:
        """What we have posted there and not deleted, the oldest first."""
        ...

    async def typed(self, room: str) -> int:
        """How often we said that we are busy."""
        ...

    async def drop_connection(self) -> None:
        """Whatever connects us is cut; it can be made again at once."""
        ...

    async def limit_rate(self, seconds: float) -> None:
        """The next post is refused: it comes too soon, by so many seconds."""
        ...

    async def accept_then_drop(self) -> None:
        """The next post is taken and shown, and we never learn of it."""
        ...


class Ear:
    """Hears, and can be told to fail at it."""

    def __init__(self) -> None:
        self.heard: list[Incoming] = []
        self.failures = 0  # so many times more
        self.refused: list[Incoming] = []

    async def __call__(self, message: Incoming) -> None:
        if self.failures:
            self.failures -= 1
            self.refused.append(message)
            raise StoreFailed("the disk is full")
        self.heard.append(message)

    def others(self) -> list[Incoming]:
        return [one for one in self.heard if not one.own]

    async def until(self, text: str, count: int = 1) -> Incoming:
        """The first message that says this, once there are so many."""

        async def look() -> Incoming | None:
            found = [one for one in self.heard if text in one.text]
            return found[0] if len(found) >= count else None

        return await eventually(look, f"{text!r} is heard")


async def eventually(look: Callable[[], Awaitable[T | None]], what: str) -> T:
    """What `look` finds, as soon as it finds something."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                if found := await look():
                    return found
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"in {PATIENCE_S:.0f} s it did not happen: {what}") from None


async def turns_true(look: Callable[[], object], what: str) -> None:
    async def looking() -> bool:
        return bool(look())

    await eventually(looking, what)


def needs(able: bool, what: str) -> None:
    if not able:
        raise unittest.SkipTest(f"this platform has no {what}")


class Stage:
    """A rig to be tested, with somebody who listens."""

    def make(self, where: Path) -> AbstractAsyncContextManager[Rig]:
        raise NotImplementedError("say how to make yours")


def room_of(rig: Rig) -> Address:
    return Address(rig.channel.name, rig.room)


async def thread_of(rig: Rig, ear: Ear) -> Address:
    """A conversation in the room that somebody has begun by naming us: a thread, where the platform has them."""
    await rig.say(rig.room, "the beginning", mention=True)
    return (await ear.until("the beginning")).address


async def posted(rig: Rig, room: str, text: str) -> Shown:
    async def look() -> Shown | None:
        return next((one for one in await rig.shown(room) if text in one.text), None)

    return await eventually(look, f"{text!r} is shown")


async def post_again(rig: Rig, at: Address, text: str, key: str = "") -> None:
    """As the outbox does: until it is sent, where it certainly was not."""

    async def look() -> bool:
        try:
            await rig.channel.post(at, text, key=key or text)
        except NotSent as error:
            await asyncio.sleep(min(error.retry_after_s or 0.05, 2))
            return False
        return True

    await eventually(look, "it is posted")


async def heard_again(rig: Rig, ear: Ear, text: str) -> None:
    await rig.say(rig.room, text, mention=True)
    await ear.until(text)
