"""Prompt-injection scanner: detects text that tries to give the agent instructions.

Most text is cleared by a cheap check for a few words. The rest is normalised and searched around the stems of known
phrases. A text about attacks is not an attack: quotations and examples count for less.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.trust.guards.injection_phrases import load_phrases, load_stem_index, load_trigger_words
from mainstay.trust.guards.text_normalisation import (
    LONG_RUN,
    RUN_TABLE,
    SPACED_LETTERS,
    WORD_TABLE,
    find_hidden_text,
    normalise_text,
)

THRESHOLD = 0.55
EXCERPT_CHARS = 160
AROUND_CHARS = 220  # searched on each side of a stem
OCCURRENCES_MAX = 200
FORBIDDEN_MAX = 200
FORBIDDEN_CHARS_MAX = 500
FORBIDDEN_TEXT_CHARS_MAX = 256 * 1024

HIDDEN_TEXT_KIND = "hidden text"
FORBIDDEN_KIND = "forbidden"


class InjectionFinding(msgspec.Struct, frozen=True):
    """What the scan found in a text."""

    kinds: tuple[str, ...]  # of attack, the most certain first
    score: float  # confidence, 0 to 1
    excerpt: str  # of the normalised text, around the strongest match


# --- cheap check ---------------------------------------------------------------------------------

_UNUSUAL_CHARACTERS = re.compile(  # scripts with stems of their own, and look-alike letters
    "[\u0300-\u036f\u0370-\u06ff\u0900-\u097f\u115f\u1160\u180e\u1d00-\u1d22\u200b-\u200f\u202a-\u202e"
    "\u2060-\u2069\u2460-\u24ff"
    "\u3040-\u30ff\u3164\u4e00-\u9fff\uac00-\ud7af"
    "\ufe00-\ufe0f\ufeff\uff00-\uffef\u00ad\u0262\u026a\u0274\u0280\u028f\u0299\u029c\u029f"
    "\U0001d400-\U0001d7ff\U0001f130-\U0001f1ff\U000e0000-\U000e0fff]"
)


def is_suspicious(text: str) -> bool:
    """Return False for most text, after a cheap check of its words and of anything that could encode words."""
    data = text.encode("ascii", "replace")
    if not load_trigger_words().isdisjoint(data.translate(WORD_TABLE).split()) or b"![" in data or b"<|" in data:
        return True
    runs = data.translate(RUN_TABLE)
    if (
        LONG_RUN in runs
        or SPACED_LETTERS in runs
        or (b"&" in data and b"#" in data)
        or (b"\\" in data and (b"\\x" in data or b"\\u" in data))
    ):
        return True
    if b"%" in data and (b"%20" in data or _ESCAPES.search(text)):
        return True
    return not text.isascii() and _UNUSUAL_CHARACTERS.search(text) is not None


_ESCAPES = re.compile("(?:%[4-7][0-9A-Fa-f]){2}")

# --- full scan -----------------------------------------------------------------------------------

_IMPERATIVE_CONTEXT = re.compile(  # what may precede an imperative verb
    r"(?:^|[.!?:;>\])\"'`*#\-|,/(\n0-9]"  # a digit too: files are shown with line numbers
    r"|\b(?:please|now|and|then|must|should|also|instead|first|just|immediately|kindly|so|but|you|assistant|ai"
    r"|agent"
    r"|claude|gpt|bot"
    r"|hello|hi|note|stop|system|user|let's|lets|will|always|need to|have to|want you to|like you to|going to|is to"
    r"|required to"
    r"|asked to|instructed to|ordered to|allowed to|free to|you to|ai to|assistant to|agent to"
    r"|model to|completely|simply))"
    r"\s*[\"'`*(\[]*$"
)
_PERMISSIVE_CONTEXT = re.compile(
    r"\b(?:you can|you may|safely|if you|feel free to|want to|can be|may be|should not|not|n't|never|if|unless|when)"
    r"\s(?:\w+\s){0,2}$"
)
_ATTACK_DISCUSSION = re.compile(  # words of a text about attacks
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
_CODE_CONTEXT = re.compile(r"(?:[\[(=,]\s?[rfb]?[\"']|`)$")  # inside a string literal, or marked as code


class _ScannedText:
    """A normalised text and the stems that occur in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.present_stems = load_stem_index().find_in_text(text)

    def windows(self, stems: frozenset[str]) -> list[tuple[int, int]]:
        """Return the ranges around all occurrences of these stems, merged where they overlap."""
        ranges: list[tuple[int, int]] = []
        for position in sorted(position for stem in stems for position in self._find_occurrences(stem))[
            :OCCURRENCES_MAX
        ]:
            start, end = max(0, position - AROUND_CHARS), position + AROUND_CHARS
            if ranges and start <= ranges[-1][1]:
                ranges[-1] = ranges[-1][0], end
            else:
                ranges.append((start, end))
        return ranges

    def _find_occurrences(self, stem: str) -> list[int]:
        positions: list[int] = []
        at = self.text.find(stem)
        while at >= 0 and len(positions) < OCCURRENCES_MAX:
            positions.append(at)
            at = self.text.find(stem, at + len(stem))
        return positions

    def compute_credibility(self, start: int, is_imperative: bool) -> float:
        """Return how far a phrase at this position is meant seriously (0 to 1), judged by the text around it."""
        before = self.text[max(0, start - 48) : start]
        factor = 1.0
        if is_imperative and not _IMPERATIVE_CONTEXT.search(before):
            factor *= 0.45
        elif is_imperative and _PERMISSIVE_CONTEXT.search(before):
            factor *= 0.3
        if _ATTACK_DISCUSSION.search(self.text, max(0, start - 240), start + 160):
            factor *= 0.45
        if _CODE_CONTEXT.search(before):
            factor *= 0.5
        return factor


def scan_text(text: str) -> InjectionFinding | None:
    """Return what `text` attempts; None if its score is below THRESHOLD."""
    return _scan_fully(text) if is_suspicious(text) else None


def _scan_fully(text: str) -> InjectionFinding | None:
    reading = _ScannedText(normalise_text(text))
    weights: dict[str, float] = {}
    best, best_start = 0.0, 0
    for phrase in load_phrases():
        near = reading.present_stems & phrase.stems
        for start, end in reading.windows(near) if near else ():
            match = phrase.expression.search(reading.text, start, end)
            if match is None:
                continue
            weight = phrase.weight * reading.compute_credibility(match.start(), phrase.is_imperative)
            if weight > weights.get(phrase.kind, 0.0):
                weights[phrase.kind] = weight
            if weight > best:
                best, best_start = weight, match.start()
    tricks = find_hidden_text(text)
    if tricks:
        weights[HIDDEN_TEXT_KIND] = max(weights.get(HIDDEN_TEXT_KIND, 0.0), 0.6 if "tags" in tricks else 0.35)
    remaining = 1.0
    for weight in weights.values():
        remaining *= 1 - weight
    score = round(1 - remaining, 3)
    if score < THRESHOLD:
        return None
    kinds = tuple(kind for kind, weight in sorted(weights.items(), key=lambda item: -item[1]) if weight >= 0.15)
    return InjectionFinding(kinds, score, reading.text[max(0, best_start - 20) :][:EXCERPT_CHARS])


# --- forbidden patterns --------------------------------------------------------------------------

# Nested quantifiers can take exponential time on a short text.
_NESTED = re.compile(r"\((?:[^()\\]|\\.)*(?:[+*]|\{\d*,\d*\})(?:[^()\\]|\\.)*\)(?:[+*]|\{\d*,?\d*\})")
_ALTERNATED = re.compile(r"\((?:[^()\\]|\\.)*\|(?:[^()\\]|\\.)*\)(?:[+*]|\{\d*,\d*\})")
_BACK_REFERENCE = re.compile(r"\\[1-9]|\(\?P=")


class InjectionScanner:
    """Injection scan plus the owner's forbidden patterns, regular expressions that ignore case."""

    def __init__(self, forbidden: Sequence[str] = ()) -> None:
        if len(forbidden) > FORBIDDEN_MAX:
            raise ConfigError(
                f"At most {FORBIDDEN_MAX} forbidden patterns are allowed; {len(forbidden)} are configured."
            )
        self._forbidden = tuple(_compile_forbidden(pattern) for pattern in forbidden)

    def scan(self, text: str) -> InjectionFinding | None:
        finding = scan_text(text)
        for pattern in self._forbidden:
            match = pattern.search(text[:FORBIDDEN_TEXT_CHARS_MAX])
            if match is not None:
                excerpt = text[max(0, match.start() - 20) :][:EXCERPT_CHARS]
                return InjectionFinding((FORBIDDEN_KIND, *(finding.kinds if finding else ())), 1.0, excerpt)
        return finding


def _compile_forbidden(pattern: str) -> re.Pattern[str]:
    if not pattern or len(pattern) > FORBIDDEN_CHARS_MAX:
        raise ConfigError(
            f"A forbidden pattern must have between 1 and {FORBIDDEN_CHARS_MAX} characters: {pattern[:60]!r}."
        )
    if _NESTED.search(pattern) or _ALTERNATED.search(pattern) or _BACK_REFERENCE.search(pattern):
        raise ConfigError(
            f"The forbidden pattern {pattern!r} has nested repetition, which can take forever; simplify it."
        )
    try:
        return re.compile(pattern, re.IGNORECASE)
    except (re.error, RecursionError, OverflowError) as error:
        raise ConfigError(f"The forbidden pattern {pattern!r} is not a regular expression: {error}.") from None
