"""Human in the loop: pending approvals of paused turns, their answers, and their expiry."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mainstay.core.errors import ApprovalUnknown, InputRefused
from mainstay.core.events import ApprovalAnswered, ApprovalAsked, Event, Received
from mainstay.core.memory_tiers import is_untrusted
from mainstay.core.messages import ToolCall, ToolResult, parts_text
from mainstay.core.session import Session
from mainstay.turn.toolbox import TurnTools

REASON_CHARS_MAX = 500


class PendingApproval(msgspec.Struct, frozen=True):
    """An approval request that is not answered, and its session."""

    session: str
    asked: ApprovalAsked


class PendingApprovals:
    """All pending approvals of an agent's sessions; their lanes need not be in memory."""

    def __init__(self) -> None:
        self._pending: dict[str, PendingApproval] = {}  # by session: each has at most one

    def __len__(self) -> int:
        return len(self._pending)

    def __iter__(self) -> Iterator[PendingApproval]:
        """Oldest first."""
        return iter(list(self._pending.values()))

    def set_pending(self, session: str, approval: ApprovalAsked | None) -> None:
        """Set what a session waits for; None: it does not wait."""
        current = self._pending.get(session)
        if current is not None and (approval is None or current.asked.id != approval.id):
            del self._pending[session]
        if approval is not None:
            self._pending[session] = PendingApproval(session, approval)

    def find(self, id: str) -> PendingApproval:
        """Return the pending approval whose id is, or starts with, `id`. Raises ApprovalUnknown."""
        matches = [pending for pending in self._pending.values() if pending.asked.id.startswith(id)] if id else []
        if len(matches) > 1:
            raise ApprovalUnknown(f"more than one approval begins with {id!r}; give more of its id")
        if not matches:
            raise ApprovalUnknown(f"no approval {id[:40]!r} is pending; it was answered, or it expired")
        return matches[0]

    def expired_sessions(self, now_ms: int) -> list[str]:
        return [pending.session for pending in self._pending.values() if pending.asked.expires <= now_ms]


def check_answer(session: Session, answer: ApprovalAnswered, now_ms: int, tools: TurnTools) -> ApprovalAnswered:
    """Return the answer as it is recorded, with its turn and step.

    Raises ApprovalUnknown if the session does not wait for this approval (any more), and InputRefused if the changed
    arguments are invalid; the approval then stays pending.
    """
    pending = session.pending_approval
    if pending is None or pending.id != answer.id or pending.expires <= now_ms:
        raise ApprovalUnknown(f"no approval {answer.id!r} is pending; it was answered, or it expired")
    if answer.input is not None and pending.ran is not None:
        raise InputRefused("changes that were held back are approved as they are shown, or denied")
    if answer.input is not None:
        try:
            if not isinstance(msgspec.json.decode(answer.input), dict):
                raise InputRefused("the changed arguments must be a JSON object")
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            raise InputRefused("the changed arguments are not JSON") from None
        changed = tools.prepare(ToolCall(pending.call_id, pending.name, answer.input))
        if isinstance(changed, ToolResult):
            raise InputRefused(changed.content)
    turn = session.open_turn
    assert turn is not None
    return msgspec.structs.replace(answer, turn=turn.turn, step=turn.step)


def deny_with_input(session: Session, event: Received) -> tuple[Event, ...]:
    """Return the events for an input that arrives while an approval is pending.

    It denies the approval, with the input's text as the reason, and the turn resumes with the input as a steer.
    """
    pending, turn = session.pending_approval, session.open_turn
    assert pending is not None
    assert turn is not None
    # the reason becomes part of a tool result, which has no origin: untrusted text is only in the steer
    reason = parts_text(tuple(part for part in event.parts if not is_untrusted(part.origin)))[:REASON_CHARS_MAX]
    steer = msgspec.structs.replace(event, kind="steer")
    denied = ApprovalAnswered(pending.id, "denied", event.sender, reason, turn=turn.turn, step=turn.step)
    return steer, denied


def expire_if_due(session: Session, now_ms: int) -> ApprovalAnswered | None:
    """Return the `expired` answer if the pending approval has passed its deadline."""
    pending, turn = session.pending_approval, session.open_turn
    if pending is None or turn is None or pending.expires > now_ms:
        return None
    return ApprovalAnswered(pending.id, "expired", turn=turn.turn, step=turn.step)
