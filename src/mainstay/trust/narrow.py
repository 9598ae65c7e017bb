"""What a skill may use while it is followed: it can take away from what the rules allow, and add nothing."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.trust.calls import Call
from mainstay.trust.rules import Rule, allowing

_SHOWN = 5


class Narrowing(msgspec.Struct, frozen=True):
    """What a skill that a turn follows names: rules of ours."""

    skill: str
    rules: tuple[str, ...]


def outside(narrowing: Sequence[Narrowing], call: Call) -> str:
    """Why somebody has to be asked about this call; empty if it keeps to what each of the skills names. Reading always
    does. A second skill never gives back what the first one takes."""
    tool = call.tool
    if tool.effect == "pure" and not tool.sink:
        return ""
    for one in narrowing:
        about = [rule for rule in _read(one.rules) if rule.covers(tool.name, tool.capabilities, broad=False)]
        if allowing(tuple(about), call) is None:
            named = ", ".join(one.rules[:_SHOWN]) + (", …" if len(one.rules) > _SHOWN else "")
            return f"The skill {one.skill} uses only {named}."
    return ""


def _read(rules: tuple[str, ...]) -> tuple[Rule, ...]:
    """What cannot be read allows nothing."""
    read = []
    for text in rules:
        try:
            read.append(Rule.parse(text))
        except ConfigError:
            continue
    return tuple(read)
