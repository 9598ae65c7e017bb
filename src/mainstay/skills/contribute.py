"""What skills put into a context: those that always hold, a list of the others, and those that a message calls for.

The first two are part of the fixed section, so they change only when a skill does; the third is appended to the turn.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mainstay.core.messages import Text
from mainstay.core.ports import Tool
from mainstay.core.recall import NOTE, origin_of
from mainstay.io.beneath import brief
from mainstay.skills.allowed import rules_of
from mainstay.skills.find import Found, Shelf
from mainstay.skills.header import SkillRefused
from mainstay.skills.match import Keywords, asked_for
from mainstay.skills.render import BYTES_PER_TOKEN, FOREIGN, bounded, introduce, line, tools_in
from mainstay.skills.trees import Allowance, NotCompared

CATALOGUE_TOKENS = 1_500
BODY_TOKENS = 8_000
BROUGHT_MAX = 5  # by their keywords; whoever asks for more by name gets more
AUTO_MAX = 4  # times the room of one skill, for all that always hold
TOOL, BY_NAME = "skill", "call_tool"
COUNT_BYTES = 80  # for the line that counts what is left out
_KNOWN_MAX = 256
_SOURCE = f"{NOTE}:skill:"
_WIDTHS = (1024, 500, 250, 120)  # of descriptions: the widest at which all of them fit

HEADING = "## Skills"
HOW = (
    "Instructions for special tasks. When one fits what is asked, call `skill` with its name before you begin, and "
    "follow what it says; its files are in the folder that it names, for `read` and `bash`."
)


class _Standing(msgspec.Struct, frozen=True):
    """What the skills of a session make of its fixed section, and how to find those that a message calls for."""

    found: tuple[Found, ...]
    by_name: dict[str, Found]
    fixed: str
    errand: str
    told: tuple[str, ...]
    keywords: Keywords


class SkillContributor:
    """The Contributor port. The tool is offered by whoever wires it (skills/tool)."""

    tools: tuple[Tool, ...] = ()

    def __init__(
        self, shelf: Shelf, *, catalogue_tokens: int = CATALOGUE_TOKENS, body_tokens: int = BODY_TOKENS
    ) -> None:
        self._shelf = shelf
        self._catalogue_bytes = catalogue_tokens * BYTES_PER_TOKEN
        self._body_bytes = body_tokens * BYTES_PER_TOKEN
        self._known: dict[int, _Standing] = {}  # by which skills: many sessions have the same

    def fixed(self, session: str) -> str:
        return self._standing(session).fixed

    def errand(self, session: str) -> str:
        """What always holds in a workspace holds for a sub-agent too. It has no list: it was sent to do one thing, with
        the tools that it was given. Nor has it anybody else's words: nobody has asked whether it should."""
        return self._standing(session).errand

    def brief(self, session: str) -> str:
        return self.errand(session)

    def profile(self, session: str) -> str:
        return ""

    def told(self, session: str, before: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Skills of somebody else whose words the fixed section holds: a description is enough. Those of `before`, when
        it was written, count for as long as nobody vouches for them: also when they are gone."""
        standing = self._standing(session)
        if not before:
            return standing.told
        vouched = {_known_as(one) for one in standing.found if not one.untrusted}
        return (*standing.told, *(one for one in before if one not in vouched))

    def turn(self, session: str, prompt: str) -> tuple[Text, ...]:
        standing = self._standing(session)
        by_name = standing.by_name
        asked = asked_for(prompt, by_name)
        called = standing.keywords.match(prompt).difference(asked)
        if not asked and not called:
            return ()
        room = Allowance()
        unknown = [name for name in asked if name not in by_name]
        texts = []
        for name in asked:  # the disk is looked at once more for the first that is not known, and for no other
            texts.append(self._asked(session, name, by_name.get(name), room, again=name in unknown[:1]))
        chosen = _narrowest_first([by_name[name] for name in called])
        texts += [text for found in chosen[:BROUGHT_MAX] if (text := self._called(found, room)) is not None]
        if left := [line(found.skill.name) for found in chosen[BROUGHT_MAX:]]:
            texts.append(Text(f"These skills may also be about it: {', '.join(sorted(left))}.", origin=NOTE))
        return tuple(texts)

    def _asked(self, session: str, name: str, found: Found | None, room: Allowance, *, again: bool) -> Text:
        try:
            found = found or self._shelf.get(session, name, again=again)
            return self._brought(found, room) or Text(f"The person asks for a skill. {_get(found)}", origin=NOTE)
        except SkillRefused as error:
            told = f"The person asks for the skill {brief(name)!r}, which cannot be had. Tell them: {error}"
            return Text(told, origin=NOTE)

    def _called(self, found: Found, room: Allowance) -> Text | None:
        try:
            return self._brought(found, room) or Text(f"A skill may be about it. {_get(found)}", origin=NOTE)
        except SkillRefused:  # it changed this very moment, and nobody has asked for it
            return None

    def _brought(self, found: Found, room: Allowance) -> Text | None:
        """None if it takes too long to tell whether it is what was approved. Raises SkillRefused."""
        try:
            now, body = self._shelf.open(found, room)
        except NotCompared:
            return None
        source = _SOURCE + now.skill.name
        text = introduce(now, body, self._shelf.nameable(now), self._body_bytes)
        return Text(text, origin=origin_of(source, untrusted=True) if now.untrusted else source)

    # --- what a turn may do ----------------------------------------------------------------------

    def narrowing(self, followed: Sequence[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Of the skills that a turn follows, each that names tools, with the rules that these make.

        `followed` is what was shown of each before its body, as the turn has kept it: a skill that changes meanwhile
        changes nothing, and a restart neither. A skill that always holds narrows nothing: it would take from every turn
        of its workspace what only some of them need for it.
        """
        found = dict(tools_in(head) for head in followed)
        return tuple((name, rules_of(tools)) for name, tools in found.items() if tools)

    # --- the fixed section -----------------------------------------------------------------------

    def _standing(self, session: str) -> _Standing:
        found = self._shelf.skills(session)
        known = self._known.get(id(found))
        if known is None or known.found is not found:
            if len(self._known) >= _KNOWN_MAX:  # all of it can be made again
                self._known.clear()
            known = self._known[id(found)] = self._make(found)
        return known

    def _make(self, found: tuple[Found, ...]) -> _Standing:
        keywords = Keywords({one.skill.name: one.skill.keywords for one in found if one.skill.trigger == "keyword"})
        always: list[tuple[Found, str]] = []
        rest: list[Found] = []
        left = self._body_bytes * AUTO_MAX
        for one in found:
            now, text = self._always(one) if one.skill.trigger == "auto" else (one, "")
            if not text or len(text.encode()) > left:
                rest.append(now)
                continue
            always.append((now, text))
            left -= len(text.encode())
        catalogue, shown = _catalogue(rest, self._catalogue_bytes)
        fixed = "\n\n".join([*(text for _, text in always), *([catalogue] if catalogue else [])])
        errand = "\n\n".join(text for one, text in always if not one.untrusted)
        told = tuple(_known_as(one) for one in [*shown, *(one for one, _ in always)] if one.untrusted)
        return _Standing(found, {one.skill.name: one for one in found}, fixed, errand, told, keywords)

    def _always(self, found: Found) -> tuple[Found, str]:
        try:
            now, body = self._shelf.open(found, Allowance())
        except SkillRefused:  # it changed this very moment, and the next look will tell; or it has too many files
            return found, ""
        head = f"## Skill: {line(now.skill.name)}\n\n"
        if now.untrusted:
            head += f"{line(now.why)} {FOREIGN}\n\n"
        if files := self._shelf.files(now):
            head += f"It has {len(files)} more files in {line(now.skill.folder)}.\n\n"
        text = bounded(now, body, self._body_bytes) or line(now.skill.description, untrusted=now.untrusted)
        return now, head + text


def _catalogue(skills: Sequence[Found], bytes_max: int) -> tuple[str, list[Found]]:
    """A line for each skill, and which of them are there. Where there is no room for all, descriptions are cut, and
    then skills of broader scopes are left out and counted."""
    if not skills:
        return "", []
    head = f"{HEADING}\n\n{HOW}\n"
    shown, lines = list(skills), []
    for width in _WIDTHS:
        lines = [_entry(one, width) for one in skills]
        if len(head.encode()) + sum(len(one.encode()) + 1 for one in lines) <= bytes_max:
            return "\n".join([head, *lines]), shown
    left = bytes_max - len(head.encode()) - COUNT_BYTES
    if left < 0:
        return "", []
    written = dict(zip((one.skill.name for one in skills), lines, strict=True))
    shown = []
    for one in _narrowest_first(skills):
        left -= len(written[one.skill.name].encode()) + 1
        if left < 0:
            break
        shown.append(one)
    shown.sort(key=lambda one: one.skill.name)
    listed = [written[one.skill.name] for one in shown]
    listed.append(f"({len(skills) - len(shown)} more, not listed: `skill` with a query finds them.)")
    return "\n".join([head, *listed]), shown


def _get(found: Found) -> str:
    """Calling takes its time beside the loop."""
    return f"Before you begin, call `{TOOL}` with the name {line(found.skill.name)}."


def _entry(found: Found, width: int) -> str:
    return f"- {line(found.skill.name)}: {line(found.skill.description, width, untrusted=found.untrusted)}"


def _narrowest_first(skills: Sequence[Found]) -> list[Found]:
    return sorted(skills, key=lambda one: (-one.rank, one.skill.name))


def _known_as(found: Found) -> str:
    """A skill and its very words: another of the same name is another."""
    return f"{found.skill.name}@{found.skill.digest[:16]}"
