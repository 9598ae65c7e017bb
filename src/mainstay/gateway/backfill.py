"""Backfill: fetches messages of a thread that the session does not have, before each prompt, each message once."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence

import msgspec

from mainstay.core.channels import ChannelError, ChatChannel, IncomingMessage
from mainstay.core.errors import SessionUnknown
from mainstay.core.events import Received
from mainstay.core.messages import parts_text
from mainstay.gateway.channel_message_conversion import has_content, sanitise_message
from mainstay.gateway.slash_commands import parse_command
from mainstay.gateway.workspace import Workspace
from mainstay.operations.caller import load_session_info
from mainstay.operations.event_feed import read_records

log = logging.getLogger("mainstay.channels")

FETCH_TIMEOUT_S = 5.0
RECORDS_READ_MAX = 500
DUPLICATE_WINDOW_MS = 10 * 60 * 1000  # two messages with the same text within this time are the same message

_ATTACHMENT_NOTE = re.compile(r"^\s*\[attached:.*?\]\s*$", re.MULTILINE)
_MENTION = re.compile(r"<[@#!][^>\s]{1,80}>|(?<!\w)@[\w.:-]{1,80}")
_TIMESTAMP = re.compile(
    r"[\[(]?\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?\b[\])]?"
    r"|[\[(]?\b\d{1,2}:\d\d(?::\d\d)?(?:\s?[ap]m)?\b[\])]?",
    re.IGNORECASE,
)


def normalise_text(text: str) -> str:
    """Return a text without times, mentions, attachment notes, case and repeated spaces, for comparison."""
    bare = _TIMESTAMP.sub(" ", _MENTION.sub(" ", _ATTACHMENT_NOTE.sub(" ", text)))
    return " ".join(bare.casefold().split())


class SeenMessages(msgspec.Struct):
    """The newest messages of a thread that a session has."""

    newest_at: int = 0  # ms: when the newest was sent, by the platform's clock
    texts: list[tuple[str, int]] = []  # normalised text and time (ms) of each

    def contains(self, message: IncomingMessage) -> bool:
        text = normalise_text(message.full_text)
        return any(known == text and abs(at - message.at) <= DUPLICATE_WINDOW_MS for known, at in self.texts)


async def load_seen_messages(workspace: Workspace, session: str) -> SeenMessages:
    try:
        head = (await load_session_info(workspace, session)).head
    except SessionUnknown:
        return SeenMessages()
    known = SeenMessages(texts=[])
    runtime = await workspace.runtime()
    for record in await read_records(runtime, session, max(head - RECORDS_READ_MAX, 0), RECORDS_READ_MAX):
        match record.event:
            case Received(parts=parts, heard=message):
                at = message.at if message is not None and message.at else record.at
                known.newest_at = max(known.newest_at, at if message is not None else 0)
                text = message.text if message is not None and message.text else parts_text(parts)
                known.texts.append((normalise_text(text), at))
    return known


async def fetch_missed_messages(
    channel: ChatChannel, message: IncomingMessage, seen: SeenMessages, limit: int
) -> Sequence[IncomingMessage]:
    """Return the thread's messages before this one that are not among the seen ones, at most `limit`, oldest first and
    sanitised. Leaves out slash commands and the agent's own messages. Returns nothing if the platform does not
    answer."""
    if limit <= 0 or not channel.capabilities.history:
        return ()
    try:
        async with asyncio.timeout(FETCH_TIMEOUT_S):
            history = await channel.history(message.address, seen.newest_at, limit)
    except (ChannelError, TimeoutError) as error:
        log.warning("%s: missed messages of a thread were not fetched: %s", channel.name, error or "timed out")
        return ()
    before = (
        sanitise_message(candidate)
        for candidate in history
        if not candidate.own and candidate.id != message.id and candidate.at <= message.at
    )
    relevant = (candidate for candidate in before if has_content(candidate) and parse_command(candidate.text) is None)
    return [candidate for candidate in relevant if not seen.contains(candidate)][-limit:]
