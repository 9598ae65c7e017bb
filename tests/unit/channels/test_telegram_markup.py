"""Any text is rendered as HTML that Telegram accepts."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from support.telegram_platform import parse

from mainstay.channels.styled_text import utf16_length
from mainstay.channels.telegram.markup import html_to_plain_text, markdown_to_html
from mainstay.core.message_chunks import split_message
from mainstay.testing.channel_suite import MARKDOWN

MARKS = st.text(alphabet=st.sampled_from("*_`~#>-+|[]()!<&\\ \n12ab.:/👍é\ud800\x00"), max_size=120)


@settings(max_examples=150, deadline=None)
@given(st.one_of(MARKS, st.text(st.characters(exclude_categories=()), max_size=80)))
def test_any_text_is_html_that_telegram_accepts_and_never_longer_than_it_looks(text: str) -> None:
    made = markdown_to_html(text)
    assert parse(made) == html_to_plain_text(made)
    assert utf16_length(html_to_plain_text(made)) <= len(made)
    made.encode()


def test_half_an_answer_is_shown_as_well_as_a_whole_one() -> None:
    """As it is written, an answer ends anywhere."""
    for end in range(0, len(MARKDOWN), 3):
        parse(markdown_to_html(MARKDOWN[:end]))


def test_markdown_is_rendered_correctly() -> None:
    made = markdown_to_html(
        "# Top\n\n**a *b*** ~~c~~ `d<` [e](https://x.y/?a=1&b=2)\n\n> f\n\n```py\nif a < b: pass\n```"
    )
    assert made == (
        "<b>Top</b>\n\n<b>a </b><b><i>b</i></b> <s>c</s> <code>d&lt;</code> "
        '<a href="https://x.y/?a=1&amp;b=2">e</a>\n\n<blockquote>f</blockquote>\n\n'
        '<pre><code class="language-py">if a &lt; b: pass</code></pre>'
    )


def test_links_lead_to_the_web_and_nothing_is_fetched_by_itself() -> None:
    made = markdown_to_html(
        "[a](javascript:alert) [b](tg://user?id=1) ![c](https://evil.example/pixel)\n\n[1]: https://s.example"
    )
    assert "javascript:alert" in html_to_plain_text(made)
    assert made.count("<a ") == 1
    assert "<img" not in made
    assert "https://s.example" in made, "a list of sources is not swallowed"


def test_a_piece_full_of_emoji_is_not_longer_than_telegram_counts() -> None:
    pieces = split_message("👩‍👩‍👧‍👦" * 3000, markdown_to_html, 4096)
    assert all(utf16_length(html_to_plain_text(markdown_to_html(piece))) <= 4096 for piece in pieces)
    assert "".join(html_to_plain_text(markdown_to_html(piece)) for piece in pieces) == "👩‍👩‍👧‍👦" * 3000
