"""Incremental syntax highlighting: each line of a streamed code block is coloured once, using the lines before it."""

from __future__ import annotations

from functools import cache
from typing import Any

from rich.padding import Padding
from rich.syntax import Syntax, SyntaxTheme
from rich.text import Text

INDENT_COLUMNS = 2
TAB_COLUMNS = 4
CONTEXT_LINES = 60  # earlier lines that the lexer sees again


class CodeHighlighter:
    """Highlights complete lines with `highlight_lines`.

    The lexer restarts at the last line that is not inside a string or comment.
    """

    def __init__(self, language: str) -> None:
        self._lexer: Any = Syntax("", language).lexer if language else None  # None: no lexer for that language
        self._context = ""

    def highlight_lines(self, lines: list[str]) -> Text:
        """Return these lines coloured, and remember them as context for the next ones."""
        text, begin = self._highlight(lines)
        if self._lexer is not None:
            whole = self._context + _join_lines(lines)
            self._context = "".join(whole[begin:].splitlines(keepends=True)[-CONTEXT_LINES:])
        return text

    def highlight_partial_line(self, line: str) -> Text:
        """Return a line that is not complete yet, coloured, without remembering it."""
        return self._highlight([line])[0]

    def _highlight(self, lines: list[str]) -> tuple[Text, int]:
        """Return the coloured lines, and the offset in context plus lines at which the lexer can restart."""
        highlighted = Text(overflow="fold", no_wrap=False)
        if self._lexer is None:
            return Text("\n".join(line.expandtabs(TAB_COLUMNS) for line in lines), overflow="fold"), 0
        source = self._context + _join_lines(lines)
        at, begin = 0, 0
        for kind, value in self._lexer.get_tokens(source):
            if source[at : at + 1].strip() and (not at or source[at - 1] == "\n") and not _is_multiline_token(kind):
                begin = at
            new = value[max(len(self._context) - at, 0) :]
            if new:
                highlighted.append(new, style=_load_theme().get_style_for_token(kind))
            at += len(value)
        highlighted.rstrip()
        return highlighted, begin


def indent_code(text: Text) -> Padding:
    return Padding(text, (0, 0, 0, INDENT_COLUMNS), expand=False)


def _join_lines(lines: list[str]) -> str:
    return "".join(f"{line.expandtabs(TAB_COLUMNS)}\n" for line in lines)


def _is_multiline_token(kind: tuple[str, ...]) -> bool:
    """Whether the token is a string or comment, which may have started on an earlier line."""
    return kind[:1] == ("Comment",) or kind[:2] == ("Literal", "String")


@cache
def _load_theme() -> SyntaxTheme:
    return Syntax.get_theme("ansi_dark")
