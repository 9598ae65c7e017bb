"""Parses SKILL.md: YAML frontmatter between two lines of `---`, and the body.

There are two parsers. `parse_strict` accepts exactly what the specification's reference implementation accepts, for the
validator. `parse_lenient` is for agents: published skills were written for other parsers, and everything that can be
read safely is accepted.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable

import msgspec

from mainstay.core.errors import MainstayError
from mainstay.core.json_types import JsonObject, JsonValue
from mainstay.io.path_resolver import shorten_for_message
from mainstay.io.paths import read_confined
from mainstay.io.yaml import YamlPosition, YamlRefused, load_yaml

SKILL_FILE_NAMES = ("SKILL.md", "skill.md")  # the second is used if the first is missing
FILE_BYTES_MAX = 1024 * 1024
HEADER_BYTES_MAX = 64 * 1024
_DEPTH_MAX = 20
_FENCE = "---"
_FRONTMATTER = re.compile(r"---[ \t]*\n(.*?\n)?---[ \t]*(?:\n|\Z)", re.DOTALL)
_YAML_1_1_BREAKS = re.compile("[\x85\u2028\u2029]")
_EMPTY_KEY = re.compile(r"^( +):(?=[ \n])", re.MULTILINE)
_DOCUMENT_END = re.compile(r"^\.\.\.(?=\s|$)", re.MULTILINE)
_YAML_SYNTAX = re.compile(r"[|>!&]|\*[^\s*]+\s*$")  # block scalars, tags, anchors and aliases: intended YAML syntax
_FIELD = re.compile(r"(?!metadata:)([A-Za-z][\w-]{0,63}):[ \t]+(\S.*)")


class SkillRefused(MainstayError):
    """The skill is missing or cannot be used as it is."""


class Frontmatter(msgspec.Struct, frozen=True):
    """Parsed SKILL.md. `fields` has only text, and lists and maps of text."""

    fields: JsonObject
    body: str
    body_line: int = 1  # of the file, where the body begins
    yaml_problem: str = ""  # error of a strict YAML parser; empty if there is none


def find_skill_file(folder: str) -> str:
    """Return the path of the skill's SKILL.md. Raises SkillRefused if there is none."""
    for name in SKILL_FILE_NAMES:
        if os.path.lexists(path := os.path.join(folder, name)):
            return path
    raise SkillRefused(f"{shorten_for_message(folder)} has no SKILL.md.")


def read_skill_file(folder: str) -> str:
    """Return the text of SKILL.md, including a byte-order mark, with `\\n` line ends. Raises SkillRefused."""
    path = find_skill_file(folder)
    try:
        data, size = read_confined(folder, path, FILE_BYTES_MAX + 1)
    except OSError as error:
        raise SkillRefused(f"{shorten_for_message(path)} cannot be read: {error.strerror or error}.") from None
    if size > FILE_BYTES_MAX or len(data) > FILE_BYTES_MAX:
        raise SkillRefused(f"{shorten_for_message(path)} has more than {FILE_BYTES_MAX} bytes.")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise SkillRefused(f"{shorten_for_message(path)} is not text in UTF-8.") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


# --- strict --------------------------------------------------------------------------------------


def parse_strict(text: str) -> Frontmatter:
    """Parse like the reference implementation. Raises SkillRefused.

    The header ends at the next three hyphens, even in the middle of a line.
    """
    header, body = _split_frontmatter(text)
    header = _check_header(header)
    document, candidate, problem = None, "", ""
    for candidate in dict.fromkeys((header, _write_empty_keys(header))):
        try:
            document = load_yaml(candidate, depth_max=_DEPTH_MAX, scalars_as_text=True, strict=True)
            break
        except YamlRefused as error:
            problem = problem or f"line {error.line}: {error.reason}"
    if len(_DOCUMENT_END.findall(header)) > 1:
        document, problem = None, problem or "a line of three dots ends it twice"
    if document is None:
        raise SkillRefused(f"The header of SKILL.md cannot be read: {problem}.")
    if not isinstance(document.data, dict):
        raise SkillRefused("The header of SKILL.md has no fields, as `name: …`.")
    if key := _find_misindented_key(document.data, document.root_position, candidate):
        raise SkillRefused(
            f"The header of SKILL.md indents what belongs to {shorten_for_message(key)!r} unlike the maps beside it."
        )
    return Frontmatter(document.data, body)


def _split_frontmatter(text: str) -> tuple[str, str]:
    if not text.startswith(_FENCE):
        raise SkillRefused("SKILL.md does not begin with a line of three hyphens (---) and a header.")
    _, header, *rest = text.split(_FENCE, 2)
    if not rest:
        raise SkillRefused("The header of SKILL.md does not end with a line of three hyphens (---).")
    return header, rest[0].strip()


def _find_misindented_key(data: JsonValue, node: YamlPosition, header: str) -> str:
    """Return a key whose map is indented differently from the map of a key before it; "" if there is none."""
    items: Iterable[tuple[str | int, JsonValue]] = ()
    if isinstance(data, dict):
        items = data.items()
    elif isinstance(data, list):
        items = enumerate(data)
    column = None
    for key, value in items:
        child = node.children[key]
        if isinstance(data, dict) and isinstance(value, dict):
            here = child.start - header.rfind("\n", 0, child.start)
            if column not in (None, here):
                return str(key)
            column = here
        if nested := _find_misindented_key(value, child, header):
            return nested
    return ""


# --- lenient -------------------------------------------------------------------------------------


def parse_lenient(text: str) -> Frontmatter:
    """Parse with corrections of common mistakes. Raises SkillRefused if that is not enough."""
    text = text.removeprefix("\ufeff")
    fenced = _FRONTMATTER.match(text, len(text) - len(text.lstrip("\n")))
    splits = [(fenced[1] or "", text[fenced.end() :].strip())] if fenced else []
    problem = ""
    for header, body in [*splits, _split_frontmatter(text.lstrip("\n"))]:
        header = _check_header(header)
        for candidate in dict.fromkeys((header, _write_empty_keys(header), _quote_values(header))):
            try:
                document = load_yaml(candidate, depth_max=_DEPTH_MAX, scalars_as_text=True)
            except YamlRefused as error:
                problem = problem or f"line {error.line + bool(fenced)}: {error.reason}"
                continue
            if isinstance(document.data, dict):
                return Frontmatter(document.data, body, text.count("\n", 0, text.rfind(body)) + 1, problem)
            problem = problem or "it has no fields, as `name: …`"
    raise SkillRefused(f"The header of SKILL.md cannot be read: {problem}.")


def _check_header(header: str) -> str:
    """Check the size, and replace line breaks that only YAML 1.1 recognises by spaces. Raises SkillRefused."""
    if len(header.encode("utf-8", "surrogatepass")) > HEADER_BYTES_MAX:
        raise SkillRefused(f"The header of SKILL.md has more than {HEADER_BYTES_MAX} bytes.")
    return _YAML_1_1_BREAKS.sub(" ", header)


def _write_empty_keys(header: str) -> str:
    """Write empty keys explicitly: some parsers see one where nothing is before a colon."""
    return _EMPTY_KEY.sub(r'\1? ""\n\1:', header)


def _quote_values(header: str) -> str:
    """Quote all values except the metadata: `description: Use when: …` is invalid YAML with a clear meaning."""
    lines, output, index = header.split("\n"), [], 0
    while index < len(lines):
        field = _FIELD.fullmatch(lines[index])
        index += 1
        if field is None or _YAML_SYNTAX.match(field[2]):
            output.append(lines[index - 1])
            continue
        value = [field[2].strip()]
        while index < len(lines) and lines[index][:1] in (" ", "\t"):
            value.append(lines[index].strip())
            index += 1
        text = " ".join(value)
        if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
            text = text[1:-1]
        output.append(f"{field[1]}: {msgspec.json.encode(text).decode()}")
    return "\n".join(output)


def normalise_name(name: str) -> str:
    """Return the normalised form of a name, for comparison."""
    return unicodedata.normalize("NFKC", name.strip()).casefold()
