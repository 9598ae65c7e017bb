"""Patterns for the model: beside a request, and through the tool."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mainstay.core.errors import MainstayError
from mainstay.core.memory_tiers import is_untrusted
from mainstay.core.ports import ContextContributor, Tool, ToolContext
from mainstay.core.tools import BadArguments
from mainstay.patterns.contributor import GUIDANCE, PatternContributor
from mainstay.patterns.library import PatternLibrary
from mainstay.patterns.tool import PatternTool, build_pattern_tool

REFUND = """\
name: refund_order
description: Give money back for an order.
intents: [refund]
parameters:
  order: {description: Its number, required: true}
templates:
  letter: Dear {{customer}}, order {{order}} is refunded.
  loop: "{{#each orders}}{{this}}{{/each}}"
best_practices: [Never refund twice.]
common_errors:
  - {error: already refunded, solution: look first}
---
name: refund_part
description: Give a part of the money back.
intents: [refund]
templates: {note: "Half of {{order}}"}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "refunds.yaml").write_text(REFUND)
    return tmp_path


@pytest.fixture
def library(folder: Path) -> PatternLibrary:
    made = PatternLibrary([str(folder)])
    made.load()
    return made


def call(tool: Tool, arguments: str) -> tuple[str, ToolContext]:
    async def run() -> tuple[str, ToolContext]:
        context = ToolContext("s", 1, 1, "c", lambda event: None)
        return await tool.run(tool.parse(arguments), context), context

    return asyncio.run(run())


def refused(tool: Tool, arguments: str) -> str:
    with pytest.raises(MainstayError) as raised:
        call(tool, arguments)
    return str(raised.value)


# --- beside a request ----------------------------------------------------------------------------


def test_matching_patterns_are_appended_to_the_turn_each_with_its_origin(library: PatternLibrary) -> None:
    contributor: ContextContributor = PatternContributor(library)
    first, second = contributor.turn_notes("s", "a refund for order A-17 please")
    assert first.origin == "context:pattern:refund_order"
    assert second.origin == "context:pattern:refund_part"
    for piece in (
        "## Pattern: refund order (refund_order)",
        "Give money back",
        "Dear {{customer}}",
        "Never refund twice",
    ):
        assert piece in first.text
    assert contributor.turn_notes("s", "what is the weather like?") == ()
    assert (contributor.profile_section("s"), contributor.sub_agent_section("s")) == ("", "")


def test_the_fixed_line_is_the_same_for_any_patterns_and_missing_without_any(
    folder: Path, library: PatternLibrary
) -> None:
    contributor = PatternContributor(library)
    before = contributor.fixed_section("s")
    (folder / "more.yaml").write_text("name: more\ndescription: words\n")
    library.reload()
    assert contributor.fixed_section("other") == before == GUIDANCE
    for path in folder.glob("*.yaml"):
        path.unlink()
    library.reload()
    assert contributor.fixed_section("s") == ""


@pytest.mark.parametrize("tokens", [30, 100, 300, 2_000])
def test_appended_patterns_are_bounded_and_the_omitted_ones_are_named(folder: Path, tokens: int) -> None:
    long = "\n".join(f"  Line {number} of a long description." for number in range(2_000))
    for number in range(5):
        (folder / f"{number}.yaml").write_text(f"name: long{number}\nintents: [refund]\ndescription: |\n{long}\n")
    library = PatternLibrary([str(folder)])
    library.load()
    texts = PatternContributor(library, matches_max=5, threshold=0.0, tokens_max=tokens).turn_notes("s", "refund")
    assert len(texts) == 5
    size = sum(len(one.text.encode()) for one in texts)
    assert size <= tokens * 4 + 5 * 400  # what must be said of each
    assert any("has all of it.)" in one.text for one in texts)


def test_patterns_written_under_taint_are_marked_untrusted(folder: Path) -> None:
    (folder.parent / "link").symlink_to(folder)
    real = str((folder / "refunds.yaml").resolve())
    library = PatternLibrary(
        [str(folder.parent / "link")], file_origin=lambda path: "untrusted:fetch" if path == real else ""
    )
    library.load()
    first, *_ = PatternContributor(library).turn_notes("s", "refund an order")
    assert is_untrusted(first.origin)
    assert first.origin.endswith("context:pattern:refund_order")
    for arguments in ('{"action":"search","query":"refund"}', '{"action":"show","name":"refund_order"}'):
        _, context = call(build_pattern_tool(library), arguments)
        assert context.untrusted


# --- the tool ------------------------------------------------------------------------------------


def test_search_names_what_is_like_the_query(library: PatternLibrary) -> None:
    said, context = call(build_pattern_tool(library), '{"action":"search","query":"refund an order"}')
    first, second = said.splitlines()
    assert first.startswith("refund_order (0.")
    assert second.startswith("refund_part (0.")
    assert not context.untrusted
    said, _ = call(build_pattern_tool(library), '{"action":"search","query":"weather"}')
    assert said == "None of the 2 patterns matches that."


def test_show_prints_a_pattern_or_one_template_of_it(library: PatternLibrary) -> None:
    said, _ = call(build_pattern_tool(library), '{"action":"show","name":"refund_order"}')
    assert "Parameters:\n- order (required): Its number" in said
    assert "- already refunded. look first." in said
    said, _ = call(build_pattern_tool(library), '{"action":"show","name":"refund_order","template":"loop"}')
    assert said == "Template loop\n```\n{{#each orders}}{{this}}{{/each}}\n```"


def test_fill_puts_values_into_a_template(library: PatternLibrary) -> None:
    arguments = (
        '{"action":"fill","name":"refund_order","template":"letter","parameters":{"customer":"{{order}}","order":17}}'
    )
    said, _ = call(build_pattern_tool(library), arguments)
    assert said == "Dear {{order}}, order 17 is refunded."
    said, _ = call(build_pattern_tool(library), '{"action":"fill","name":"refund_part","parameters":{"order":"A"}}')
    assert said == "Half of A", "the only template needs no name"


REFUSED: dict[str, tuple[str, str]] = {
    "no query": ('{"action":"search"}', "To search, give a query"),
    "no name": ('{"action":"show"}', "Give the name of a pattern"),
    "unknown": (
        '{"action":"show","name":"refund_ordr"}',
        "There is no pattern 'refund_ordr'; did you mean refund_order?",
    ),
    "no such template": (
        '{"action":"fill","name":"refund_order","template":"x"}',
        "The pattern refund_order has no template 'x'; there are: letter, loop.",
    ),
    "which template": (
        '{"action":"fill","name":"refund_order"}',
        "The pattern refund_order has more than one template, or none; there are: letter, loop.",
    ),
    "missing": ('{"action":"fill","name":"refund_order","template":"letter"}', "needs customer, order (Its number)"),
    "unknown parameter": (
        '{"action":"fill","name":"refund_part","parameters":{"order":"A","colour":"red"}}',
        "There is no parameter colour; there are: order.",
    ),
    "no object": ('{"action":"fill","name":"refund_part","parameters":"A"}', "Give parameters as an object"),
    "a loop": (
        '{"action":"fill","name":"refund_order","template":"loop"}',
        "has more than plain placeholders ({{#each orders}})",
    ),
}


@pytest.mark.parametrize("case", REFUSED, ids=[name.replace(" ", "-") for name in REFUSED])
def test_an_invalid_call_is_a_sentence(case: str, library: PatternLibrary) -> None:
    arguments, sentence = REFUSED[case]
    assert sentence in refused(build_pattern_tool(library), arguments)


def test_arguments_that_do_not_fit_are_refused_before_anything_runs(library: PatternLibrary) -> None:
    tool = build_pattern_tool(library)
    for arguments in ('{"action":"destroy"}', "{}", "[]", '{"action":"show","title":"x"}'):
        with pytest.raises(BadArguments):
            tool.parse(arguments)


def test_the_tool_is_terse_and_only_reads() -> None:
    tool: Any = PatternTool
    assert (tool.effect, tool.sink, tool.untrusted) == ("pure", False, False)
    assert len(tool.description) < 200
    assert tool.schema["properties"]["parameters"] == {"type": "object"}
