"""Converts HTML to Markdown: headings, lists, links, tables and code, without anything that a browser does not show.

It has its own scanner because pages may be hostile: the standard library's parser reads the same text again and again
if tags are left open. This one reads each character a bounded number of times.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from urllib.parse import urljoin

import msgspec

DEPTH_MAX = 256
ATTRIBUTES_MAX = 64
LINK_CHARS_MAX = 1000
TITLE_CHARS_MAX = 300
CELLS_MAX = 200

_MARKUP_START = re.compile(r"<(?=[a-zA-Z/!?])")  # any other `<` is text
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9:-]{0,39})")
_ATTRIBUTE = re.compile(r"""[\s/]*([^\s/>=]{1,80})[^\s/>=]*(?:\s*=\s*("[^"]*"|'[^']*'|[^\s>]*))?""")
_UNSAFE_IN_LINK = re.compile(r"[()<>]")  # would end a Markdown link, or begin other markup
_SPACE = re.compile(r"[ \t\r\n\f]+")
_MANY_LINES = re.compile(r"\n{3,}")
_TRAILING = re.compile(r"[ \t]+(?=\n)")


def _name_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VOID = _name_set("area base br col embed hr img input link meta param source track wbr")
_RAW = _name_set("script style xmp iframe noembed noframes textarea title")
_HIDDEN_TAGS = _name_set("script style template iframe noembed noframes svg math canvas object select dialog")
_BLOCKS = _name_set(
    "address article aside blockquote details div dl dd dt fieldset figcaption figure footer form header main nav "
    "ol p pre section summary table ul caption h1 h2 h3 h4 h5 h6"
)
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_IMPLICITLY_CLOSED = {  # the tags that an opening tag closes, if one of them is the innermost open tag
    **dict.fromkeys(_BLOCKS, frozenset({"p"})),
    "li": frozenset({"li", "p"}),
    "dt": frozenset({"dt", "dd", "p"}),
    "dd": frozenset({"dt", "dd", "p"}),
    "tr": frozenset({"tr", "td", "th", "p"}),
    "td": frozenset({"td", "th", "p"}),
    "th": frozenset({"td", "th", "p"}),
    "option": frozenset({"option"}),
}
_HIDING_STYLE = re.compile(
    r"display:none|visibility:(?:hidden|collapse)|opacity:0*(?:\.0+)?(?:;|!|$)|font-size:0*(?:\.0+)?(?:px|em|rem|pt|%)?(?:;|!|$)|"
    r"(?:left|top|right|text-indent|margin-left):-[0-9]{3,}|(?:max-)?(?:width|height):0*(?:px|em|%)?(?:;|!|$)|"
    r"clip:rect\(0|clip-path:inset\((?:50|100)%|transform:scale\(0|content-visibility:hidden"
)
_CSS_NOISE = re.compile(r"/\*.*?\*/|\s+|\\0*([0-9a-f]{1,6})", re.DOTALL)


class HtmlPage(msgspec.Struct, frozen=True):
    """Title and Markdown text of a page."""

    title: str
    text: str


def convert_html(source: str, base: str = "", chars_max: int = 2_000_000) -> HtmlPage:
    """Convert a page to Markdown. Never raises. At most `chars_max` characters of the source are read."""
    writer = _MarkdownWriter(base)
    source = source[:chars_max].replace("\x00", "")
    at, end = 0, len(source)
    while at < end:
        mark = _MARKUP_START.search(source, at)
        if mark is None:
            writer.add_text(source[at:])
            break
        if mark.start() > at:
            writer.add_text(source[at : mark.start()])
        at = _read_markup(source, mark.start(), writer)
    return writer.build_page()


def _read_markup(source: str, at: int, writer: _MarkdownWriter) -> int:
    """Process the markup that begins with the `<` at this index; return the index after it."""
    if source.startswith("<!--", at):
        return _find_after(source, "-->", at + 2 if source.startswith("<!-->", at) else at + 4)
    tag = _TAG.match(source, at)
    if tag is None:
        return _find_after(source, ">", at + 2)
    name = tag[2].lower()
    if tag[1]:
        writer.close(name)
        return _find_after(source, ">", tag.end())
    attributes, at = _parse_attributes(source, tag.end())
    writer.open(name, attributes)
    if name not in _RAW:
        return at
    stop = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(source, at)
    inner = source[at : stop.start()] if stop else source[at:]
    if name == "title":
        writer.set_title(inner)
    elif name in ("textarea", "xmp"):
        writer.add_text(inner)
    writer.close(name)
    return _find_after(source, ">", stop.end()) if stop else len(source)


def _find_after(source: str, mark: str, at: int) -> int:
    """Return the index after the mark, or the end of the source if the mark does not occur."""
    index = source.find(mark, at)
    return len(source) if index < 0 else index + len(mark)


def _parse_attributes(source: str, at: int) -> tuple[dict[str, str], int]:
    """Return a tag's attributes (the first of each name) and the index after the tag."""
    attributes: dict[str, str] = {}
    for _ in range(ATTRIBUTES_MAX):
        match = _ATTRIBUTE.match(source, at)
        if match is None:
            break
        value = match[2] or ""
        quoted = value[:1] in ('"', "'") and len(value) > 1 and value[-1] == value[0]
        attributes.setdefault(match[1].lower(), value[1:-1] if quoted else value)
        at = match.end()
    return attributes, _find_after(source, ">", at)


def _is_hidden(name: str, attributes: dict[str, str]) -> bool:
    if name in _HIDDEN_TAGS or "hidden" in attributes or attributes.get("aria-hidden", "").strip().lower() == "true":
        return True
    style = attributes.get("style")
    if not style:
        return False
    plain = _CSS_NOISE.sub(_decode_css_escape, html.unescape(style[:2000]).lower())
    return _HIDING_STYLE.search(plain) is not None


def _decode_css_escape(match: re.Match[str]) -> str:
    code = int(match[1], 16) if match[1] else 0
    return chr(code).lower() if 32 < code < 127 else ""


class _MarkdownWriter:
    """Collects the Markdown of a page. `_pieces` are joined once, at the end."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._title = ""
        self._pieces: list[str] = []
        self._open: list[tuple[str, bool]] = []  # open tags, and whether each hides its content
        self._open_counts: Counter[str] = Counter()  # number of open tags, by name
        self._hidden_depth = 0
        self._lists: list[int] = []  # next number of each open list; 0: not numbered
        self._quote_depth = 0
        self._pre_depth = 0
        self._cells = 0
        self._link: tuple[int, str] | None = None  # open link: index of its first piece, and its href
        self._at_line_start = True  # the current line is empty
        self._after_marker = False  # the line has only the marker of a list item or heading; its text must follow

    def build_page(self) -> HtmlPage:
        while self._open:
            self.close(self._open[-1][0])
        self._end_link()
        text = _MANY_LINES.sub("\n\n", _TRAILING.sub("", "".join(self._pieces))).strip("\n ")
        return HtmlPage(self._title, text)

    def set_title(self, text: str) -> None:
        if not self._title:
            self._title = _SPACE.sub(" ", html.unescape(text[: TITLE_CHARS_MAX * 4])).strip()[:TITLE_CHARS_MAX]

    # --- tags ------------------------------------------------------------------------------------

    def open(self, name: str, attributes: dict[str, str]) -> None:
        ends = _IMPLICITLY_CLOSED.get(name, frozenset())
        while self._open and self._open[-1][0] in ends:
            self.close(self._open[-1][0])
        if name == "base" and attributes.get("href"):
            self._base = _resolve_link(self._base, attributes["href"]) or self._base
        hidden = _is_hidden(name, attributes)
        if name not in _VOID and len(self._open) < DEPTH_MAX:
            self._open.append((name, hidden))
            self._open_counts[name] += 1
            self._hidden_depth += hidden
        if not self._hidden_depth and not hidden:
            self._begin(name, attributes)

    def close(self, name: str) -> None:
        """Close the tag and all tags left open inside it. A closing tag without an opening tag is ignored."""
        inner = ""
        while self._open_counts[name] and inner != name:
            inner, hidden = self._open.pop()
            self._open_counts[inner] -= 1
            if not self._hidden_depth:
                self._finish(inner)
            self._hidden_depth -= hidden

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        match name:
            case "br":
                self._end_line()
            case "hr":
                self._end_line(2)
                self._append("---")
                self._end_line(2)
            case "a":
                self._end_link()
                self._link = (len(self._pieces), attributes.get("href", ""))
            case "img":
                if alt := _SPACE.sub(" ", html.unescape(attributes.get("alt", ""))).strip():
                    self._append(f"(image: {alt[:300]})")
            case "ul" | "ol":
                self._end_line(1 if self._lists else 2)
                self._lists = [*self._lists, int(name == "ol")][:DEPTH_MAX]
            case "li":
                self._begin_item()
            case "tr":
                self._end_line()
                self._cells = 0
            case "td" | "th":
                self._cells += 1
                if 1 < self._cells <= CELLS_MAX:
                    self._append(" | ")
            case "pre":
                self._end_line(2)
                self._append("```")
                self._end_line()
                self._pre_depth += 1
            case "code" if not self._pre_depth:
                self._append("`")
            case "blockquote":
                self._end_line(2)
                self._quote_depth += 1
            case _ if name in _HEADINGS:
                self._end_line(2)
                self._append_marker(f"{_HEADINGS[name]} ")
            case _ if name in _BLOCKS:
                self._end_line(1 if self._lists or self._cells else 2)

    def _finish(self, name: str) -> None:
        match name:
            case "a":
                self._end_link()
            case "ul" | "ol":
                self._lists = self._lists[:-1]
                self._end_line(1 if self._lists else 2)
            case "li":
                self._after_marker = False
                self._end_line()
            case "tr":
                self._end_line()
                self._cells = 0
            case "pre":
                self._pre_depth = max(0, self._pre_depth - 1)
                self._end_line()
                self._append("```")
                self._end_line(2)
            case "code" if not self._pre_depth:
                self._append("`")
            case "blockquote":
                self._quote_depth = max(0, self._quote_depth - 1)
                self._end_line(2)
            case _ if name in _BLOCKS:
                self._after_marker = self._after_marker and name not in _HEADINGS
                self._end_line(1 if self._lists or self._cells else 2)

    def _begin_item(self) -> None:
        self._after_marker = False
        self._end_line()
        indent = "  " * min(max(len(self._lists) - 1, 0), 8)
        number = self._lists[-1] if self._lists else 0
        if number:
            self._lists[-1] += 1
        self._append_marker(f"{indent}{number}. " if number else f"{indent}- ")

    def _end_link(self) -> None:
        if self._link is None:
            return
        (start, href), self._link = self._link, None
        text = "".join(self._pieces[start:])
        url = _resolve_link(self._base, href)
        if not url or not text.strip():
            return
        if "\n" in text.strip():  # a link around whole blocks
            self._append(f"({url})" if self._at_line_start else f" ({url})")
            return
        lead = text[: len(text) - len(text.lstrip())]
        tail = text[len(text.rstrip()) :]
        self._pieces[start:] = [f"{lead}[{text.strip()}]({url}){tail}"]

    # --- text ------------------------------------------------------------------------------------

    def add_text(self, raw: str) -> None:
        if self._hidden_depth:
            return
        text = html.unescape(raw) if "&" in raw else raw
        if self._pre_depth:
            lines = text.replace("\r\n", "\n").split("\n")
            for index, line in enumerate(lines):
                if index:
                    self._pieces.append("\n")
                    self._at_line_start = True
                if line:
                    self._append(line)
            return
        text = _SPACE.sub(" ", text)
        if self._at_line_start:
            text = text.lstrip(" ")
        if text:
            self._append(text)

    def _append(self, text: str) -> None:
        if self._at_line_start and self._quote_depth and not self._after_marker:
            self._pieces.append("> " * min(self._quote_depth, 8))
        self._pieces.append(text)
        self._at_line_start = self._after_marker = False

    def _append_marker(self, text: str) -> None:
        self._append(text)
        self._at_line_start = self._after_marker = True

    def _end_line(self, count: int = 1) -> None:
        """End the current line; with a count of two, an empty line follows it."""
        if self._pieces and not self._after_marker:
            ending = self._pieces[-1][-2:]
            newlines = len(ending) - len(ending.rstrip("\n"))
            if newlines == 1 and len(self._pieces) > 1 and self._pieces[-1] == "\n":
                newlines += self._pieces[-2].endswith("\n")
            self._pieces.append("\n" * max(0, count - newlines))
            if not self._pieces[-1]:
                self._pieces.pop()
        self._at_line_start = True


def _percent_encode(match: re.Match[str]) -> str:
    return f"%{ord(match[0]):02X}"


def _resolve_link(base: str, href: str) -> str:
    """Return the absolute URL of a link, or "": fragments of the page itself are useless outside of it."""
    href = html.unescape(href[: LINK_CHARS_MAX * 2]).strip()
    if not href or href.startswith("#"):
        return ""
    try:
        url = urljoin(base, _SPACE.sub("%20", href))
    except ValueError:
        return ""
    plain = url.lower().startswith(("http://", "https://", "mailto:"))
    return _UNSAFE_IN_LINK.sub(_percent_encode, url) if plain and len(url) <= LINK_CHARS_MAX else ""
