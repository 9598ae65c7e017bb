"""The pages of the documentation, taken apart: blocks, headings, links, words in code quotes."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
READ = [*PAGES, ROOT / "README.md", ROOT / "deploy" / "README.md"]  # what newcomers read, on the site or not
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


class Block(NamedTuple):
    kind: str
    text: str
    where: str


class Link(NamedTuple):
    image: bool
    words: str
    target: str


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path) -> Iterator[Block]:
    text = text_of(page)
    for found in _BLOCK.finditer(text):
        yield Block(found[1], found[2], f"{name_of(page)}, line {text[: found.start()].count(chr(10)) + 2}")


@cache
def prose(page: Path) -> str:
    """Without blocks and comments."""
    return _COMMENT.sub("", _BLOCK.sub("", text_of(page)))


def links(page: Path) -> Iterator[Link]:
    bare = re.sub(r"`[^`\n]*`", lambda found: "x" * len(found[0]), prose(page))
    for found in _LINK.finditer(prose(page)):
        if bare[found.start()] == prose(page)[found.start()]:  # not inside of code quotes
            yield Link(bool(found[1]), found[2], found[3])


@cache
def anchors(page: Path) -> frozenset[str]:
    """As the site makes them of headings; a second one of the same words is numbered."""
    made: list[str] = []
    for heading in _HEADING.findall(prose(page)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug, number = slugify(words), 0
        while (f"{slug}_{number}" if number else slug) in made:
            number += 1
        made.append(f"{slug}_{number}" if number else slug)
    return frozenset(made)


def slugify(words: str) -> str:
    plain = unicodedata.normalize("NFKD", words).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def quoted(page: Path) -> list[str]:
    return re.findall(r"`([^`\n]+)`", prose(page))


@cache
def site() -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8")))


def in_navigation(entries: Any) -> Iterator[str]:
    match entries:
        case str():
            yield entries
        case list():
            for one in entries:
                yield from in_navigation(one)
        case dict():
            yield from in_navigation(list(entries.values()))
