"""Tool restrictions from the skills that a turn follows (`allowed-tools`): they narrow the policy, never widen it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.trust.rules import ToolRule, find_allowing_rule
from mainstay.trust.tool_invocation import ToolInvocation

_RULES_SHOWN_MAX = 5


class SkillRestriction(msgspec.Struct, frozen=True):
    """The policy rules that one active skill restricts its calls to."""

    skill: str
    rules: tuple[str, ...]


def explain_violation(restrictions: Sequence[SkillRestriction], call: ToolInvocation) -> str:
    """Return why this call needs approval; empty if the rules of every active skill allow it.

    Calls that only read are never restricted. A second skill never restores what the first one excludes.
    """
    tool = call.tool
    if tool.effect == "pure" and not tool.sink:
        return ""
    for restriction in restrictions:
        rules = [
            rule
            for rule in _parse_rules(restriction.rules)
            if rule.covers_tool(tool.name, tool.capabilities, broad=False)
        ]
        if find_allowing_rule(tuple(rules), call) is None:
            listed = ", ".join(restriction.rules[:_RULES_SHOWN_MAX]) + (
                ", …" if len(restriction.rules) > _RULES_SHOWN_MAX else ""
            )
            return f"The skill {restriction.skill} uses only {listed}."
    return ""


def _parse_rules(rules: tuple[str, ...]) -> tuple[ToolRule, ...]:
    """Parse the rules; an invalid one is skipped and so allows nothing."""
    parsed = []
    for text in rules:
        try:
            parsed.append(ToolRule.parse(text))
        except ConfigError:
            continue
    return tuple(parsed)
