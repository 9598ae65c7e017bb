"""Which part of a growing answer is settled, and how it is drawn."""

from __future__ import annotations

import re
import time

import pytest
from rich.console import RenderableType
from rich.text import Text

from mainstay.terminal.code_highlighter import CodeHighlighter
from mainstay.terminal.glyphs import GlyphSet
from mainstay.terminal.markdown_renderer import CodeFence, RichToAnsiRenderer, find_finished_prefix, render_markdown
from mainstay.terminal.markdown_stream import MarkdownStream

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
        ("- a\n\n", ""),
        ("- a\n\n  still a\n\nb", "- a\n\n  still a\n\n"),
        ("- a\n- b", "- a\n"),
        ("9. a\n\n   still a\n10. b\n", "9. a\n\n   still a\n"),
        ("```\na\n\nb\n", ""),
        ("```\na\n\nb\n```\nafter", "```\na\n\nb\n```\n"),
        ("# head\ntext", "# head\n"),
    ],
)
def test_only_finished_blocks_and_items_are_settled(text: str, first: str) -> None:
    assert text[: find_finished_prefix(text).chars] == first


def test_unfinished_code_is_recognised_by_its_fence() -> None:
    assert find_finished_prefix("text\n\n  ~~~~ python title\nx").fence == CodeFence("~~~~", "python", 2)
    assert find_finished_prefix("```py").fence is None
    fence = CodeFence("```", "", 2)
    assert [fence.is_closed_by(line) for line in ("```", "  ````  ", "    ```", "``", "```x", "~~~")] == [
        *(True, True),
        *(False, False, False, False),
    ]
    assert [fence.strip_indent(line) for line in ("    a", " a", "a")] == ["  a", "a", "a"]


def test_pieces_drawn_one_by_one_look_like_the_whole() -> None:
    """However the text is cut: every line is drawn once, in its place."""
    whole, twice = _plain(DOCUMENT), re.compile(r"\n\n+")  # around a table there are two blank lines
    for size in (1, 3, 7, 50, len(DOCUMENT)):
        assert twice.sub("\n\n", _flowed(DOCUMENT, size)) == twice.sub("\n\n", whole)


def test_only_the_last_block_is_drawn_again() -> None:
    flow = MarkdownStream()
    for n in range(200):
        flow.feed(f"Paragraph {n}.\n\n")
        assert flow.unfinished is None or f"Paragraph {n - 1}." not in _drawn(flow.unfinished)
    flow.feed("```python\n" + "x = 1\n" * 500 + "last")
    assert flow.unfinished is not None
    assert _drawn(flow.unfinished) == "  last\n"


def test_code_is_coloured_line_by_line_as_it_is_as_a_whole() -> None:
    lines = [
        "import os",
        "",
        "",
        "def f(a: int) -> str:",
        '    """A text over',
        "    several lines with def and import.",
        '    """',
        "    return str(a)  # why",
        "",
        "class A:",
        "    b = {1: 'c'}",
    ]
    whole = _coloured(CodeHighlighter("python").highlight_lines(lines))
    code = CodeHighlighter("python")
    assert [one for line in lines for one in _coloured(code.highlight_lines([line]))] == whole
    assert len({style for _, style in whole}) > 4
    assert (
        RichToAnsiRenderer().render(CodeHighlighter("no such language").highlight_lines(["def f():"]), 80)
        == "def f():\n"
    )


def test_a_fence_that_never_closes_and_one_within_a_list_lose_nothing() -> None:
    assert _flowed("before\n\n```sh\nls\n\n\npwd", 1) == "before\n\n  ls\n\n\n  pwd\n"
    assert _flowed("- a\n\n  ```sh\n  ls\n  ```\n- b\n", 1).split() == ["•", "a", "ls", "•", "b"]
    assert _flowed("```\n```\n\nafter", 1) == "after\n"


def test_links_show_where_they_lead() -> None:
    shown = RichToAnsiRenderer().render(render_markdown("[click](https://example.com/x)"), 80)
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
        drawn = _flowed(text, size)
        for tag in wanted:
            assert tag.strip("<>") in drawn if "example" in tag else tag in drawn


def test_no_line_is_wider_than_the_terminal_and_none_ends_in_spaces() -> None:
    for columns in (12, 20, 24, 80, 300):
        for line in _plain(DOCUMENT, columns).splitlines():
            assert len(line) < min(columns, 101)
            assert line == line.rstrip()


def test_no_color_means_no_colour() -> None:
    drawn = RichToAnsiRenderer(has_colour=False).render(render_markdown(DOCUMENT), 80)
    assert not re.search(r"\x1b\[(?:\d+;)*(?:3|4|9)\dm", drawn)
    assert "\x1b[1" in drawn  # weight is no colour


def test_where_there_is_no_unicode_the_signs_are_ascii() -> None:
    assert RichToAnsiRenderer(GlyphSet(has_unicode=False)).render(render_markdown(DOCUMENT), 80).isascii()


def _plain(text: str, columns: int = 80) -> str:
    return _drawn(render_markdown(text), columns)


def _drawn(thing: RenderableType, columns: int = 80) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", RichToAnsiRenderer().render(thing, columns))


def _coloured(text: Text) -> list[tuple[str, str]]:
    """Every sign that is seen, and its colour."""
    found, style = [], ""
    for code, sign in re.findall(r"\x1b\[([0-9;]*)m|(\S)", RichToAnsiRenderer().render(text, 80)):
        style = style if sign else code.strip("0")
        found += [(sign, style)] if sign else []
    return found


def _flowed(text: str, size: int) -> str:
    """Drawn as it comes, in pieces of this size."""
    flow, drawn = MarkdownStream(), ""
    blocks = [block for start in range(0, len(text), size) for block in flow.feed(text[start : start + size])]
    for block in blocks + flow.finish():
        drawn += ("" if block.is_continuation or not drawn else "\n") + _drawn(block.renderable)
    return drawn


@pytest.mark.parametrize("line", ["words that go on\n", "| a | b |\n", "> quoted\n"], ids=["words", "table", "quote"])
def test_a_block_that_only_grows_does_not_cost_its_square(line: str) -> None:
    flow = MarkdownStream()
    began = time.process_time()
    for _ in range(1_200):
        assert flow.feed(line) == []
    assert time.process_time() - began < 3, "parsed at every line it takes three times that"
    assert flow.feed("\nthe end\n\n# More\n" + "x\n" * 2_000), "and what follows it is settled soon"
