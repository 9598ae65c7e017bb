"""SKILL.md as it lies on the disk: a header of YAML between two lines of `---`, and the body below it.

It is read in two ways. `read_strictly` takes what the reference implementation of the format takes and nothing else:
it is what a validator asks. `read_leniently` is what an agent asks: other people's skills were written for other
readers, and what can be read safely is read.
"""

from __future__ import annotations

import os
import re
from typing import Any

import msgspec

from mainstay.core.errors import MainstayError
from mainstay.io.beneath import brief
from mainstay.io.paths import read_inside
from mainstay.io.yaml import YamlRefused, load

FILES = ("SKILL.md", "skill.md")  # the second is taken where the first is missing
FILE_BYTES_MAX = 1024 * 1024
HEADER_BYTES_MAX = 64 * 1024
_DEPTH_MAX = 20
_FENCE = "---"
_FENCED = re.compile(r"---[ \t]*\n(.*?\n)?---[ \t]*(?:\n|\Z)", re.DOTALL)
_ODD_BREAKS = re.compile("[\x85\u2028\u2029]")
_NO_KEY = re.compile(r"^( +):(?=[ \n])", re.MULTILINE)
_ENDS = re.compile(r"^\.\.\.(?=\s|$)", re.MULTILINE)
_MEANT = re.compile(r"[|>!&]|\*[^\s*]+\s*$")  # blocks, tags, anchors and aliases are no slips of the pen
_FIELD = re.compile(r"(?!metadata:)([A-Za-z][\w-]{0,63}):[ \t]+(\S.*)")


class SkillRefused(MainstayError):
    """This skill cannot be had, or not as it is."""


class Header(msgspec.Struct, frozen=True):
    """The fields as they were written: texts, and lists and maps of texts."""

    fields: dict[str, Any]
    body: str
    line: int = 1  # of the file, where the body begins
    trouble: str = ""  # what a strict reader would say of its YAML


def file_of(folder: str) -> str:
    """The path of its SKILL.md; raises SkillRefused if there is none."""
    for name in FILES:
        if os.path.lexists(path := os.path.join(folder, name)):
            return path
    raise SkillRefused(f"{brief(folder)} has no SKILL.md.")


def read_file(folder: str) -> str:
    """The text of its SKILL.md, a byte-order mark included, with line ends as everywhere else."""
    path = file_of(folder)
    try:
        data, size = read_inside(folder, path, FILE_BYTES_MAX + 1)
    except OSError as error:
        raise SkillRefused(f"{brief(path)} cannot be read: {error.strerror or error}.") from None
    if size > FILE_BYTES_MAX or len(data) > FILE_BYTES_MAX:
        raise SkillRefused(f"{brief(path)} has more than {FILE_BYTES_MAX} bytes.")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise SkillRefused(f"{brief(path)} is not text in UTF-8.") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


# --- as the reference reads it -------------------------------------------------------------------


def read_strictly(text: str) -> Header:
    """Raises SkillRefused. The header ends at the next three hyphens, wherever they stand."""
    header, body = _cut(text)
    header = _bounded(header)
    document, written, trouble = None, "", ""
    for written in dict.fromkeys((header, _with_keys(header))):
        try:
            document = load(written, depth_max=_DEPTH_MAX, strings=True, strict=True)
            break
        except YamlRefused as error:
            trouble = trouble or f"line {error.line}: {error.sentence}"
    if len(_ENDS.findall(header)) > 1:
        document, trouble = None, trouble or "a line of three dots ends it twice"
    if document is None:
        raise SkillRefused(f"The header of SKILL.md cannot be read: {trouble}.")
    if not isinstance(document.data, dict):
        raise SkillRefused("The header of SKILL.md has no fields, as `name: …`.")
    if key := _crooked(document.data, document.root, written):
        raise SkillRefused(f"The header of SKILL.md indents what belongs to {brief(key)!r} unlike the maps beside it.")
    return Header(document.data, body)


def _cut(text: str) -> tuple[str, str]:
    if not text.startswith(_FENCE):
        raise SkillRefused("SKILL.md does not begin with a line of three hyphens (---) and a header.")
    _, header, *rest = text.split(_FENCE, 2)
    if not rest:
        raise SkillRefused("The header of SKILL.md does not end with a line of three hyphens (---).")
    return header, rest[0].strip()


def _crooked(data: Any, place: Any, header: str) -> str:
    """A key whose map stands in another column than that of the key before it."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    column = None
    for key, value in items:
        child = place.children[key]
        if isinstance(data, dict) and isinstance(value, dict):
            here = child.start - header.rfind("\n", 0, child.start)
            if column not in (None, here):
                return str(key)
            column = here
        if found := _crooked(value, child, header):
            return found
    return ""


# --- as an agent reads it ------------------------------------------------------------------------


def read_leniently(text: str) -> Header:
    """Raises SkillRefused with what is wrong, as far as even a patient reader cannot go on."""
    text = text.removeprefix("\ufeff")
    found = _FENCED.match(text, len(text) - len(text.lstrip("\n")))
    ways = [(found[1] or "", text[found.end() :].strip())] if found else []
    trouble = ""
    for header, body in [*ways, _cut(text.lstrip("\n"))]:
        header = _bounded(header)
        for written in dict.fromkeys((header, _with_keys(header), _as_text(header))):
            try:
                document = load(written, depth_max=_DEPTH_MAX, strings=True)
            except YamlRefused as error:
                trouble = trouble or f"line {error.line + bool(found)}: {error.sentence}"
                continue
            if isinstance(document.data, dict):
                return Header(document.data, body, text.count("\n", 0, text.rfind(body)) + 1, trouble)
            trouble = trouble or "it has no fields, as `name: …`"
    raise SkillRefused(f"The header of SKILL.md cannot be read: {trouble}.")


def _bounded(header: str) -> str:
    """Not endless, and with the lines that it has for everyone: what only YAML 1.1 breaks a line at is a space."""
    if len(header.encode("utf-8", "surrogatepass")) > HEADER_BYTES_MAX:
        raise SkillRefused(f"The header of SKILL.md has more than {HEADER_BYTES_MAX} bytes.")
    return _ODD_BREAKS.sub(" ", header)


def _with_keys(header: str) -> str:
    """With keys that are empty written out: some readers see one where nothing stands before a colon."""
    return _NO_KEY.sub(r'\1? ""\n\1:', header)


def _as_text(header: str) -> str:
    """Every field but the metadata in quotes: `description: Use when: …` is no YAML, but what it means is plain."""
    lines, made, at = header.split("\n"), [], 0
    while at < len(lines):
        found = _FIELD.fullmatch(lines[at])
        at += 1
        if found is None or _MEANT.match(found[2]):
            made.append(lines[at - 1])
            continue
        value = [found[2].strip()]
        while at < len(lines) and lines[at][:1] in (" ", "\t"):
            value.append(lines[at].strip())
            at += 1
        whole = " ".join(value)
        if len(whole) > 1 and whole[0] == whole[-1] and whole[0] in "'\"":
            whole = whole[1:-1]
        made.append(f"{found[1]}: {msgspec.json.encode(whole).decode()}")
    return "\n".join(made)
