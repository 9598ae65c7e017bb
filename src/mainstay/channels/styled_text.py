"""Converts Markdown to styled text spans, for platforms with a few text styles and no document structure."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from mainstay.core.components import list_components
from mainstay.core.errors import ConfigError

TextStyle = Literal["bold", "italic", "strike", "code", "pre", "quote"]

_ALLOWED_LINKS = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_STYLE_OF_TOKEN: dict[str, TextStyle] = {"strong": "bold", "em": "italic", "s": "strike"}
_NESTING_MAX = 100  # the parser omits anything nested deeper
_CONTROL_CHARS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffc]")  # U+FFFC is the object replacement character
_CELL_CHARS_MAX = 60  # cells are padded to at most this width


class TextSpan(msgspec.Struct, frozen=True):
    """A piece of text with one style throughout. Separators between pieces are spans too."""

    text: str
    styles: frozenset[TextStyle] = frozenset()
    href: str = ""
    language: str = ""  # of a code block


def markdown_to_spans(markdown: str) -> list[TextSpan]:
    """Return the whole text in order. Tables become preformatted columns, headings become bold."""
    builder = _SpanBuilder()
    for token in _create_parser().parse(markdown):
        builder.add_token(token)
    return builder.spans or ([TextSpan(markdown)] if markdown.strip() else [])


class _SpanBuilder:
    """Builds spans from the tokens of a Markdown document."""

    def __init__(self) -> None:
        self.spans: list[TextSpan] = []
        self._pending_breaks = 0  # line breaks before the next span
        self._lists: list[int | None] = []  # next number of each open list, outermost first; None: a bullet list
        self._pending_marker = ""  # bullet or number to write before the next item's text
        self._quote_depth = 0
        self._is_heading = False
        self._row: list[str] | None = None
        self._rows: list[list[str]] = []

    def add_token(self, token: Any) -> None:
        kind = str(token.type)
        match kind:
            case "inline" if self._row is not None:
                self._row.append("".join(span.text for span in _inline_spans(token.children or (), frozenset())))
            case "inline":
                base: set[TextStyle] = {"bold"} if self._is_heading else set()
                for span in _inline_spans(token.children or (), frozenset(base)):
                    self._append_span(span)
            case "fence" | "code_block":
                self._request_breaks(1 if self._lists else 2)
                language = re.match(r"[\w+#.-]{1,30}", str(token.info or "").strip())
                code = str(token.content).removesuffix("\n")
                self._append_span(TextSpan(code, frozenset(("pre",)), language=language[0] if language else ""))
                self._request_breaks(1 if self._lists else 2)
            case "hr":
                self._request_breaks(2)
                self._append_span(TextSpan("———"))
                self._request_breaks(2)
            case _:
                self._open_or_close_block(kind, token)

    def _open_or_close_block(self, kind: str, token: Any) -> None:
        match kind:
            case "paragraph_open" | "paragraph_close":
                self._request_breaks(1 if self._lists else 2)
            case "heading_open" | "heading_close":
                self._request_breaks(2)
                self._is_heading = kind == "heading_open"
            case "bullet_list_open" | "ordered_list_open":
                self._request_breaks(1 if self._lists else 2)
                self._lists.append(int(token.attrGet("start") or 1) if kind.startswith("ordered") else None)
            case "bullet_list_close" | "ordered_list_close":
                self._lists.pop()
                self._request_breaks(1 if self._lists else 2)
            case "list_item_open":
                self._request_breaks(1)
                number = self._lists[-1]
                self._pending_marker = "  " * (len(self._lists) - 1) + ("• " if number is None else f"{number}. ")
                self._lists[-1] = None if number is None else number + 1
            case "blockquote_open" | "blockquote_close":
                self._request_breaks(2)
                self._quote_depth += 1 if kind == "blockquote_open" else -1
            case "tr_open":
                self._row = []
            case "tr_close":
                self._rows.append(self._row or [])
                self._row = None
            case "table_close":
                self._request_breaks(2)
                self._append_span(TextSpan(_format_table(self._rows), frozenset(("pre",))))
                self._request_breaks(2)
                self._rows = []

    def _request_breaks(self, lines: int) -> None:
        self._pending_breaks = max(self._pending_breaks, lines)

    def _append_span(self, span: TextSpan) -> None:
        if not span.text:
            return
        quoted: frozenset[TextStyle] = frozenset(("quote",)) if self._quote_depth else frozenset()
        if self.spans and self._pending_breaks:
            self.spans.append(TextSpan("\n" * self._pending_breaks, quoted & self.spans[-1].styles))
        self._pending_breaks = 0
        if self._pending_marker:
            self.spans.append(TextSpan(self._pending_marker, quoted))
            self._pending_marker = ""
        self.spans.append(msgspec.structs.replace(span, styles=span.styles | quoted))


def _inline_spans(tokens: Iterable[Any], base_styles: frozenset[TextStyle]) -> list[TextSpan]:
    spans: list[TextSpan] = []
    open_styles: list[TextStyle] = []
    href = ""
    for token in tokens:
        kind = str(token.type)
        name, _, edge = kind.rpartition("_")
        styles = base_styles.union(open_styles)
        if name in _STYLE_OF_TOKEN and edge == "open":
            open_styles.append(_STYLE_OF_TOKEN[name])
        elif name in _STYLE_OF_TOKEN and edge == "close":
            open_styles.pop()
        elif kind == "link_open":
            href = str(token.attrGet("href") or "")
        elif kind == "link_close":
            href = ""
        elif kind in ("softbreak", "hardbreak"):
            spans.append(TextSpan("\n", styles, href))
        elif kind == "code_inline":
            spans.append(TextSpan(str(token.content), styles | {"code"}, href))
        elif token.content:
            spans.append(TextSpan(str(token.content), styles, href))
    return spans


def _format_table(rows: list[list[str]]) -> str:
    """Return the rows as padded columns, with a rule below the first row."""
    columns = max((len(row) for row in rows), default=0)
    widths = [
        min(max((len(row[column]) for row in rows if column < len(row)), default=0), _CELL_CHARS_MAX)
        for column in range(columns)
    ]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip() for row in rows]
    return "\n".join((*lines[:1], "-+-".join("-" * width for width in widths), *lines[1:]))


@functools.cache
def _create_parser() -> Any:
    try:
        from markdown_it import MarkdownIt
    except ImportError:
        raise ConfigError(f"This channel needs markdown-it-py: {_list_install_commands()}") from None
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _NESTING_MAX}).enable(["table", "strikethrough"])
    # Fetching an image tells its server who reads the message. Link reference definitions (a list of sources at the
    # end) must stay visible instead of being consumed.
    parser.disable(["image", "reference"])
    parser.validateLink = lambda url: _ALLOWED_LINKS.match(url) is not None  # type: ignore[method-assign]
    return parser


def _list_install_commands() -> str:
    """Return the commands that install the parser: those of the channels that need it."""
    return ", or ".join(
        component.install
        for component in list_components("channel")
        if "markdown_it" in component.libraries and component.install
    )


# --- text that platforms accept ------------------------------------------------------------------


def strip_control_chars(text: str) -> str:
    """Return the text without control characters and unpaired surrogates."""
    return _CONTROL_CHARS.sub("", repair_surrogates(text.replace("\r\n", "\n")))


def repair_surrogates(text: str) -> str:
    """Join surrogate pairs, and replace unpaired surrogates."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def utf16_length(text: str) -> int:
    """Return the length in UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
