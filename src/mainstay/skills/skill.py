"""A skill: a folder whose SKILL.md says what it is for and how it is done (agentskills.io).

What is ours stands under `metadata`, so that our skills work elsewhere: `gateway:trigger` (auto, keyword or manual),
`gateway:keywords` and `gateway:workspace`.
"""

from __future__ import annotations

import hashlib
import os
import unicodedata
from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec

from mainstay.io.beneath import brief
from mainstay.skills.header import SkillRefused, read_file, read_leniently
from mainstay.skills.match import keywords_of
from mainstay.skills.validate import problems_of

__all__ = ["Skill", "SkillRefused", "Trigger", "normal_name", "read_skill"]

Trigger = Literal["auto", "keyword", "manual"]

NAME_CHARS_MAX = 128  # twice what the format allows: a name is shown, and more than this is no name
TOOLS_CHARS_MAX = 4_000  # it is shown to the model
_IN_NAMES = "-_.: "


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a skill without its body."""

    name: str
    description: str
    folder: str  # its real path
    license: str = ""
    compatibility: str = ""
    metadata: dict[str, str] = {}
    allowed_tools: str = ""  # as it was written
    trigger: Trigger = "manual"
    keywords: tuple[str, ...] = ()
    workspace: str = ""  # the only one that it is for; empty: any
    digest: str = ""  # of its SKILL.md
    line: int = 1  # of that, where the body begins
    warnings: tuple[str, ...] = ()  # what a validator would say; it is used nevertheless


def read_skill(folder: str) -> tuple[Skill, str]:
    """The skill in this folder and its body. Raises SkillRefused with the reason if it cannot be used at all."""
    text = read_file(folder)
    header = read_leniently(text)
    fields, called = header.fields, os.path.basename(os.path.abspath(folder))
    warnings = problems_of(fields, called)
    if header.trouble:
        warnings.insert(0, f"The header is no proper YAML ({header.trouble}); it was read as it seems to be meant.")
    description = _described(fields)
    metadata = _metadata(fields, warnings)
    skill = Skill(
        name=_named(fields, called),
        description=description,
        folder=os.path.realpath(folder),
        license=_as_line(fields.get("license", "")),
        compatibility=_as_line(fields.get("compatibility", "")),
        metadata=metadata,
        allowed_tools=_tools(fields, warnings),
        trigger=_trigger(metadata, warnings),
        keywords=keywords_of(metadata.get("gateway:keywords", "")),
        workspace=metadata.get("gateway:workspace", "").strip(),
        digest=hashlib.blake2b(text.encode(), digest_size=16).hexdigest(),
        line=header.line,
        warnings=tuple(warnings),
    )
    return skill, header.body


def normal_name(name: str) -> str:
    """The same for all ways to write a name."""
    return unicodedata.normalize("NFKC", name.strip()).casefold()


def _named(fields: Mapping[str, Any], called: str) -> str:
    """Its name; one that has none, or one that cannot be said, is called as its folder is."""
    given = fields.get("name", "")
    for one in (given if isinstance(given, str) else "", called):
        name = unicodedata.normalize("NFKC", one).strip(_IN_NAMES)
        sound = all(char.isalnum() or char in _IN_NAMES or unicodedata.category(char)[0] == "M" for char in name)
        if sound and name and len(name) <= NAME_CHARS_MAX:
            return name
    raise SkillRefused(f"{brief(called)!r} cannot be the name of a skill: it takes letters, digits and hyphens.")


def _described(fields: Mapping[str, Any]) -> str:
    """Whoever is to choose it needs to know what it is for."""
    match fields.get("description"):
        case str(text) if text.strip():
            return text.strip()
    raise SkillRefused("The header of SKILL.md has no description that is a text.")


def _metadata(fields: Mapping[str, Any], warnings: list[str]) -> dict[str, str]:
    """A map of texts, whatever was written."""
    match fields.get("metadata", ""):
        case dict(given):
            odd = [key for key, value in given.items() if not isinstance(value, str)]
            if odd:
                warnings.append(f"The metadata holds more than texts: {', '.join(map(brief, odd[:10]))}.")
            return {key: _as_line(value) for key, value in given.items()}
        case "":
            return {}
    warnings.append("The metadata is no map.")
    return {}


def _trigger(metadata: Mapping[str, str], warnings: list[str]) -> Trigger:
    given = metadata.get("gateway:trigger", "").strip().casefold()
    for known in get_args(Trigger):
        if given == known:
            return known  # type: ignore[no-any-return]
    if given:
        warnings.append(f"{brief(given)!r} is no trigger: auto, keyword or manual. It is taken for manual.")
    return "manual"


def _tools(fields: Mapping[str, Any], warnings: list[str]) -> str:
    """As it was written; of what is too long nothing is taken, for half of it may say more than the whole."""
    tools = " ".join(_as_line(fields.get("allowed-tools", "")).split())
    if len(tools) <= TOOLS_CHARS_MAX:
        return tools
    warnings.append(f"What it says of allowed-tools has more than {TOOLS_CHARS_MAX} characters and allows nothing.")
    return "(too long)"


def _as_line(value: Any) -> str:
    """A list is written with commas; what is deeper, as JSON."""
    match value:
        case str():
            return value.strip()
        case list() if all(isinstance(one, str) for one in value):
            return ", ".join(value)
    return msgspec.json.encode(value).decode()
