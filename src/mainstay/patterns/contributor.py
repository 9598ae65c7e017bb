"""Context contributor of patterns: guidance in the fixed section, and matching patterns with each request."""

from __future__ import annotations

from mainstay.core.messages import Text
from mainstay.core.ports import Tool
from mainstay.patterns.library import PatternLibrary
from mainstay.patterns.prompt_text import render_pattern

MATCHES_MAX = 3
SIMILARITY_MIN = 0.22
TOKENS_MAX = 2_000
BYTES_PER_TOKEN = 4
GUIDANCE = (
    "Patterns are ways of doing things that were written down here. Those that fit a request are shown with it; "
    "the tool `pattern` searches them, shows one whole and fills in its templates."
)
INTRODUCTION = "(This pattern is like what was asked. Follow it where it fits.)"


class PatternContributor:
    """Implements the Contributor port. The agent adds the `pattern` tool separately (patterns/tool)."""

    tools: tuple[Tool, ...] = ()

    def __init__(
        self,
        library: PatternLibrary,
        *,
        matches_max: int = MATCHES_MAX,
        threshold: float = SIMILARITY_MIN,
        tokens_max: int = TOKENS_MAX,
    ) -> None:
        self._library = library
        self._matches_max = matches_max
        self._threshold = threshold
        self._bytes_max = tokens_max * BYTES_PER_TOKEN

    def fixed_section(self, session: str) -> str:
        """Return guidance that does not depend on the patterns, so that a reload keeps the provider's prompt cache."""
        return GUIDANCE if self._library.snapshot.patterns else ""

    def sub_agent_section(self, session: str) -> str:
        return ""

    def small_model_section(self, session: str) -> str:
        return ""

    def profile_section(self, session: str) -> str:
        return ""

    def turn_notes(self, session: str, prompt: str) -> tuple[Text, ...]:
        matches = self._library.match(prompt, self._matches_max, self._threshold)
        left = self._bytes_max
        texts: list[Text] = []
        for number, match in enumerate(matches):  # room that one does not use goes to the next ones
            text = f"{INTRODUCTION}\n\n{render_pattern(match.pattern, left // (len(matches) - number))}"
            left = max(left - len(text.encode()), 0)
            texts.append(Text(text, origin=self._library.pattern_origin(match.pattern)))
        return tuple(texts)
