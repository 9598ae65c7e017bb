"""When inputs came, which of them are one message that was sent in pieces, and what they say."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Literal

from mainstay.core.envelope import Envelope
from mainstay.core.errors import InputRefused, LaneFull, MainstayError, SessionArchived
from mainstay.core.events import Received
from mainstay.core.limits import Limits
from mainstay.core.messages import AnyPart, Text
from mainstay.core.open_turn import Waiting
from mainstay.core.ports import Clock
from mainstay.core.recall import is_untrusted
from mainstay.core.session import Session
from mainstay.core.where import Where


class Arrivals:
    """By the loop's clock, which never jumps. What an earlier process took in has only its wall time."""

    __slots__ = ("_at",)

    def __init__(self) -> None:
        self._at: dict[int, float] = {}

    def add(self, seq: int) -> None:
        self._at[seq] = asyncio.get_running_loop().time()

    async def wait(self, window_s: float, clock: Clock) -> None:
        """Until nothing has come for so long."""
        loop = asyncio.get_running_loop()
        while (left := max(self._at.values(), default=0.0) + window_s - loop.time()) > 0:
            await clock.sleep(left)

    def take(self, waiting: Iterable[Waiting], window_s: float) -> tuple[int, ...]:
        """The first input, what the same sender added to it within the window, and what was overheard before."""
        given = sorted(waiting, key=lambda one: one.seq)
        overheard = [one for one in given if one.event.kind == "overheard"]
        rest = [one for one in given if one.event.kind != "overheard"]
        taken: list[Waiting] = []
        while rest and (not taken or (window_s > 0 and self._belongs(taken[-1], rest[0], window_s))):
            taken.append(rest.pop(0))
        self._at = {one.seq: self._at[one.seq] for one in rest if one.seq in self._at}
        before = [one.seq for one in overheard if taken and one.seq < taken[-1].seq]
        return tuple(sorted((*before, *(one.seq for one in taken))))

    def _belongs(self, one: Waiting, other: Waiting, window_s: float) -> bool:
        if one.seq in self._at and other.seq in self._at:
            apart_s = self._at[other.seq] - self._at[one.seq]
        else:
            apart_s = abs(other.at - one.at) / 1000
        return one.event.sender == other.event.sender and apart_s <= window_s


def received_of(envelope: Envelope, kind: Literal["prompt", "steer", "overheard"]) -> Received:
    return Received(envelope.parts, kind=kind, sender=envelope.sender, id=envelope.id, heard=envelope.heard)


def check_room(session: Session, limits: Limits) -> None:
    """Raises what is wrong with one more prompt."""
    if (refusal := _refusal(session, limits)) is not None:
        refusal.where = Where(session.key)
        raise refusal


def _refusal(session: Session, limits: Limits) -> MainstayError | None:
    key = session.key
    if session.status == "archived":
        return SessionArchived(f"session {key!r} is archived; start another, or make it active again")
    prompts = sum(one.event.kind == "prompt" for one in session.waiting.values())
    if limits.session_turns_max is not None and session.turns + prompts >= limits.session_turns_max:
        return InputRefused(f"session {key!r} has had its {limits.session_turns_max} turns; start another")
    if prompts - (session.open is None) >= limits.mailbox_depth_max:  # with no turn open, one is about to run
        return LaneFull(f"session {key!r} is busy: {limits.mailbox_depth_max} messages wait; try again later")
    return None


def prompt_of(session: Session, inputs: tuple[int, ...]) -> str:
    """The words of inputs that still wait."""
    return "\n".join(meant_in(session.waiting[seq].event.parts) for seq in inputs if seq in session.waiting)


def meant_in(parts: tuple[AnyPart, ...]) -> str:
    """What somebody says that is to be heard: what came from outside calls for no skill, and is like no request."""
    return "\n".join(part.text for part in parts if isinstance(part, Text) and not is_untrusted(part.origin))
