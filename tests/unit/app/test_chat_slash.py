"""What slash commands make of what they are given, apart from the conversation they are typed in."""

from __future__ import annotations

import pytest

from mainstay.app.chat.slash import BAR, COMMANDS, _fields, picture
from mainstay.context.compile import Section, Shown


def test_the_context_is_a_picture_whose_bars_are_its_sections() -> None:
    sections = [Section("fixed", 1_000, ""), Section("tools", 0, ""), Section("recent", 5_000, "")]
    lines = picture(Shown(sections, 12_000, 16_000, "openai/gpt"))
    assert lines[0] == "openai/gpt: 6.0k of 12.0k tokens, window 16.0k"
    bars = {line.split()[0]: line.count("█") + line.count("·") for line in lines[1:]}
    assert bars == {"fixed": 2, "tools": 0, "recent": 10, "free": 12}
    assert lines[-1].endswith("50%")


def test_what_is_small_is_still_seen_and_what_is_too_much_fits_the_screen() -> None:
    lines = picture(Shown([Section("fixed", 1, ""), Section("recent", 90_000, "")], 10_000, 12_000, "m"))
    assert lines[1].count("█") == 1
    assert lines[2].count("█") == BAR
    assert lines[3].count("·") == 0
    assert picture(Shown([], 0, 0, "m\x1b[2J"))[0].startswith("m\\x1b[2J")


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


def test_context_compact_and_profile_are_there() -> None:
    assert {"/context", "/compact", "/profile"} <= set(COMMANDS)
