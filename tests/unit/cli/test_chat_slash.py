"""What slash commands make of what they are given, apart from the conversation they are typed in."""

from __future__ import annotations

import pytest

from mainstay.cli.chat.picture import BAR, BAR_MIN, picture
from mainstay.cli.chat.slash import COMMANDS, _fields
from mainstay.cli.chat.words import plain
from mainstay.context.compile import Section, Shown


def test_the_context_is_one_bar_whose_parts_are_its_sections() -> None:
    sections = [Section("fixed", 1_000, ""), Section("tools", 0, ""), Section("recent", 5_000, "")]
    head, bar, *legend = map(plain, picture(Shown(sections, 12_000, 16_000, "openai/gpt")))
    assert head == "openai/gpt: 6.0k of 12.0k tokens, window 16.0k"
    assert bar == "  " + "█" * 4 + "░" * 20 + "·" * 24
    assert [line.split()[:4] for line in legend] == [
        ["█", "fixed", "1.0k", "8.3%"],
        ["▓", "tools", "0", "0.0%"],
        ["░", "recent", "5.0k", "41.7%"],
        ["·", "free", "6.0k", "50.0%"],
    ]


def test_what_is_small_is_still_seen_and_what_is_too_much_fits_the_screen() -> None:
    for columns in (10, 20, 80, 300):
        shown = Shown([Section("fixed", 1, ""), Section("recent", 90_000, "")], 10_000, 12_000, "m")
        bar = plain(picture(shown, columns)[1]).strip()
        assert bar == "█" + "░" * (max(min(BAR, columns - 5), BAR_MIN) - 1)
    assert plain(picture(Shown([], 0, 0, "m\x1b[2J"))[0]).startswith("m\\x1b[2J")


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
    assert _fields(text) == fields


def test_context_compact_calls_and_profile_are_there() -> None:
    assert {"/context", "/compact", "/calls", "/profile"} <= set(COMMANDS)
