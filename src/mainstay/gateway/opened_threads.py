"""Threads that the agent opened by a message to a room: their sessions begin with that message, and are followed."""

from __future__ import annotations

import logging

from mainstay.core.channels import Delivery, IncomingMessage
from mainstay.core.chat_addresses import PlatformMessage
from mainstay.core.errors import InputRefused, SessionUnknown
from mainstay.core.events import Received
from mainstay.core.memory_tiers import RUNTIME, format_origin
from mainstay.core.messages import Text
from mainstay.core.ports import SessionInfo
from mainstay.gateway.workspace import Workspace
from mainstay.operations.caller import load_session_info
from mainstay.operations.event_feed import read_records
from mainstay.operations.input_submission import store_unaddressed

log = logging.getLogger("mainstay.gateway")

OPENING_ID_PREFIX = "opening:"  # of the input that records the message
OPENING_NOTE = "[You posted this message in this room, from another conversation]\n"
FIRST_RECORDS = 10  # of a session, among which its opening message is


async def record_opening(workspace: Workspace, delivery: Delivery) -> None:
    """Record a message that opened a thread as the first input of the thread's session, so that the model knows what
    an answer in the thread is about. It is labelled like the conversation that sent it."""
    message = PlatformMessage(delivery.to, delivery.ids[0], text=delivery.text, at=delivery.at)
    session = workspace.current.build_session_key("", "", message)
    if session == delivery.session or session != str(delivery.to):
        return  # sessions are not kept by thread
    try:
        sender = await load_session_info(workspace, delivery.session)
        origin = format_origin("session", untrusted=sender.untrusted, private=sender.private)
    except SessionUnknown:  # it was deleted, so nothing says any more what it had read
        origin = format_origin("session", untrusted=True, private=True)
    parts = (Text(OPENING_NOTE, origin=RUNTIME), Text(delivery.text, origin=origin))
    runtime, id = await workspace.runtime(), f"{OPENING_ID_PREFIX}{delivery.key}"
    try:
        await store_unaddressed(runtime, session, parts, id=id, platform_message=message)
    except InputRefused as error:  # the message is posted all the same, and later deliveries must not wait for it
        log.info("%s: the message that opened a thread was not recorded: %s", delivery.to.channel, error)


async def is_opened_thread(workspace: Workspace, message: IncomingMessage, info: SessionInfo | None) -> bool:
    """True if the message belongs to a thread that the agent opened and in which it has not answered yet."""
    if info is None or info.status == "archived" or info.turns or not message.address.thread:
        return False
    records = await read_records(await workspace.runtime(), info.key, 0, FIRST_RECORDS)
    events = [record.event for record in records if isinstance(record.event, Received)]
    return any(
        event.id.startswith(OPENING_ID_PREFIX) and event.heard is not None and not event.heard.user for event in events
    )
