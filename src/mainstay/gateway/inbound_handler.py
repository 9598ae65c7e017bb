"""Inbound messages of chat platforms: finds person, workspace and session, and puts each message into its lane once.

A message is durable before it is acknowledged to the platform. Slow work (attachments, backfill of the thread) happens
after that, in the order of the conversation.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from mainstay.core.channels import ChannelQueue, ChatChannel, Delivery, IncomingMessage, PendingMessage
from mainstay.core.chat_addresses import ReceivedFile
from mainstay.core.errors import AgentClosed, InputRefused, LaneFull, MainstayError, SessionArchived, WorkspaceUnknown
from mainstay.core.events import ApprovalAsked
from mainstay.core.memory_tiers import RUNTIME
from mainstay.core.messages import AnyPart, Text
from mainstay.core.people import Person
from mainstay.core.ports import Clock
from mainstay.core.supervision import start_supervised_task
from mainstay.core.tool_ports import AttachmentsFolder
from mainstay.gateway.approval_messages import find_hidden_reason
from mainstay.gateway.attachments import download_files, format_file_names
from mainstay.gateway.backfill import fetch_missed_messages, load_seen_messages
from mainstay.gateway.channel_message_conversion import (
    build_parts,
    envelope_id,
    find_session_info,
    has_content,
    is_in_followed_thread,
    sanitise_message,
    to_platform_message,
    to_room_message,
)
from mainstay.gateway.command_target import CONVERSATION_COMMANDS, find_command_session, may_name_approval
from mainstay.gateway.opened_threads import is_opened_thread
from mainstay.gateway.room_routing import ChannelRooms
from mainstay.gateway.session_answer_poster import approval_delivery_key, build_delivery_key
from mainstay.gateway.slash_commands import (
    AMBIGUOUS_TEXT,
    CommandContext,
    SlashCommand,
    parse_command,
    run_command,
    to_sentence,
)
from mainstay.gateway.unknown_users import UnknownUserResponder
from mainstay.gateway.workspace import Workspace
from mainstay.operations.input_submission import accept_prompt, is_input_accepted, store_unaddressed

log = logging.getLogger("mainstay.channels")

QUEUED_MAX = 20  # messages of one conversation that wait for their files and history
RETRY_S = 1.0
RETRY_MAX_S = 60.0
EPHEMERAL_COMMANDS = ("stop", "steer")  # their confirmations concern their sender alone
BUSY_REPLY = "I am busy: too many messages are waiting already. Try again later."

AttachmentFolder = Callable[[str, str], AttachmentsFolder]  # workspace and session → folder for attachments


class ConnectedWorkspace(msgspec.Struct, frozen=True):
    """An open workspace with its channel queue and the function that posts a delivery."""

    workspace: Workspace
    channel_queue: ChannelQueue
    deliver: Callable[[Delivery], Awaitable[Delivery] | None]


class InboundQueue:
    """Accepted messages of one session that wait for files and backfill; processed one after another."""

    def __init__(self) -> None:
        self.messages: deque[PendingMessage] = deque()
        self.task: asyncio.Task[None] | None = None


class InboundHandler:
    """Handles inbound messages of all channels and workspaces. `open_workspace` opens a workspace by its name."""

    def __init__(
        self,
        rooms: ChannelRooms,
        unknown_users: UnknownUserResponder,
        open_workspace: Callable[[str], Awaitable[ConnectedWorkspace]],
        clock: Clock,
        attachment_folder: AttachmentFolder,
    ) -> None:
        self._rooms = rooms
        self._unknown_users = unknown_users
        self._open_workspace = open_workspace
        self._clock = clock
        self._attachment_folder = attachment_folder
        self._in_progress: dict[str, asyncio.Future[None]] = {}
        self._queues: dict[tuple[str, str], InboundQueue] = {}

    @property
    def is_busy(self) -> bool:
        return bool(self._in_progress or self._queues)

    async def close(self) -> None:
        tasks = [queue.task for queue in self._queues.values() if queue.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def resume_queued(self, connected: ConnectedWorkspace) -> None:
        """Process the messages that were queued when the previous process ended."""
        for arrival in await connected.channel_queue.list_pending():
            if self._rooms.get_channel(arrival.message.address.channel) is not None:
                # a release that did not separate quoted lines may have queued it
                message = sanitise_message(arrival.message)
                self._enqueue(connected, msgspec.structs.replace(arrival, message=message))

    # --- receiving -------------------------------------------------------------------------------

    async def handle_message(self, message: IncomingMessage) -> None:
        """Accept a message; returns when it is durable, or was ignored. A concurrent duplicate waits for the first."""
        channel = self._rooms.get_channel(message.address.channel)
        if message.own or channel is None or not has_content(message := sanitise_message(message)):
            return
        id = envelope_id(message)
        while (first := self._in_progress.get(id)) is not None:
            await asyncio.wait((first,))
        done = self._in_progress[id] = asyncio.get_running_loop().create_future()
        try:
            await self._route_message(message, id, channel)
        except WorkspaceUnknown as error:  # a repetition by the platform would fail too, and delay other messages
            log.error("%s: a message was dropped: %s", channel.name, error)
        finally:
            del self._in_progress[id]
            done.set_result(None)

    async def _route_message(self, message: IncomingMessage, id: str, channel: ChatChannel) -> None:
        route = self._rooms.route_message(message)
        if route.person is None:
            if not message.direct:
                await self._store_unaddressed(await self._open_workspace(route.workspace), message, id, None)
            await self._unknown_users.answer_message(message, channel)
            return
        connected = await self._open_workspace(route.workspace)
        session = connected.workspace.current.build_session_key("", route.person.name, to_platform_message(message))
        info = await find_session_info(connected.workspace, session)
        queued = (route.workspace, session) in self._queues  # the session's first message waits for its files
        is_followed = is_in_followed_thread(message, info) or await is_opened_thread(connected.workspace, message, info)
        if not (message.direct or message.mentioned or queued or is_followed):
            await self._store_unaddressed(connected, message, id, route.person)
            return
        if await is_input_accepted(await connected.workspace.runtime(), session, id):
            return
        if (command := parse_command(message.text)) is not None:
            if await connected.channel_queue.find_delivery(_build_reply_key(connected, id)) is not None:
                return
            reply = await self._run_command(connected, command, message, id, route.person, session)
            if reply is not None:
                ephemeral = command.name in EPHEMERAL_COMMANDS
                await self._post_reply(connected, message, id, reply, ephemeral=ephemeral)
                return
            message = msgspec.structs.replace(message, text=command.arguments)
        await self._accept_message(
            connected, PendingMessage(id=id, session=session, person=route.person.name, message=message)
        )

    async def _run_command(
        self,
        connected: ConnectedWorkspace,
        command: SlashCommand,
        message: IncomingMessage,
        id: str,
        person: Person,
        session: str,
    ) -> str | None:
        """Run a command and return the reply; None: it is a prompt."""
        if command.name in CONVERSATION_COMMANDS:
            found = await find_command_session(connected.workspace, session, message, person.name)
            if found is None and not may_name_approval(command):
                return AMBIGUOUS_TEXT
            session = found or ""
        find_hidden_reason = partial(self._find_hidden_reason, connected)
        return await run_command(
            command, CommandContext(connected.workspace, person, session, id, find_hidden_reason, message.direct)
        )

    async def _find_hidden_reason(self, connected: ConnectedWorkspace, approval: ApprovalAsked) -> str:
        """Return why an approval request was not shown completely in its chat room; "" if it was."""
        key = approval_delivery_key(connected.workspace.name, approval.id)
        delivery = await connected.channel_queue.find_delivery(key)
        channel = self._rooms.get_channel(delivery.to.channel) if delivery is not None else None
        has_files = channel is None or channel.capabilities.files
        return await find_hidden_reason(approval, delivery, connected.deliver, has_files=has_files)

    async def _store_unaddressed(
        self, connected: ConnectedWorkspace, message: IncomingMessage, id: str, person: Person | None
    ) -> None:
        """Store a message that is not addressed to the agent: in its thread's session if there is one, else in the
        room's. `person` is None for an unknown user."""
        workspace, platform_message = connected.workspace, to_platform_message(message)
        sender = person.name if person is not None else ""
        # users choose their names on a platform: an unknown user's must not be taken for a person's name
        speaker = sender or f"?{message.user}"
        session = workspace.current.build_session_key("", speaker, platform_message)
        if await find_session_info(workspace, session) is None:
            session = workspace.current.build_session_key("", speaker, to_room_message(message))
        runtime = await workspace.runtime()
        if await is_input_accepted(runtime, session, id):
            return
        parts = build_parts(message, person, format_file_names(message.files))
        try:
            await store_unaddressed(runtime, session, parts, id=id, sender=sender, platform_message=platform_message)
        except InputRefused as error:
            log.info("%s: a message was not stored: %s", message.address.channel, error)

    async def _post_reply(
        self, connected: ConnectedWorkspace, message: IncomingMessage, id: str, text: str, *, ephemeral: bool = False
    ) -> None:
        """Post a reply of the runtime itself; with `ephemeral`, only the message's author sees it, if the channel can
        do that."""
        user = message.user if ephemeral and not message.direct else ""
        reply = Delivery(
            key=_build_reply_key(connected, id),
            to=message.address,
            ephemeral_user=user,
            text=text,
            at=self._clock.now_ms(),
        )
        connected.deliver(await connected.channel_queue.add_delivery(reply))

    # --- queueing --------------------------------------------------------------------------------

    async def _accept_message(self, connected: ConnectedWorkspace, pending: PendingMessage) -> None:
        message = pending.message
        channel = self._rooms.get_channel(message.address.channel)
        assert channel is not None, "the message came from it"
        queue = self._queues.get((connected.workspace.name, pending.session))
        if queue is not None and len(queue.messages) >= QUEUED_MAX:
            await self._post_reply(connected, message, pending.id, BUSY_REPLY, ephemeral=True)
            return
        needs_history = channel.capabilities.history and self._backfill_limit(channel)
        if queue is None and not message.files and not needs_history:
            await self._submit_prompt(connected, pending, (), ())
        elif await connected.channel_queue.add_pending(msgspec.structs.replace(pending, at=self._clock.now_ms())):
            self._enqueue(connected, pending)

    def _backfill_limit(self, channel: ChatChannel) -> int:
        return self._rooms.get_rules(channel.name).backfill

    def _enqueue(self, connected: ConnectedWorkspace, pending: PendingMessage) -> None:
        key = (connected.workspace.name, pending.session)
        queue = self._queues.setdefault(key, InboundQueue())
        queue.messages.append(pending)
        if queue.task is None:
            queue.task = start_supervised_task(
                f"messages of {pending.session}", lambda: self._drain_queue(connected, key, queue), is_isolated=True
            )

    async def _drain_queue(
        self, connected: ConnectedWorkspace, queue_key: tuple[str, str], queue: InboundQueue
    ) -> None:
        tries = 0
        while queue.messages:
            try:
                await self._process_pending(connected, queue.messages[0])
                queue.messages.popleft()
                tries = 0
            except AgentClosed:  # the next process that opens the home processes it
                break
            except MainstayError as error:
                log.warning("a message in %s is retried: %s", queue_key[1], error)
                tries += 1
                await self._clock.sleep(min(RETRY_S * 2.0 ** min(tries - 1, 10), RETRY_MAX_S))
        self._queues.pop(queue_key, None)

    async def _process_pending(self, connected: ConnectedWorkspace, pending: PendingMessage) -> None:
        message, session = pending.message, pending.session
        channel = self._rooms.get_channel(message.address.channel)
        if channel is not None and not await is_input_accepted(
            await connected.workspace.runtime(), session, pending.id
        ):
            await self._backfill_thread(connected, pending, channel)
            parts, files = await self._download_files(connected, pending, channel)
            await self._submit_prompt(connected, pending, parts, files)
        await connected.channel_queue.remove_pending(pending.id)

    async def _download_files(
        self, connected: ConnectedWorkspace, pending: PendingMessage, channel: ChatChannel
    ) -> tuple[tuple[AnyPart, ...], tuple[ReceivedFile, ...]]:
        rules, message = self._rooms.get_rules(channel.name), pending.message
        if not message.files:
            return (), ()
        if not rules.attachments:
            return (Text(format_file_names(message.files), origin=RUNTIME),), ()
        folder = self._attachment_folder(connected.workspace.name, pending.session)
        return await download_files(channel, message, folder, rules.attachment_bytes_max)

    async def _backfill_thread(
        self, connected: ConnectedWorkspace, pending: PendingMessage, channel: ChatChannel
    ) -> None:
        """Store the messages of the thread that were missed, before the new one."""
        if not channel.capabilities.history or not self._backfill_limit(channel):
            return
        seen = await load_seen_messages(connected.workspace, pending.session)
        for missed_message in await fetch_missed_messages(
            channel, pending.message, seen, self._backfill_limit(channel)
        ):
            message = msgspec.structs.replace(
                missed_message, address=pending.message.address, direct=pending.message.direct
            )
            route = self._rooms.route_message(message)
            runtime = await connected.workspace.runtime()
            id = envelope_id(message)
            if await is_input_accepted(runtime, pending.session, id):
                continue
            person = route.person if route.workspace == connected.workspace.name else None
            parts = build_parts(message, person, format_file_names(message.files))
            sender = person.name if person is not None else ""
            try:
                await store_unaddressed(
                    runtime, pending.session, parts, id=id, sender=sender, platform_message=to_platform_message(message)
                )
            except InputRefused as error:
                log.info("%s: a missed message was not stored: %s", channel.name, error)

    async def _submit_prompt(
        self,
        connected: ConnectedWorkspace,
        pending: PendingMessage,
        parts: tuple[AnyPart, ...],
        files: tuple[ReceivedFile, ...],
    ) -> None:
        """Put a message into its lane; if the lane refuses it, reply to its author."""
        message = pending.message
        person = self._rooms.route_message(message).person
        if person is None or person.name != pending.person:  # the account was unpaired since the message arrived
            return
        input_parts = (*build_parts(message, person), *parts)
        try:
            platform_message = to_platform_message(message, files)
            runtime = await connected.workspace.runtime()
            id, sender = pending.id, pending.person
            await accept_prompt(
                runtime, pending.session, input_parts, id=id, sender=sender, platform_message=platform_message
            )
        except LaneFull:
            await self._post_reply(connected, message, pending.id, BUSY_REPLY, ephemeral=True)
        except (InputRefused, SessionArchived) as error:
            await self._post_reply(connected, message, pending.id, to_sentence(error))


def _build_reply_key(connected: ConnectedWorkspace, id: str) -> str:
    return build_delivery_key("reply", connected.workspace.name, id)
