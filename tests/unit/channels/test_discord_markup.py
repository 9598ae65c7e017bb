"""Markdown as Discord shows it."""

from __future__ import annotations

import pytest

from mainstay.channels.discord.events import DiscordRoomAndThread, locate_channel, strip_mention
from mainstay.channels.discord.markup import markdown_to_discord


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain **bold** _x_ `y` [a](https://b.example)", "plain **bold** _x_ `y` [a](https://b.example)"),
        ("# one\n### three", "# one\n### three"),
        ("#### four", "**four**"),
        ("###### **six** ##", "**six**"),
        (
            "![cat](https://x.example/c.png) ![](https://y.example)",
            "[cat](https://x.example/c.png) [image](https://y.example)",
        ),
        ("a\x00b\r\nc", "ab\nc"),
        ("```\n#### kept\n| a | b |\n|---|---|\n```", "```\n#### kept\n| a | b |\n|---|---|\n```"),
        ("not | a table\njust a bar", "not | a table\njust a bar"),
        ("", ""),
    ],
)
def test_markup_that_discord_supports_stays_and_the_rest_is_approximated(text: str, shown: str) -> None:
    assert markdown_to_discord(text) == shown


def test_a_table_is_a_block_of_code_in_columns() -> None:
    table = "before\n| name | n |\n|:-----|--:|\n| 日本 | 1 |\n| a \\| b | 22 | more |\nafter"
    assert markdown_to_discord(table).split("\n") == [
        "before",
        "```",
        "name   n",
        "-----  --  ----",
        "日本   1",
        "a | b  22  more",
        "```",
        "after",
    ]


def test_nothing_in_a_table_ends_its_block() -> None:
    shown = markdown_to_discord("| a | b |\n|---|---|\n| ```x | y |")
    assert shown.count("```") == 2


@pytest.mark.parametrize(("text", "rest"), [("<@7> hi", "hi"), ("<@!7>, hi", "hi"), (" <@7>: hi", "hi"), ("<@7>", "")])
def test_our_name_at_the_beginning_goes(text: str, rest: str) -> None:
    assert strip_mention(text, 7) == (rest, True)


@pytest.mark.parametrize("text", ["<@77> hi", "hi <@7>", "<@&7> hi", "@everyone hi"])
def test_mentions_of_other_users_stay(text: str) -> None:
    assert strip_mention(text, 7) == (text, False)


@pytest.mark.parametrize(
    ("kind", "parent", "place"),
    [
        (0, 5, DiscordRoomAndThread("9")),
        (1, None, DiscordRoomAndThread("9", direct=True)),
        (11, 5, DiscordRoomAndThread("5", "9")),
        (12, 5, DiscordRoomAndThread("5", "9")),
        (11, None, DiscordRoomAndThread("9")),
        (None, None, DiscordRoomAndThread("9")),
    ],
)
def test_a_discord_channel_is_a_room_a_thread_or_a_direct_message(
    kind: int | None, parent: int | None, place: DiscordRoomAndThread
) -> None:
    assert locate_channel(9, kind, parent) == place
