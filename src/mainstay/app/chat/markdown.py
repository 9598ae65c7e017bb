"""Markdown on a terminal: which part of a growing answer is settled, and how it looks."""

from __future__ import annotations

import io
import os
import re
from functools import cache
from typing import ClassVar

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.style import Style
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

WIDTH_MAX = 100
_STYLES = re.compile(r"\x1b\[[0-9;]*m")
_TRAILING = re.compile(r"(?:\x1b\[[0-9;]*m|[ \t])+$", re.MULTILINE)
_BLANK_LINES = re.compile(r"\A(?:(?:\x1b\[[0-9;]*m|[ \t])*\n)+|(?:\n(?:\x1b\[[0-9;]*m|[ \t])*)+\Z")


@cache
def _parser() -> MarkdownIt:
    """A tag is text like any other: whatever it stands for, a terminal shows what was said."""
    return MarkdownIt(options_update={"html": False}).enable("table").enable("strikethrough")


def settled(text: str) -> int:
    """How much of it is finished blocks. The last block may still grow, so it never counts."""
    starts = [token.map[0] for token in _parser().parse(text) if token.level == 0 and token.map and token.nesting >= 0]
    if len(starts) < 2:
        return 0
    lines = text.split("\n")
    return sum(len(line) + 1 for line in lines[: starts[-1]])


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
        code = str(self.text).rstrip()
        yield Syntax(
            code, self.lexer_name, theme="ansi_dark", background_color="default", word_wrap=True, padding=(0, 0, 0, 2)
        )


class Answer(Markdown):
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


def rendered(text: str) -> RenderableType:
    return Answer(text) if text.strip() else Text("")


class Ink:
    """Turns what is to be shown into what a terminal understands."""

    def __init__(self) -> None:
        self._plain = bool(os.environ.get("NO_COLOR"))
        self._theme = Theme(
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
        )

    def lines(self, thing: RenderableType, columns: int) -> str:
        """Lines that end in a newline, none wider than the terminal."""
        file = io.StringIO()
        Console(
            file=file,
            force_terminal=True,
            no_color=self._plain,
            width=max(min(columns - 1, WIDTH_MAX), 20),
            theme=self._theme,
            highlight=False,
            emoji=False,
            markup=False,
        ).print(thing)
        return _TRAILING.sub(_styles_only, _BLANK_LINES.sub("", file.getvalue())) + "\n"


def _styles_only(found: re.Match[str]) -> str:
    return "".join(_STYLES.findall(found[0]))
