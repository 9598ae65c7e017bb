"""Scans text for prompt injection, invisible characters, hidden comments, encoded commands and bad frontmatter."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from itertools import islice

from mainstay.guards.injection_scanner import HIDDEN_TEXT_KIND
from mainstay.guards.injection_scanner import scan_text as attacks
from mainstay.guards.text_normalisation import find_hidden_text
from mainstay.skills.scan_rule_matcher import RawFinding, ScanText, match_rules
from mainstay.skills.scan_rules import Severity, get_expression

ATTACK_SCORE_MIN = 0.75  # score from which a match counts as an attack
WINDOW_LINES = 6
CONTEXT_CHARS = 500
ENCODED_RUNS_MAX = 64
HIDDEN_LINES_MAX = 3
COMMENTS_MAX = 200

# Also common in honest pages about programming with models.
_COMMON_KINDS = frozenset({"role impersonation", "persona", "call look-alike"})
_HIDDEN_TEXT_FINDINGS = {
    "tags": "has letters that only a model can see",
    "bidi": "is displayed differently from what it says: it overrides the direction of writing",
    "zero-width": "has invisible characters inside of words",
    "soft hyphens": "has invisible characters inside of words",
    "variation selectors": "has invisible characters that can carry a message",
}
_BASE64_RUN = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/]{24,8000}={0,2}(?![A-Za-z0-9+/=_-])")
_DESCRIPTION = re.compile(r"^description:[ \t]{0,4}(.{0,4000}?(?=^\S|\Z)|.{4000})", re.DOTALL | re.MULTILINE)
_ALLOWED_TOOLS = re.compile(r"^allowed-tools:[ \t]{0,4}(.{0,2000}?)(?=^\S|\Z)", re.DOTALL | re.MULTILINE)
_UNRESTRICTED_SHELL = re.compile(
    r"(?:^|[\s,\[\"'-])(?:\*|Bash(?:\(\s{0,3}[*:]{1,3}\s{0,3}\))?|Shell|Terminal)(?=$|[\s,\]\"'])"
)


def scan_any_text(text: ScanText, *, is_script: bool) -> Iterator[RawFinding]:
    """Yield findings that apply to any text, scripts and data files included."""
    yield from _hidden_characters(text)
    yield from _prompt_injections(text, is_script=is_script)
    yield from _encoded_commands(text)


def scan_page(text: ScanText) -> Iterator[RawFinding]:
    yield from match_rules(text, is_script=False)
    yield from _comment_instructions(text)
    yield from _program_downloads(text)
    if text.path.lower() == "skill.md":
        yield from _frontmatter_findings(text)


# --- hidden text ---------------------------------------------------------------------------------


def _hidden_characters(text: ScanText) -> Iterator[RawFinding]:
    for trick in find_hidden_text(text.text):
        lines = [number for number, line in enumerate(text.text.split("\n"), 1) if trick in find_hidden_text(line)]
        for number in lines[:HIDDEN_LINES_MAX] or [0]:
            yield "danger", number, _HIDDEN_TEXT_FINDINGS.get(trick, "hides something")


def _encoded_commands(text: ScanText) -> Iterator[RawFinding]:
    """Yield base64 runs that decode to a command."""
    for match, _ in zip(_BASE64_RUN.finditer(text.text), range(ENCODED_RUNS_MAX), strict=False):
        if get_expression("commands").search(_decode_base64(match[0])):
            yield "danger", text.line_of(match.start()), "hides a command in an encoding"


def _decode_base64(run: str) -> str:
    try:
        decoded = base64.b64decode(run + "=" * (-len(run) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return ""
    return decoded if len(decoded) >= 12 and all(char.isprintable() or char in "\n\t\r" for char in decoded) else ""


def _comment_instructions(text: ScanText) -> Iterator[RawFinding]:
    """Yield instructions in comments: a rendered page hides them, but a model reads them."""
    for offset, comment in islice(_iterate_comments(text.text), COMMENTS_MAX):
        inner = ScanText(text.path, comment)
        bad = any(level == "danger" for level, _, _ in match_rules(inner, is_script=True))
        if bad or attacks(comment) is not None or get_expression("to an agent").search(comment):
            yield "danger", text.line_of(offset), "gives instructions in a comment, which users do not see"


def _iterate_comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield the comments and their offsets. An unclosed comment extends to the end of the page."""
    at = text.find("<!--")
    while at >= 0:
        end = text.find("-->", at + 4)
        end = end if end >= 0 else len(text)
        yield at, text[at + 4 : end]
        at = text.find("<!--", end)


# --- visible text --------------------------------------------------------------------------------


def _prompt_injections(text: ScanText, *, is_script: bool) -> Iterator[RawFinding]:
    """Yield prompt injections. In a script they are only a warning: they may be output or test data."""
    attack = attacks(text.text)
    if attack is None or attack.kinds[0] == HIDDEN_TEXT_KIND or get_expression("defends").search(attack.excerpt):
        return
    line = _find_attack_line(text)  # 0: no single passage is an attack, only the text as a whole
    sure = line and attack.score >= ATTACK_SCORE_MIN and attack.kinds[0] not in _COMMON_KINDS
    level: Severity = "danger" if sure and not is_script else "warning"
    yield level, line, f"looks like a prompt injection ({', '.join(attack.kinds[:3])})"


def _find_attack_line(text: ScanText) -> int:
    lines = text.text.split("\n")
    for at in range(0, len(lines), WINDOW_LINES // 2):
        if attacks("\n".join(lines[at : at + WINDOW_LINES])) is not None:
            return next((n + 1 for n in range(at, min(at + WINDOW_LINES, len(lines))) if attacks(lines[n])), at + 1)
    return 0


def _program_downloads(text: ScanText) -> Iterator[RawFinding]:
    for match in get_expression("program download").finditer(text.text):
        near = text.text[max(0, match.start() - CONTEXT_CHARS) : match.end() + CONTEXT_CHARS]
        pressing = (
            get_expression("prerequisite").search(near) is not None
            and get_expression("run it").search(near) is not None
        )
        what = "asks the user to download a program and run it"
        yield "danger" if pressing else "warning", text.line_of(match.start()), what


# --- the header ----------------------------------------------------------------------------------


def _frontmatter_findings(text: ScanText) -> Iterator[RawFinding]:
    if not text.text.lstrip("\ufeff").startswith("---"):
        return
    head = text.text[: max(0, text.text.find("\n---", 3)) + 1]
    if (description := _DESCRIPTION.search(head)) is not None:
        line = text.line_of(description.start())
        if attacks(description[1]) is not None or get_expression("orders").search(description[1]):
            yield "danger", line, "gives commands in its description"
        elif get_expression("urges use").search(description[1]):
            yield "warning", line, "urges its own use in its description"
    if (tools := _ALLOWED_TOOLS.search(head)) is not None and _UNRESTRICTED_SHELL.search(tools[1]):
        yield "warning", text.line_of(tools.start()), "asks for all shell commands in allowed-tools"
