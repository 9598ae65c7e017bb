"""Converts Markdown to Discord's dialect, which has no tables, small headings or images."""

from __future__ import annotations

import re
import unicodedata

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}#{4,6}\s+(.*?)\s*#*\s*")
_TABLE_RULE = re.compile(r"\s*\|?\s*:?-{1,}:?\s*(?:\|\s*:?-{1,}:?\s*)*\|?\s*")
_IMAGE = re.compile(r"!\[([^\]\n]*)\]\(([^)\s]+)\)")
_CONTROL_CHARS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
TABLE_CELLS_MAX = 40


def markdown_to_discord(text: str) -> str:
    lines = _CONTROL_CHARS.sub("", text.replace("\r\n", "\n")).split("\n")
    output: list[str] = []
    fence, index = "", 0
    while index < len(lines):
        line = lines[index]
        fence_match = _FENCE.match(line)
        if fence:
            fence = "" if fence_match and fence_match[1].startswith(fence) and not line.strip(" `~") else fence
        elif fence_match:
            fence = fence_match[1]
        elif _is_table(lines, index):
            end = next((row for row in range(index, len(lines)) if "|" not in lines[row]), len(lines))
            output += ["```", *_format_table(lines[index:end]), "```"]
            index = end
            continue
        else:
            line = _convert_line(line)
        output.append(line)
        index += 1
    return "\n".join(output)


def _convert_line(line: str) -> str:
    heading = _HEADING.fullmatch(line)
    if heading and heading[1]:
        line = f"**{heading[1].replace('**', '')}**"
    return _IMAGE.sub(lambda match: f"[{match[1] or 'image'}]({match[2]})", line)


def _is_table(lines: list[str], index: int) -> bool:
    following = lines[index + 1] if index + 1 < len(lines) else ""
    return "|" in lines[index] and "|" in following and _TABLE_RULE.fullmatch(following) is not None


def _format_table(lines: list[str]) -> list[str]:
    """Return the table as padded columns for a code block, without anything that would end the block."""
    rows = [_split_cells(line) for line in (lines[0], *lines[2:])]
    count = max(len(row) for row in rows)
    rows = [[*row, *[""] * (count - len(row))] for row in rows]
    widths = [max(_display_width(row[column]) for row in rows) for column in range(count)]
    output = [
        "  ".join(_pad_cell(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return [output[0], "  ".join("-" * width for width in widths), *output[1:]]


def _split_cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    cells = re.split(r"(?<!\\)\|", inner)[:TABLE_CELLS_MAX]
    return [cell.strip().replace("\\|", "|").replace("```", "'''") for cell in cells]


def _display_width(text: str) -> int:
    """Return the approximate width in columns of a monospaced font."""
    return sum(
        2 if unicodedata.east_asian_width(char) in "WF" else 0 if unicodedata.combining(char) else 1 for char in text
    )


def _pad_cell(cell: str, width: int) -> str:
    return cell + " " * (width - _display_width(cell))
