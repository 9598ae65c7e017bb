"""Looks for attempts to command the agent through text that it reads.

Most text is let go by a look at a few stems. What is left is normalised and read around the places where such stems
stand. A text that talks about attacks is not one: what is quoted, or told of as an example, counts for less.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.trust.guards.normalise import APART, LONG_RUN, RUNS, WORDS, hidden, normalise
from mainstay.trust.guards.phrases import phrases, stems, telling_words

THRESHOLD = 0.55
EXCERPT_CHARS = 160
AROUND_CHARS = 220  # of a stem are read
PLACES_MAX = 200
FORBIDDEN_MAX = 200
FORBIDDEN_CHARS_MAX = 500
FORBIDDEN_TEXT_CHARS = 256 * 1024

HIDDEN = "hidden text"
FORBIDDEN = "forbidden"


class Finding(msgspec.Struct, frozen=True):
    """What a text tries, how sure that is (0 to 1), and the place."""

    kinds: tuple[str, ...]
    score: float
    excerpt: str


# --- the cheap look ------------------------------------------------------------------------------

_ODD = re.compile(  # scripts with stems of their own, and letters that are not what they seem
    "[\u0300-\u036f\u0370-\u06ff\u0900-\u097f\u115f\u1160\u180e\u1d00-\u1d22\u200b-\u200f\u202a-\u202e"
    "\u2060-\u2069\u2460-\u24ff"
    "\u3040-\u30ff\u3164\u4e00-\u9fff\uac00-\ud7af"
    "\ufe00-\ufe0f\ufeff\uff00-\uffef\u00ad\u0262\u026a\u0274\u0280\u028f\u0299\u029c\u029f"
    "\U0001d400-\U0001d7ff\U0001f130-\U0001f1ff\U000e0000-\U000e0fff]"
)


def suspicious(text: str) -> bool:
    """False for most text, after a look at its words and at anything that could hide some."""
    data = text.encode("ascii", "replace")
    if not telling_words().isdisjoint(data.translate(WORDS).split()) or b"![" in data or b"<|" in data:
        return True
    runs = data.translate(RUNS)
    if (
        LONG_RUN in runs
        or APART in runs
        or (b"&" in data and b"#" in data)
        or (b"\\" in data and (b"\\x" in data or b"\\u" in data))
    ):
        return True
    if b"%" in data and (b"%20" in data or _ESCAPES.search(text)):
        return True
    return not text.isascii() and _ODD.search(text) is not None


_ESCAPES = re.compile("(?:%[4-7][0-9A-Fa-f]){2}")

# --- the long look -------------------------------------------------------------------------------

_COMMANDS = re.compile(  # what may stand before a verb that commands
    r"(?:^|[.!?:;>\])\"'`*#\-|,/(\n0-9]"  # a number too: files are shown with those of their lines
    r"|\b(?:please|now|and|then|must|should|also|instead|first|just|immediately|kindly|so|but|you|assistant|ai"
    r"|agent"
    r"|claude|gpt|bot"
    r"|hello|hi|note|stop|system|user|let's|lets|will|always|need to|have to|want you to|like you to|going to|is to"
    r"|required to"
    r"|asked to|instructed to|ordered to|allowed to|free to|you to|ai to|assistant to|agent to"
    r"|model to|completely|simply))"
    r"\s*[\"'`*(\[]*$"
)
_PERMITS = re.compile(
    r"\b(?:you can|you may|safely|if you|feel free to|want to|can be|may be|should not|not|n't|never|if|unless|when)"
    r"\s(?:\w+\s){0,2}$"
)
_TOLD = re.compile(  # words of somebody who tells of attacks
    r"prompt[- ]injection|injection (?:attack|attempt)|jailbreak(?:s|ing)? (?:attempt|attack|technique|prompt)"
    r"|\bjailbreaks\b"
    r"|attackers?\b(?!@)|adversar|malicious|\be\.g\.|for example|for instance|such as"
    r"|(?:phrases?|strings?|text|words?|messages?|prompts?|sentences?|things|something|requests?) like"
    r"|an example|examples? of"
    r"|known as|classic|detect|scanner|guardrail|red[- ]team|vulnerab|\bcve-\d|owasp|research|\bpaper\b"
    r"|defen[cs]e|mitigat"
    r"|classifier|dataset|benchmark|test case|assert|\bpayloads?\b|tr(?:y|ies|ied|ying) to|attempts? to|asked it to"
    r"|telling (?:the|an|it)|(?:instructs?|tells?|asks?) (?:the|an|a) (?:model|llm|ai|agent|assistant)"
    r"|security (?:advisory|review)"
    r"|we (?:block|flag|reject|filter)"
    r"|should be (?:flagged|blocked|rejected)|threat|hacker"
)
_IN_CODE = re.compile(r"(?:[\[(=,]\s?[rfb]?[\"']|`)$")  # a string of a program, or marked as code


class _Reading:
    """One normalised text, and where the stems stand that are in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.present = stems().present(text)

    def windows(self, stems: frozenset[str]) -> list[tuple[int, int]]:
        """Around all of these, joined where they overlap."""
        joined: list[tuple[int, int]] = []
        for place in sorted(place for stem in stems for place in self._find(stem))[:PLACES_MAX]:
            start, end = max(0, place - AROUND_CHARS), place + AROUND_CHARS
            if joined and start <= joined[-1][1]:
                joined[-1] = joined[-1][0], end
            else:
                joined.append((start, end))
        return joined

    def _find(self, stem: str) -> list[int]:
        found: list[int] = []
        at = self.text.find(stem)
        while at >= 0 and len(found) < PLACES_MAX:
            found.append(at)
            at = self.text.find(stem, at + len(stem))
        return found

    def believed(self, start: int, command: bool) -> float:
        """How much of what is said here is meant, from what stands around it."""
        before = self.text[max(0, start - 48) : start]
        share = 1.0
        if command and not _COMMANDS.search(before):
            share *= 0.45
        elif command and _PERMITS.search(before):
            share *= 0.3
        if _TOLD.search(self.text, max(0, start - 240), start + 160):
            share *= 0.45
        if _IN_CODE.search(before):
            share *= 0.5
        return share


def scan(text: str) -> Finding | None:
    """What `text` tries, if it tries something."""
    return _scan(text) if suspicious(text) else None


def _scan(text: str) -> Finding | None:
    reading = _Reading(normalise(text))
    weights: dict[str, float] = {}
    best, where = 0.0, 0
    for phrase in phrases():
        near = reading.present & phrase.near
        for start, end in reading.windows(near) if near else ():
            found = phrase.expression.search(reading.text, start, end)
            if found is None:
                continue
            weight = phrase.weight * reading.believed(found.start(), phrase.command)
            if weight > weights.get(phrase.kind, 0.0):
                weights[phrase.kind] = weight
            if weight > best:
                best, where = weight, found.start()
    tricks = hidden(text)
    if tricks:
        weights[HIDDEN] = max(weights.get(HIDDEN, 0.0), 0.6 if "tags" in tricks else 0.35)
    doubt = 1.0
    for weight in weights.values():
        doubt *= 1 - weight
    score = round(1 - doubt, 3)
    if score < THRESHOLD:
        return None
    kinds = tuple(kind for kind, weight in sorted(weights.items(), key=lambda one: -one[1]) if weight >= 0.15)
    return Finding(kinds, score, reading.text[max(0, where - 20) :][:EXCERPT_CHARS])


# --- the owner's own patterns --------------------------------------------------------------------

# A repeated group that itself repeats can take forever on a short text.
_NESTED = re.compile(r"\((?:[^()\\]|\\.)*(?:[+*]|\{\d*,\d*\})(?:[^()\\]|\\.)*\)(?:[+*]|\{\d*,?\d*\})")
_ALTERNATED = re.compile(r"\((?:[^()\\]|\\.)*\|(?:[^()\\]|\\.)*\)(?:[+*]|\{\d*,\d*\})")
_BACKWARD = re.compile(r"\\[1-9]|\(\?P=")


class Scanner:
    """`scan`, and the owner's forbidden patterns: regular expressions, whatever the case of letters."""

    def __init__(self, forbidden: Sequence[str] = ()) -> None:
        if len(forbidden) > FORBIDDEN_MAX:
            raise ConfigError(f"At most {FORBIDDEN_MAX} forbidden patterns are taken; these are {len(forbidden)}.")
        self._forbidden = tuple(_compiled(pattern) for pattern in forbidden)

    def scan(self, text: str) -> Finding | None:
        found = scan(text)
        for pattern in self._forbidden:
            match = pattern.search(text[:FORBIDDEN_TEXT_CHARS])
            if match is not None:
                excerpt = text[max(0, match.start() - 20) :][:EXCERPT_CHARS]
                return Finding((FORBIDDEN, *(found.kinds if found else ())), 1.0, excerpt)
        return found


def _compiled(pattern: str) -> re.Pattern[str]:
    if not pattern or len(pattern) > FORBIDDEN_CHARS_MAX:
        raise ConfigError(f"A forbidden pattern has between 1 and {FORBIDDEN_CHARS_MAX} characters: {pattern[:60]!r}.")
    if _NESTED.search(pattern) or _ALTERNATED.search(pattern) or _BACKWARD.search(pattern):
        raise ConfigError(
            f"The forbidden pattern {pattern!r} repeats what repeats, which can take forever; simplify it."
        )
    try:
        return re.compile(pattern, re.IGNORECASE)
    except (re.error, RecursionError, OverflowError) as error:
        raise ConfigError(f"The forbidden pattern {pattern!r} is not a regular expression: {error}.") from None
