"""Markdown laid out as lines of styled text, for platforms that know a few styles and no document."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from mainstay.core.errors import ConfigError

Style = Literal["bold", "italic", "strike", "code", "pre", "quote"]

_LINKS = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_STYLES: dict[str, Style] = {"strong": "bold", "em": "italic", "s": "strike"}
_NESTING_MAX = 100  # what lies deeper is left out by the parser; nobody means it
_UNSAYABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffc]")  # the last is where something else was
_CELL_CHARS_MAX = 60  # a column is not laid out any wider


class Span(msgspec.Struct, frozen=True):
    """A piece of text that looks the same throughout. Whatever lies between two pieces is a piece too."""

    text: str
    styles: frozenset[Style] = frozenset()
    href: str = ""
    language: str = ""  # of code


def lay_out(markdown: str) -> list[Span]:
    """All of its words, in order. What cannot be shown as it is meant (tables, headings) is shown as well as can be."""
    layout = _Layout()
    for token in _parser().parse(markdown):
        layout.take(token)
    return layout.spans or ([Span(markdown)] if markdown.strip() else [])


class _Layout:
    """Goes through a document's tokens and writes down what it comes by."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self._gap = 0  # line breaks before whatever comes next
        self._lists: list[int | None] = []  # the next number of each list that we are in; None: it has bullets
        self._mark = ""  # before the first words of an item
        self._quotes = 0
        self._heading = False
        self._row: list[str] | None = None
        self._rows: list[list[str]] = []

    def take(self, token: Any) -> None:
        kind = str(token.type)
        match kind:
            case "inline" if self._row is not None:
                self._row.append("".join(span.text for span in _inline(token.children or (), frozenset())))
            case "inline":
                base: set[Style] = {"bold"} if self._heading else set()
                for span in _inline(token.children or (), frozenset(base)):
                    self._write(span)
            case "fence" | "code_block":
                self._break(1 if self._lists else 2)
                language = re.match(r"[\w+#.-]{1,30}", str(token.info or "").strip())
                code = str(token.content).removesuffix("\n")
                self._write(Span(code, frozenset(("pre",)), language=language[0] if language else ""))
                self._break(1 if self._lists else 2)
            case "hr":
                self._break(2)
                self._write(Span("———"))
                self._break(2)
            case _:
                self._enter_or_leave(kind, token)

    def _enter_or_leave(self, kind: str, token: Any) -> None:
        match kind:
            case "paragraph_open" | "paragraph_close":
                self._break(1 if self._lists else 2)
            case "heading_open" | "heading_close":
                self._break(2)
                self._heading = kind == "heading_open"
            case "bullet_list_open" | "ordered_list_open":
                self._break(1 if self._lists else 2)
                self._lists.append(int(token.attrGet("start") or 1) if kind.startswith("ordered") else None)
            case "bullet_list_close" | "ordered_list_close":
                self._lists.pop()
                self._break(1 if self._lists else 2)
            case "list_item_open":
                self._break(1)
                number = self._lists[-1]
                self._mark = "  " * (len(self._lists) - 1) + ("• " if number is None else f"{number}. ")
                self._lists[-1] = None if number is None else number + 1
            case "blockquote_open" | "blockquote_close":
                self._break(2)
                self._quotes += 1 if kind == "blockquote_open" else -1
            case "tr_open":
                self._row = []
            case "tr_close":
                self._rows.append(self._row or [])
                self._row = None
            case "table_close":
                self._break(2)
                self._write(Span(_table(self._rows), frozenset(("pre",))))
                self._break(2)
                self._rows = []

    def _break(self, lines: int) -> None:
        self._gap = max(self._gap, lines)

    def _write(self, span: Span) -> None:
        if not span.text:
            return
        quoted: frozenset[Style] = frozenset(("quote",)) if self._quotes else frozenset()
        if self.spans and self._gap:
            self.spans.append(Span("\n" * self._gap, quoted & self.spans[-1].styles))
        self._gap = 0
        if self._mark:
            self.spans.append(Span(self._mark, quoted))
            self._mark = ""
        self.spans.append(msgspec.structs.replace(span, styles=span.styles | quoted))


def _inline(tokens: Iterable[Any], base: frozenset[Style]) -> list[Span]:
    spans: list[Span] = []
    open_styles: list[Style] = []
    href = ""
    for token in tokens:
        kind = str(token.type)
        name, _, edge = kind.rpartition("_")
        styles = base.union(open_styles)
        if name in _STYLES and edge == "open":
            open_styles.append(_STYLES[name])
        elif name in _STYLES and edge == "close":
            open_styles.pop()
        elif kind == "link_open":
            href = str(token.attrGet("href") or "")
        elif kind == "link_close":
            href = ""
        elif kind in ("softbreak", "hardbreak"):
            spans.append(Span("\n", styles, href))
        elif kind == "code_inline":
            spans.append(Span(str(token.content), styles | {"code"}, href))
        elif token.content:
            spans.append(Span(str(token.content), styles, href))
    return spans


def _table(rows: list[list[str]]) -> str:
    """In columns, the first row set off."""
    columns = max((len(row) for row in rows), default=0)
    widths = [
        min(max((len(row[at]) for row in rows if at < len(row)), default=0), _CELL_CHARS_MAX) for at in range(columns)
    ]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip() for row in rows]
    return "\n".join((*lines[:1], "-+-".join("-" * width for width in widths), *lines[1:]))


@functools.cache
def _parser() -> Any:
    try:
        from markdown_it import MarkdownIt
    except ImportError:
        raise ConfigError("This channel needs markdown-it-py: pip install -e '.[telegram]', or '.[signal]'") from None
    made = MarkdownIt("commonmark", {"html": False, "maxNesting": _NESTING_MAX}).enable(["table", "strikethrough"])
    # An image that is fetched tells its owner who looks; a list of sources at the end is to be seen, not to be used up.
    made.disable(["image", "reference"])
    made.validateLink = lambda url: _LINKS.match(url) is not None  # type: ignore[method-assign]
    return made


# --- text as platforms take it -------------------------------------------------------------------


def clean(text: str) -> str:
    """What can be sent: no halves of characters, no control characters."""
    return _UNSAYABLE.sub("", whole(text.replace("\r\n", "\n")))


def whole(text: str) -> str:
    """Halves of characters are joined, or replaced."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def units(text: str) -> int:
    """As those count who count in UTF-16."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
