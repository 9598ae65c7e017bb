"""What patterns put into a context: a line that there are some, and beside a request those that fit it."""

from __future__ import annotations

from mainstay.core.messages import Text
from mainstay.core.ports import Tool
from mainstay.patterns.library import Library
from mainstay.patterns.render import render

MATCHES = 3
THRESHOLD = 0.22
TOKENS = 2_000
BYTES_PER_TOKEN = 4
GUIDANCE = (
    "Patterns are ways of doing things that were written down here. Those that fit a request are shown with it; "
    "the tool `pattern` searches them, shows one whole and fills in its templates."
)
INTRODUCTION = "(This pattern is like what was asked. Follow it where it fits.)"


class PatternContributor:
    """The Contributor port."""

    tools: tuple[Tool, ...] = ()

    def __init__(
        self, library: Library, *, matches: int = MATCHES, threshold: float = THRESHOLD, tokens: int = TOKENS
    ) -> None:
        self._library = library
        self._matches = matches
        self._threshold = threshold
        self._bytes_max = tokens * BYTES_PER_TOKEN

    def fixed(self, session: str) -> str:
        """The same words whatever the patterns say, so that no reload changes the head of a request."""
        return GUIDANCE if self._library.snapshot.patterns else ""

    def errand(self, session: str) -> str:
        return ""

    def brief(self, session: str) -> str:
        return ""

    def profile(self, session: str) -> str:
        return ""

    def turn(self, session: str, prompt: str) -> tuple[Text, ...]:
        found = self._library.match(prompt, self._matches, self._threshold)
        left = self._bytes_max
        made: list[Text] = []
        for number, match in enumerate(found):  # what one does not need is the others'
            text = f"{INTRODUCTION}\n\n{render(match.pattern, left // (len(found) - number))}"
            left = max(left - len(text.encode()), 0)
            made.append(Text(text, origin=self._library.origin(match.pattern)))
        return tuple(made)
