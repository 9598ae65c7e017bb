"""Slack's markup: ours turned into it, and what people wrote in it turned back."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.channels.slack.markup import (
    escape,
    find_mentioned_users,
    leading_mention_length,
    markdown_to_mrkdwn,
    mrkdwn_to_text,
)

OURS = {
    "heading": ("## Title ##", "*Title*"),
    "heading with bold": ("# A **b** c", "*A b c*"),
    "bold": ("a **b c** d", "a *b c* d"),
    "bold by underscores": ("__b__", "*b*"),
    "italic": ("a *b* c", "a _b_ c"),
    "italic by underscores": ("_b_", "_b_"),
    "both": ("***b***", "*_b_*"),
    "italic in bold": ("**a *b* c**", "*a _b_ c*"),
    "strike": ("~~no~~", "~no~"),
    "within a word": ("un**believ**able", "un\u200b*believ*\u200bable"),
    "no italic": ("3 * 4 * 5 a_b_c", "3 * 4 * 5 a_b_c"),
    "code is left alone": ("`a **b** <c>`", "`a **b** &lt;c&gt;`"),
    "code with backticks": ("``a`b``", "`a\u02cbb`"),
    "an open backtick": ("a ` b **c**", "a ` b *c*"),
    "link": ("[text](https://a.example/b_c?d=e&f=g)", "<https://a.example/b_c?d=e&amp;f=g|text>"),
    "link with parentheses": ("[t](https://a.example/b_(c))", "<https://a.example/b_(c)|t>"),
    "link in bold": ("**see [t](https://a.example)**", "*see <https://a.example|t>*"),
    "image": ("![alt](https://a.example/i.png)", "<https://a.example/i.png|alt>"),
    "address in brackets": ("<https://a.example/x_y_z>", "<https://a.example/x_y_z>"),
    "bare address": ("https://a.example/x_y_z?a=*b*", "https://a.example/x_y_z?a=_b_"),
    "link elsewhere": ("[t](javascript:alert)", "t (javascript:alert)"),
    "label that would end it": ("[a|b](https://a.example)", "<https://a.example|a¦b>"),
    "escaped marks": (r"\*a\* \[b\](c)", "*a* [b](c)"),
    "list": ("- a\n  * b\n+ c", "• a\n  • b\n• c"),
    "tasks": ("- [ ] a\n- [x] b", "☐ a\n☑ b"),
    "numbers": ("1. a\n2. b", "1. a\n2. b"),
    "quote": ("> a **b**", "> a *b*"),
    "rule": ("---", "———"),
    "entities": ("1 < 2 & 3 > 2", "1 &lt; 2 &amp; 3 &gt; 2"),
    "block of code": ("```py\na < *b*\n```", "```\na &lt; *b*\n```"),
    "block of code still being written": ("~~~\na", "```\na\n```"),
    "block of code with a fence inside": ("````\n```\n````", "```\n``\u200b`\n```"),
    "table": ("| a | b |\n|---|:-:|\n| **c** | d\\|e |\nafter", "```\na  b\n-  ---\nc  d|e\n```\nafter"),
}


@pytest.mark.parametrize(("ours", "theirs"), OURS.values(), ids=OURS)
def test_markdown_is_written_as_slack_reads_it(ours: str, theirs: str) -> None:
    assert markdown_to_mrkdwn(ours) == theirs


@pytest.mark.parametrize("said", ["<!channel>", "<!here|x>", "<@U0ANN0001>", "<!subteam^S1>", "`<!everyone>`"])
def test_no_text_of_the_model_mentions_everyone(said: str) -> None:
    for around in (
        "{}",
        "**{}**",
        "[{}](https://a.example)",
        "| {} |\n|--|",
        "```\n{}\n```",
        "# {}",
        "> {}",
        "[x]({})",
    ):
        assert not re.search("<[!@#]", markdown_to_mrkdwn(around.format(said)))


@given(st.text(st.sampled_from("ab <>&|*_~`[]()!#-\\\n@.:/") | st.characters(), max_size=120))
@settings(max_examples=300, deadline=None)
def test_only_links_have_angle_brackets_in_any_text(text: str) -> None:
    made = markdown_to_mrkdwn(f"{text} [t](https://a.example/)")
    assert all(
        re.match(r"<(https?://|mailto:)[^<>]*>", made[at:]) for at in (m.start() for m in re.finditer("<", made))
    )
    assert not re.search("[\ue000-\ue003]", made)


@given(st.text(max_size=200))
@settings(max_examples=200, deadline=None)
def test_escaped_text_reads_as_it_was_written(text: str) -> None:
    assert mrkdwn_to_text(escape(text), {}) == text


@pytest.mark.parametrize(
    "piece", ["**a ", "[", "[a](", "`", "``a`", "*a", "<", "<a", "~~a ", "__a ", "\\", "| ", "> ", "- "]
)
def test_hostile_text_takes_no_time(piece: str) -> None:
    begun = time.process_time()
    markdown_to_mrkdwn(piece * (40_000 // len(piece)))
    mrkdwn_to_text(piece * (1_000_000 // len(piece)), {})
    assert time.process_time() - begun < 5


THEIRS = {
    "link": ("<https://a.example/?b&amp;c|the text>", "[the text](https://a.example/?b&c)"),
    "bare link": ("see <https://a.example/>", "see https://a.example/"),
    "link that slack made": ("<http://a.example|a.example>", "a.example"),
    "mail": ("<mailto:a@b.example|a@b.example>", "a@b.example"),
    "person": ("<@U0ANN0001> and <@U0BEN0001>", "@Ann and @U0BEN0001"),
    "person with a label": ("<@U0BEN0001|ben>", "@ben"),
    "room": ("<#C0ROOM001|general> <#C2>", "#general #C2"),
    "everybody": ("<!here> <!subteam^S1|@team>", "@here @team"),
    "date": ("<!date^1392734382^{date}|Feb 18>", "Feb 18"),
    "entities": ("&lt;b&gt; &amp;amp;", "<b> &amp;"),
    "no control": ("a < b", "a < b"),
}


@pytest.mark.parametrize(("theirs", "meant"), THEIRS.values(), ids=THEIRS)
def test_messages_of_people_are_unescaped(theirs: str, meant: str) -> None:
    assert mrkdwn_to_text(theirs, {"U0ANN0001": "Ann"}) == meant


def test_a_mention_at_the_beginning_is_known() -> None:
    for text, left in (
        ("<@U1X>: hi", "hi"),
        ("  <@U1X|me> , hi", "hi"),
        ("hi <@U1X>", "hi <@U1X>"),
        ("<@U2X> a", "<@U2X> a"),
    ):
        assert text[leading_mention_length(text, "U1X") :] == left
    assert find_mentioned_users("<@U1X> <@U2X> <@U1X>") == ["U1X", "U2X"]
