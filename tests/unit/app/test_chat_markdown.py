"""Which part of a growing answer is settled, and how it is drawn."""

from __future__ import annotations

import re

import pytest

from mainstay.app.chat.markdown import Ink, rendered, settled

DOCUMENT = """\
# Title

A paragraph with *words*
over two lines.

- one
- two

  still two

1. first
2. second

```python
def f():

    return 1
```

| a | b |
|---|---|
| 1 | 2 |

> quoted

The end.
"""


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("one line", ""),
        ("a paragraph\n\n", ""),
        ("a paragraph\n\nb", "a paragraph\n\n"),
        ("- a\n- b\n\n", ""),
        ("- a\n\n  still a\n\nb", "- a\n\n  still a\n\n"),
        ("```\na\n\nb\n", ""),
        ("```\na\n\nb\n```\nafter", "```\na\n\nb\n```\n"),
        ("# head\ntext", "# head\n"),
    ],
)
def test_only_finished_blocks_are_settled(text: str, first: str) -> None:
    assert text[: settled(text)] == first


def test_pieces_drawn_one_by_one_say_what_the_whole_says() -> None:
    """However the text is cut, every word is drawn once."""
    words = re.findall(r"\w+", _plain(DOCUMENT))
    for size in (1, 3, 7, 50):
        drawn, pending = "", ""
        for start in range(0, len(DOCUMENT), size):
            pending += DOCUMENT[start : start + size]
            cut = settled(pending)
            drawn, pending = drawn + _plain(pending[:cut]), pending[cut:]
        assert re.findall(r"\w+", drawn + _plain(pending)) == words


def test_links_show_where_they_lead() -> None:
    shown = Ink().lines(rendered("[click](https://example.com/x)"), 80)
    assert "https://example.com/x" in shown
    assert "\x1b]8" not in shown


TAGS = "use <b>bold</b> and <div class=x> then <script>alert(1)</script>"


@pytest.mark.parametrize(
    "text",
    [
        TAGS,
        f"<div>\n{TAGS}\n</div>",
        f"- {TAGS}\n\n> <p>quoted</p>",
        "| a |\n|---|\n| <td>x</td> |",
        "<!-- a note -->\n\nafter <kbd>Ctrl</kbd> <br/> it",
        "<https://example.com> &lt;i&gt;",
        "<script>\nlet a\n\nlet b\n</script>\n\nThe end.",
    ],
)
def test_tags_are_shown_like_any_other_text_however_they_come(text: str) -> None:
    wanted = re.findall(r"</?\w[^>]*>|<!--", text)
    for size in (1, 5, len(text)):
        drawn, pending = "", ""
        for start in range(0, len(text), size):
            pending += text[start : start + size]
            cut = settled(pending)
            drawn, pending = drawn + _plain(pending[:cut]), pending[cut:]
        drawn += _plain(pending)
        for tag in wanted:
            assert tag.strip("<>") in drawn if "example" in tag else tag in drawn


def test_no_line_is_wider_than_the_terminal_and_none_ends_in_spaces() -> None:
    for columns in (24, 80, 300):
        for line in _plain(DOCUMENT, columns).splitlines():
            assert len(line) <= min(columns, 100)
            assert line == line.rstrip()


def test_no_color_means_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[(?:3|4)\dm", Ink().lines(rendered(DOCUMENT), 80))


def _plain(text: str, columns: int = 80) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", Ink().lines(rendered(text), columns))
