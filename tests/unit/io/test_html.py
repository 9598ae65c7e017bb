"""Web pages as text: what a person would see is there, what they would not see is not, and no page takes long."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.io.html import convert_html

BASE = "https://example.org/d/page"

SHOWN = {
    "headings": ("<h1>One</h1><h3><div>Three</div></h3>", "# One\n\n### Three"),
    "paragraphs": ("<p>a<p>b</p>c", "a\n\nb\n\nc"),
    "spaces": ("a  \n\t b<br>c", "a b\nc"),
    "entities": ("&lt;b&gt; &amp;amp; &eacute; &#x41;&#65; &nosuch;", "<b> &amp; \u00e9 AA &nosuch;"),
    "links": ('<a href="/x?a=1&amp;b=2">x</a>', "[x](https://example.org/x?a=1&b=2)"),
    "a relative link": ("<a href=y>y z</a>", "[y z](https://example.org/d/y)"),
    "another base": ('<base href="https://o.org/"><a href=y>y</a>', "[y](https://o.org/y)"),
    "a link with brackets": ("<a href='/a(b)'>x</a>", "[x](https://example.org/a%28b%29)"),
    "a link inside the page": ("<a href='#x'>x</a>", "x"),
    "a link that does something": ("<a href='javascript:x()'>x</a> <a href='data:,y'>y</a>", "x y"),
    "a link around blocks": ("<a href=/c><h2>Card</h2><p>text</p></a>", "## Card\n\ntext\n\n(https://example.org/c)"),
    "a link without text": ("a<a href=/c><img src=x></a>b", "ab"),
    "lists": ("<ul><li>a<li>b<ul><li>c</ul></ul><ol><li>d<li>e</ol>", "- a\n- b\n  - c\n\n1. d\n2. e"),
    "paragraphs in lists": ("<ul><li><p>a</p></li><li><p>b</p></li></ul>", "- a\n- b"),
    "tables": ("<table><tr><th>k<th>v<tr><td>1<td>2</table>", "k | v\n1 | 2"),
    "code": ("<p>use <code>x = 1</code>", "use `x = 1`"),
    "preformatted": ("<pre>a\n  b &lt; c\n</pre>", "```\na\n  b < c\n```"),
    "quotes": ("<blockquote><p>a</p></blockquote>b", "> a\n\nb"),
    "pictures": ("<img alt='a cat' src=x><img src=y>", "(image: a cat)"),
    "a less-than": ("1 < 2 and 3 <4 <- x", "1 < 2 and 3 <4 <- x"),
    "without script": ("<noscript>turn it on</noscript>", "turn it on"),
    "an unknown tag": ("<x-y z>a</x-y>", "a"),
    "in capitals": ("<P>A</P><SCRIPT>b</SCRIPT>", "A"),
    "a head that nobody closed": ("<head><meta x><p>a", "a"),
    "a form": ("<form><label>Name</label> <input value=x><button>Go</button></form>", "Name Go"),
    "text in a box": ("<textarea><b>x</b></textarea>", "<b>x</b>"),
}


@pytest.mark.parametrize(("source", "text"), SHOWN.values(), ids=SHOWN.keys())
def test_visible_text_is_extracted(source: str, text: str) -> None:
    assert convert_html(source, BASE).text == text


HIDDEN = {
    "a script": "<script>NO</script>",
    "a script with a tag in it": "<script>'</p>' NO</script>",
    "a script that nobody closed": "</p><script>NO",
    "styles": "<style>NO</style>",
    "a comment": "<!-- NO -->",
    "a comment with a tag in it": "<!-- <b>NO</b> > NO -->",
    "an odd comment": "<! NO ><?NO?>",
    "a comment that nobody closed": "</p><!-- NO",
    "a template": "<template><p>NO</p></template>",
    "the hidden attribute": "<p hidden>NO",
    "hidden in capitals": "<P HIDDEN=''>NO</P>",
    "hidden for helpers": "<span aria-hidden='true'>NO</span>",
    "display none": "<span style='display:none'>NO</span>",
    "display none, spaced": "<span style=' DISPLAY : None ! important'>NO</span>",
    "display none, in entities": "<span style='display&#58;none'>NO</span>",
    "display none, in css escapes": r"<span style='d\69splay:none'>NO</span>",
    "display none, with a comment": "<span style='display/**/:none'>NO</span>",
    "invisible": "<span style='visibility:hidden'>NO</span>",
    "transparent": "<span style='opacity:0'>NO</span>",
    "tiny": "<span style='font-size:0px'>NO</span>",
    "of no height": "<div style='height:0;overflow:hidden'>NO</div>",
    "far away": "<div style='position:absolute;left:-9999px'>NO</div>",
    "clipped": "<div style='clip:rect(0,0,0,0)'>NO</div>",
    "inside something hidden": "<div hidden><p>NO</p><div>NO</div>NO</div>",
    "a vector graphic": "<svg><text>NO</text></svg>",
    "a frame": "<iframe>NO</iframe>",
    "attributes": "<p title='NO' data-x='NO'>",
    "choices": "<select><option>NO<option>NO</select>",
}


@pytest.mark.parametrize("source", HIDDEN.values(), ids=HIDDEN.keys())
def test_invisible_text_is_left_out(source: str) -> None:
    found = convert_html(f"<p>before</p>{source}<p>after</p>", BASE)
    assert "NO" not in found.text
    assert "before" in found.text
    assert ("after" in found.text) == ("nobody closed" not in _name(source))


def _name(source: str) -> str:
    return next(name for name, one in HIDDEN.items() if one == source)


def test_a_tag_that_closes_something_else_does_not_show_what_is_hidden() -> None:
    assert convert_html("<div hidden><b>NO</i></p>NO</div>yes").text == "yes"
    assert convert_html("<p hidden>NO<p>yes").text == "yes"


def test_the_title_is_one_line_and_the_first_one() -> None:
    page = convert_html("<title> A &amp;\n B </title><svg><title>C</title></svg><p>x")
    assert (page.title, page.text) == ("A & B", "x")


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "<a ",
            "<",
            "<!--",
            "<div>",
            "</b>",
            "<a x='\">",
            "<a x=\" y='",
            "&",
            "&amp;",
            "<script>",
            "</script ",
            "<a href=x>",
        ),
        *(
            "<a href=x>a</a>",
            "\n \n",
            "<li>",
            "<ul>",
            "<title>",
            "<blockquote>x",
            "<td>",
            "<a=",
            "<a/ ",
            "<p style='/*'>",
        ),
        *(
            "<!",
            "<?",
            "</",
            "<pre>\n",
            "<p hidden>",
            "<table><tr>",
            "<h1>",
            "\r",
            "<svg>",
            "<base href=x>",
            "<img alt=x>",
        ),
    ],
)
def test_a_page_made_to_be_slow_takes_no_longer_for_each_character(piece: str) -> None:
    def seconds(size: int) -> float:
        source = piece * (size // len(piece))
        before = time.process_time()
        convert_html(source, BASE)
        return time.process_time() - before

    assert seconds(400_000) < 2.5  # a way that goes over it again and again takes minutes


SCRAPS = [
    *("<", ">", "/", "!", "-", "'", '"', "=", " ", "a", "p", "<p>", "</p>", "<a href=", "&#", "\x00", "<td>", "\n"),
    *("<pre>", "</pre>", "<li>", "<ul>", "</ul>", "<script>", "</script>", "<!--", "-->"),
]


@given(st.lists(st.sampled_from(SCRAPS), max_size=40))
def test_no_page_is_too_odd_to_be_read(pieces: list[str]) -> None:
    page = convert_html("".join(pieces), BASE)
    assert "\x00" not in page.text
    assert "<script" not in page.text


def test_a_page_is_read_up_to_its_bound() -> None:
    assert len(convert_html("x" * 1000, BASE, chars_max=100).text) == 100
