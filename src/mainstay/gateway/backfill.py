"""What was said in a thread and was not heard: caught up with before each prompt, each message once."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence

import msgspec

from mainstay.core.channels import ChannelError, ChatChannel, Incoming
from mainstay.core.errors import SessionUnknown
from mainstay.core.events import Received
from mainstay.core.messages import text_of
from mainstay.gateway.commands import read_command
from mainstay.gateway.office import Office

log = logging.getLogger("mainstay.channels")

FETCH_S = 5.0
KNOWN_RECORDS = 500
SAME_TIME_MS = 10 * 60 * 1000  # within which the same words are the same message

_ATTACHED = re.compile(r"^\s*\[attached:.*?\]\s*$", re.MULTILINE)
_MENTION = re.compile(r"<[@#!][^>\s]{1,80}>|(?<!\w)@[\w.:-]{1,80}")
_TIME = re.compile(
    r"[\[(]?\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?\b[\])]?"
    r"|[\[(]?\b\d{1,2}:\d\d(?::\d\d)?(?:\s?[ap]m)?\b[\])]?",
    re.IGNORECASE,
)


def normalise(text: str) -> str:
    """The words alone: without times, mentions, attachments, case and space."""
    bare = _TIME.sub(" ", _MENTION.sub(" ", _ATTACHED.sub(" ", text)))
    return " ".join(bare.casefold().split())


class Known(msgspec.Struct):
    """What a session has of its thread, lately."""

    last: int = 0  # ms: when the newest was said, by the platform's clock
    words: list[tuple[str, int]] = []

    def has(self, message: Incoming) -> bool:
        said = normalise(message.text)
        return any(words == said and abs(at - message.at) <= SAME_TIME_MS for words, at in self.words)


async def known_of(office: Office, session: str) -> Known:
    try:
        head = (await office.sessions.get(session)).head
    except SessionUnknown:
        return Known()
    known = Known(words=[])
    for record in await office.sessions.records(session, after=max(head - KNOWN_RECORDS, 0), limit=KNOWN_RECORDS):
        match record.event:
            case Received(parts=parts, heard=heard):
                at = heard.at if heard is not None and heard.at else record.at
                known.last = max(known.last, at if heard is not None else 0)
                text = heard.text if heard is not None and heard.text else text_of(parts)
                known.words.append((normalise(text), at))
    return known


async def missed(channel: ChatChannel, message: Incoming, known: Known, limit: int) -> Sequence[Incoming]:
    """What was said in the thread before this message and is not among what is known; nothing, if it cannot be had."""
    if limit <= 0 or not channel.shows.history:
        return ()
    try:
        async with asyncio.timeout(FETCH_S):
            told = await channel.history(message.address, known.last, limit)
    except (ChannelError, TimeoutError) as error:
        log.warning("%s: what was missed in a thread was not fetched: %s", channel.name, error or "it took too long")
        return ()
    before = (one for one in told if not one.own and one.id != message.id and one.at <= message.at)
    worth = (one for one in before if (one.text.strip() or one.files) and read_command(one.text) is None)
    return [one for one in worth if not known.has(one)][-limit:]
