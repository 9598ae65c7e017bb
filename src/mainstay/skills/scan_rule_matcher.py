"""Prepares a file's text for the security scan (joined lines, concatenated strings) and matches the rules on it."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice

from mainstay.skills.scan_rules import ScanRule, Severity, get_expression, load_rules

MATCHES_PER_RULE_MAX = 3  # of one rule in one file
WINDOW_CHARS = 600
_LINE_CONTINUATION = re.compile(r"\\\n|`\n(?=\s)")
_CONCATENATION = re.compile(r"([\"'])\s{0,3}\+\s{0,3}\1|''|\"\"|(?<=\w)\\(?=[a-z])|\$\{IFS\}|\$IFS\b")
_HEADING = re.compile(r"^(?:#{1,6} .*|\*\*.*\*\*:?)$")

RawFinding = tuple[Severity, int, str]  # severity, line, finding


class ScanText:
    """Text of one file. `joined` has as many characters as `text`, so that offsets are the same in both."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text

    @cached_property
    def joined(self) -> str:
        return _LINE_CONTINUATION.sub("  ", self.text)

    @cached_property
    def concatenated(self) -> str:
        """The text with string concatenations evaluated: `"cu" + "rl"` and `c''url` become `curl`."""
        return _CONCATENATION.sub(lambda match: " " if "IFS" in match[0] else "", self.joined)

    @cached_property
    def joined_lower(self) -> str:
        return self.joined.lower()

    @cached_property
    def concatenated_lower(self) -> str:
        return self.concatenated.lower()

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(newline.end() for newline in re.finditer("\n", self.text))]

    def line_of(self, at: int) -> int:
        return bisect.bisect_right(self._line_starts, at)

    def context_before(self, at: int) -> str:
        """Return the text before this offset on its line, the line above, and the section's heading."""
        number = self.line_of(at) - 1
        lines = [self.text[self._line_starts[number] : at]]
        above = number - 1
        if above >= 0:
            lines.append(self._line(above))
        while above >= 0 and not _HEADING.match(self._line(above).strip()):
            above -= 1
        return "\n".join([*lines, self._line(above)] if above >= 0 else lines)

    def _line(self, number: int) -> str:
        end = self._line_starts[number + 1] if number + 1 < len(self._line_starts) else len(self.text)
        return self.text[self._line_starts[number] : end]


def match_rules(text: ScanText, *, is_script: bool) -> Iterator[RawFinding]:
    """Yield the findings of all rules for a script, or for a page."""
    for rule in load_rules().rules:
        level = rule.script_severity if is_script else rule.page_severity
        if level is None:
            continue
        matches = list(islice(_find_matches(rule, text.joined, text.joined_lower), MATCHES_PER_RULE_MAX))
        for match in matches:
            yield (
                _adjust_severity(text, rule, match, level, is_script=is_script),
                text.line_of(match.start()),
                rule.description,
            )
        if not is_script or matches or text.concatenated == text.joined:
            continue
        if next(_find_matches(rule, text.concatenated, text.concatenated_lower), None) is not None:
            yield "danger", 0, f"{rule.description}, and is obfuscated"


def _find_matches(rule: ScanRule, text: str, lower: str) -> Iterator[re.Match[str]]:
    """Search only around the rule's `near_words`: searching all of a long text would be slow."""
    if len(lower) != len(text):  # lower-casing changed the offsets
        yield from rule.pattern.finditer(text)
        return
    searched = 0
    for start, end in _windows(rule.near_words, lower):
        for match in rule.pattern.finditer(text, max(start, searched), end):
            searched = match.end()
            yield match


def _windows(words: Sequence[str], lower: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges around the words, merged where they overlap."""
    offsets = sorted(offset for word in words for offset in _find_offsets(word, lower))
    start = end = -1
    for offset in offsets:
        if offset - WINDOW_CHARS > end:
            if end >= 0:
                yield start, end
            start = max(0, offset - WINDOW_CHARS)
        end = offset + WINDOW_CHARS
    if end >= 0:
        yield start, end


def _find_offsets(word: str, lower: str) -> Iterator[int]:
    at = lower.find(word)
    while at >= 0:
        yield at
        at = lower.find(word, at + WINDOW_CHARS // 2)  # matches in between are in the same window


def _adjust_severity(
    text: ScanText, rule: ScanRule, match: re.Match[str], level: Severity, *, is_script: bool
) -> Severity:
    if rule.description.startswith("fetches") and get_expression("known installers").search(match[0]):
        return "warning"
    if level == "warning" or is_script:
        return level
    return "warning" if get_expression("warns").search(text.context_before(match.start())) else level
