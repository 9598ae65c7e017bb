"""Context contributor of patterns: guidance in the fixed section, and matching patterns with each request."""

from __future__ import annotations

from mainstay.core.ports import Tool, TurnNote
from mainstay.patterns.library import ORIGIN_PREFIX, PatternLibrary
from mainstay.patterns.pattern_template import InstructionPattern
from mainstay.patterns.prompt_text import SHOWN_BYTES_MAX, render_pattern

MATCHES_MAX = 3
SIMILARITY_MIN = 0.35
TOKENS_MAX = 2_000  # of the patterns of one turn
WINDOW_TOKENS_MAX = 4_000  # of all patterns in the window
BYTES_PER_TOKEN = 4
GUIDANCE = (
    "Patterns are ways of doing things that were written down here. Those that fit a request are shown with it; "
    "the tool `pattern` searches them, shows one whole and fills in its templates."
)
IF_FULL = "(The pattern {name} may fit, too: `pattern` with action show, name {name} has it.)"
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
        window_tokens_max: int = WINDOW_TOKENS_MAX,
    ) -> None:
        self._library = library
        self._matches_max = matches_max
        self._threshold = threshold
        self._bytes_max = tokens_max * BYTES_PER_TOKEN
        self._window_bytes_max = window_tokens_max * BYTES_PER_TOKEN

    def fixed_section(self, session: str) -> str:
        """Return guidance that does not depend on the patterns, so that a reload keeps the provider's prompt cache."""
        return GUIDANCE if self._library.snapshot.patterns else ""

    def sub_agent_section(self, session: str) -> str:
        return ""

    def small_model_section(self, session: str) -> str:
        return ""

    def profile_section(self, session: str) -> str:
        return ""

    def turn_notes(self, session: str, prompt: str) -> tuple[TurnNote, ...]:
        matches = self._library.match(prompt, self._matches_max, self._threshold)
        return tuple(self._build_note(match.pattern, len(matches)) for match in matches)

    def _build_note(self, pattern: InstructionPattern, count: int) -> TurnNote:
        """Return the note of one of `count` matching patterns. Its text depends on nothing else, so that the same
        pattern is recognised in the window."""
        text = self._render(pattern, count)
        forms = {self._render(pattern, other) for other in range(1, self._matches_max + 1) if other != count}
        return TurnNote(
            text,
            origin=self._library.pattern_origin(pattern),
            other_forms=(*forms, render_pattern(pattern, SHOWN_BYTES_MAX)),
            if_full=IF_FULL.format(name=pattern.name),
            kind=ORIGIN_PREFIX,
            bytes_max=self._window_bytes_max,
        )

    def _render(self, pattern: InstructionPattern, count: int) -> str:
        return f"{INTRODUCTION}\n\n{render_pattern(pattern, self._bytes_max // count)}"
