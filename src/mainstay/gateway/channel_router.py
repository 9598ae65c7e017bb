"""Routes messages between chat channels and workspaces: connects channels, passes messages in, posts messages out."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence

from mainstay.core.channels import ChannelError, ChannelQueue, ChatChannel, Delivery, IncomingMessage
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.errors import AgentClosed, InputRefused, MainstayError
from mainstay.core.ports import Clock
from mainstay.core.tool_ports import OutgoingMessage
from mainstay.gateway.channel_connection import ChannelConnection
from mainstay.gateway.channel_hints import ChannelHintContributor
from mainstay.gateway.delivery import Deliverer
from mainstay.gateway.inbound_handler import AttachmentFolder, ConnectedWorkspace, InboundHandler
from mainstay.gateway.operation_gateway import OperationGateway
from mainstay.gateway.room_routing import ChannelRooms, ChannelRoutingSettings
from mainstay.gateway.room_search import RoomSearch
from mainstay.gateway.session_answer_poster import build_delivery_key
from mainstay.gateway.unknown_users import UnknownUserResponder
from mainstay.gateway.workspace_answer_poster import WorkspaceAnswerPoster

log = logging.getLogger("mainstay.channels")

DRAIN_POLL_S = 0.05


class ChannelRouter:
    """The channels of a gateway. `get_queue` returns the channel queue of an open workspace."""

    def __init__(
        self,
        gateway: OperationGateway,
        rules: Mapping[str, ChannelRoutingSettings],
        clock: Clock,
        get_queue: Callable[[str], ChannelQueue],
        attachment_folder: AttachmentFolder,
    ) -> None:
        self._gateway = gateway
        self._clock = clock
        self._get_queue = get_queue
        self._deliverer = Deliverer(clock)
        self._rooms = ChannelRooms(rules, gateway.people)
        strangers = UnknownUserResponder(gateway.people, self._deliverer, clock)
        self._inbound_handler = InboundHandler(self._rooms, strangers, self._open_workspace, clock, attachment_folder)
        self._connected_workspaces: dict[str, ConnectedWorkspace] = {}
        self._posters: dict[str, WorkspaceAnswerPoster] = {}
        self._open_locks: dict[str, asyncio.Lock] = {}
        self._connections: dict[str, ChannelConnection] = {}  # by channel
        self._is_closing = False

    # --- connections -----------------------------------------------------------------------------

    async def start(self, channels: Sequence[ChatChannel]) -> None:
        """Connect the channels and resume unfinished work. A channel that cannot be connected does not raise: see
        `channel_states`."""
        connections = [self._add_channel(channel) for channel in channels]
        await asyncio.gather(*(connection.open() for connection in connections), self._resume_workspaces())

    def _add_channel(self, channel: ChatChannel) -> ChannelConnection:
        self._rooms.add_channel(channel)
        connection = ChannelConnection(channel, self.handle_message, self._clock)
        self._connections[channel.name] = connection
        return connection

    async def _resume_workspaces(self) -> None:
        for workspace in self._rooms.list_workspaces():
            try:
                await self._inbound_handler.resume_queued(await self._open_workspace(workspace))
            except MainstayError as error:  # the other workspaces go on
                log.error("the workspace %s cannot use channels: %s", workspace, error)

    async def connect_channel(self, channel: ChatChannel, rules: ChannelRoutingSettings) -> None:
        """Connect another channel, or replace the one of this name."""
        await self.disconnect_channel(channel.name)
        self._rooms.set_rules(channel.name, rules)
        await self._add_channel(channel).open()
        await self._resume_workspaces()
        for poster in self._posters.values():
            await poster.post_undelivered()

    def get_channel(self, name: str) -> ChatChannel | None:
        return self._rooms.get_channel(name)

    async def disconnect_channel(self, name: str) -> None:
        """Disconnect a channel. Its unfinished deliveries wait until a channel of this name is connected."""
        self._rooms.remove_channel(name)
        if (connection := self._connections.pop(name, None)) is not None:
            await connection.close()

    async def close(self, *, drain_s: float = 0.0) -> None:
        """Stop accepting messages, wait up to `drain_s` for work in progress, and close the channels. The next process
        resumes what is left."""
        self._is_closing = True
        try:
            async with asyncio.timeout(drain_s):
                while (
                    self._inbound_handler.is_busy
                    or any(poster.is_busy for poster in self._posters.values())
                    or self._deliverer.is_busy
                ):
                    await self._clock.sleep(DRAIN_POLL_S)
        except TimeoutError:
            log.info("not everything was delivered within %g s; the rest is delivered after the next start", drain_s)
        for connection in self._connections.values():
            await connection.stop_retrying()
        await self._inbound_handler.close()
        for poster in self._posters.values():
            await poster.close()
        await self._deliverer.close()
        for connection in self._connections.values():
            await connection.close()

    @property
    def pending_deliveries(self) -> int:
        return self._deliverer.pending_count

    def channel_states(self) -> dict[str, str]:
        """Return the state of each channel by name: "connected", or what is wrong."""
        return {name: connection.state for name, connection in self._connections.items()}

    async def _open_workspace(self, workspace: str) -> ConnectedWorkspace:
        """Return a workspace, opened and with its turns reported to channels from now on."""
        if (connected := self._connected_workspaces.get(workspace)) is not None:
            return connected
        async with self._open_locks.setdefault(workspace, asyncio.Lock()):
            if workspace not in self._connected_workspaces:
                open_workspace = await self._gateway.open_workspace(workspace)
                mail = self._get_queue(workspace)
                poster = WorkspaceAnswerPoster(open_workspace, mail, self._rooms, self._deliverer, self._clock)
                await poster.start()
                self._posters[workspace] = poster
                self._connected_workspaces[workspace] = ConnectedWorkspace(open_workspace, mail, poster.deliver)
        return self._connected_workspaces[workspace]

    # --- in --------------------------------------------------------------------------------------

    async def handle_message(self, message: IncomingMessage) -> None:
        """Accept a message from a channel; returns when it is durable. A duplicate changes nothing."""
        if self._is_closing:
            raise AgentClosed("the gateway is being closed; send the message again later")
        self._deliverer.retry_soon(message.address.channel)
        await self._inbound_handler.handle_message(message)

    # --- out -------------------------------------------------------------------------------------

    async def send(self, workspace: str, message: OutgoingMessage) -> str:
        """Queue a message of a tool; it is durable when this returns its delivery key. Raises InputRefused."""
        address = self._resolve_address(workspace, message)
        channel = self._rooms.get_channel(address.channel)
        # the same sentence if it is another workspace's room
        if channel is None or self._rooms.workspace_of(address) != workspace:
            raise InputRefused(f"there is no room {str(address)[:200]!r} that can be reached from here")
        if message.files and not channel.capabilities.files:
            raise InputRefused(f"{address.channel} does not accept files")
        connected = await self._open_workspace(workspace)
        delivery = Delivery(
            key=build_delivery_key("tool", workspace, message.session, message.key),
            to=address,
            session=message.session,
            text=message.text,
            files=tuple((path, os.path.basename(path)) for path in message.files),
            at=self._clock.now_ms(),
        )
        stored = await connected.channel_queue.add_delivery(delivery)
        connected.deliver(stored)
        return stored.key

    def _resolve_address(self, workspace: str, message: OutgoingMessage) -> ChatAddress:
        if not message.to:
            location = self.locate_session(workspace, message.session)
            if location is None:
                raise InputRefused("this session is not on a channel, so there is no recipient")
            return location[1]
        address = ChatAddress.parse(message.to)
        if address is None:
            raise InputRefused("a room is named channel:room, or channel:room:thread")
        return address

    async def open_thread(self, workspace: str, address: ChatAddress, text: str, key: str) -> ChatAddress:
        """Post a message in a room and return the address for replies: a new thread, if the platform has threads. The
        same key posts once. Raises InputRefused for an unknown room, ChannelError if it could not be posted."""
        room = ChatAddress(address.channel, address.room)
        if self._rooms.workspace_of(room) != workspace:
            raise InputRefused(f"there is no room {str(room)[:200]!r} that can be reached from here")
        connected = await self._open_workspace(workspace)
        opening = Delivery(key=build_delivery_key("open", workspace, key), to=room, text=text, at=self._clock.now_ms())
        delivery = await connected.channel_queue.add_delivery(opening)
        if delivery.state in ("pending", "sending"):
            posting = self._posters[workspace].deliver(delivery)
            assert posting is not None, "the room is the workspace's, and its channel connected"
            await asyncio.wait((posting,))
            if posting.cancelled():
                raise AgentClosed("the gateway was closed before the message was posted; it is posted later")
            delivery = posting.result()
        if delivery.state == "failed" or (delivery.state == "unknown" and not delivery.ids):
            raise ChannelError(delivery.note or "the message could not be posted")
        return delivery.to

    async def find_thread(self, workspace: str, key: str) -> ChatAddress | None:
        """Return the address of the thread that `open_thread` began under this key; None if it was not posted."""
        delivery = await (await self._open_workspace(workspace)).channel_queue.find_delivery(
            build_delivery_key("open", workspace, key)
        )
        return delivery.to if delivery is not None and delivery.ids else None

    # --- for agents on a channel -----------------------------------------------------------------

    def locate_session(self, workspace: str, session: str) -> tuple[ChatChannel, ChatAddress] | None:
        """Return the channel and address of a session; None if it is on no connected channel."""
        poster = self._posters.get(workspace)
        address = (
            poster.session_address(session) if poster is not None else self._rooms.session_address(workspace, session)
        )
        channel = self._rooms.get_channel(address.channel) if address is not None else None
        return (channel, address) if channel is not None and address is not None else None

    def find_direct_person(self, address: ChatAddress) -> str:
        """Return the name of the person whose direct messages a room has; "" if it is none, or had none yet."""
        return self._rooms.find_direct_person(address)

    def channel_hints(self, workspace: str) -> ChannelHintContributor:
        """Return the context contributor that adds channel hints to a workspace's turns."""
        return ChannelHintContributor(lambda session: self.locate_session(workspace, session))

    def room_search_factory(self, workspace: str) -> Callable[[str], RoomSearch | None]:
        """Return a function that gives the `search_channel` tool the search of a session's room."""

        def find(session: str) -> RoomSearch | None:
            location, connected = self.locate_session(workspace, session), self._connected_workspaces.get(workspace)
            if location is None or connected is None:
                return None
            return RoomSearch(*location, connected.workspace)

        return find
