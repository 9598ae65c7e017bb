"""Context contributor of skills: automatic skills, a catalogue of the others, and skills that a message triggers.

The first two are part of the fixed section, so they change only when a skill does; the third is appended to the turn.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from mainstay.core.memory_tiers import CONTEXT_ORIGIN, format_origin
from mainstay.core.messages import Text
from mainstay.core.ports import Tool, TurnNote
from mainstay.io.path_resolver import shorten_for_message
from mainstay.skills.frontmatter import SkillRefused
from mainstay.skills.registry import AvailableSkill, SkillRegistry
from mainstay.skills.renderer import (
    BYTES_PER_TOKEN,
    THIRD_PARTY_NOTE,
    header_lines,
    parse_skill_header,
    render_skill,
    to_line,
    truncate_body,
)
from mainstay.skills.tree_hash_cache import HashBudget, SkillUnverified

if TYPE_CHECKING:
    from mainstay.skills.keyword_matcher import KeywordMatcher

CATALOGUE_TOKENS_MAX = 1_500
BODY_TOKENS_MAX = 8_000
TRIGGERED_MAX = 5  # skills per message by keyword, in addition to those requested by name
AUTO_SIZE_FACTOR = 4  # size limit of all automatic skills together, as a multiple of one skill's
WINDOW_SIZE_FACTOR = 4  # size limit of all skills in the window together, as a multiple of one skill's
SHOWN_ABOVE = "Its instructions are in this conversation already. Follow them."
TOOL_NAME, BY_NAME = "skill", "call_tool"
COUNT_LINE_BYTES = 80  # reserved for the line that counts the skills not listed
_CACHE_MAX = 256
_REQUEST_WORD = re.compile("skill", re.IGNORECASE)  # in every request for a skill by name
_ORIGIN_PREFIX = f"{CONTEXT_ORIGIN}:skill:"
# of descriptions, in characters: the first at which all of them fit is used
_DESCRIPTION_WIDTHS = (1024, 500, 250, 120)

HEADING = "## Skills"
GUIDANCE = (
    "Instructions for special tasks. When one fits what is asked, call `skill` with its name before you begin, and "
    "follow what it says; its files are in the folder that it names, for `read` and `bash`."
)


class _SkillSections(msgspec.Struct, frozen=True):
    """Cached text of the fixed sections for one set of skills, and its keyword matcher."""

    skills: tuple[AvailableSkill, ...]
    by_name: dict[str, AvailableSkill]
    fixed: str
    sub_agent: str
    untrusted: tuple[str, ...]
    keywords: KeywordMatcher | None  # None: no skill has keywords


class SkillContributor:
    """Implements the Contributor port. The agent adds the `skill` tool separately (skills/tool)."""

    tools: tuple[Tool, ...] = ()

    def __init__(
        self,
        registry: SkillRegistry,
        *,
        catalogue_tokens: int = CATALOGUE_TOKENS_MAX,
        body_tokens: int = BODY_TOKENS_MAX,
    ) -> None:
        self._registry = registry
        self._catalogue_bytes = catalogue_tokens * BYTES_PER_TOKEN
        self._body_bytes = body_tokens * BYTES_PER_TOKEN
        self._sections: dict[int, _SkillSections] = {}  # by the id of the skills tuple, which many sessions share

    def fixed_section(self, session: str) -> str:
        return self._get_sections(session).fixed

    def sub_agent_section(self, session: str) -> str:
        """Return the trusted automatic skills, which apply to sub-agents, too.

        A sub-agent gets no catalogue, because it has one task and fixed tools, and no third-party text, because no
        user has approved that.
        """
        return self._get_sections(session).sub_agent

    def small_model_section(self, session: str) -> str:
        return self.sub_agent_section(session)

    def profile_section(self, session: str) -> str:
        return ""

    def untrusted_skills(self, session: str, before: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return the untrusted skills with text in the fixed section, even if that is only a description.

        `before` are those of the stored section; they count until the owner trusts them, even if they were removed.
        """
        standing = self._get_sections(session)
        if not before:
            return standing.untrusted
        trusted = {_text_identity(entry) for entry in standing.skills if not entry.untrusted}
        return (*standing.untrusted, *(earlier for earlier in before if earlier not in trusted))

    def turn_notes(self, session: str, prompt: str) -> tuple[Text, ...]:
        standing = self._get_sections(session)
        if standing.keywords is None and _REQUEST_WORD.search(prompt) is None:
            return ()
        from mainstay.skills.keyword_matcher import find_requested_skills  # only needed if a skill may be meant

        by_name = standing.by_name
        requested = find_requested_skills(prompt, by_name)
        triggered = set(standing.keywords.match(prompt) if standing.keywords is not None else ()).difference(requested)
        if not requested and not triggered:
            return ()
        budget = HashBudget()
        unknown = [name for name in requested if name not in by_name]
        texts: list[Text] = []
        for name in requested:  # the disk is checked again for the first unknown name only
            texts.append(self._requested_text(session, name, by_name.get(name), budget, refresh=name in unknown[:1]))
        ranked = _sort_narrowest_first([by_name[name] for name in triggered])
        texts += [text for entry in ranked[:TRIGGERED_MAX] if (text := self._triggered_text(entry, budget)) is not None]
        if omitted := [to_line(entry.skill.name) for entry in ranked[TRIGGERED_MAX:]]:
            texts.append(Text(f"These skills may also apply: {', '.join(sorted(omitted))}.", origin=CONTEXT_ORIGIN))
        return tuple(texts)

    def _requested_text(
        self, session: str, name: str, available: AvailableSkill | None, budget: HashBudget, *, refresh: bool
    ) -> Text:
        try:
            available = available or self._registry.get(session, name, refresh=refresh)
            call = f"The person asks for a skill. {_call_request(available)}"
            return self._skill_note(available, budget, call, requested=True) or Text(call, origin=CONTEXT_ORIGIN)
        except SkillRefused as error:
            text = (
                f"The person asks for the skill {shorten_for_message(name)!r}, which is not available. "
                f"Tell them: {error}"
            )
            return Text(text, origin=CONTEXT_ORIGIN)

    def _triggered_text(self, available: AvailableSkill, budget: HashBudget) -> Text | None:
        call = f"A skill may apply. {_call_request(available)}"
        try:
            return self._skill_note(available, budget, call) or Text(call, origin=CONTEXT_ORIGIN)
        except SkillRefused:  # it has just changed, and the user did not ask for it
            return None

    def _skill_note(
        self, available: AvailableSkill, budget: HashBudget, call: str, *, requested: bool = False
    ) -> TurnNote | None:
        """Render a skill for this turn; None if verifying its files takes too long. Raises SkillRefused.

        If the model sees the skill already, only its header is appended, because the header restricts the tools of the
        turn; nothing if it restricts none and the user did not ask for the skill by name.
        """
        try:
            current, body = self._registry.load_skill(available, budget)
        except SkillUnverified:
            return None
        source = _ORIGIN_PREFIX + current.skill.name
        text = render_skill(current, body, self._registry.list_trusted_files(current), self._body_bytes)
        names_it = requested or bool(current.skill.allowed_tools)
        return TurnNote(
            text,
            origin=format_origin(source, untrusted=True) if current.untrusted else source,
            if_shown="\n".join(header_lines(current)) + f"\n\n{SHOWN_ABOVE}" if names_it else "",
            if_full=call,
            kind=_ORIGIN_PREFIX,
            bytes_max=self._body_bytes * WINDOW_SIZE_FACTOR,
        )

    # --- tool restrictions -----------------------------------------------------------------------

    def tool_rules(self, headers: Sequence[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return the policy rules of each skill in use that has `allowed-tools`, by name.

        `headers` are the rendered headers that the turn has recorded, so that neither a later change of the skill nor a
        restart changes the rules. Automatic skills restrict nothing: they would restrict every turn of the workspace.
        """
        tools_by_skill = dict(parse_skill_header(head) for head in headers)
        if not any(tools_by_skill.values()):
            return ()
        from mainstay.skills.allowed_tools import parse_allowed_tools  # few skills have any

        return tuple((name, parse_allowed_tools(tools)) for name, tools in tools_by_skill.items() if tools)

    # --- the fixed section -----------------------------------------------------------------------

    def _get_sections(self, session: str) -> _SkillSections:
        skills = self._registry.skills(session)
        cached = self._sections.get(id(skills))
        if cached is None or cached.skills is not skills:
            if len(self._sections) >= _CACHE_MAX:  # a cache: all of it can be built again
                self._sections.clear()
            cached = self._sections[id(skills)] = self._build_sections(skills)
        return cached

    def _build_sections(self, skills: tuple[AvailableSkill, ...]) -> _SkillSections:
        keywords = _build_matcher(skills)
        automatic: list[tuple[AvailableSkill, str]] = []
        rest: list[AvailableSkill] = []
        left = self._body_bytes * AUTO_SIZE_FACTOR
        for entry in skills:
            current, text = self._automatic_text(entry) if entry.skill.trigger == "auto" else (entry, "")
            if not text or len(text.encode()) > left:
                if entry.skill.is_listed:
                    rest.append(current)
                continue
            automatic.append((current, text))
            left -= len(text.encode())
        catalogue, listed = _render_catalogue(rest, self._catalogue_bytes)
        fixed = "\n\n".join([*(text for _, text in automatic), *([catalogue] if catalogue else [])])
        sub_agent_text = "\n\n".join(text for entry, text in automatic if not entry.untrusted)
        untrusted = tuple(
            _text_identity(entry) for entry in [*listed, *(entry for entry, _ in automatic)] if entry.untrusted
        )
        return _SkillSections(
            skills, {entry.skill.name: entry for entry in skills}, fixed, sub_agent_text, untrusted, keywords
        )

    def _automatic_text(self, available: AvailableSkill) -> tuple[AvailableSkill, str]:
        try:
            current, body = self._registry.load_skill(available, HashBudget())
        except SkillRefused:  # it has just changed, which the next refresh reports; or it has too many files
            return available, ""
        head = f"## Skill: {to_line(current.skill.name)}\n\n"
        if current.untrusted:
            head += f"{to_line(current.untrusted_reason)} {THIRD_PARTY_NOTE}\n\n"
        if files := self._registry.list_files(current):
            head += f"It has {len(files)} more files in {to_line(current.shown_folder)}.\n\n"
        text = truncate_body(current, body, self._body_bytes) or to_line(
            current.skill.description, untrusted=current.untrusted
        )
        return current, head + text


def _build_matcher(skills: Sequence[AvailableSkill]) -> KeywordMatcher | None:
    keywords = {entry.skill.name: entry.skill.keywords for entry in skills if entry.skill.trigger == "keyword"}
    if not keywords:
        return None
    from mainstay.skills.keyword_matcher import KeywordMatcher

    return KeywordMatcher(keywords)


def _render_catalogue(skills: Sequence[AvailableSkill], bytes_max: int) -> tuple[str, list[AvailableSkill]]:
    """Return the catalogue, one line per skill, and the skills listed.

    If not all fit, descriptions are truncated, then skills of broader scopes are left out and counted.
    """
    if not skills:
        return "", []
    head = f"{HEADING}\n\n{GUIDANCE}\n"
    listed_skills, lines = list(skills), []
    for width in _DESCRIPTION_WIDTHS:
        lines = [_catalogue_line(entry, width) for entry in skills]
        if len(head.encode()) + sum(len(text.encode()) + 1 for text in lines) <= bytes_max:
            return "\n".join([head, *lines]), listed_skills
    left = bytes_max - len(head.encode()) - COUNT_LINE_BYTES
    if left < 0:
        return "", []
    line_by_name = dict(zip((entry.skill.name for entry in skills), lines, strict=True))
    listed_skills = []
    for entry in _sort_narrowest_first(skills):
        left -= len(line_by_name[entry.skill.name].encode()) + 1
        if left < 0:
            break
        listed_skills.append(entry)
    listed_skills.sort(key=lambda entry: entry.skill.name)
    listed_lines = [line_by_name[entry.skill.name] for entry in listed_skills]
    listed_lines.append(f"({len(skills) - len(listed_skills)} more, not listed: `skill` with a query finds them.)")
    return "\n".join([head, *listed_lines]), listed_skills


def _call_request(available: AvailableSkill) -> str:
    """Return a request to call the tool, which can verify the skill in a thread."""
    return f"Before you begin, call `{TOOL_NAME}` with the name {to_line(available.skill.name)}."


def _catalogue_line(available: AvailableSkill, width: int) -> str:
    description = to_line(available.skill.description, width, untrusted=available.untrusted)
    return f"- {to_line(available.skill.name)}: {description}"


def _sort_narrowest_first(skills: Sequence[AvailableSkill]) -> list[AvailableSkill]:
    return sorted(skills, key=lambda entry: (-entry.scope_rank, entry.skill.name))


def _text_identity(available: AvailableSkill) -> str:
    """Return an identifier of the skill and its exact text: another text of the same name is another skill."""
    return f"{available.skill.name}@{available.skill.digest[:16]}"
