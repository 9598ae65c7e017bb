"""What a skill may use while it is followed: it can take away from what the rules allow, and add nothing."""

from __future__ import annotations

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.policy.calls import Call
from mainstay.policy.rules import Rule, allowing

_SHOWN = 5


class Narrowing(msgspec.Struct, frozen=True):
    """The skills that a turn follows and that name their tools, and what they name: rules of ours."""

    skills: tuple[str, ...]
    rules: tuple[str, ...]


def outside(narrowing: Narrowing, call: Call) -> str:
    """Why somebody has to be asked about this call; empty if it keeps to what the skills name. Reading always does."""
    if call.tool.effect == "pure" and not call.tool.sink:
        return ""
    tool = call.tool
    about = [rule for rule in _read(narrowing.rules) if rule.covers(tool.name, tool.capabilities, broad=False)]
    if allowing(tuple(about), call) is not None:
        return ""
    named = ", ".join(narrowing.rules[:_SHOWN]) + (", …" if len(narrowing.rules) > _SHOWN else "")
    several = len(narrowing.skills) > 1
    return f"The skill{'s' if several else ''} {', '.join(narrowing.skills)} use{'' if several else 's'} only {named}."


def _read(rules: tuple[str, ...]) -> tuple[Rule, ...]:
    """What cannot be read allows nothing."""
    read = []
    for text in rules:
        try:
            read.append(Rule.parse(text))
        except ConfigError:
            continue
    return tuple(read)
