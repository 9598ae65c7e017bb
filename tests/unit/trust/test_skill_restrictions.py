"""Allowed tools of skills: they restrict the policy, and never extend it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.policy_world import BASH, BOXED, FETCH, MESSAGE, PLUGIN, READ, WRITE, context, judged

from mainstay.skills.allowed_tools import parse_allowed_tools
from mainstay.trust.policy import Policy, PolicyContext, SkillRestriction
from mainstay.trust.rules import PolicyRules

DEPLOY = SkillRestriction("deploy", ("bash(git *)", "write(docs/**)"))
CALLS = [
    (BASH, {"command": "git status"}),
    (BASH, {"command": "rm -rf build"}),
    (WRITE, {"path": "docs/a.md"}),
    (WRITE, {"path": "src/a.py"}),
    (READ, {"path": "a"}),
    (PLUGIN, {"query": "x"}),
    (FETCH, {"url": "https://example.com/a"}),
    (MESSAGE, {"to": "ops", "text": "x"}),
]
STRICT = {"allow": 0, "ask": 1, "deny": 2}


def following(*narrowing: SkillRestriction, alone: bool = False) -> PolicyContext:
    return PolicyContext(skill_restrictions=narrowing, is_sub_agent=alone)


async def test_tools_that_a_skill_names_run_and_others_are_asked_about() -> None:
    deploy = following(DEPLOY)
    assert (await judged(BASH, {"command": "git status"}, circumstances=deploy)).decision == "allow"
    assert (await judged(WRITE, {"path": "docs/a.md"}, circumstances=deploy)).decision == "allow"
    asked = await judged(BASH, {"command": "git status && make"}, circumstances=deploy)
    assert (asked.decision, asked.always_rule) == ("ask", "")
    assert asked.reason == "The skill deploy uses only bash(git *), write(docs/**)."


async def test_sigil_067_the_programs_of_the_example_skill_run_without_a_question() -> None:
    """SIGIL-067: `allowed-tools: Bash(kubectl:*) Bash(terraform:*)`."""
    operations = following(SkillRestriction("infra-ops", parse_allowed_tools("Bash(kubectl:*) Bash(terraform:*)")))
    for command in ("kubectl get pods -n web", "terraform plan", "kubectl get pods && terraform plan -out x"):
        assert (await judged(BASH, {"command": command}, circumstances=operations)).decision == "allow", command
    for command in ("make", "kubectl get pods; rm x", "kubectl get pods | bash", "PATH=. kubectl get pods"):
        assert (await judged(BASH, {"command": command}, circumstances=operations)).decision == "ask", command


async def test_a_rule_about_one_tool_does_not_apply_to_another() -> None:
    fetching = following(SkillRestriction("news", ("fetch", "bash(git *)")))
    assert (await judged(BASH, {"command": "echo hi"}, circumstances=fetching)).decision == "ask"
    assert (await judged(WRITE, {"path": "a"}, circumstances=fetching)).decision == "ask"
    assert (await judged(FETCH, {"url": "https://example.com/a"}, circumstances=fetching)).decision == "allow"


async def test_a_second_skill_gives_nothing_back_that_the_first_one_takes() -> None:
    """F35: an attacker who triggers another skill gains nothing by it."""
    both = following(DEPLOY, SkillRestriction("ops", ("bash", "write", "cap:*")))
    assert (await judged(BASH, {"command": "git status"}, circumstances=both)).decision == "allow"
    asked = await judged(BASH, {"command": "make"}, circumstances=both)
    assert (asked.decision, asked.reason) == ("ask", "The skill deploy uses only bash(git *), write(docs/**).")


async def test_reading_needs_no_skill_that_names_it() -> None:
    assert (await judged(READ, {"path": "a"}, circumstances=following(DEPLOY))).decision == "allow"


async def test_a_sub_agent_has_no_person_to_ask() -> None:
    verdict = await judged(WRITE, {"path": "src/a"}, circumstances=following(DEPLOY, alone=True))
    assert verdict.decision == "deny"


async def test_an_unreadable_rule_allows_nothing() -> None:
    """F35"""
    broken = SkillRestriction("odd", ("bash(", "", "write(/**"))
    assert (await judged(WRITE, {"path": "a"}, circumstances=following(broken))).decision == "ask"


RULES = st.lists(
    st.sampled_from(["*", "bash", "bash(*)", "bash(rm *)", "write(**)", "web__*", "cap:*", "fetch(**)", "x("]),
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(named=RULES, denied=RULES.map(lambda rules: [rule for rule in rules if rule != "x("]))
@pytest.mark.parametrize("number", range(len(CALLS)))
async def test_no_allowed_tools_of_a_skill_widen_the_policy(number: int, named: list[str], denied: list[str]) -> None:
    """F35: with it, a call is judged as strictly as without, or more so."""
    tool, arguments = CALLS[number]
    policy = Policy(PolicyRules(deny=tuple(denied)), confinement=BOXED)
    plain = policy.decide(tool, arguments, context(), PolicyContext())
    narrowed = policy.decide(tool, arguments, context(), following(SkillRestriction("s", tuple(named))))
    assert STRICT[narrowed.decision] >= STRICT[plain.decision]
