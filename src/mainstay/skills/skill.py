"""Reads a skill: a folder with a SKILL.md of metadata and instructions (agentskills.io).

Our extensions are under `metadata`, so that the skills work in other agents: `gateway:trigger` (auto, keyword or
manual), `gateway:keywords` and `gateway:workspace`.
"""

from __future__ import annotations

import hashlib
import os
import unicodedata
from collections.abc import Mapping
from typing import Literal, get_args

import msgspec

from mainstay.core.json_types import JsonMapping, ReadOnlyJson
from mainstay.io.path_resolver import shorten_for_message
from mainstay.skills.frontmatter import SkillRefused, normalise_name, parse_lenient, read_skill_file
from mainstay.skills.keyword_matcher import parse_keywords
from mainstay.skills.validator import DESCRIPTION_CHARS_MAX, find_problems

__all__ = ["Skill", "SkillRefused", "SkillTrigger", "normalise_name", "read_skill"]

SkillTrigger = Literal["auto", "keyword", "manual"]

NAME_CHARS_MAX = 128  # twice what the format allows; names are shown
TOOLS_CHARS_MAX = 4_000  # of allowed-tools, which is shown to the model
_NAME_PUNCTUATION = "-_.: "


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata of a skill, without its body."""

    name: str
    description: str
    folder: str  # its real path
    license: str = ""
    compatibility: str = ""
    metadata: dict[str, str] = {}
    allowed_tools: str = ""  # as written in SKILL.md
    trigger: SkillTrigger = "manual"
    is_listed: bool = True  # False: its header says `manual`, so the model learns of it when a user asks for it by name
    keywords: tuple[str, ...] = ()
    workspace: str = ""  # the only workspace that may use it; empty: any
    digest: str = ""  # of SKILL.md
    body_line: int = 1  # of SKILL.md, where the body begins
    warnings: tuple[str, ...] = ()  # violations of the format; the skill is used nevertheless


def read_skill(folder: str) -> tuple[Skill, str]:
    """Return the skill in this folder and its body. Raises SkillRefused with the reason if it cannot be used."""
    text = read_skill_file(folder)
    header = parse_lenient(text)
    fields, folder_name = header.fields, os.path.basename(os.path.abspath(folder))
    warnings = find_problems(fields, folder_name)
    if header.yaml_problem:
        warnings.insert(0, f"The header is not valid YAML ({header.yaml_problem}); it was read leniently.")
    description = _parse_description(fields)
    metadata = _parse_metadata(fields, warnings)
    trigger = _parse_trigger(metadata, warnings)
    skill = Skill(
        name=_parse_name(fields, folder_name),
        description=description,
        folder=os.path.realpath(folder),
        license=_to_text(fields.get("license", "")),
        compatibility=_to_text(fields.get("compatibility", "")),
        metadata=metadata,
        allowed_tools=_parse_tools(fields, warnings),
        trigger=trigger or "manual",
        is_listed=trigger != "manual",
        keywords=parse_keywords(metadata.get("gateway:keywords", "")),
        workspace=metadata.get("gateway:workspace", "").strip(),
        digest=hashlib.blake2b(text.encode(), digest_size=16).hexdigest(),
        body_line=header.body_line,
        warnings=tuple(warnings),
    )
    return skill, header.body


def _parse_name(fields: JsonMapping, folder_name: str) -> str:
    """Return the skill's name; the folder's name if it is missing or invalid. Raises SkillRefused."""
    value = fields.get("name", "")
    for candidate in (value if isinstance(value, str) else "", folder_name):
        name = unicodedata.normalize("NFKC", candidate).strip(_NAME_PUNCTUATION)
        is_valid = all(
            char.isalnum() or char in _NAME_PUNCTUATION or unicodedata.category(char)[0] == "M" for char in name
        )
        if is_valid and name and len(name) <= NAME_CHARS_MAX:
            return name
    raise SkillRefused(
        f"{shorten_for_message(folder_name)!r} cannot be the name of a skill: use letters, digits and hyphens."
    )


def _parse_description(fields: JsonMapping) -> str:
    """Return the description, without which a model cannot choose the skill. It is in the instructions of every
    session, so a longer one than the format allows is truncated. Raises SkillRefused."""
    match fields.get("description"):
        case str(text) if text.strip():
            text = text.strip()
            return text if len(text) <= DESCRIPTION_CHARS_MAX else f"{text[: DESCRIPTION_CHARS_MAX - 1].rstrip()}…"
    raise SkillRefused("The header of SKILL.md has no description that is a text.")


def _parse_metadata(fields: JsonMapping, warnings: list[str]) -> dict[str, str]:
    """Return the metadata with all values as text."""
    match fields.get("metadata", ""):
        case dict(metadata):
            non_text = [key for key, value in metadata.items() if not isinstance(value, str)]
            if non_text:
                warnings.append(
                    f"The metadata has values that are not text: {', '.join(map(shorten_for_message, non_text[:10]))}."
                )
            return {key: _to_text(value) for key, value in metadata.items()}
        case "":
            return {}
    warnings.append("The metadata is not a map.")
    return {}


def _parse_trigger(metadata: Mapping[str, str], warnings: list[str]) -> SkillTrigger | None:
    """Return the trigger; None if the header has none, or one that is not known."""
    trigger = metadata.get("gateway:trigger", "").strip().casefold()
    for known in get_args(SkillTrigger):
        if trigger == known:
            return known  # type: ignore[no-any-return]
    if trigger:
        warnings.append(f"{shorten_for_message(trigger)!r} is not a trigger (auto, keyword or manual); it is ignored.")
    return None


def _parse_tools(fields: JsonMapping, warnings: list[str]) -> str:
    """Return allowed-tools as written. A field that is too long allows nothing: a part of it may allow more."""
    tools = " ".join(_to_text(fields.get("allowed-tools", "")).split())
    if len(tools) <= TOOLS_CHARS_MAX:
        return tools
    warnings.append(f"The field allowed-tools has more than {TOOLS_CHARS_MAX} characters, so it allows nothing.")
    return "(too long)"


def _to_text(value: ReadOnlyJson) -> str:
    """Return a value as text: lists joined with commas, deeper values as JSON."""
    match value:
        case str():
            return value.strip()
        case list() if all(isinstance(item, str) for item in value):
            return ", ".join(value)
    return msgspec.json.encode(value).decode()
