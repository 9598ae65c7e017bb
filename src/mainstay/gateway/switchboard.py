"""Between chat platforms and workspaces: what comes in is heard, what is answered is posted."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence

from mainstay.core.addresses import Address
from mainstay.core.channels import ChannelError, ChatChannel, Delivery, Incoming, Mail
from mainstay.core.errors import AgentClosed, InputRefused, MainstayError
from mainstay.core.outside import Outgoing
from mainstay.core.ports import Clock
from mainstay.gateway.conversation import Conversation, Folder, Workroom
from mainstay.gateway.delivery import Courier
from mainstay.gateway.gateway import Gateway
from mainstay.gateway.reporter import key_of
from mainstay.gateway.reporting import Reporters
from mainstay.gateway.rooms import ChannelRules, Rooms
from mainstay.gateway.showing import ChannelHints, RoomSearch
from mainstay.gateway.strangers import Strangers

log = logging.getLogger("mainstay.channels")

DRAIN_LOOK_S = 0.05
RETRY_S = 2.0
RETRY_MAX_S = 300.0


class Switchboard:
    """Of one gateway. `mail` is asked for a workspace's once that is open."""

    def __init__(
        self,
        gateway: Gateway,
        rules: Mapping[str, ChannelRules],
        clock: Clock,
        mail: Callable[[str], Mail],
        folder: Folder,
    ) -> None:
        self._gateway = gateway
        self._clock = clock
        self._mail = mail
        self._courier = Courier(clock)
        self._rooms = Rooms(rules, gateway.people)
        strangers = Strangers(gateway.people, self._courier, clock)
        self._conversation = Conversation(self._rooms, strangers, self._enter, clock, folder)
        self._workrooms: dict[str, Workroom] = {}
        self._reporters: dict[str, Reporters] = {}
        self._entering: dict[str, asyncio.Lock] = {}
        self._trying: dict[str, asyncio.Task[None]] = {}  # channels that could not be reached
        self._wrong: dict[str, str] = {}  # channels that could not be connected, and why
        self._closing = False

    # --- life ------------------------------------------------------------------------------------

    async def start(self, channels: Sequence[ChatChannel]) -> None:
        """What was left undone is taken up. A channel that cannot be connected says so (`states`)."""
        for channel in channels:
            self._rooms.connect(channel)
        await asyncio.gather(*(self._connect(channel) for channel in channels), self._take_up())

    async def _take_up(self) -> None:
        for workspace in self._rooms.workspaces():
            try:
                await self._conversation.resume(await self._enter(workspace))
            except MainstayError as error:  # the others are not to wait for it
                log.error("the workspace %s is not on any channel: %s", workspace, error)

    async def connect(self, channel: ChatChannel, rules: ChannelRules) -> None:
        """One more, or another of this name instead of it."""
        await self.disconnect(channel.name)
        self._rooms.use(channel.name, rules)
        self._rooms.connect(channel)
        await self._connect(channel)
        await self._take_up()
        for reporters in self._reporters.values():
            await reporters.catch_up()

    def channel(self, name: str) -> ChatChannel | None:
        return self._rooms.channel(name)

    async def disconnect(self, name: str) -> None:
        """What was to be posted there waits for one of this name."""
        await self._leave_off(name)
        if (channel := self._rooms.disconnect(name)) is not None:
            await channel.close()

    async def _connect(self, channel: ChatChannel) -> None:
        if await self._started(channel):
            return
        name = channel.name
        await self._leave_off(name)
        self._trying[name] = asyncio.get_running_loop().create_task(self._try_again(channel), name=f"connect {name}")

    async def _started(self, channel: ChatChannel) -> bool:
        """False if it may be another time: nobody can be reached now."""
        try:
            await channel.start(self.hear)
        except MainstayError as error:
            log.error("%s is not connected: %s", channel.name, error)
            self._wrong[channel.name] = str(error)
            return not isinstance(error, ChannelError)
        self._wrong.pop(channel.name, None)
        return True

    async def _try_again(self, channel: ChatChannel) -> None:
        wait_s = RETRY_S
        while True:
            await self._clock.sleep(wait_s)
            if await self._started(channel):
                return
            wait_s = min(wait_s * 2, RETRY_MAX_S)

    async def _leave_off(self, name: str) -> None:
        if (trying := self._trying.pop(name, None)) is not None:
            trying.cancel()
            await asyncio.gather(trying, return_exceptions=True)

    async def close(self, *, drain_s: float = 0.0) -> None:
        """Nothing more is heard. What is under way goes on for so long; the rest is taken up by the next process."""
        self._closing = True
        try:
            async with asyncio.timeout(drain_s):
                while (
                    self._conversation.busy or any(one.busy for one in self._reporters.values()) or self._courier.busy
                ):
                    await self._clock.sleep(DRAIN_LOOK_S)
        except TimeoutError:
            log.info("what was not delivered in %g s is delivered later", drain_s)
        for name in list(self._trying):
            await self._leave_off(name)
        await self._conversation.close()
        for reporters in self._reporters.values():
            await reporters.close()
        await self._courier.close()
        for channel in self._rooms.channels():
            await channel.close()

    @property
    def undelivered(self) -> int:
        return self._courier.pending

    def states(self) -> dict[str, str]:
        """Of each channel: "connected", or what is wrong."""
        return {one.name: self._wrong.get(one.name) or one.state for one in self._rooms.channels()}

    async def _enter(self, workspace: str) -> Workroom:
        """A workspace, which from now on is told of."""
        if (known := self._workrooms.get(workspace)) is not None:
            return known
        async with self._entering.setdefault(workspace, asyncio.Lock()):
            if workspace not in self._workrooms:
                office = await self._gateway.office(workspace)
                mail = self._mail(workspace)
                reporters = Reporters(office, mail, self._rooms, self._courier, self._clock)
                await reporters.start()
                self._reporters[workspace] = reporters
                self._workrooms[workspace] = Workroom(office, mail, reporters.deliver)
        return self._workrooms[workspace]

    # --- in --------------------------------------------------------------------------------------

    async def hear(self, message: Incoming) -> None:
        """What channels call: returns when it is durable. A duplicate changes nothing."""
        if self._closing:
            raise AgentClosed("the gateway is being closed; tell it again later")
        self._courier.rouse(message.address.channel)
        await self._conversation.hear(message)

    # --- out -------------------------------------------------------------------------------------

    async def send(self, workspace: str, message: Outgoing) -> str:
        """What a tool sends: durable when it returns, under the key that is returned. Raises InputRefused."""
        at = self._address(workspace, message)
        channel = self._rooms.channel(at.channel)
        if channel is None or self._rooms.whose(at) != workspace:  # the same words, whosever that room is
            raise InputRefused(f"there is no room {str(at)[:200]!r} that can be reached from here")
        if message.files and not channel.shows.files:
            raise InputRefused(f"{at.channel} cannot take files")
        room = await self._enter(workspace)
        made = Delivery(
            key=key_of("tool", workspace, message.session, message.key),
            to=at,
            session=message.session,
            text=message.text,
            files=tuple((path, os.path.basename(path)) for path in message.files),
            at=self._clock.now_ms(),
        )
        kept = await room.mail.put(made)
        room.deliver(kept)
        return kept.key

    def _address(self, workspace: str, message: Outgoing) -> Address:
        if not message.to:
            found = self.where(workspace, message.session)
            if found is None:
                raise InputRefused("this conversation is on no channel: there is nobody to send it to")
            return found[1]
        at = Address.parse(message.to)
        if at is None:
            raise InputRefused("a room is named channel:room, or channel:room:thread")
        return at

    async def open_thread(self, workspace: str, address: Address, text: str, key: str) -> Address:
        """Post something in a room; where that can be answered: a new thread, where there are threads. Under the same
        key once. Raises InputRefused if there is no such room, and a ChannelError if it could not be posted."""
        at = Address(address.channel, address.room)
        if self._rooms.whose(at) != workspace:
            raise InputRefused(f"there is no room {str(at)[:200]!r} that can be reached from here")
        room = await self._enter(workspace)
        made = Delivery(key=key_of("open", workspace, key), to=at, text=text, at=self._clock.now_ms())
        kept = await room.mail.put(made)
        if kept.state in ("pending", "sending"):
            posting = self._reporters[workspace].deliver(kept)
            assert posting is not None, "the room is ours, and its channel connected"
            await asyncio.wait((posting,))
            if posting.cancelled():
                raise AgentClosed("the gateway was closed before it was posted; it is posted later")
            kept = posting.result()
        if kept.state == "failed" or (kept.state == "unknown" and not kept.ids):
            raise ChannelError(kept.note or "it could not be posted")
        return kept.to

    async def thread_of(self, workspace: str, key: str) -> Address | None:
        """The thread that was begun under this key, if one was."""
        kept = await (await self._enter(workspace)).mail.find(key_of("open", workspace, key))
        return kept.to if kept is not None and kept.ids else None

    # --- for those who are in a room -------------------------------------------------------------

    def where(self, workspace: str, session: str) -> tuple[ChatChannel, Address] | None:
        """The channel that a session is on, and its place there."""
        reporters = self._reporters.get(workspace)
        at = reporters.address(session) if reporters is not None else self._rooms.address(workspace, session)
        channel = self._rooms.channel(at.channel) if at is not None else None
        return (channel, at) if channel is not None and at is not None else None

    def hints(self, workspace: str) -> ChannelHints:
        """What joins the turns of a workspace that are on a channel."""
        return ChannelHints(lambda session: self.where(workspace, session))

    def searching(self, workspace: str) -> Callable[[str], RoomSearch | None]:
        """For `search_channel`: the room that a session is in."""

        def find(session: str) -> RoomSearch | None:
            found, room = self.where(workspace, session), self._workrooms.get(workspace)
            return RoomSearch(*found, room.office) if found is not None and room is not None else None

        return find
