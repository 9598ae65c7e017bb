"""Where a conversation stands, in a few lines, for whoever comes back to it."""

from __future__ import annotations

from mainstay.cli.chat.safe import safe, visible
from mainstay.cli.chat.talk import Talk
from mainstay.cli.chat.words import MARK, Line, count, waits
from mainstay.cli.commands.homes import reading
from mainstay.core.session import Session
from mainstay.core.withheld import withheld

_BYTES = 64 * 1024
WIDTH = 76


async def recap(talk: Talk) -> list[Line]:
    """The last question and the beginning of its answer. Calls of the last turns can be unfolded from here on."""
    async with reading(talk.where.place) as store:
        tail = await store.load(talk.session, _BYTES)
    if tail is None:
        return []
    session = Session.of(tail)
    talk.calls.begin(session.messages)
    lines: list[Line] = [f"{count(session.turns, 'turn')} so far; the last:"] if session.turns else []
    hidden = withheld(tail.records)
    shown = [one for one in session.messages if one.role in ("user", "assistant") and one.id not in hidden]
    said = [one for one in shown if one.text.strip()]
    asked = next((n for n in reversed(range(len(said))) if said[n].role == "user"), 0)
    for one in said[asked:][:1] + said[asked + 1 :][-1:]:
        lines += _lines(one.text, MARK if one.role == "user" else "  ")
    if session.pending is not None:
        lines.append(f"it {waits(session.pending)}")
    elif session.unfinished:
        lines.append("its turn was interrupted and goes on now")
    return lines


def _lines(text: str, mark: str) -> list[Line]:
    lines = [line for line in safe(text).expandtabs(4).splitlines() if line.strip()]
    shown: list[Line] = [mark + visible(line, WIDTH) for line in lines[:3]]
    return [*shown, "  …"] if len(lines) > 3 else shown
