"""Code that grows: every line is coloured once, with what stands before it in mind."""

from __future__ import annotations

from functools import cache
from typing import Any

from rich.padding import Padding
from rich.syntax import Syntax, SyntaxTheme
from rich.text import Text

INDENT = 2
TAB = 4
CONTEXT_LINES = 60  # what is further back no longer matters to a colour


class Code:
    """`add` whole lines. A lexer begins where the last one could begin: at a line that stands on its own."""

    def __init__(self, language: str) -> None:
        self._lexer: Any = Syntax("", language).lexer if language else None  # None: nobody knows that language
        self._context = ""

    def add(self, lines: list[str]) -> Text:
        """These lines, coloured; the next ones will be coloured as what follows them."""
        text, begin = self._highlight(lines)
        if self._lexer is not None:
            whole = self._context + _joined(lines)
            self._context = "".join(whole[begin:].splitlines(keepends=True)[-CONTEXT_LINES:])
        return text

    def peek(self, line: str) -> Text:
        """A line that is not whole yet."""
        return self._highlight([line])[0]

    def _highlight(self, lines: list[str]) -> tuple[Text, int]:
        """And where, in all that was looked at, the next look may begin."""
        made = Text(overflow="fold", no_wrap=False)
        if self._lexer is None:
            return Text("\n".join(line.expandtabs(TAB) for line in lines), overflow="fold"), 0
        source = self._context + _joined(lines)
        at, begin = 0, 0
        for kind, value in self._lexer.get_tokens(source):
            if source[at : at + 1].strip() and (not at or source[at - 1] == "\n") and not _inside(kind):
                begin = at
            new = value[max(len(self._context) - at, 0) :]
            if new:
                made.append(new, style=_theme().get_style_for_token(kind))
            at += len(value)
        made.rstrip()
        return made, begin


def padded(text: Text) -> Padding:
    return Padding(text, (0, 0, 0, INDENT), expand=False)


def _joined(lines: list[str]) -> str:
    return "".join(f"{line.expandtabs(TAB)}\n" for line in lines)


def _inside(kind: tuple[str, ...]) -> bool:
    """A string or a comment may have begun lines ago."""
    return kind[:1] == ("Comment",) or kind[:2] == ("Literal", "String")


@cache
def _theme() -> SyntaxTheme:
    return Syntax.get_theme("ansi_dark")
