"""Where a conversation stands, in a few lines, for whoever comes back to it."""

from __future__ import annotations

from mainstay.app.chat.safe import safe, visible
from mainstay.app.chat.talk import Talk
from mainstay.app.chat.words import MARK, count
from mainstay.app.commands.homes import reading
from mainstay.core.messages import Message
from mainstay.core.session import Session

_BYTES = 64 * 1024
WIDTH = 76


async def recap(talk: Talk) -> list[str]:
    """The last question and the beginning of its answer."""
    async with reading(talk.where.home) as store:
        tail = await store.load(talk.session, _BYTES)
    if tail is None:
        return []
    session = Session.of(tail)
    lines = [f"{count(session.turns, 'turn')} so far; the last:"] if session.turns else []
    for role, mark in (("user", MARK), ("assistant", "  ")):
        found = _last(session.messages, role)
        if found is not None:
            lines += _lines(found.text, mark)
    return lines


def _last(messages: list[Message], role: str) -> Message | None:
    return next((one for one in reversed(messages) if one.role == role and one.text.strip()), None)


def _lines(text: str, mark: str) -> list[str]:
    lines = [line for line in safe(text).expandtabs(4).splitlines() if line.strip()]
    shown = [mark + visible(line, WIDTH) for line in lines[:3]]
    return [*shown, "  …"] if len(lines) > 3 else shown
