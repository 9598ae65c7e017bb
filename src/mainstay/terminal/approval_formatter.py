"""Formats approval requests for the terminal, with every argument of the call shown in full."""

from __future__ import annotations

from mainstay.core.events import ApprovalAsked
from mainstay.guards.terminal_sanitizer import escape_line

HINT_WITH_ALWAYS = (
    "y approves, n denies, a always allows calls like this; any other text denies and is sent as the reason"
)
HINT = "y approves, n denies; any other text denies and is sent as the reason"
YES_WORDS, NO_WORDS, ALWAYS_WORDS = {"y", "yes"}, {"n", "no"}, {"a", "always"}


def format_approval(approval: ApprovalAsked) -> list[str]:
    """Return the request with every argument in full and control or invisible characters escaped.

    What is shown is exactly what would run.
    """
    from mainstay.trust.approval_text import escape_approved, format_call  # loaded with the first question

    lines = [f"{escape_approved(approval.name)} needs approval ({approval.id})"]
    if approval.why:
        lines[0] += f": {escape_approved(approval.why)}"
    return lines + format_call(approval)


def format_shell_hints(approval: ApprovalAsked) -> list[str]:
    """Return the shell commands that answer the request, for output that is not an interactive chat."""
    approve = f"mainstay approval approve {approval.id}"
    lines = [f"`{approve}` approves the call, `mainstay approval deny {approval.id}` denies it"]
    if approval.always:
        lines.append(f"  `{approve} --always` always allows calls like this: {escape_line(approval.always)}")
    return lines


def format_prompt_hints(approval: ApprovalAsked) -> list[str]:
    """Return what the user can type, and the rule that "always" would add."""
    if not approval.always:
        return [HINT]
    return [HINT_WITH_ALWAYS, f"  always: {escape_line(approval.always)}"]
