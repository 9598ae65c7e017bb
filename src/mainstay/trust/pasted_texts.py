"""Blocks that were pasted into the prompt: shown as placeholders, sent as content that the user did not write."""

from __future__ import annotations

import re

from mainstay.core.memory_tiers import format_origin
from mainstay.core.messages import Text

PASTE_ORIGIN = format_origin("paste", untrusted=True)
KEPT_MAX = 100  # pasted blocks; a prompt that names an older one has its placeholder as text


class PastedTexts:
    """The pasted blocks of one chat. A paste of one line is typed text: people paste addresses and names."""

    def __init__(self) -> None:
        self._blocks: dict[str, str] = {}  # by placeholder
        self._count = 0

    def add(self, text: str) -> str:
        """Return what to insert into the prompt: the text if it is one line, else a placeholder for it."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = len(text.strip("\n").split("\n"))
        if lines < 2:
            return text
        self._count += 1
        placeholder = f"[pasted {lines} lines #{self._count}]"
        self._blocks[placeholder] = text
        while len(self._blocks) > KEPT_MAX:
            del self._blocks[next(iter(self._blocks))]
        return placeholder

    def to_prompt(self, text: str) -> str | list[str | Text]:
        """Return the prompt with the pasted blocks as parts of their own; the text itself without placeholders."""
        pieces = self._split(text)
        if len(pieces) == 1:
            return text
        blocks = self._blocks
        return [Text(blocks[piece], origin=PASTE_ORIGIN) if piece in blocks else piece for piece in pieces if piece]

    def to_text(self, text: str) -> str:
        """Return the text with the pasted blocks in place of their placeholders."""
        return "".join(self._blocks.get(piece, piece) for piece in self._split(text))

    def _split(self, text: str) -> list[str]:
        if not self._blocks:
            return [text]
        return re.split("(" + "|".join(map(re.escape, self._blocks)) + ")", text)
