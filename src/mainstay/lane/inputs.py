"""Inputs of a lane: coalescing of quick messages, the mailbox limit, and the prompt text."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Literal

from mainstay.core.errors import InputRefused, LaneFull, MainstayError, SessionArchived, SessionBlocked
from mainstay.core.events import Received
from mainstay.core.input_envelope import InputEnvelope
from mainstay.core.limits import Limits
from mainstay.core.memory_tiers import is_untrusted
from mainstay.core.messages import AnyPart, Text
from mainstay.core.open_turn import QueuedInput
from mainstay.core.ports import Clock
from mainstay.core.session import Session
from mainstay.core.turn_location import TurnLocation


class InputCoalescer:
    """Joins messages that one sender sends within the coalescing window.

    Arrival times are by the event loop's clock, which never jumps; inputs of an earlier process have only wall time.
    """

    __slots__ = ("_arrived_at",)

    def __init__(self) -> None:
        self._arrived_at: dict[int, float] = {}

    def record_arrival(self, seq: int) -> None:
        self._arrived_at[seq] = asyncio.get_running_loop().time()

    async def wait_until_quiet(self, window_s: float, clock: Clock) -> None:
        """Wait until no input has arrived for `window_s`."""
        loop = asyncio.get_running_loop()
        while (left := max(self._arrived_at.values(), default=0.0) + window_s - loop.time()) > 0:
            await clock.sleep(left)

    def take_next(self, waiting: Iterable[QueuedInput], window_s: float) -> tuple[int, ...]:
        """Return the sequences of the first input, of its sender's additions in the window, and of overheard ones."""
        ordered = sorted(waiting, key=lambda queued: queued.seq)
        overheard = [queued for queued in ordered if queued.event.kind == "overheard"]
        rest = [queued for queued in ordered if queued.event.kind != "overheard"]
        taken: list[QueuedInput] = []
        while rest and (not taken or (window_s > 0 and self._is_continuation(taken[-1], rest[0], window_s))):
            taken.append(rest.pop(0))
        self._arrived_at = {
            queued.seq: self._arrived_at[queued.seq] for queued in rest if queued.seq in self._arrived_at
        }
        before = [queued.seq for queued in overheard if taken and queued.seq < taken[-1].seq]
        return tuple(sorted((*before, *(queued.seq for queued in taken))))

    def _is_continuation(self, earlier: QueuedInput, later: QueuedInput, window_s: float) -> bool:
        if earlier.seq in self._arrived_at and later.seq in self._arrived_at:
            apart_s = self._arrived_at[later.seq] - self._arrived_at[earlier.seq]
        else:
            apart_s = abs(later.at - earlier.at) / 1000
        return earlier.event.sender == later.event.sender and apart_s <= window_s


def build_received(envelope: InputEnvelope, kind: Literal["prompt", "steer", "overheard"]) -> Received:
    return Received(
        envelope.parts,
        kind=kind,
        sender=envelope.sender,
        id=envelope.id,
        heard=envelope.platform_message,
        shared=envelope.shared,
    )


def check_mailbox(session: Session, limits: Limits) -> None:
    """Raise LaneFull, SessionArchived or InputRefused if the session takes no further prompt."""
    if (refusal := _find_refusal(session, limits)) is not None:
        refusal.location = TurnLocation(session.key)
        raise refusal


def _find_refusal(session: Session, limits: Limits) -> MainstayError | None:
    key = session.key
    if session.status == "archived":
        return SessionArchived(f"session {key!r} is archived; start another, or make it active again")
    if session.open_turn is not None and session.open_turn.is_set_aside:
        return build_blocked_error(session)
    prompts = sum(queued.event.kind == "prompt" for queued in session.queued_inputs.values())
    if limits.session_turns_max is not None and session.turns + prompts >= limits.session_turns_max:
        return InputRefused(f"session {key!r} has had its {limits.session_turns_max} turns; start another")
    if prompts - (session.open_turn is None) >= limits.mailbox_depth_max:  # with no turn open, one is about to run
        return LaneFull(f"session {key!r} is busy: {limits.mailbox_depth_max} messages wait; try again later")
    return None


def build_blocked_error(session: Session) -> SessionBlocked:
    """Build the error of a session whose open turn was set aside."""
    turn = session.open_turn
    assert turn is not None
    return SessionBlocked(
        f"turn {turn.turn} of session {session.key!r} was set aside: {turn.crashes} processes in a row ended while "
        f"they ran it. `mainstay session release {session.key}` runs it again; with --fail it ends as failed"
    )


def join_prompt_text(session: Session, inputs: tuple[int, ...]) -> str:
    """Return the trusted text of inputs that still wait, joined by newlines."""
    return "\n".join(
        extract_trusted_text(session.queued_inputs[seq].event.parts) for seq in inputs if seq in session.queued_inputs
    )


def extract_trusted_text(parts: tuple[AnyPart, ...]) -> str:
    """Return the text without untrusted parts, which must not select skills or match patterns."""
    return "\n".join(part.text for part in parts if isinstance(part, Text) and not is_untrusted(part.origin))
