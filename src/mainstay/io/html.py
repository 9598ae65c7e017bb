"""Web pages as text that can be read: headings, lists, links, tables and code in Markdown, and nothing that a person
looking at the page would not see.

It has its own scanner because a page may be made to be slow: the standard library's goes over the same text again and
again where tags are left open. This one goes over each character a bounded number of times, whatever the page holds.
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

_MARK = re.compile(r"<(?=[a-zA-Z/!?])")  # any other one is text
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9:-]{0,39})")
_ATTRIBUTE = re.compile(r"""[\s/]*([^\s/>=]{1,80})[^\s/>=]*(?:\s*=\s*("[^"]*"|'[^']*'|[^\s>]*))?""")
_UNSAFE = re.compile(r"[()<>]")  # what would end a link, or begin something else
_SPACE = re.compile(r"[ \t\r\n\f]+")
_MANY_LINES = re.compile(r"\n{3,}")
_TRAILING = re.compile(r"[ \t]+(?=\n)")


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VOID = _names("area base br col embed hr img input link meta param source track wbr")
_RAW = _names("script style xmp iframe noembed noframes textarea title")
_UNSEEN = _names("script style template iframe noembed noframes svg math canvas object select dialog")
_BLOCKS = _names(
    "address article aside blockquote details div dl dd dt fieldset figcaption figure footer form header main nav "
    "ol p pre section summary table ul caption h1 h2 h3 h4 h5 h6"
)
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_ENDS = {  # what an opening tag closes, if it is what was opened last
    **dict.fromkeys(_BLOCKS, frozenset({"p"})),
    "li": frozenset({"li", "p"}),
    "dt": frozenset({"dt", "dd", "p"}),
    "dd": frozenset({"dt", "dd", "p"}),
    "tr": frozenset({"tr", "td", "th", "p"}),
    "td": frozenset({"td", "th", "p"}),
    "th": frozenset({"td", "th", "p"}),
    "option": frozenset({"option"}),
}
_HIDING = re.compile(
    r"display:none|visibility:(?:hidden|collapse)|opacity:0*(?:\.0+)?(?:;|!|$)|font-size:0*(?:\.0+)?(?:px|em|rem|pt|%)?(?:;|!|$)|"
    r"(?:left|top|right|text-indent|margin-left):-[0-9]{3,}|(?:max-)?(?:width|height):0*(?:px|em|%)?(?:;|!|$)|"
    r"clip:rect\(0|clip-path:inset\((?:50|100)%|transform:scale\(0|content-visibility:hidden"
)
_CSS_NOISE = re.compile(r"/\*.*?\*/|\s+|\\0*([0-9a-f]{1,6})", re.DOTALL)


class Page(msgspec.Struct, frozen=True):
    """What a page says."""

    title: str
    text: str


def readable(source: str, base: str = "", chars_max: int = 2_000_000) -> Page:
    """Never raises. At most `chars_max` characters of the source are looked at."""
    writer = _Writer(base)
    source = source[:chars_max].replace("\x00", "")
    at, end = 0, len(source)
    while at < end:
        mark = _MARK.search(source, at)
        if mark is None:
            writer.text(source[at:])
            break
        if mark.start() > at:
            writer.text(source[at : mark.start()])
        at = _markup(source, mark.start(), writer)
    return writer.page()


def _markup(source: str, at: int, writer: _Writer) -> int:
    """Deals with what begins with the `<` here, and says where it ends."""
    if source.startswith("<!--", at):
        return _after(source, "-->", at + 2 if source.startswith("<!-->", at) else at + 4)
    found = _TAG.match(source, at)
    if found is None:
        return _after(source, ">", at + 2)
    name = found[2].lower()
    if found[1]:
        writer.close(name)
        return _after(source, ">", found.end())
    attributes, at = _attributes(source, found.end())
    writer.open(name, attributes)
    if name not in _RAW:
        return at
    stop = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(source, at)
    inner = source[at : stop.start()] if stop else source[at:]
    if name == "title":
        writer.entitle(inner)
    elif name in ("textarea", "xmp"):
        writer.text(inner)
    writer.close(name)
    return _after(source, ">", stop.end()) if stop else len(source)


def _after(source: str, mark: str, at: int) -> int:
    """Just behind the mark; a thing that nobody closed goes on to the end."""
    found = source.find(mark, at)
    return len(source) if found < 0 else found + len(mark)


def _attributes(source: str, at: int) -> tuple[dict[str, str], int]:
    """Those of a tag, the first of each name, and where the tag ends."""
    found: dict[str, str] = {}
    for _ in range(ATTRIBUTES_MAX):
        one = _ATTRIBUTE.match(source, at)
        if one is None:
            break
        value = one[2] or ""
        quoted = value[:1] in ('"', "'") and len(value) > 1 and value[-1] == value[0]
        found.setdefault(one[1].lower(), value[1:-1] if quoted else value)
        at = one.end()
    return found, _after(source, ">", at)


def _is_hidden(name: str, attributes: dict[str, str]) -> bool:
    if name in _UNSEEN or "hidden" in attributes or attributes.get("aria-hidden", "").strip().lower() == "true":
        return True
    style = attributes.get("style")
    if not style:
        return False
    plain = _CSS_NOISE.sub(_css_character, html.unescape(style[:2000]).lower())
    return _HIDING.search(plain) is not None


def _css_character(found: re.Match[str]) -> str:
    code = int(found[1], 16) if found[1] else 0
    return chr(code).lower() if 32 < code < 127 else ""


class _Writer:
    """What was said so far. `_pieces` are joined once, at the end."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._title = ""
        self._pieces: list[str] = []
        self._open: list[tuple[str, bool]] = []  # what is open, and whether it is hidden
        self._names: Counter[str] = Counter()  # of those
        self._hidden = 0
        self._lists: list[int] = []  # the next number of each list that is open; 0: it has none
        self._quotes = 0
        self._pre = 0
        self._cells = 0
        self._link: tuple[int, str] | None = None  # where its text began, and where it leads
        self._fresh = True  # nothing is on this line yet
        self._marked = False  # but the mark of a list item or heading, which its text must follow

    def page(self) -> Page:
        while self._open:
            self.close(self._open[-1][0])
        self._end_link()
        text = _MANY_LINES.sub("\n\n", _TRAILING.sub("", "".join(self._pieces))).strip("\n ")
        return Page(self._title, text)

    def entitle(self, text: str) -> None:
        if not self._title:
            self._title = _SPACE.sub(" ", html.unescape(text[: TITLE_CHARS_MAX * 4])).strip()[:TITLE_CHARS_MAX]

    # --- tags ------------------------------------------------------------------------------------

    def open(self, name: str, attributes: dict[str, str]) -> None:
        ends = _ENDS.get(name, frozenset())
        while self._open and self._open[-1][0] in ends:
            self.close(self._open[-1][0])
        if name == "base" and attributes.get("href"):
            self._base = _joined(self._base, attributes["href"]) or self._base
        hidden = _is_hidden(name, attributes)
        if name not in _VOID and len(self._open) < DEPTH_MAX:
            self._open.append((name, hidden))
            self._names[name] += 1
            self._hidden += hidden
        if not self._hidden and not hidden:
            self._begin(name, attributes)

    def close(self, name: str) -> None:
        """Closes it and whatever was left open inside; a tag that closes nothing is nothing."""
        inner = ""
        while self._names[name] and inner != name:
            inner, hidden = self._open.pop()
            self._names[inner] -= 1
            if not self._hidden:
                self._finish(inner)
            self._hidden -= hidden

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        match name:
            case "br":
                self._line()
            case "hr":
                self._line(2)
                self._put("---")
                self._line(2)
            case "a":
                self._end_link()
                self._link = (len(self._pieces), attributes.get("href", ""))
            case "img":
                if alt := _SPACE.sub(" ", html.unescape(attributes.get("alt", ""))).strip():
                    self._put(f"(image: {alt[:300]})")
            case "ul" | "ol":
                self._line(1 if self._lists else 2)
                self._lists = [*self._lists, int(name == "ol")][:DEPTH_MAX]
            case "li":
                self._item()
            case "tr":
                self._line()
                self._cells = 0
            case "td" | "th":
                self._cells += 1
                if 1 < self._cells <= CELLS_MAX:
                    self._put(" | ")
            case "pre":
                self._line(2)
                self._put("```")
                self._line()
                self._pre += 1
            case "code" if not self._pre:
                self._put("`")
            case "blockquote":
                self._line(2)
                self._quotes += 1
            case _ if name in _HEADINGS:
                self._line(2)
                self._mark(f"{_HEADINGS[name]} ")
            case _ if name in _BLOCKS:
                self._line(1 if self._lists or self._cells else 2)

    def _finish(self, name: str) -> None:
        match name:
            case "a":
                self._end_link()
            case "ul" | "ol":
                self._lists = self._lists[:-1]
                self._line(1 if self._lists else 2)
            case "li":
                self._marked = False
                self._line()
            case "tr":
                self._line()
                self._cells = 0
            case "pre":
                self._pre = max(0, self._pre - 1)
                self._line()
                self._put("```")
                self._line(2)
            case "code" if not self._pre:
                self._put("`")
            case "blockquote":
                self._quotes = max(0, self._quotes - 1)
                self._line(2)
            case _ if name in _BLOCKS:
                self._marked = self._marked and name not in _HEADINGS
                self._line(1 if self._lists or self._cells else 2)

    def _item(self) -> None:
        self._marked = False
        self._line()
        indent = "  " * min(max(len(self._lists) - 1, 0), 8)
        number = self._lists[-1] if self._lists else 0
        if number:
            self._lists[-1] += 1
        self._mark(f"{indent}{number}. " if number else f"{indent}- ")

    def _end_link(self) -> None:
        if self._link is None:
            return
        (start, href), self._link = self._link, None
        said = "".join(self._pieces[start:])
        url = _joined(self._base, href)
        if not url or not said.strip():
            return
        if "\n" in said.strip():  # a link around whole blocks
            self._put(f"({url})" if self._fresh else f" ({url})")
            return
        lead = said[: len(said) - len(said.lstrip())]
        tail = said[len(said.rstrip()) :]
        self._pieces[start:] = [f"{lead}[{said.strip()}]({url}){tail}"]

    # --- text ------------------------------------------------------------------------------------

    def text(self, raw: str) -> None:
        if self._hidden:
            return
        said = html.unescape(raw) if "&" in raw else raw
        if self._pre:
            lines = said.replace("\r\n", "\n").split("\n")
            for index, line in enumerate(lines):
                if index:
                    self._pieces.append("\n")
                    self._fresh = True
                if line:
                    self._put(line)
            return
        said = _SPACE.sub(" ", said)
        if self._fresh:
            said = said.lstrip(" ")
        if said:
            self._put(said)

    def _put(self, said: str) -> None:
        if self._fresh and self._quotes and not self._marked:
            self._pieces.append("> " * min(self._quotes, 8))
        self._pieces.append(said)
        self._fresh = self._marked = False

    def _mark(self, said: str) -> None:
        self._put(said)
        self._fresh = self._marked = True

    def _line(self, count: int = 1) -> None:
        """Ends this line; with two, so that an empty one comes after it."""
        if self._pieces and not self._marked:
            ending = self._pieces[-1][-2:]
            have = len(ending) - len(ending.rstrip("\n"))
            if have == 1 and len(self._pieces) > 1 and self._pieces[-1] == "\n":
                have += self._pieces[-2].endswith("\n")
            self._pieces.append("\n" * max(0, count - have))
            if not self._pieces[-1]:
                self._pieces.pop()
        self._fresh = True


def _quoted(found: re.Match[str]) -> str:
    return f"%{ord(found[0]):02X}"


def _joined(base: str, href: str) -> str:
    """A web address, or nothing: a place inside the page leads nowhere for whoever reads it here."""
    href = html.unescape(href[: LINK_CHARS_MAX * 2]).strip()
    if not href or href.startswith("#"):
        return ""
    try:
        url = urljoin(base, _SPACE.sub("%20", href))
    except ValueError:
        return ""
    plain = url.lower().startswith(("http://", "https://", "mailto:"))
    return _UNSAFE.sub(_quoted, url) if plain and len(url) <= LINK_CHARS_MAX else ""
