"""Formats approval requests for the terminal, with every argument of the call shown in full."""

from __future__ import annotations

import json

from mainstay.core.events import ApprovalAsked
from mainstay.trust.guards.terminal_sanitizer import escape_line

HINT_WITH_ALWAYS = (
    "y approves, n denies, a always allows calls like this; any other text denies and is sent as the reason"
)
HINT = "y approves, n denies; any other text denies and is sent as the reason"
YES_WORDS, NO_WORDS, ALWAYS_WORDS = {"y", "yes"}, {"n", "no"}, {"a", "always"}


def format_approval(approval: ApprovalAsked) -> list[str]:
    """Return the request with every argument in full and control or invisible characters escaped.

    What is shown is exactly what would run.
    """
    lines = [f"{escape_line(approval.name)} needs approval ({approval.id})"]
    if approval.why:
        lines[0] += f": {escape_line(approval.why)}"
    lines += format_arguments(approval.input)
    if approval.where:
        lines.append(f"  in {escape_line(approval.where)}")
    return lines


def format_arguments(input: str) -> list[str]:
    """Return a call's arguments, one below the other, none of them shortened."""
    lines = []
    for name, text in _parse_arguments(input):
        first, *rest = text.split("\n")
        lines.append(f"  {escape_line(name)}: {escape_line(first)}")
        lines += [f"  {' ' * len(escape_line(name))}│ {escape_line(line)}" for line in rest]
    return lines


def _parse_arguments(input: str) -> list[tuple[str, str]]:
    try:
        arguments = json.loads(input or "{}")
        if isinstance(arguments, dict):
            return [
                (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
                for name, value in arguments.items()
            ]
    except (ValueError, RecursionError):  # a model can write endlessly nested brackets
        pass
    return [("arguments", input)]


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
