"""Incremental Markdown rendering of a streamed answer: finished blocks are rendered once, only the last one again."""

from __future__ import annotations

from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from mainstay.terminal.code_highlighter import CodeHighlighter, indent_code
from mainstay.terminal.markdown_renderer import CodeFence, find_finished_prefix, render_markdown


class RenderedBlock(NamedTuple):
    """A finished block. It continues the block before it, or is preceded by a blank line."""

    renderable: RenderableType
    is_continuation: bool


class MarkdownStream:
    """Splits streamed Markdown into finished blocks: print what `feed` returns; `unfinished` may still change."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._text = ""
        self._parse_at_chars = 0  # parse again once the text has this many characters
        self._is_continuation = False  # the next block continues the last finished one
        self._fence: CodeFence | None = None  # of the code block that is open
        self._highlighter = CodeHighlighter("")
        self._blank_lines = 0  # blank lines of code that are shown only if another line follows

    def feed(self, text: str) -> list[RenderedBlock]:
        self._text += text
        if "\n" not in text:  # only the end of a line can finish a block
            return []
        blocks: list[RenderedBlock] = []
        while self._fence is not None or self._text:
            before = len(self._text)
            blocks += self._take_finished_code() if self._fence is not None else self._take_finished_blocks()
            if len(self._text) == before:
                break
        return blocks

    def finish(self) -> list[RenderedBlock]:
        """Return the remaining text as finished blocks, and start over."""
        blocks = self.feed("\n") if self._fence is not None else []
        text, goes_on = self._text, self._is_continuation
        self._reset()
        return [*blocks, RenderedBlock(render_markdown(text), goes_on)] if text.strip() else blocks

    @property
    def unfinished(self) -> RenderableType | None:
        if self._fence is None:
            return render_markdown(self._text) if self._text.strip() else None
        if not self._text.strip():
            return None
        line = indent_code(self._highlighter.highlight_partial_line(self._fence.strip_indent(self._text)))
        return Group(*[Text("")] * self._blank_lines, line) if self._is_continuation else line

    @property
    def is_continuation(self) -> bool:
        """Whether the unfinished part continues the last finished block, without a blank line between them."""
        return self._is_continuation

    def _take_finished_blocks(self) -> list[RenderedBlock]:
        """Return the finished blocks of the text.

        A block that only grows is parsed again once it has grown by an eighth; parsing it at every line would make a
        long table quadratic.
        """
        if len(self._text) < self._parse_at_chars:
            return []
        prefix = find_finished_prefix(self._text)
        self._parse_at_chars = 0 if prefix.chars or prefix.fence is not None else len(self._text) * 9 // 8
        blocks = []
        done, self._text = self._text[: prefix.chars], self._text[prefix.chars :]
        if done.strip():
            blocks.append(RenderedBlock(render_markdown(done), self._is_continuation))
            self._is_continuation = prefix.ends_in_list
        if prefix.fence is not None:
            self._text = self._text.partition("\n")[2]
            self._fence, self._highlighter, self._blank_lines, self._is_continuation = (
                prefix.fence,
                CodeHighlighter(prefix.fence.language),
                0,
                False,
            )
        return blocks

    def _take_finished_code(self) -> list[RenderedBlock]:
        """Return every complete line of the code block, up to its closing fence."""
        assert self._fence is not None
        *lines, rest = self._text.split("\n")
        closing = next((index for index, line in enumerate(lines) if self._fence.is_closed_by(line)), None)
        blocks = self._highlight_code([self._fence.strip_indent(line) for line in lines[:closing]])
        if closing is not None:
            rest = "\n".join([*lines[closing + 1 :], rest])
            self._fence, self._is_continuation = None, False
        self._text = rest
        return blocks

    def _highlight_code(self, lines: list[str]) -> list[RenderedBlock]:
        while lines and not lines[0].strip() and not self._is_continuation:
            del lines[0]  # a code block is preceded by a blank line anyway
        pending_lines = [""] * self._blank_lines + lines
        last = next((index for index in reversed(range(len(pending_lines))) if pending_lines[index].strip()), -1)
        self._blank_lines = len(pending_lines) - last - 1
        if last < 0:
            return []
        blank = next(index for index, line in enumerate(pending_lines) if line.strip())
        code: RenderableType = indent_code(self._highlighter.highlight_lines(pending_lines[blank : last + 1]))
        block = RenderedBlock(Group(*[Text("")] * blank, code) if blank else code, self._is_continuation)
        self._is_continuation = True
        return [block]
