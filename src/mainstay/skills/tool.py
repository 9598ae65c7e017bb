"""The `skill` tool: returns a skill's instructions or one of its files, or searches skills."""

from __future__ import annotations

import os

import msgspec

from mainstay.core.memory_tiers import is_private, is_untrusted
from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.core.tool_arguments import build_schema, parse_arguments
from mainstay.core.worker_threads import run_in_thread
from mainstay.io.path_resolver import PathRefused, shorten_for_message, to_absolute_path
from mainstay.io.paths import read_confined
from mainstay.skills.frontmatter import SkillRefused
from mainstay.skills.registry import AvailableSkill, SkillRegistry
from mainstay.skills.renderer import BYTES_PER_TOKEN, header_lines, render_skill, strip_hidden, to_line

BODY_TOKENS_MAX = 8_000
PAGE_BYTES_MAX = 32 * 1024
FILE_BYTES_MAX = 4 * 1024 * 1024
LINE_CHARS_MAX = 2_000
RESULTS_MAX = 20
QUERY_WORDS_MAX = 20


class _SkillToolArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str | None = None
    file: str | None = None
    offset: int | None = None
    query: str | None = None


class SkillTool:
    """Read-only tool. Its result is trusted, unless the skill is a third party's."""

    name = "skill"
    description = (
        "Instructions for special tasks: name gets a skill's (file: one of its files instead, from line offset on), "
        "query looks for skills."
    )
    schema = build_schema(_SkillToolArguments)
    effect: Effect = "pure"
    timeout_s: float | None = None
    untrusted = False
    sink: bool | tuple[str, ...] = False
    capabilities: tuple[str, ...] = ("skill",)

    def __init__(self, registry: SkillRegistry, body_tokens: int = BODY_TOKENS_MAX) -> None:
        self._registry = registry
        self._body_bytes = body_tokens * BYTES_PER_TOKEN

    def is_available(self) -> bool:
        """Return whether the tool is offered: only while there are skills."""
        return self._registry.has_skills()

    def parse(self, input: str) -> _SkillToolArguments:
        return parse_arguments(input, _SkillToolArguments, self.schema)

    async def run(self, arguments: _SkillToolArguments, context: ToolContext) -> str:
        if not arguments.name or not arguments.name.strip():
            return self._search(arguments.query or "", context)
        available = self._registry.get(context.session, arguments.name)
        if arguments.file:
            return str(await run_in_thread(lambda: self._show_file(available, arguments, context)))
        return str(await run_in_thread(lambda: self._show_skill(available, context)))

    async def reconcile(self, arguments: _SkillToolArguments, context: ToolContext) -> str | None:
        return None  # it is pure, so it can run again

    def _show_skill(self, available: AvailableSkill, context: ToolContext) -> str:
        current, body = self._registry.load_skill(available)
        context.untrusted = context.untrusted or current.untrusted
        return render_skill(current, body, self._registry.list_trusted_files(current), self._body_bytes)

    def _show_file(self, available: AvailableSkill, arguments: _SkillToolArguments, context: ToolContext) -> str:
        context.untrusted = context.untrusted or available.untrusted  # applies to error messages, too
        path = _resolve_inside(available.skill.folder, arguments.file or "")
        try:
            data, size = read_confined(available.skill.folder, path, FILE_BYTES_MAX)
        except (OSError, ValueError) as error:
            raise self._file_error(available, arguments.file or "", error) from None
        # verified after reading, so that the text is from the approved files
        current, _ = self._registry.load_skill(available)
        origin = self._registry.file_origin(os.path.realpath(path))
        context.untrusted = context.untrusted or current.untrusted or is_untrusted(origin)
        context.private = context.private or is_private(origin)
        if b"\0" in data[:8192]:
            raise SkillRefused(
                f"{shorten_for_message(arguments.file or '')} is not a text file: it has {size} bytes, "
                f"and is at {shorten_for_message(path)}."
            )
        description, page = _page_lines(data.decode(errors="replace"), max(arguments.offset or 1, 1), size)
        head = [
            *header_lines(current),
            f"File: {shorten_for_message(os.path.relpath(path, current.skill.folder))}, {description}",
        ]
        return "\n".join(head) + "\n\n" + strip_hidden(page, untrusted=current.untrusted)

    def _file_error(self, available: AvailableSkill, file: str, error: Exception) -> SkillRefused:
        if isinstance(error, FileNotFoundError):
            others = (
                ", ".join(to_line(path, 100) for path in self._registry.list_trusted_files(available)[0][:RESULTS_MAX])
                or "no others"
            )
            return SkillRefused(
                f"The skill {available.skill.name} has no file {shorten_for_message(file)!r}. "
                f"Beside SKILL.md: {others}."
            )
        reason = getattr(error, "strerror", None) or "it is not a path"
        return SkillRefused(
            f"{shorten_for_message(file)!r} of the skill {available.skill.name} cannot be read: {reason}."
        )

    def _search(self, query: str, context: ToolContext) -> str:
        from mainstay.skills.keyword_matcher import fold_case

        skills = [entry for entry in self._registry.skills(context.session) if entry.skill.is_listed]
        words = list(dict.fromkeys(fold_case(query).split()))[:QUERY_WORDS_MAX]
        ranked = sorted(
            ((_score_skill(entry, words), entry) for entry in skills), key=lambda pair: (-pair[0], pair[1].skill.name)
        )
        best = [entry for score, entry in ranked if score or not words][:RESULTS_MAX]
        if not best:
            return f"None of the {len(skills)} skills matches that." if skills else "There are no skills."
        context.untrusted = context.untrusted or any(entry.untrusted for entry in best)
        lines = [
            f"- {to_line(entry.skill.name)}: {to_line(entry.skill.description, untrusted=entry.untrusted)}"
            for entry in best
        ]
        return "\n".join([f"{len(best)} of {len(skills)} skills; `skill` with a name gets one.", *lines])


def build_skill_tool(registry: SkillRegistry, *, body_tokens: int = BODY_TOKENS_MAX) -> Tool:
    return SkillTool(registry, body_tokens)


def _resolve_inside(folder: str, file: str) -> str:
    """Resolve a path, relative to the skill's folder or absolute inside of it. Raises SkillRefused."""
    try:
        return to_absolute_path(file, folder)
    except PathRefused as error:
        raise SkillRefused(str(error)) from None


def _page_lines(text: str, first_line: int, size: int) -> tuple[str, str]:
    """Return a description of the page, and the lines from `first` on, as many as fit."""
    lines = text.split("\n")
    page_lines: list[str] = []
    left = PAGE_BYTES_MAX
    for raw in lines[first_line - 1 :]:
        line = raw if len(raw) <= LINE_CHARS_MAX else f"{raw[:LINE_CHARS_MAX]} [cut: it has {len(raw)} characters]"
        left -= len(line.encode()) + 1
        if left < 0:
            break
        page_lines.append(line)
    last = first_line - 1 + len(page_lines)
    description = f"lines {first_line} to {last} of {len(lines)}" if page_lines else f"it has {len(lines)} lines"
    if size > FILE_BYTES_MAX:
        description += f" in the first {FILE_BYTES_MAX} of its {size} bytes"
    return description, "\n".join(page_lines)


def _score_skill(available: AvailableSkill, words: list[str]) -> int:
    """Count the query's words in the skill; one in its name counts three times more."""
    from mainstay.skills.keyword_matcher import fold_case

    name, text = (
        fold_case(available.skill.name),
        fold_case(f"{available.skill.description} {' '.join(available.skill.keywords)}"),
    )
    return sum(3 * (word in name) + (word in text) for word in words)
