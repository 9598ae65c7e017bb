"""What we write is shown by Telegram, whatever is in it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from support.telegram_platform import parse

from mainstay.channels.layout import units
from mainstay.channels.telegram.markup import html_of, plain_of
from mainstay.core.chunks import chunks
from mainstay.testing.channel_suite import MARKDOWN

MARKS = st.text(alphabet=st.sampled_from("*_`~#>-+|[]()!<&\\ \n12ab.:/👍é\ud800\x00"), max_size=120)


@settings(max_examples=150, deadline=None)
@given(st.one_of(MARKS, st.text(st.characters(exclude_categories=()), max_size=80)))
def test_whatever_is_written_is_html_that_telegram_takes_and_never_longer_than_it_looks(text: str) -> None:
    made = html_of(text)
    assert parse(made) == plain_of(made)
    assert units(plain_of(made)) <= len(made)
    made.encode()


def test_half_an_answer_is_shown_as_well_as_a_whole_one() -> None:
    """As it is written, an answer ends anywhere."""
    for end in range(0, len(MARKDOWN), 3):
        parse(html_of(MARKDOWN[:end]))


def test_it_looks_as_it_was_meant() -> None:
    made = html_of("# Top\n\n**a *b*** ~~c~~ `d<` [e](https://x.y/?a=1&b=2)\n\n> f\n\n```py\nif a < b: pass\n```")
    assert made == (
        "<b>Top</b>\n\n<b>a </b><b><i>b</i></b> <s>c</s> <code>d&lt;</code> "
        '<a href="https://x.y/?a=1&amp;b=2">e</a>\n\n<blockquote>f</blockquote>\n\n'
        '<pre><code class="language-py">if a &lt; b: pass</code></pre>'
    )


def test_links_lead_to_the_web_and_nothing_is_fetched_by_itself() -> None:
    made = html_of(
        "[a](javascript:alert) [b](tg://user?id=1) ![c](https://evil.example/pixel)\n\n[1]: https://s.example"
    )
    assert "javascript:alert" in plain_of(made)
    assert made.count("<a ") == 1
    assert "<img" not in made
    assert "https://s.example" in made, "a list of sources is not swallowed"


def test_a_piece_full_of_emoji_is_not_longer_than_telegram_counts() -> None:
    pieces = chunks("👩‍👩‍👧‍👦" * 3000, html_of, 4096)
    assert all(units(plain_of(html_of(piece))) <= 4096 for piece in pieces)
    assert "".join(plain_of(html_of(piece)) for piece in pieces) == "👩‍👩‍👧‍👦" * 3000
