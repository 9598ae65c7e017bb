"""What memory puts into a context: who the agent is, what it should always know, and how a like request was answered.

The first goes into the fixed section, the second into the profile, the third beside the person's words. Nothing that
came from outside the conversation ever gets into any of them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from mainstay.core.messages import Text
from mainstay.core.ports import Tool
from mainstay.core.recall import NOTE, Memory, is_untrusted
from mainstay.memory.files import NO_MEMORY, MemoryFiles, Note, render
from mainstay.memory.prompts import Prompt, Prompts
from mainstay.memory.workflows import Workflows
from mainstay.memory.workflows import render as render_workflow

PROFILE_TOKENS = 2000
BYTES_PER_TOKEN = 4
_SESSIONS_MAX = 1024
PINNED = "## Pinned memories"


class MemoryContributor:
    """The Contributor port. Without `files`, there are no files to read; `pinned` are set by whoever keeps them."""

    def __init__(
        self,
        files: MemoryFiles | None,
        workflows: Workflows | None = None,
        *,
        tools: tuple[Tool, ...] = (),
        prompts: Prompts | None = None,
        profile_tokens: int = PROFILE_TOKENS,
        again_s: float = 0.0,
    ) -> None:
        self._again_s = again_s
        self._again_at = 0.0
        self._seen: tuple[str, Prompt | None] = "", None
        self.tools = tools
        self.workflows = Workflows() if workflows is None else workflows
        self._files = files
        self._prompts = prompts or Prompts()
        self._bytes_max = profile_tokens * BYTES_PER_TOKEN
        self._pinned = ""
        self._fixed: dict[str, tuple[str, Prompt, str]] = {}  # session: made of which identity and guidance
        self._made: dict[str, tuple[tuple[Note, ...], str]] = {}  # session: of which notes, and the profile

    def set_pinned(self, memories: Sequence[Memory]) -> None:
        """In the order in which they are shown, best the oldest first. Those from outside are left out."""
        trusted = [one for one in memories if not is_untrusted(one.origin)]
        pinned = _render_pinned(trusted, self._bytes_max)
        if pinned != self._pinned:
            self._pinned = pinned
            self._made.clear()

    def fixed(self, session: str) -> str:
        identity, prompt = self._sources()
        if prompt is None:
            return identity
        known = self._fixed.get(session)
        if known is None or known[0] is not identity or known[1] is not prompt:
            if len(self._fixed) >= _SESSIONS_MAX:  # all of it can be made again
                self._fixed.clear()
            text = "\n\n".join(text for text in (identity, self._guidance(prompt, session)) if text)
            self._fixed[session] = known = identity, prompt, text
        return known[2]

    def errand(self, session: str) -> str:
        return self._files.rules() if self._files is not None else ""

    def brief(self, session: str) -> str:
        """For a small model: who it is and its rules. How to use memory its few tools tell."""
        return self._sources()[0]

    def _sources(self) -> tuple[str, Prompt | None]:
        """Who the agent is and what it is told of memory. That changes rarely: it is looked for every `again_s`."""
        if self._again_s:
            if (now := time.monotonic()) < self._again_at:
                return self._seen
            self._again_at = now + self._again_s
        identity = self._files.identity() if self._files is not None else ""
        self._seen = identity, self._prompts.get("memory") if self.tools else None
        return self._seen

    def profile(self, session: str) -> str:
        notes = self._files.memories(session) if self._files is not None else ()
        made = self._made.get(session)
        if made is not None and made[0] is notes:
            return made[1]
        if len(self._made) >= _SESSIONS_MAX:
            self._made.clear()
        text = self._compose(notes)
        self._made[session] = notes, text
        return text

    def turn(self, session: str, prompt: str) -> tuple[Text, ...]:
        if not len(self.workflows):
            return ()
        found = self.workflows.match(prompt)
        return () if found is None else (Text(render_workflow(found), origin=NOTE),)

    def _guidance(self, prompt: Prompt, session: str) -> str:
        """How to use memory, with the files that this session may write; without any, nothing is said about files."""
        if self._files is None:
            kept = (part for part in prompt.text.split("\n\n") if "{files}" not in part and "{system}" not in part)
            return "\n\n".join(kept)
        places = self._files.places(session)[1:]
        listed = (f"- {place.heading.removeprefix('## Memory: ')}: {place.path}" for place in reversed(places))
        return prompt.fill({"files": "\n".join(listed), "system": self._files.system})

    def _compose(self, notes: tuple[Note, ...]) -> str:
        if self._files is None or (self._pinned and not notes):
            return self._pinned
        if not notes:
            return NO_MEMORY if self.tools else ""
        left = self._bytes_max - len(self._pinned.encode())
        return "\n\n".join(text for text in (self._pinned, render(notes, max(left, 0))) if text)


def _render_pinned(memories: Sequence[Memory], bytes_max: int) -> str:
    """One point each, as many as fit; what does not is counted."""
    if not memories:
        return ""
    lines = [PINNED, ""]
    left = bytes_max - len(PINNED) - 2
    shown = 0
    for memory in memories:
        line = "- " + memory.text.strip().replace("\n", "\n  ")
        left -= len(line.encode()) + 1
        if left < 0:
            break
        lines.append(line)
        shown += 1
    if shown < len(memories):
        lines.append(f"({len(memories) - shown} more do not fit here; memory_recall finds them)")
    return "\n".join(lines)
