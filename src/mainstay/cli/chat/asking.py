"""A question for approval, with nothing of the call hidden."""

from __future__ import annotations

import json

from mainstay.cli.chat.safe import visible
from mainstay.core.events import ApprovalAsked

HOW = "y approves it, n denies it, a allows its like from now on; anything else is a no, with your reason"
HOW_ONCE = "y approves it, n denies it; anything else is a no, with your reason"
YES, NO, ALWAYS = {"y", "yes"}, {"n", "no"}, {"a", "always"}


def asked_lines(asked: ApprovalAsked) -> list[str]:
    """Every argument whole, control and invisible characters written out: what is shown is what would run."""
    lines = [f"{visible(asked.name)} wants to run ({asked.id})"]
    if asked.why:
        lines[0] += f": {visible(asked.why)}"
    lines += arguments_of(asked.input)
    if asked.where:
        lines.append(f"  in {visible(asked.where)}")
    return lines


def arguments_of(input: str) -> list[str]:
    """One below the other, each whole."""
    lines = []
    for name, text in _given(input):
        first, *rest = text.split("\n")
        lines.append(f"  {visible(name)}: {visible(first)}")
        lines += [f"  {' ' * len(visible(name))}│ {visible(line)}" for line in rest]
    return lines


def _given(input: str) -> list[tuple[str, str]]:
    try:
        given = json.loads(input or "{}")
        if isinstance(given, dict):
            return [
                (name, one if isinstance(one, str) else json.dumps(one, ensure_ascii=False))
                for name, one in given.items()
            ]
    except (ValueError, RecursionError):  # a model may write brackets without end
        pass
    return [("arguments", input)]


def elsewhere(asked: ApprovalAsked) -> list[str]:
    """How to answer from a shell, where nobody reads what is typed."""
    approve = f"mainstay approvals approve {asked.id}"
    lines = [f"`{approve}` lets it go on, `mainstay approvals deny {asked.id}` does not"]
    if asked.always:
        lines.append(f"  `{approve} --always` allows its like from now on: {visible(asked.always)}")
    return lines


def how(asked: ApprovalAsked) -> list[str]:
    """What can be typed, and what "always" would mean."""
    if not asked.always:
        return [HOW_ONCE]
    return [HOW, f"  always: {visible(asked.always)}"]
