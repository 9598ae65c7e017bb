"""Our Markdown as Discord shows it: nearly the same, but without tables, small headings and images."""

from __future__ import annotations

import re
import unicodedata

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}#{4,6}\s+(.*?)\s*#*\s*")
_RULE = re.compile(r"\s*\|?\s*:?-{1,}:?\s*(?:\|\s*:?-{1,}:?\s*)*\|?\s*")
_IMAGE = re.compile(r"!\[([^\]\n]*)\]\(([^)\s]+)\)")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
CELLS_MAX = 40


def discord_of(text: str) -> str:
    lines = _CONTROLS.sub("", text.replace("\r\n", "\n")).split("\n")
    made: list[str] = []
    fence, number = "", 0
    while number < len(lines):
        line = lines[number]
        mark = _FENCE.match(line)
        if fence:
            fence = "" if mark and mark[1].startswith(fence) and not line.strip(" `~") else fence
        elif mark:
            fence = mark[1]
        elif _is_table(lines, number):
            end = next((n for n in range(number, len(lines)) if "|" not in lines[n]), len(lines))
            made += ["```", *_table(lines[number:end]), "```"]
            number = end
            continue
        else:
            line = _line(line)
        made.append(line)
        number += 1
    return "\n".join(made)


def _line(line: str) -> str:
    heading = _HEADING.fullmatch(line)
    if heading and heading[1]:
        line = f"**{heading[1].replace('**', '')}**"
    return _IMAGE.sub(lambda found: f"[{found[1] or 'image'}]({found[2]})", line)


def _is_table(lines: list[str], number: int) -> bool:
    following = lines[number + 1] if number + 1 < len(lines) else ""
    return "|" in lines[number] and "|" in following and _RULE.fullmatch(following) is not None


def _table(lines: list[str]) -> list[str]:
    """In columns of one width; nothing in it can end the block of code that it becomes."""
    rows = [_cells(line) for line in (lines[0], *lines[2:])]
    count = max(len(row) for row in rows)
    rows = [[*row, *[""] * (count - len(row))] for row in rows]
    widths = [max(_width(row[column]) for row in rows) for column in range(count)]
    made = ["  ".join(_padded(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [made[0], "  ".join("-" * width for width in widths), *made[1:]]


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    cells = re.split(r"(?<!\\)\|", inner)[:CELLS_MAX]
    return [cell.strip().replace("\\|", "|").replace("```", "'''") for cell in cells]


def _width(text: str) -> int:
    """In columns of a terminal's font, more or less."""
    return sum(
        2 if unicodedata.east_asian_width(char) in "WF" else 0 if unicodedata.combining(char) else 1 for char in text
    )


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - _width(cell))
