"""Markdown as Matrix's clients show it."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

pytest.importorskip("markdown_it", reason="this needs markdown-it-py")

from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.channels.matrix.markup import markdown_to_html, strip_control_chars

TAGS = {"p", "br", "hr", "strong", "em", "s", "code", "pre", "blockquote", "a", "ul", "ol", "li"}
TAGS |= {"h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td"}


class Seen(HTMLParser):
    """Which tags and links there are."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.attributes: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name == "href"]


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("hello", ""),
        ("**strong** words", "<strong>strong</strong> words"),
        ("one\ntwo", "one<br />\ntwo"),
        ("2 < 3 & 5 > 4", "2 &lt; 3 &amp; 5 &gt; 4"),
        ("one\n\ntwo", "<p>one</p>\n<p>two</p>"),
        ("~~gone~~", "<s>gone</s>"),
    ],
)
def test_markdown_becomes_html_and_plain_words_stay_as_they_are(text: str, html: str) -> None:
    assert markdown_to_html(text) == html


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "![x](https://tracker.example/pixel.png)",
        "[x](javascript:alert(1))",
        "<javascript:alert(1)>",
        "[x](data:text/html;base64,PHNjcmlwdD4=)",
        "[x](file:///etc/passwd)",
        '[x](https://a.example "onmouseover=alert(1)")',
        '```a" onclick="alert(1)\nx\n```',
    ],
)
def test_nothing_that_is_written_becomes_a_tag_an_image_or_a_script(text: str) -> None:
    seen = Seen(markdown_to_html(text))
    assert seen.tags <= TAGS
    assert all(link.startswith("https://") for link in seen.links)
    assert seen.attributes <= {"href", "title", "class", "style", "start"}


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="<>[]()!`*_~#|-\n\"'&; abch:/.javscript", max_size=80))
def test_any_text_renders_to_harmless_tags_only(text: str) -> None:
    seen = Seen(markdown_to_html(text))
    assert seen.tags <= TAGS
    assert all(link.split(":")[0].lower() in ("http", "https", "mailto", "matrix") for link in seen.links)


def test_markup_that_no_client_shows_is_left_out() -> None:
    assert strip_control_chars("a\x00b\x1b[31mc\r\nd\te") == "ab[31mc\nd\te"
