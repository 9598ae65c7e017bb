"""A question for approval, with nothing of the call hidden."""

from __future__ import annotations

import json

from mainstay.core.events import ApprovalAsked
from mainstay.guards.lines import one_line

HOW = "y approves it, n denies it, a allows its like from now on; anything else is a no, with your reason"
HOW_ONCE = "y approves it, n denies it; anything else is a no, with your reason"
YES, NO, ALWAYS = {"y", "yes"}, {"n", "no"}, {"a", "always"}


def asked_lines(asked: ApprovalAsked) -> list[str]:
    """Every argument whole, control and invisible characters written out: what is shown is what would run."""
    lines = [f"{one_line(asked.name)} wants to run ({asked.id})"]
    if asked.why:
        lines[0] += f": {one_line(asked.why)}"
    for name, value in _arguments(asked.input):
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        first, *rest = text.split("\n")
        lines.append(f"  {one_line(name)}: {one_line(first)}")
        lines += [f"  {' ' * len(one_line(name))}│ {one_line(line)}" for line in rest]
    if asked.where:
        lines.append(f"  in {one_line(asked.where)}")
    return lines


def _arguments(input: str) -> list[tuple[str, object]]:
    try:
        given = json.loads(input or "{}")
    except ValueError:
        return [("arguments", input)]
    return list(given.items()) if isinstance(given, dict) else [("arguments", input)]


def elsewhere(asked: ApprovalAsked) -> list[str]:
    """How to answer from a shell, where nobody reads what is typed."""
    approve = f"mainstay approvals approve {asked.id}"
    lines = [f"`{approve}` lets it go on, `mainstay approvals deny {asked.id}` does not"]
    if asked.always:
        lines.append(f"  `{approve} --always` allows its like from now on: {one_line(asked.always)}")
    return lines


def how(asked: ApprovalAsked) -> list[str]:
    """What can be typed, and what "always" would mean."""
    if not asked.always:
        return [HOW_ONCE]
    return [HOW, f"  always: {one_line(asked.always)}"]
