"""From `allowed-tools`, as published skills write it, to rules of ours: they can narrow what a turn may do."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.skills.allowed_tools import RULES_MAX, UNREADABLE_PREFIX, parse_allowed_tools
from mainstay.trust.rules import ToolRule

CASES = [
    ("Bash(git:*) Bash(jq:*) Read", ("bash(git *)", "bash(jq *)", "read")),
    ("Bash(kubectl:*) Bash(terraform:*)", ("bash(kubectl *)", "bash(terraform *)")),
    ("Read, Write, Edit", ("read", "write", "edit", "apply_patch")),
    ("Read,Grep,Glob,LS", ("read", "grep", "glob", "ls")),
    ("[Read, 'Grep', \"Glob\"]", ("read", "grep", "glob")),
    ("- Read - Write", ("read", "write")),
    ("MultiEdit NotebookEdit", ("edit", "apply_patch")),
    ("Task Skill WebSearch", ("spawn", "skill", "web_search")),
    ("BashOutput KillShell", ("process",)),
    ("Bash", ("bash",)),
    ("Bash(*)", ("bash",)),
    ("Bash(:*)", ("bash",)),
    ("Bash(git status)", ("bash(git status)",)),
    ("Bash(npm run test:*)", ("bash(npm run test *)",)),
    ("Bash(git add *)", ("bash(git add *)",)),
    ("Bash(git add:*, git commit:*)", ("bash(git add *)", "bash(git commit *)")),
    ("Bash(scripts/*)", ("bash(scripts/* *)",)),
    ("Bash(./run.sh:*)", ("bash(./run.sh *)",)),
    ('Bash(git commit -m "a, b")', ('bash(git commit -m "a\\, b")',)),
    ("mcp__github__create_issue", ("github__create_issue",)),
    ("mcp__github mcp__web__*", ("github__*", "web__*")),
    ("mcp__chrome-devtools__click", ("chrome-devtools__click",)),
    ("BigQuery:bigquery_schema", ("BigQuery__bigquery_schema",)),
    ("WebFetch(domain:docs.example.com)", ("fetch(https://docs.example.com/**)",)),
    ("WebFetch(domain:*.example.com)", ("fetch(https://*.example.com/**)",)),
    ("WebFetch(https://example.com/a/*) WebFetch", ("fetch(https://example.com/a/*)", "fetch")),
    ("Read(//etc/hosts) Write(docs/**)", ("read(/etc/hosts)", "write(docs/**)")),
    ("read bash(git *)", ("read", "bash(git *)")),
    ("TodoWrite", ("TodoWrite",)),
    ("*", ("*",)),
    ("", ()),
]
NOTHING = [
    "Bash(git:*",
    "Bash(git && rm)",
    "Bash(curl:*|sh)x",
    "Bash(cat x > y)",
    "Bash(foo=1 git:*)",
    "Bash(cap:net)",
    "Read(cap:fs)",
    "Read(path=/)",
    "WebFetch(domain:a@b)",
    "WebFetch(javascript:alert)",
    "mcp__a__b(c)",
    "<script>",
    "Rëad",
    "a/b",
    f"Bash({'x' * 2000})",
]


@pytest.mark.parametrize(("written", "rules"), CASES, ids=[case[0][:30] or "nothing" for case in CASES])
def test_common_tool_names_become_our_rules(written: str, rules: tuple[str, ...]) -> None:
    """SIGIL-067"""
    assert parse_allowed_tools(written) == rules
    for rule in rules:
        ToolRule.parse(rule)


@pytest.mark.parametrize("written", NOTHING, ids=[f"{n}" for n in range(len(NOTHING))])
def test_an_unreadable_entry_becomes_a_rule_that_allows_nothing(written: str) -> None:
    """F35: it is there, so that the skill narrows; and no tool can have such a name."""
    (rule,) = parse_allowed_tools(written)
    assert ToolRule.parse(rule).name == rule
    assert rule.startswith(f"{UNREADABLE_PREFIX}:")


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.lists(
        st.sampled_from(
            [
                *"()[],:*\\'\"|&;=?$~/ ",
                "Bash",
                "Read",
                "WebFetch",
                "mcp__",
                "git",
                "cap:",
                "domain:",
                "https://",
                "a.b",
                "é",
            ]
        ),
        max_size=12,
    ).map("".join)
)
def test_any_text_gives_readable_rules_that_allow_no_more_than_was_named(written: str) -> None:
    for rule in parse_allowed_tools(written):
        read = ToolRule.parse(rule)
        assert read.name != "*" or "*" in written
        assert not read.capabilities
        assert all(name == "" for name, _ in read.arguments)


def test_there_is_a_bound_on_rules() -> None:
    assert len(parse_allowed_tools(" ".join(f"tool{n}" for n in range(5000)))) == RULES_MAX
