"""Renders Markdown for a terminal, and finds which part of a streamed answer is finished."""

from __future__ import annotations

import io
import re
from functools import cache
from typing import ClassVar, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from rich.theme import Theme

from mainstay.guards.terminal_sanitizer import keep_only_colours
from mainstay.terminal.code_highlighter import CodeHighlighter, indent_code
from mainstay.terminal.glyphs import UNICODE_GLYPHS, GlyphSet

WIDTH_MAX = 100
WIDTH_MIN = 10
_STYLE_SEQUENCES = re.compile(r"\x1b\[[0-9;]*m")
_TRAILING_SPACE = re.compile(r"(?:\x1b\[[0-9;]*m|[ \t])+$", re.MULTILINE)


@cache
def _build_parser() -> MarkdownIt:
    """Return a parser that treats HTML tags as text, so that the terminal shows what the model wrote."""
    return MarkdownIt(options_update={"html": False}).enable("table").enable("strikethrough")


class CodeFence(NamedTuple):
    """The opening fence of a code block, which decides what closes it."""

    marker: str
    language: str
    indent: int

    def is_closed_by(self, line: str) -> bool:
        bare = line.strip(" \t")
        return (
            len(line) - len(line.lstrip(" ")) < 4 and len(bare) >= len(self.marker) and not bare.strip(self.marker[0])
        )

    def strip_indent(self, line: str) -> str:
        """Return a line of the block without the indentation of the fence itself."""
        spaces = len(line) - len(line.lstrip(" "))
        return line[min(spaces, self.indent) :]


class FinishedPrefix(NamedTuple):
    """The leading `chars` characters are finished blocks; the rest is one block that may still grow.

    `ends_in_list`: the rest continues the same list. `fence`: the rest is a code block, opened by this fence.
    """

    chars: int
    ends_in_list: bool = False
    fence: CodeFence | None = None


def find_finished_prefix(text: str) -> FinishedPrefix:
    """Return how much of the text is finished: all blocks, or items of a list, but the last."""
    tokens = _build_parser().parse(text)
    blocks = [token for token in tokens if token.level == 0 and token.map and token.nesting >= 0]
    if not blocks:
        return FinishedPrefix(0)
    last = blocks[-1]
    start = _start_line(last)
    lines = text.split("\n")
    if last.type == "fence" and len(lines) > start + 1:
        opening = lines[start]
        indent = len(opening) - len(opening.lstrip(" "))
        return FinishedPrefix(
            _line_offset(lines, start), False, CodeFence(last.markup, last.info.strip().partition(" ")[0], indent)
        )
    items = [
        token for token in tokens if token.level == 1 and token.type == "list_item_open" and _start_line(token) >= start
    ]
    if last.type in ("bullet_list_open", "ordered_list_open") and len(items) > 1:
        return FinishedPrefix(_line_offset(lines, _start_line(items[-1])), True)
    return FinishedPrefix(_line_offset(lines, start))


def _start_line(token: Token) -> int:
    return token.map[0] if token.map else 0


def _line_offset(lines: list[str], count: int) -> int:
    return sum(len(line) + 1 for line in lines[:count])


# --- rendering -----------------------------------------------------------------------------------


class _PlainHeading(Heading):
    """A heading that is left-aligned and bold, without a box."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        self.text.stylize(Style(bold=True, underline=self.tag in ("h1", "h2")))
        yield self.text


class _PlainCodeBlock(CodeBlock):
    """A code block in the terminal's own colours, on its own background."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield indent_code(CodeHighlighter(self.lexer_name).highlight_lines(str(self.text).rstrip().split("\n")))


class _SafeMarkdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _PlainHeading,
        "fence": _PlainCodeBlock,
        "code_block": _PlainCodeBlock,
    }

    def __init__(self, text: str) -> None:
        """Render without hyperlinks: a URL is shown, not hidden behind a label."""
        super().__init__(text, hyperlinks=False)
        self.parsed = _build_parser().parse(text)  # rich's own parser would drop HTML tags


class TrimmedMarkdown:
    """Rendered Markdown without leading and trailing blank lines."""

    def __init__(self, text: str) -> None:
        self._markdown = _SafeMarkdown(text)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._markdown, options, pad=False)
        while lines and not _has_text(lines[0]):
            del lines[0]
        while lines and not _has_text(lines[-1]):
            del lines[-1]
        for line in lines:
            yield from line
            yield Segment.line()


def _has_text(line: list[Segment]) -> bool:
    return any(segment.text.strip() for segment in line)


def render_markdown(text: str) -> RenderableType:
    return TrimmedMarkdown(text) if text.strip() else Text("")


class RichToAnsiRenderer:
    """Renders rich objects to text for a terminal, with colours as the only escape sequences."""

    def __init__(self, glyphs: GlyphSet = UNICODE_GLYPHS, *, has_colour: bool = True) -> None:
        self._glyphs = glyphs
        self._file = io.StringIO()
        self._console = Console(
            file=self._file,
            force_terminal=True,
            no_color=not has_colour,
            width=80,
            theme=Theme(
                {
                    "markdown.code": "cyan",
                    "markdown.item.bullet": "dim",
                    "markdown.item.number": "dim",
                    "markdown.block_quote": "italic",
                    "markdown.link_url": "underline",
                    "markdown.hr": "dim",
                    "markdown.table.border": "dim",
                    "markdown.table.header": "bold",
                }
            ),
            highlight=False,
            emoji=False,
            markup=False,
        )

    def render(self, renderable: RenderableType, columns: int) -> str:
        """Return lines that each end in a newline, none wider than the terminal."""
        self._console.width = max(min(columns - 1, WIDTH_MAX), WIDTH_MIN)
        self._file.seek(0)
        self._file.truncate()
        self._console.print(renderable)
        drawn = _TRAILING_SPACE.sub(_keep_styles, self._file.getvalue())
        return self._glyphs.replace_missing(keep_only_colours(drawn if drawn.endswith("\n") else f"{drawn}\n"))


def _keep_styles(match: re.Match[str]) -> str:
    return "".join(_STYLE_SEQUENCES.findall(match[0]))
