"""Questions about changes that a command made and the sandbox held back.

The command has run when its changes are asked about, so the call waits with its result in the approval request. The
request's input is the set of changes itself: what is shown is what is stored and what is applied, and the command does
not run again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from mainstay.core.events import ApprovalAsked
from mainstay.core.held_changes import (
    APPLY_CHANGES,
    DIFF_CONTEXT_LINES,
    HeldChange,
    encode_changes,
    name_paths,
    show_change,
)
from mainstay.core.messages import ToolResult
from mainstay.guards.guardrails import Guardrails
from mainstay.guards.line_escaping import one_line
from mainstay.turn.call_authorisation import CheckedCall, TurnScope
from mainstay.turn.change_answers import add_note, compute_changes_digest

CONTAINS_SECRET = "contains a secret"
WHY = "The command has run. What it changed here was held back and is not done yet"


def build_change_request(scope: TurnScope, checked: CheckedCall, result: ToolResult) -> ApprovalAsked | ToolResult:
    """Return the request for approval of the changes that a call had held back; the call's result, with a note, if none
    of them can be approved."""
    context, dependencies, session = checked.context, scope.dependencies, scope.session
    assert context is not None
    cwd = dependencies.trust.cwd(session.key)
    changes = _mark_secrets(context.held_changes, cwd, dependencies.trust.guards)
    offered = [change for change in changes if not change.problem]
    document = _encode(offered, cwd, dependencies.trust.guards) if session.spawned is None else ""
    if not offered or not 0 < len(document.encode()) <= dependencies.limits.tool_input_bytes_max:
        reason = "a sub-agent cannot ask for approval" if session.spawned is not None else "are too large to be shown"
        rest = [msgspec.structs.replace(change, problem=change.problem or reason) for change in changes]
        return add_note(result, _describe_refused(rest, cwd))
    refused = [change for change in changes if change.problem]
    digest = compute_changes_digest(document)
    content = "content from outside is in this conversation" if context.tainted else "other programs obey these files"
    why = f"{WHY}, because {content}."
    if refused:
        why += f" Not offered here and not done: {_describe_paths(refused, cwd)}."
    return ApprovalAsked(
        hashlib.sha256(f"{session.key}\n{checked.call.id}\n{digest}".encode()).hexdigest()[:10],
        checked.call.id,
        APPLY_CHANGES,
        document,
        why=why,
        digest=digest,
        expires=dependencies.trust.now_ms() + round(dependencies.limits.approval_expires_s * 1000),
        where=cwd,
        ran=add_note(result, _describe_refused(refused, cwd)) if refused else result,
        turn=scope.turn.turn,
        step=scope.turn.step,
    )


def _encode(changes: Sequence[HeldChange], cwd: str, guards: Guardrails | None) -> str:
    """Return the document, with less of the surrounding lines if they contain a secret."""
    has_secret = any(_contains_secret(change, cwd, DIFF_CONTEXT_LINES, guards) for change in changes)
    return encode_changes(changes, cwd, 0 if has_secret else DIFF_CONTEXT_LINES)


def _mark_secrets(changes: Sequence[HeldChange], cwd: str, guards: Guardrails | None) -> list[HeldChange]:
    """Mark changes that cannot be shown: a secret in them would be journaled, or their path is not valid text."""
    marked = []
    for change in changes:
        problem = change.problem
        try:
            change.path.encode()
            if not problem and _contains_secret(change, cwd, 0, guards):
                problem = CONTAINS_SECRET
        except UnicodeError:
            problem = "has a name that cannot be shown"
        marked.append(msgspec.structs.replace(change, problem=problem))
    return marked


def _contains_secret(change: HeldChange, cwd: str, context_lines: int, guards: Guardrails | None) -> bool:
    shown = show_change(change, cwd, context_lines)
    if guards is None:
        return False
    text = change.data.decode("latin-1") if shown.base64 is not None else shown.content or shown.diff or shown.target
    return guards.redactor.redact(text)[0] != text


def _describe_refused(changes: Sequence[HeldChange], cwd: str) -> str:
    return f"[held back, not applied: {_describe_paths(changes, cwd)}]"


def _describe_paths(changes: Sequence[HeldChange], cwd: str) -> str:
    shown = [f"{_display(change.path, cwd)} ({change.problem})" for change in changes]
    return name_paths(shown)


def _display(path: str, cwd: str) -> str:
    return one_line(path.removeprefix(cwd.rstrip("/") + "/").encode(errors="replace").decode())
