"""Slash commands: parsing of their arguments and their output."""

from __future__ import annotations

import pytest

from mainstay.cli.chat.slash_commands import COMMANDS, _parse_fields
from mainstay.context.compiler import ContextSection, ContextView
from mainstay.terminal.context_chart import BAR_COLUMNS, BAR_COLUMNS_MIN, draw_context_chart
from mainstay.terminal.formatters import to_plain_text


def test_the_context_is_one_bar_made_of_its_sections() -> None:
    sections = [ContextSection("fixed", 1_000, ""), ContextSection("tools", 0, ""), ContextSection("recent", 5_000, "")]
    head, bar, *legend = map(to_plain_text, draw_context_chart(ContextView(sections, 12_000, 16_000, "openai/gpt")))
    assert head == "openai/gpt: 6.0k of 12.0k tokens, window 16.0k"
    assert bar == "  " + "█" * 4 + "░" * 20 + "·" * 24
    assert [line.split()[:4] for line in legend] == [
        ["█", "fixed", "1.0k", "8.3%"],
        ["▓", "tools", "0", "0.0%"],
        ["░", "recent", "5.0k", "41.7%"],
        ["·", "free", "6.0k", "50.0%"],
    ]


def test_small_sections_are_visible_and_large_ones_fit_the_screen() -> None:
    for columns in (10, 20, 80, 300):
        shown = ContextView([ContextSection("fixed", 1, ""), ContextSection("recent", 90_000, "")], 10_000, 12_000, "m")
        bar = to_plain_text(draw_context_chart(shown, columns)[1]).strip()
        assert bar == "█" + "░" * (max(min(BAR_COLUMNS, columns - 5), BAR_COLUMNS_MIN) - 1)
    assert to_plain_text(draw_context_chart(ContextView([], 0, 0, "m\x1b[2J"))[0]).startswith("m\\x1b[2J")


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("name=Ana", {"name": "Ana"}),
        ('name=Ana goal="learn Portuguese"', {"name": "Ana", "goal": "learn Portuguese"}),
        ("formula=a=b", {"formula": "a=b"}),
        ("name=", {"name": ""}),
        ("mood=don't", {"mood": "don't"}),
        ("just words", {}),
        ("name=Ana and more", {}),
        ("=x", {}),
    ],
)
def test_a_profile_is_set_by_pairs_and_by_nothing_else(text: str, fields: dict[str, str]) -> None:
    assert _parse_fields(text) == fields


def test_context_compact_calls_and_profile_are_there() -> None:
    assert {"/context", "/compact", "/calls", "/profile"} <= set(COMMANDS)
