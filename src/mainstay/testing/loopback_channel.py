"""A chat platform in memory, and a channel to it: every ability can be switched off, and everything can go wrong."""

from __future__ import annotations

import asyncio
import os
from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from mainstay.core.addresses import Address
from mainstay.core.channels import (
    Attached,
    ChannelError,
    Hear,
    Incoming,
    MaybeSent,
    NeverSent,
    NotSent,
    Sent,
    Shows,
)
from mainstay.core.errors import MainstayError
from mainstay.core.outside import Said
from mainstay.testing.channel_rig import Shown

US = "BOT"
AGAIN_S = 0.01  # what could not be taken in is told again
ALL = Shows(
    markup="markdown",
    edits=True,
    deletes=True,
    files=True,
    typing=True,
    threads=True,
    history=True,
    search=True,
    once="key",
    edit_every_s=0.0,
)


class Spoken(msgspec.Struct, kw_only=True):
    """A message as the platform keeps it."""

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


class LoopbackPlatform:
    """Outlives the channels that connect to it."""

    def __init__(self, *, direct: Sequence[str] = ("D1",), rooms: Sequence[str] = ("C1", "C2"), begin: int = 0) -> None:
        self.rooms = {*rooms, *direct}
        self.direct = set(direct)
        self.spoken: list[Spoken] = []
        self.told: deque[str] = deque()  # messages that we have not yet taken in
        self.waiting = asyncio.Event()
        self.typed: list[tuple[Address, str]] = []
        self.tried: Counter[str] = Counter()  # by the room
        self.edits: list[tuple[str, str]] = []  # of which message, and to what
        self.limited: dict[str, float] = {}  # rooms that say "too soon" once: for how long
        self.refusing: dict[str, int] = {}  # rooms that cannot be reached so many times more
        self.dropping = 0  # so many posts are taken, and nobody learns of it
        self.connections = 0
        self.unreachable: set[str] = set()  # files
        self._begin = begin or 1_700_000_000_000
        self._count = 0

    def say(self, spoken: Spoken) -> None:
        self.spoken.append(spoken)
        self.tell(spoken.id)

    def tell(self, id: str) -> None:
        self.told.append(id)
        self.waiting.set()

    def next(self) -> tuple[str, int]:
        """An id, and the time."""
        self._count += 1
        return f"m{self._count}", self._begin + self._count

    def find(self, id: str) -> Spoken:
        return next(one for one in self.spoken if one.id == id)

    def ours(self, room: str) -> list[Shown]:
        mine = (one for one in self.spoken if one.room == room and one.user == US)
        return [Shown(id=m.id, text=m.text, thread=m.thread, edited=m.edited, files=m.files) for m in mine]

    def drop(self) -> None:
        self.connections += 1
        self.waiting.set()


class LoopbackChannel:
    """The ChatChannel port."""

    kind = "loopback"

    def __init__(self, platform: LoopbackPlatform, name: str = "chat", shows: Shows = ALL) -> None:
        self.name = name
        self.shows = shows
        self.platform = platform
        self.state = "not started"
        self._listening: asyncio.Task[None] | None = None

    async def start(self, hear: Hear) -> None:
        self.state = "connected"
        self._listening = asyncio.get_running_loop().create_task(self._listen(hear))

    async def close(self) -> None:
        self.state = "closed"
        if self._listening is not None:
            listening, self._listening = self._listening, None
            listening.cancel()
            await asyncio.wait((listening,))

    async def _listen(self, hear: Hear) -> None:
        platform = self.platform
        while True:
            while platform.told:
                message = self._incoming(platform.find(platform.told[0]))
                try:
                    await hear(message)
                except MainstayError:
                    await asyncio.sleep(AGAIN_S)
                    continue
                platform.told.popleft()
            platform.waiting.clear()
            await platform.waiting.wait()

    # --- out -------------------------------------------------------------------------------------

    async def post(self, to: Address, text: str, *, key: str) -> Sent:
        await self._attempt(to.room)
        if len(text) > self.shows.length:
            raise NeverSent(f"{len(text)} characters are too many for one message")
        return self._keep(to, key, text)

    async def upload(self, to: Address, path: str, name: str, comment: str, *, key: str) -> Sent:
        await self._attempt(to.room)
        try:
            content = await asyncio.get_running_loop().run_in_executor(None, Path(path).read_bytes)
        except OSError as error:
            raise NeverSent(f"the file is gone: {error}") from None
        return self._keep(to, key, comment, ((name, content),))

    def _keep(self, to: Address, key: str, text: str, files: tuple[tuple[str, bytes], ...] = ()) -> Sent:
        known = [one for one in self.platform.spoken if one.key == key] if self.shows.once == "key" else []
        if known:
            made = known[0]
        else:
            id, at = self.platform.next()
            thread = (to.thread or id) if self._threaded(to.room) else ""
            made = Spoken(id=id, room=to.room, user=US, text=text, at=at, thread=thread, key=key, files=files)
            self.platform.spoken.append(made)
        if self.platform.dropping:
            self.platform.dropping -= 1
            raise MaybeSent("the connection was lost before an answer came")
        return Sent(id=made.id, thread=made.thread)

    async def _attempt(self, room: str) -> None:
        await asyncio.sleep(0)
        platform = self.platform
        platform.tried[room] += 1
        if self.state != "connected":
            raise NotSent("it is not connected")
        if room not in platform.rooms:
            raise NeverSent(f"there is no room {room!r}")
        if (wait_s := platform.limited.pop(room, None)) is not None:
            raise NotSent("too soon", retry_after_s=wait_s)
        if platform.refusing.get(room, 0):
            platform.refusing[room] -= 1
            raise NotSent("the platform cannot be reached")

    async def find(self, to: Address, key: str) -> Sent | None:
        await asyncio.sleep(0)
        found = next((one for one in self.platform.spoken if one.key == key and one.room == to.room), None)
        return Sent(id=found.id, thread=found.thread) if found is not None else None

    async def edit(self, to: Address, id: str, text: str) -> None:
        await self._attempt(to.room)
        found = self._own(id)
        found.text, found.edited = text, True
        self.platform.edits.append((id, text))

    async def delete(self, to: Address, id: str) -> None:
        await self._attempt(to.room)
        self.platform.spoken.remove(self._own(id))

    def _own(self, id: str) -> Spoken:
        found = next((one for one in self.platform.spoken if one.id == id and one.user == US), None)
        if found is None:
            raise NeverSent("there is no such message")
        return found

    async def typing(self, to: Address, note: str = "") -> None:
        await asyncio.sleep(0)
        if self.state == "connected" and to.room in self.platform.rooms:
            self.platform.typed.append((to, note))

    # --- looking ---------------------------------------------------------------------------------

    async def download(self, file: Attached, target: str, bytes_max: int) -> str:
        await asyncio.sleep(0)
        if file.ref in self.platform.unreachable:
            raise NotSent("the file cannot be fetched")
        id, _, number = file.ref.partition("/")
        _, content = self.platform.find(id).files[int(number)]
        if len(content) > bytes_max:
            raise ChannelError(f"the file has over {bytes_max} bytes")
        made = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(made, "wb") as out:
            out.write(content)
        return file.mime

    async def history(self, at: Address, after: int, limit: int) -> Sequence[Incoming]:
        await asyncio.sleep(0)
        if self.state != "connected":
            raise NotSent("it is not connected")
        there = (self._incoming(one) for one in self.platform.spoken if one.room == at.room and one.at >= after)
        return [one for one in there if one.address.thread == at.thread][-limit:]

    async def search(self, at: Address, query: str, limit: int) -> Sequence[Said]:
        await asyncio.sleep(0)
        found = [one for one in reversed(self.platform.spoken) if one.room == at.room and query in one.text]
        return [Said(author=one.user, at=one.at, text=one.text, id=one.id) for one in found[:limit]]

    def format(self, text: str) -> str:
        return text if self.shows.markup != "plain" else text.replace("**", "").replace("`", "")

    def app(self) -> Any:
        return None

    def _incoming(self, spoken: Spoken) -> Incoming:
        thread = (spoken.thread or spoken.id) if self._threaded(spoken.room) else ""
        return Incoming(
            id=spoken.id,
            address=Address(self.name, spoken.room, thread),
            user=spoken.user,
            name=spoken.user.title(),
            text=spoken.text,
            at=spoken.at,
            direct=spoken.room in self.platform.direct,
            mentioned=spoken.mention,
            own=spoken.user == US,
            files=tuple(
                Attached(ref=f"{spoken.id}/{number}", name=name, size=len(content))
                for number, (name, content) in enumerate(spoken.files)
            ),
        )

    def _threaded(self, room: str) -> bool:
        return self.shows.threads and room not in self.platform.direct


class LoopbackRig:
    """The Rig of the suite, and what else a test may want of the platform."""

    room, direct, user, other, keeps = "C1", "D1", "ann", "bob", True

    def __init__(self, shows: Shows = ALL, name: str = "chat", platform: LoopbackPlatform | None = None) -> None:
        self.platform = platform or LoopbackPlatform()
        self.channel = LoopbackChannel(self.platform, name, shows)

    def renew(self) -> LoopbackChannel:
        self.channel = LoopbackChannel(self.platform, self.channel.name, self.channel.shows)
        return self.channel

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
        id, at = self.platform.next()
        who = user or self.user
        said = Spoken(id=id, room=room, user=who, text=text, at=at, thread=thread, mention=mention, files=tuple(files))
        self.platform.say(said)
        return id

    async def redeliver(self, id: str) -> None:
        self.platform.tell(id)

    async def shown(self, room: str) -> Sequence[Shown]:
        return self.platform.ours(room)

    async def typed(self, room: str) -> int:
        return sum(at.room == room for at, _ in self.platform.typed)

    async def drop_connection(self) -> None:
        self.platform.drop()

    async def limit_rate(self, seconds: float) -> None:
        self.platform.limited[self.room] = seconds

    async def accept_then_drop(self) -> None:
        self.platform.dropping += 1
