"""`skill`: what the model calls to have a skill's instructions, one of its files, or to look for one."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from mainstay.core.arguments import read_arguments, schema_of
from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.core.recall import is_private, is_untrusted
from mainstay.core.workers import in_thread
from mainstay.io.beneath import PathRefused, brief, checked
from mainstay.io.paths import read_inside
from mainstay.skills.find import Found, Shelf
from mainstay.skills.header import SkillRefused
from mainstay.skills.match import folded
from mainstay.skills.render import BYTES_PER_TOKEN, clean, head_of, introduce, line

BODY_TOKENS = 8_000
PAGE_BYTES = 32 * 1024
FILE_BYTES_MAX = 4 * 1024 * 1024
LINE_CHARS_MAX = 2_000
FOUND_MAX = 20
WORDS_MAX = 20


class _Wanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str | None = None
    file: str | None = None
    offset: int | None = None
    query: str | None = None


class SkillTool:
    """Reads only. What it says is the owner's own, unless the skill is somebody else's."""

    name = "skill"
    description = (
        "Instructions for special tasks: name gets a skill's (file: one of its files instead, from line offset on), "
        "query looks for skills."
    )
    schema = schema_of(_Wanted)
    effect: Effect = "pure"
    timeout_s: float | None = None
    untrusted = False
    sink: bool | tuple[str, ...] = False
    capabilities: tuple[str, ...] = ("skill",)

    def __init__(self, shelf: Shelf, body_tokens: int = BODY_TOKENS) -> None:
        self._shelf = shelf
        self._body_bytes = body_tokens * BYTES_PER_TOKEN

    def wanted(self) -> bool:
        """It is offered while there are skills."""
        return self._shelf.has_some()

    def parse(self, input: str) -> Any:
        return read_arguments(input, _Wanted, self.schema)

    async def run(self, arguments: _Wanted, context: ToolContext) -> str:
        if not arguments.name or not arguments.name.strip():
            return self._search(arguments.query or "", context)
        found = self._shelf.get(context.session, arguments.name)
        if arguments.file:
            return str(await in_thread(lambda: self._file(found, arguments, context)))
        return str(await in_thread(lambda: self._whole(found, context)))

    async def reconcile(self, arguments: _Wanted, context: ToolContext) -> str | None:
        return None  # may simply be run again

    def _whole(self, found: Found, context: ToolContext) -> str:
        now, body = self._shelf.open(found)
        context.untrusted = context.untrusted or now.untrusted
        return introduce(now, body, self._shelf.nameable(now), self._body_bytes)

    def _file(self, found: Found, wanted: _Wanted, context: ToolContext) -> str:
        context.untrusted = context.untrusted or found.untrusted  # also of what is said when there is no such file
        path = _inside(found.skill.folder, wanted.file or "")
        try:
            data, size = read_inside(found.skill.folder, path, FILE_BYTES_MAX)
        except (OSError, ValueError) as error:
            raise self._missing(found, wanted.file or "", error) from None
        now, _ = self._shelf.open(found)  # after it was read: what is shown is what was approved
        origin = self._shelf.origin(os.path.realpath(path))
        context.untrusted = context.untrusted or now.untrusted or is_untrusted(origin)
        context.private = context.private or is_private(origin)
        if b"\0" in data[:8192]:
            raise SkillRefused(f"{brief(wanted.file or '')} is no text: it has {size} bytes, and is at {brief(path)}.")
        said, page = _page(data.decode(errors="replace"), max(wanted.offset or 1, 1), size)
        head = [*head_of(now), f"File: {brief(os.path.relpath(path, now.skill.folder))}, {said}"]
        return "\n".join(head) + "\n\n" + clean(page, untrusted=now.untrusted)

    def _missing(self, found: Found, file: str, error: Exception) -> SkillRefused:
        if isinstance(error, FileNotFoundError):
            there = ", ".join(line(one, 100) for one in self._shelf.nameable(found)[0][:FOUND_MAX]) or "no others"
            return SkillRefused(f"The skill {found.skill.name} has no file {brief(file)!r}. Beside SKILL.md: {there}.")
        reason = getattr(error, "strerror", None) or "it is no path"
        return SkillRefused(f"{brief(file)!r} of the skill {found.skill.name} cannot be read: {reason}.")

    def _search(self, query: str, context: ToolContext) -> str:
        found = self._shelf.skills(context.session)
        words = list(dict.fromkeys(folded(query).split()))[:WORDS_MAX]
        ranked = sorted(((_score(one, words), one) for one in found), key=lambda one: (-one[0], one[1].skill.name))
        best = [one for score, one in ranked if score or not words][:FOUND_MAX]
        if not best:
            return f"None of the {len(found)} skills is about that." if found else "There are no skills."
        context.untrusted = context.untrusted or any(one.untrusted for one in best)
        lines = [f"- {line(one.skill.name)}: {line(one.skill.description, untrusted=one.untrusted)}" for one in best]
        return "\n".join([f"{len(best)} of {len(found)} skills; `skill` with a name gets one.", *lines])


def skill_tool(shelf: Shelf, *, body_tokens: int = BODY_TOKENS) -> Tool:
    return SkillTool(shelf, body_tokens)


def _inside(folder: str, file: str) -> str:
    """What is meant by a path: in the skill's folder, or with it before."""
    try:
        return checked(file, folder)
    except PathRefused as error:
        raise SkillRefused(str(error)) from None


def _page(text: str, first: int, size: int) -> tuple[str, str]:
    """Lines from one on, as many as fit, and what to say of them."""
    lines = text.split("\n")
    kept: list[str] = []
    left = PAGE_BYTES
    for one in lines[first - 1 :]:
        shown = one if len(one) <= LINE_CHARS_MAX else f"{one[:LINE_CHARS_MAX]} [cut: it has {len(one)} characters]"
        left -= len(shown.encode()) + 1
        if left < 0:
            break
        kept.append(shown)
    last = first - 1 + len(kept)
    told = f"lines {first} to {last} of {len(lines)}" if kept else f"it has {len(lines)} lines"
    if size > FILE_BYTES_MAX:
        told += f" in the first {FILE_BYTES_MAX} of its {size} bytes"
    return told, "\n".join(kept)


def _score(found: Found, words: list[str]) -> int:
    """A word in a name counts most."""
    name, text = folded(found.skill.name), folded(f"{found.skill.description} {' '.join(found.skill.keywords)}")
    return sum(3 * (word in name) + (word in text) for word in words)
