"""Results of calls whose changes were held back: what the answer to the question about them makes of the result."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable

import msgspec

from mainstay.core.events import ApprovalAnswered, ApprovalAsked
from mainstay.core.held_changes import APPLY_CHANGES, decode_changes, name_paths
from mainstay.core.journal_wording import JournalWording
from mainstay.core.messages import ToolCall, ToolResult
from mainstay.core.open_turn import OpenTurn
from mainstay.guards.line_escaping import one_line


class AnsweredChanges(msgspec.Struct, frozen=True):
    """The question about a call's changes, and its answer."""

    request: ApprovalAsked
    answer: ApprovalAnswered
    wording: JournalWording
    is_repeated: bool = False  # a process that stopped may have applied some of the changes
    # called before the first change is applied: that it may have been is on disk when this returns
    mark_released: Callable[[], Awaitable[None]] | None = None


def find_change_request(turn: OpenTurn, call: ToolCall) -> ApprovalAsked | None:
    """Return the question about the changes of a call that has run; None if there is none."""
    request = turn.approvals_asked.get(call.id)
    return request if request is not None and request.ran is not None else None


def compute_changes_digest(document: str) -> str:
    return hashlib.sha256(f"{APPLY_CHANGES}\n{document}".encode()).hexdigest()


def find_refused_result(changes: AnsweredChanges) -> ToolResult | None:
    """Return the result of a call whose changes must not be applied; None if they were approved."""
    request, answer, wording = changes.request, changes.answer, changes.wording
    match answer.verdict:
        case "approved":
            is_same = request.digest == compute_changes_digest(request.input)
            return None if is_same else _with_sentence(request, wording.call_changed)
        case "denied" if answer.reason:
            return _with_sentence(request, wording.changes_denied_because, answer.reason)
        case "denied":
            return _with_sentence(request, wording.changes_denied)
    return _with_sentence(request, wording.changes_expired)


def build_unknown_result(changes: AnsweredChanges) -> ToolResult:
    """Return the result of a call of whose changes it is not known which were applied."""
    return _with_sentence(changes.request, changes.wording.changes_unknown)


def build_unsettled_result(turn: OpenTurn, request: ApprovalAsked) -> ToolResult:
    """Return the result of a call if its turn ends before its changes are settled."""
    answer = turn.approval_answers.get(request.id)
    if answer is None or (answer.verdict == "approved" and request.call_id not in turn.released_calls):
        return _with_sentence(request, turn.wording.changes_stopped)
    if answer.verdict == "approved":
        return _with_sentence(request, turn.wording.changes_unknown)
    refused = find_refused_result(AnsweredChanges(request, answer, turn.wording))
    assert refused is not None
    return refused


def _with_sentence(request: ApprovalAsked, sentence: str, reason: str = "") -> ToolResult:
    assert request.ran is not None
    paths = name_paths([one_line(change.path) for change in decode_changes(request.input)])
    return add_note(request.ran, sentence.format(paths=paths, reason=reason))


def add_note(result: ToolResult, note: str) -> ToolResult:
    return msgspec.structs.replace(result, content=f"{result.content}\n{note}")
