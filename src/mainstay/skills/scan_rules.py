"""Loads the detection rules of the security scan from attacks.txt, on first use."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

Severity = Literal["danger", "warning"]

_RULES_FILE = Path(__file__).with_name("attacks.txt")
_FRAGMENT_HEAD = re.compile(r"([A-Z_]+) =")
_RULE_HEAD = re.compile(r"(danger|warning|-) (danger|warning|-) (\S.*)")
_FRAGMENT_REFERENCE = re.compile(r"\{([A-Z_]+)\}")
_SEVERITIES: dict[str, Severity | None] = {"danger": "danger", "warning": "warning", "-": None}


class ScanRule(msgspec.Struct, frozen=True):
    """One detection rule: its pattern, its finding, and the severity in a script and on a page (None: ignored)."""

    description: str
    pattern: re.Pattern[str]
    near_words: tuple[str, ...]  # searched only around these words
    script_severity: Severity | None = None
    page_severity: Severity | None = None


class ScanRuleTable(msgspec.Struct, frozen=True):
    rules: tuple[ScanRule, ...]
    expressions: dict[str, re.Pattern[str]]


@cache
def load_rules() -> ScanRuleTable:
    entries = _parse_entries(_RULES_FILE.read_text("utf-8"))
    parts = {part[1]: body for head, _, body in entries if (part := _FRAGMENT_HEAD.fullmatch(head))}
    rules: list[ScanRule] = []
    expressions: dict[str, re.Pattern[str]] = {}
    for head, near, body in entries:
        if head.startswith(":"):
            expressions[head[1:]] = _compile(body, parts)
        elif (severities := _RULE_HEAD.fullmatch(head)) is not None:
            rules.append(
                ScanRule(
                    severities[3], _compile(body, parts), near, _SEVERITIES[severities[1]], _SEVERITIES[severities[2]]
                )
            )
        else:
            assert _FRAGMENT_HEAD.fullmatch(head), head
    return ScanRuleTable(tuple(rules), expressions)


def get_expression(name: str) -> re.Pattern[str]:
    return load_rules().expressions[name]


def _compile(lines: list[str], fragments: dict[str, list[str]]) -> re.Pattern[str]:
    return re.compile(_expand(lines, fragments), re.IGNORECASE | re.MULTILINE)


def _expand(lines: list[str], fragments: dict[str, list[str]]) -> str:
    pattern = "|".join(
        line.replace(" ?", r"\s{0,4}").replace(" ", r"\s{1,4}").replace("…", r"[^\n]{0,200}") for line in lines
    )
    return _FRAGMENT_REFERENCE.sub(lambda part: f"(?:{_expand(fragments[part[1]], fragments)})", pattern)


def _parse_entries(text: str) -> list[tuple[str, tuple[str, ...], list[str]]]:
    """Return the entries: first line, `near` words, and lines of the expression."""
    entries: list[tuple[str, tuple[str, ...], list[str]]] = []
    for line in text.splitlines():
        if line.startswith("    "):
            entries[-1][2].append(line[4:])
        elif line.startswith("  near "):
            head, near, body = entries[-1]
            entries[-1] = head, (*near, *msgspec.json.decode(line[7:], type=list[str])), body
        elif line and not line.startswith("#"):
            entries.append((line, (), []))
    return entries
