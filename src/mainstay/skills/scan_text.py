"""A file's text as a scan reads it: whole, with lines that go on joined, and with strings put together again."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice

from mainstay.skills.scan_rules import Level, Rule, named, table

SAME_MAX = 3  # of one rule in one file
AROUND_CHARS = 600
_GOES_ON = re.compile(r"\\\n|`\n(?=\s)")
_GLUED = re.compile(r"([\"'])\s{0,3}\+\s{0,3}\1|''|\"\"|(?<=\w)\\(?=[a-z])|\$\{IFS\}|\$IFS\b")
_HEADING = re.compile(r"^(?:#{1,6} .*|\*\*.*\*\*:?)$")

Found = tuple[Level, int, str]  # how bad, on which line, what


class Text:
    """`joined` has as many characters as `text`, so that a place in one is a place in the other."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text

    @cached_property
    def joined(self) -> str:
        return _GOES_ON.sub("  ", self.text)

    @cached_property
    def glued(self) -> str:
        """`"cu" + "rl"` and `c''url` are what they become."""
        return _GLUED.sub(lambda found: " " if "IFS" in found[0] else "", self.joined)

    @cached_property
    def low(self) -> str:
        return self.joined.lower()

    @cached_property
    def low_glued(self) -> str:
        return self.glued.lower()

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(found.end() for found in re.finditer("\n", self.text))]

    def line_of(self, at: int) -> int:
        return bisect.bisect_right(self._starts, at)

    def before(self, at: int) -> str:
        """What stands before this place on its line, the line above it, and the heading that it is under."""
        number = self.line_of(at) - 1
        lines = [self.text[self._starts[number] : at]]
        above = number - 1
        if above >= 0:
            lines.append(self._line(above))
        while above >= 0 and not _HEADING.match(self._line(above).strip()):
            above -= 1
        return "\n".join([*lines, self._line(above)] if above >= 0 else lines)

    def _line(self, number: int) -> str:
        end = self._starts[number + 1] if number + 1 < len(self._starts) else len(self.text)
        return self.text[self._starts[number] : end]


def by_rules(text: Text, *, script: bool) -> Iterator[Found]:
    """What the table has to say of a script, or of a page."""
    for rule in table().rules:
        level = rule.script if script else rule.page
        if level is None:
            continue
        matches = list(islice(_matches(rule, text.joined, text.low), SAME_MAX))
        for found in matches:
            yield _level(text, rule, found, level, script=script), text.line_of(found.start()), rule.what
        if not script or matches or text.glued == text.joined:
            continue
        if next(_matches(rule, text.glued, text.low_glued), None) is not None:
            yield "danger", 0, f"{rule.what}, and is written so that this is hard to see"


def _matches(rule: Rule, text: str, low: str) -> Iterator[re.Match[str]]:
    """Around the words that a rule is looked for near: to search all of a long text takes its time."""
    if len(low) != len(text):  # a letter became two
        yield from rule.pattern.finditer(text)
        return
    done = 0
    for start, end in _windows(rule.near, low):
        for found in rule.pattern.finditer(text, max(start, done), end):
            done = found.end()
            yield found


def _windows(words: Sequence[str], low: str) -> Iterator[tuple[int, int]]:
    """Joined where they overlap."""
    places = sorted(place for word in words for place in _places(word, low))
    start = end = -1
    for place in places:
        if place - AROUND_CHARS > end:
            if end >= 0:
                yield start, end
            start = max(0, place - AROUND_CHARS)
        end = place + AROUND_CHARS
    if end >= 0:
        yield start, end


def _places(word: str, low: str) -> Iterator[int]:
    at = low.find(word)
    while at >= 0:
        yield at
        at = low.find(word, at + AROUND_CHARS // 2)  # what lies between is in the same window


def _level(text: Text, rule: Rule, found: re.Match[str], level: Level, *, script: bool) -> Level:
    if rule.what.startswith("fetches") and named("known installers").search(found[0]):
        return "warning"
    if level == "warning" or script:
        return level
    return "warning" if named("told").search(text.before(found.start())) else level
