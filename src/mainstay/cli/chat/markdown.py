"""Markdown on a terminal: which part of a growing answer is settled, and how it looks."""

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

from mainstay.cli.chat.code import Code, padded
from mainstay.cli.chat.safe import colours_only
from mainstay.cli.chat.signs import ALL_SIGNS, Signs

WIDTH_MAX = 100
WIDTH_MIN = 10
_STYLES = re.compile(r"\x1b\[[0-9;]*m")
_TRAILING = re.compile(r"(?:\x1b\[[0-9;]*m|[ \t])+$", re.MULTILINE)


@cache
def _parser() -> MarkdownIt:
    """A tag is text like any other: whatever it stands for, a terminal shows what was said."""
    return MarkdownIt(options_update={"html": False}).enable("table").enable("strikethrough")


class Fence(NamedTuple):
    """How a block of code began, and so how it ends."""

    mark: str
    language: str
    indent: int

    def closes(self, line: str) -> bool:
        bare = line.strip(" \t")
        return len(line) - len(line.lstrip(" ")) < 4 and len(bare) >= len(self.mark) and not bare.strip(self.mark[0])

    def inner(self, line: str) -> str:
        """A line of it, without the indentation that the fence itself has."""
        spaces = len(line) - len(line.lstrip(" "))
        return line[min(spaces, self.indent) :]


class Settled(NamedTuple):
    """So many characters are finished blocks. What follows is the last of them, which may still grow: perhaps more of
    the same list, or code that has begun."""

    chars: int
    listed: bool = False
    fence: Fence | None = None


def settled(text: str) -> Settled:
    """How much of it is finished: blocks, and items of a list. The last one never counts."""
    tokens = _parser().parse(text)
    blocks = [token for token in tokens if token.level == 0 and token.map and token.nesting >= 0]
    if not blocks:
        return Settled(0)
    last = blocks[-1]
    start = _line(last)
    lines = text.split("\n")
    if last.type == "fence" and len(lines) > start + 1:
        opened = lines[start]
        indent = len(opened) - len(opened.lstrip(" "))
        return Settled(_chars(lines, start), False, Fence(last.markup, last.info.strip().partition(" ")[0], indent))
    items = [token for token in tokens if token.level == 1 and token.type == "list_item_open" and _line(token) >= start]
    if last.type in ("bullet_list_open", "ordered_list_open") and len(items) > 1:
        return Settled(_chars(lines, _line(items[-1])), True)
    return Settled(_chars(lines, start))


def _line(token: Token) -> int:
    return token.map[0] if token.map else 0


def _chars(lines: list[str], count: int) -> int:
    return sum(len(line) + 1 for line in lines[:count])


# --- how it looks --------------------------------------------------------------------------------


class _PlainHeading(Heading):
    """Flush left and bold, without a box."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        self.text.stylize(Style(bold=True, underline=self.tag in ("h1", "h2")))
        yield self.text


class _PlainCode(CodeBlock):
    """Coloured with the terminal's own colours, on its own background."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield padded(Code(self.lexer_name).add(str(self.text).rstrip().split("\n")))


class _Parsed(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _PlainHeading,
        "fence": _PlainCode,
        "code_block": _PlainCode,
    }

    def __init__(self, text: str) -> None:
        """No hyperlinks: an address is shown as it is, not hidden behind a label."""
        super().__init__(text, hyperlinks=False)
        self.parsed = _parser().parse(text)  # by our own rules: its parser would drop tags


class Answer:
    """Markdown without blank lines around it."""

    def __init__(self, text: str) -> None:
        self._markdown = _Parsed(text)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._markdown, options, pad=False)
        while lines and not _shows(lines[0]):
            del lines[0]
        while lines and not _shows(lines[-1]):
            del lines[-1]
        for line in lines:
            yield from line
            yield Segment.line()


def _shows(line: list[Segment]) -> bool:
    return any(segment.text.strip() for segment in line)


def rendered(text: str) -> RenderableType:
    return Answer(text) if text.strip() else Text("")


class Ink:
    """Turns what is to be shown into what a terminal understands: colours, and nothing else that it obeys."""

    def __init__(self, signs: Signs = ALL_SIGNS, *, colour: bool = True) -> None:
        self._signs = signs
        self._file = io.StringIO()
        self._console = Console(
            file=self._file,
            force_terminal=True,
            no_color=not colour,
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

    def lines(self, thing: RenderableType, columns: int) -> str:
        """Lines that end in a newline, none wider than the terminal."""
        self._console.width = max(min(columns - 1, WIDTH_MAX), WIDTH_MIN)
        self._file.seek(0)
        self._file.truncate()
        self._console.print(thing)
        drawn = _TRAILING.sub(_styles_only, self._file.getvalue())
        return self._signs.drawn(colours_only(drawn if drawn.endswith("\n") else f"{drawn}\n"))


def _styles_only(found: re.Match[str]) -> str:
    return "".join(_STYLES.findall(found[0]))
