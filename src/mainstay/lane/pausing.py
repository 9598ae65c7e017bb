"""A turn that waits for somebody's word: what answers it, and what answers it when nobody does."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mainstay.core.errors import ApprovalUnknown, InputRefused
from mainstay.core.events import ApprovalAnswered, ApprovalAsked, Event, Received
from mainstay.core.messages import ToolCall, ToolResult, text_of
from mainstay.core.recall import is_untrusted
from mainstay.core.session import Session
from mainstay.turn.toolbox import Tools

REASON_CHARS_MAX = 500


class Pending(msgspec.Struct, frozen=True):
    """A question that is open, and whose it is."""

    session: str
    asked: ApprovalAsked


class Approvals:
    """Every question of the agent's sessions that is open. The sessions themselves may sleep."""

    def __init__(self) -> None:
        self._pending: dict[str, Pending] = {}  # by session: each waits for one thing at a time

    def __len__(self) -> int:
        return len(self._pending)

    def __iter__(self) -> Iterator[Pending]:
        """The oldest first."""
        return iter(list(self._pending.values()))

    def note(self, session: str, asked: ApprovalAsked | None) -> None:
        """This is what a session waits for now."""
        known = self._pending.get(session)
        if known is not None and (asked is None or known.asked.id != asked.id):
            del self._pending[session]
        if asked is not None:
            self._pending[session] = Pending(session, asked)

    def find(self, id: str) -> Pending:
        """By its id or the beginning of it. Raises ApprovalUnknown."""
        found = [one for one in self._pending.values() if one.asked.id.startswith(id)] if id else []
        if len(found) > 1:
            raise ApprovalUnknown(f"more than one approval begins with {id!r}; give more of it")
        if not found:
            raise ApprovalUnknown(f"nothing waits under {id[:40]!r}; it was answered, or it expired")
        return found[0]

    def expired(self, now: int) -> list[str]:
        return [one.session for one in self._pending.values() if one.asked.expires <= now]


def check_answer(session: Session, answered: ApprovalAnswered, now: int, tools: Tools) -> ApprovalAnswered:
    """As it will be kept. Raises ApprovalUnknown if this is not what the session waits for, or not any more, and
    InputRefused if the call cannot be what it was changed to: then the question stays open."""
    pending = session.pending
    if pending is None or pending.id != answered.id or pending.expires <= now:
        raise ApprovalUnknown(f"nothing waits under {answered.id!r}; it was answered, or it expired")
    if answered.input is not None:
        try:
            if not isinstance(msgspec.json.decode(answered.input), dict):
                raise InputRefused("the changed arguments must be a JSON object")
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            raise InputRefused("the changed arguments are not JSON") from None
        changed = tools.prepare(ToolCall(pending.call_id, pending.name, answered.input))
        if isinstance(changed, ToolResult):
            raise InputRefused(changed.content)
    turn = session.open
    assert turn is not None
    return msgspec.structs.replace(answered, turn=turn.turn, step=turn.step)


def instead(session: Session, event: Received) -> tuple[Event, ...]:
    """Something is said while a question is open: that is a no, with what was said as the reason, and the turn goes
    on with it."""
    pending, turn = session.pending, session.open
    assert pending is not None
    assert turn is not None
    # it is told in a result, which has no place for where it comes from: what is from outside is only said, below
    reason = text_of(tuple(part for part in event.parts if not is_untrusted(part.origin)))[:REASON_CHARS_MAX]
    said = msgspec.structs.replace(event, kind="steer")
    denied = ApprovalAnswered(pending.id, "denied", event.sender, reason, turn=turn.turn, step=turn.step)
    return said, denied


def overdue(session: Session, now: int) -> ApprovalAnswered | None:
    """Nobody answered in time."""
    pending, turn = session.pending, session.open
    if pending is None or turn is None or pending.expires > now:
        return None
    return ApprovalAnswered(pending.id, "expired", turn=turn.turn, step=turn.step)
