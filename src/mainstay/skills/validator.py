"""Validates a skill against the Agent Skills specification, with the same verdicts as the reference validator."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from pathlib import Path

from mainstay.io.path_resolver import shorten_for_message
from mainstay.skills.frontmatter import SkillRefused, parse_strict, read_skill_file

NAME_CHARS_MAX = 64
DESCRIPTION_CHARS_MAX = 1024
COMPATIBILITY_CHARS_MAX = 500
FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")


def validate_skill(folder: Path) -> list[str]:
    """Return the problems of the skill in this folder, one sentence each; empty if it is valid."""
    folder = Path(folder)
    if not folder.is_dir():
        return [f"{shorten_for_message(str(folder))} is not a folder."]
    try:
        header = parse_strict(read_skill_file(str(folder)))
    except SkillRefused as error:
        return [str(error)]
    return find_problems(header.fields, folder.name)


def find_problems(fields: Mapping[str, object], folder_name: str) -> list[str]:
    """Return the problems of the header's fields. `folder_name` is the name of the skill's folder."""
    problems = []
    if unknown := sorted(set(fields) - set(FIELDS)):
        names = ", ".join(shorten_for_message(name) for name in unknown[:10])
        problems.append(f"The header has unknown fields: {names}. Allowed are {', '.join(FIELDS)}.")
    problems += _check_name(fields, folder_name)
    problems += _check_description(fields)
    match fields.get("compatibility"):
        case None:
            pass
        case str(text):
            if len(text) > COMPATIBILITY_CHARS_MAX:
                problems.append(f"The compatibility has {len(text)} characters; {COMPATIBILITY_CHARS_MAX} are allowed.")
        case _:
            problems.append("The compatibility must be text.")
    return problems


def _check_name(fields: Mapping[str, object], folder_name: str) -> list[str]:
    value = fields.get("name")
    if value is None:
        return ["The header has no name."]
    if not isinstance(value, str) or not value.strip():
        return ["The name must be text and not empty."]
    name = unicodedata.normalize("NFKC", value.strip())
    quoted_name = repr(shorten_for_message(name))
    problems = []
    if len(name) > NAME_CHARS_MAX:
        problems.append(f"The name {quoted_name} has {len(name)} characters; {NAME_CHARS_MAX} are allowed.")
    if name != name.lower():
        problems.append(f"The name {quoted_name} has capital letters.")
    if name.startswith("-") or name.endswith("-") or "--" in name:
        problems.append(f"The name {quoted_name} begins or ends with a hyphen, or has two in a row.")
    if not all(char.isalnum() or char == "-" for char in name):
        problems.append(f"The name {quoted_name} has characters other than letters, digits and hyphens.")
    if unicodedata.normalize("NFKC", folder_name) != name:
        problems.append(
            f"The name {quoted_name} differs from the name of its folder, {shorten_for_message(folder_name)!r}."
        )
    return problems


def _check_description(fields: Mapping[str, object]) -> list[str]:
    value = fields.get("description")
    if value is None:
        return ["The header has no description."]
    if not isinstance(value, str) or not value.strip():
        return ["The description must be text and not empty."]
    if len(value) > DESCRIPTION_CHARS_MAX:
        return [f"The description has {len(value)} characters; {DESCRIPTION_CHARS_MAX} are allowed."]
    return []
