"""Context contributor of memory: identity and rules, pinned memories and MEMORY.md, and similar past workflows.

The first are part of the fixed section, the second of the profile, the third is appended to the user's message.
Untrusted content is never added to any of them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from mainstay.core.memory_tiers import CONTEXT_ORIGIN, Memory, is_untrusted
from mainstay.core.messages import Text
from mainstay.core.ports import Tool
from mainstay.memory.agent_files import NO_MEMORY, MemoryFiles, ScopeNote, render_notes
from mainstay.memory.prompt_loader import PromptLoader, PromptTemplate
from mainstay.memory.recorded_workflows import WorkflowIndex
from mainstay.memory.recorded_workflows import render_workflow_note as render_workflow

PROFILE_TOKENS_MAX = 2000
BYTES_PER_TOKEN = 4
_CACHED_SESSIONS_MAX = 1024
PINNED_HEADING = "## Pinned memories"


class MemoryContributor:
    """Implements the Contributor port. `files` is None for an agent without a home.

    The owner of the pinned memories calls `set_pinned`. With `refresh_s`, identity and guidance are read at most that
    often, in seconds; 0 reads them on every call.
    """

    def __init__(
        self,
        files: MemoryFiles | None,
        workflows: WorkflowIndex | None = None,
        *,
        tools: tuple[Tool, ...] = (),
        prompts: PromptLoader | None = None,
        profile_tokens: int = PROFILE_TOKENS_MAX,
        refresh_s: float = 0.0,
    ) -> None:
        self._refresh_s = refresh_s
        self._refresh_at = 0.0
        self._sources_cache: tuple[str, PromptTemplate | None] = "", None
        self.tools = tools
        self.workflows = WorkflowIndex() if workflows is None else workflows
        self._files = files
        self._prompts = prompts or PromptLoader()
        self._bytes_max = profile_tokens * BYTES_PER_TOKEN
        self._pinned = ""
        # session: identity, prompt, and the text built of them
        self._fixed_sections: dict[str, tuple[str, PromptTemplate, str]] = {}
        # session: notes, and the profile built of them
        self._profiles: dict[str, tuple[tuple[ScopeNote, ...], str]] = {}

    def set_pinned(self, memories: Sequence[Memory]) -> None:
        """Set the pinned memories, in display order (oldest first keeps it stable). Untrusted ones are left out."""
        trusted = [memory for memory in memories if not is_untrusted(memory.origin)]
        pinned = _render_pinned(trusted, self._bytes_max)
        if pinned != self._pinned:
            self._pinned = pinned
            self._profiles.clear()

    def set_workflows(self, workflows: WorkflowIndex) -> None:
        self.workflows = workflows

    def fixed_section(self, session: str) -> str:
        identity, prompt = self._load_sources()
        if prompt is None:
            return identity
        cached = self._fixed_sections.get(session)
        if cached is None or cached[0] is not identity or cached[1] is not prompt:
            if len(self._fixed_sections) >= _CACHED_SESSIONS_MAX:  # a cache: all of it can be built again
                self._fixed_sections.clear()
            text = "\n\n".join(text for text in (identity, self._render_guidance(prompt, session)) if text)
            self._fixed_sections[session] = cached = identity, prompt, text
        return cached[2]

    def sub_agent_section(self, session: str) -> str:
        return self._files.rules() if self._files is not None else ""

    def small_model_section(self, session: str) -> str:
        """Return identity and rules for a small model. The tool descriptions must do as guidance on memory."""
        return self._load_sources()[0]

    def _load_sources(self) -> tuple[str, PromptTemplate | None]:
        """Return the identity text and the memory prompt; they change rarely, so read them every `refresh_s`."""
        if self._refresh_s:
            if (now := time.monotonic()) < self._refresh_at:
                return self._sources_cache
            self._refresh_at = now + self._refresh_s
        identity = self._files.identity() if self._files is not None else ""
        self._sources_cache = identity, self._prompts.get("memory") if self.tools else None
        return self._sources_cache

    def profile_section(self, session: str) -> str:
        notes = self._files.load_notes(session) if self._files is not None else ()
        cached = self._profiles.get(session)
        if cached is not None and cached[0] is notes:
            return cached[1]
        if len(self._profiles) >= _CACHED_SESSIONS_MAX:
            self._profiles.clear()
        text = self._render_profile(notes)
        self._profiles[session] = notes, text
        return text

    def turn_notes(self, session: str, prompt: str) -> tuple[Text, ...]:
        if not len(self.workflows):
            return ()
        workflow = self.workflows.match(prompt, session)
        return () if workflow is None else (Text(render_workflow(workflow), origin=CONTEXT_ORIGIN),)

    def _render_guidance(self, prompt: PromptTemplate, session: str) -> str:
        """Return the guidance on memory, with the files that this session may write; files are omitted without any."""
        if self._files is None:
            paragraphs = (
                paragraph
                for paragraph in prompt.text.split("\n\n")
                if "{files}" not in paragraph and "{system}" not in paragraph
            )
            return "\n\n".join(paragraphs)
        places = self._files.scope_files(session)[1:]
        listed = (f"- {place.heading.removeprefix('## Memory: ')}: {place.path}" for place in reversed(places))
        return prompt.fill({"files": "\n".join(listed), "system": self._files.system_path})

    def _render_profile(self, notes: tuple[ScopeNote, ...]) -> str:
        if self._files is None or (self._pinned and not notes):
            return self._pinned
        if not notes:
            return NO_MEMORY if self.tools else ""
        left = self._bytes_max - len(self._pinned.encode())
        return "\n\n".join(text for text in (self._pinned, render_notes(notes, max(left, 0))) if text)


def _render_pinned(memories: Sequence[Memory], bytes_max: int) -> str:
    """Render one bullet per memory, as many as fit, and the count of the rest."""
    if not memories:
        return ""
    lines = [PINNED_HEADING, ""]
    left = bytes_max - len(PINNED_HEADING) - 2
    rendered_count = 0
    for memory in memories:
        line = "- " + memory.text.strip().replace("\n", "\n  ")
        left -= len(line.encode()) + 1
        if left < 0:
            break
        lines.append(line)
        rendered_count += 1
    if rendered_count < len(memories):
        lines.append(f"({len(memories) - rendered_count} more do not fit here; memory_recall finds them)")
    return "\n".join(lines)
