"""Whether a skill is what the format asks for: the same verdict as its reference implementation, in other words."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mainstay.io.beneath import brief
from mainstay.skills.header import SkillRefused, read_file, read_strictly

NAME_CHARS_MAX = 64
DESCRIPTION_CHARS_MAX = 1024
COMPATIBILITY_CHARS_MAX = 500
FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")


def validate(folder: Path) -> list[str]:
    """What is wrong with the skill in this folder, a sentence each; nothing if it is valid."""
    folder = Path(folder)
    if not folder.is_dir():
        return [f"{brief(str(folder))} is no folder."]
    try:
        header = read_strictly(read_file(str(folder)))
    except SkillRefused as error:
        return [str(error)]
    return problems_of(header.fields, folder.name)


def problems_of(fields: Mapping[str, Any], folder: str) -> list[str]:
    """`folder` is the name of the folder that it lies in."""
    found = []
    if unknown := sorted(set(fields) - set(FIELDS)):
        names = ", ".join(brief(name) for name in unknown[:10])
        found.append(f"The header has fields that the format does not know: {names}. It knows {', '.join(FIELDS)}.")
    found += _about_name(fields, folder)
    found += _about_description(fields)
    match fields.get("compatibility"):
        case None:
            pass
        case str(text):
            if len(text) > COMPATIBILITY_CHARS_MAX:
                found.append(f"The compatibility has {len(text)} characters; {COMPATIBILITY_CHARS_MAX} are allowed.")
        case _:
            found.append("The compatibility is not a text.")
    return found


def _about_name(fields: Mapping[str, Any], folder: str) -> list[str]:
    given = fields.get("name")
    if given is None:
        return ["The header has no name."]
    if not isinstance(given, str) or not given.strip():
        return ["The name is not a text, or empty."]
    name = unicodedata.normalize("NFKC", given.strip())
    shown = repr(brief(name))
    found = []
    if len(name) > NAME_CHARS_MAX:
        found.append(f"The name {shown} has {len(name)} characters; {NAME_CHARS_MAX} are allowed.")
    if name != name.lower():
        found.append(f"The name {shown} has capital letters.")
    if name.startswith("-") or name.endswith("-") or "--" in name:
        found.append(f"The name {shown} begins or ends with a hyphen, or has two in a row.")
    if not all(char.isalnum() or char == "-" for char in name):
        found.append(f"The name {shown} holds more than letters, digits and hyphens.")
    if unicodedata.normalize("NFKC", folder) != name:
        found.append(f"The name {shown} is not that of its folder, {brief(folder)!r}.")
    return found


def _about_description(fields: Mapping[str, Any]) -> list[str]:
    given = fields.get("description")
    if given is None:
        return ["The header has no description."]
    if not isinstance(given, str) or not given.strip():
        return ["The description is not a text, or empty."]
    if len(given) > DESCRIPTION_CHARS_MAX:
        return [f"The description has {len(given)} characters; {DESCRIPTION_CHARS_MAX} are allowed."]
    return []
