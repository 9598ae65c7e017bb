"""An answer as it is written: what of it is settled is drawn once, and only its last block is drawn again."""

from __future__ import annotations

from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from mainstay.cli.chat.code import Code, padded
from mainstay.cli.chat.markdown import Fence, rendered, settled


class Block(NamedTuple):
    """Something settled. It goes on with what stands before it, or begins after a blank line."""

    thing: RenderableType
    goes_on: bool


class Flow:
    """`feed` it text, and print what it returns; `open` is what may still change."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._text = ""
        self._look_at = 0  # so long it must be before it is worth another look
        self._goes_on = False  # what comes next belongs to what was settled last
        self._fence: Fence | None = None
        self._code = Code("")
        self._blank = 0  # lines of code that are only shown when another one follows

    def feed(self, text: str) -> list[Block]:
        self._text += text
        if "\n" not in text:  # only the end of a line settles anything
            return []
        made: list[Block] = []
        while self._fence is not None or self._text:
            before = len(self._text)
            made += self._settle_code() if self._fence is not None else self._settle_blocks()
            if len(self._text) == before:
                break
        return made

    def end(self) -> list[Block]:
        """All that is left."""
        made = self.feed("\n") if self._fence is not None else []
        text, goes_on = self._text, self._goes_on
        self._begin()
        return [*made, Block(rendered(text), goes_on)] if text.strip() else made

    @property
    def open(self) -> RenderableType | None:
        if self._fence is None:
            return rendered(self._text) if self._text.strip() else None
        if not self._text.strip():
            return None
        line = padded(self._code.peek(self._fence.inner(self._text)))
        return Group(*[Text("")] * self._blank, line) if self._goes_on else line

    @property
    def goes_on(self) -> bool:
        """What is open belongs to what was settled last: no blank line between."""
        return self._goes_on

    def _settle_blocks(self) -> list[Block]:
        """A block that only grows is parsed again once it has grown by an eighth: at every line, a long table would
        cost its square."""
        if len(self._text) < self._look_at:
            return []
        found = settled(self._text)
        self._look_at = 0 if found.chars or found.fence is not None else len(self._text) * 9 // 8
        made = []
        done, self._text = self._text[: found.chars], self._text[found.chars :]
        if done.strip():
            made.append(Block(rendered(done), self._goes_on))
            self._goes_on = found.listed
        if found.fence is not None:
            self._text = self._text.partition("\n")[2]
            self._fence, self._code, self._blank, self._goes_on = found.fence, Code(found.fence.language), 0, False
        return made

    def _settle_code(self) -> list[Block]:
        """Every whole line of it, up to the fence that closes it."""
        assert self._fence is not None
        *lines, rest = self._text.split("\n")
        closing = next((place for place, line in enumerate(lines) if self._fence.closes(line)), None)
        made = self._coloured([self._fence.inner(line) for line in lines[:closing]])
        if closing is not None:
            rest = "\n".join([*lines[closing + 1 :], rest])
            self._fence, self._goes_on = None, False
        self._text = rest
        return made

    def _coloured(self, lines: list[str]) -> list[Block]:
        while lines and not lines[0].strip() and not self._goes_on:
            del lines[0]  # before the first line of code there is a blank one anyway
        shown = [""] * self._blank + lines
        last = next((place for place in reversed(range(len(shown))) if shown[place].strip()), -1)
        self._blank = len(shown) - last - 1
        if last < 0:
            return []
        blank = next(place for place, line in enumerate(shown) if line.strip())
        thing: RenderableType = padded(self._code.add(shown[blank : last + 1]))
        made = Block(Group(*[Text("")] * blank, thing) if blank else thing, self._goes_on)
        self._goes_on = True
        return [made]
