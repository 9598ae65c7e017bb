"""Prompt-injection scanner: detects text that tries to give the agent instructions.

Most text is cleared by a cheap check for a few words. The rest is normalised and searched around the stems of known
phrases. A long text is scanned in pieces, all of it. A text that quotes an attack is reported like the attack: no word
nearby makes it harmless, because an attacker can write that word too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.guards.injection_phrases import load_phrases, load_stem_index, load_trigger_words
from mainstay.guards.text_normalisation import (
    LONG_RUN,
    RUN_TABLE,
    WORD_TABLE,
    find_hidden_text,
    fold_letters,
    has_encoded_lines,
    may_be_spaced,
    normalise_text,
    remove_markup_in_words,
    split_into_pieces,
)

THRESHOLD = 0.55
EXCERPT_CHARS = 160
AROUND_CHARS = 220  # searched on each side of a stem
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
    words = _split_words(data)
    if not load_trigger_words().isdisjoint(words) or b"![" in data or b"<|" in data:
        return True
    if LONG_RUN in data.translate(RUN_TABLE):
        return True
    if len(_SINGLE_LETTERS.intersection(words)) >= _SPACED_MIN and may_be_spaced(data):
        return True
    if b"&" in data and _ENTITY.search(text):
        return True
    if b"%" in data and (b"%20" in data or b"%25" in data or _ESCAPES.search(text)):
        return True
    if b"\\" in data and (b"\\x" in data or b"\\u" in data or b"\\U" in data):
        return True
    if b"0x" in data and data.count(b"0x") > 7:
        return True
    unmarked = remove_markup_in_words(text)
    if unmarked is not None and _has_trigger_word(unmarked):
        return True
    if b"\n" in data and has_encoded_lines(text):
        return True
    return not text.isascii() and _has_unusual_letters(text)


def _split_words(data: bytes) -> list[bytes]:
    if b"\\" in data:  # the escape of a line end is not a part of the word after it
        data = data.replace(b"\\n", b"  ").replace(b"\\r", b"  ").replace(b"\\t", b"  ")
    return data.translate(WORD_TABLE).split()


def _has_trigger_word(text: str) -> bool:
    return not load_trigger_words().isdisjoint(_split_words(text.encode("ascii", "replace")))


def _has_unusual_letters(text: str) -> bool:
    """Return True for scripts with stems of their own and look-alikes, and for a trigger word written with accents."""
    if _UNUSUAL_CHARACTERS.search(text) is not None:
        return True
    return _ACCENTED.search(text) is not None and _has_trigger_word(fold_letters(text))


_SINGLE_LETTERS = frozenset(bytes((code,)) for code in b"abcdefghijklmnopqrstuvwxyz")
_SPACED_MIN = 5  # different single letters of a text that is examined for words written apart, or in hex
_ESCAPES = re.compile("(?:%[2-7][0-9A-Fa-f]){2}")
_ENTITY = re.compile("&(?:#|[a-zA-Z]{2,20};)")
_ACCENTED = re.compile("[\u00c0-\u024f\u0250-\u02af\u1e00-\u1eff]")

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
    r"\b(?:you can|you may|safely|feel free to|want to|can be|may be|should not|not|n't|never"
    r"|(?:if|unless|when) (?:you|we|they|it|users?|people))\s(?:\w+\s){0,2}$"
)


_STATEMENT_CONTEXT = re.compile(  # what precedes a verb that is not an imperative: a subject, an auxiliary, "to"
    r"(?:\b(?:to|can|may|might|could|would|cannot|do|does|did|not|we|they|i|that|which|who|the|a|an|of|for|with|or)"
    r"|n't|[a-rt-z]s|ing)\s(?:\w+ly\s)?$"
)


class _ScannedText:
    """A normalised text and the stems that occur in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.present_stems = load_stem_index().find_in_text(text)

    def windows(self, stems: frozenset[str]) -> list[tuple[int, int]]:
        """Return the ranges around all occurrences of these stems, merged where they overlap."""
        ranges: list[tuple[int, int]] = []
        for position in sorted(position for stem in stems for position in self._find_occurrences(stem)):
            start, end = max(0, position - AROUND_CHARS), position + AROUND_CHARS
            if ranges and start <= ranges[-1][1]:
                ranges[-1] = ranges[-1][0], end
            else:
                ranges.append((start, end))
        return ranges

    def _find_occurrences(self, stem: str) -> list[int]:
        positions: list[int] = []
        at = self.text.find(stem)
        while at >= 0:
            positions.append(at)
            at = self.text.find(stem, at + len(stem))
        return positions

    def compute_credibility(self, start: int, is_imperative: bool) -> float:
        """Return how far a phrase at this position is meant seriously (0 to 1), judged by the text around it."""
        before = self.text[max(0, start - 48) : start]
        if is_imperative and _PERMISSIVE_CONTEXT.search(before):
            return 0.3
        if is_imperative and _STATEMENT_CONTEXT.search(before) and not _IMPERATIVE_CONTEXT.search(before):
            return 0.45
        return 1.0


def scan_text(text: str) -> InjectionFinding | None:
    """Return what `text` attempts; None if its score is below THRESHOLD."""
    best: InjectionFinding | None = None
    for piece in split_into_pieces(text):
        finding = _scan_fully(piece) if is_suspicious(piece) else None
        if finding is not None and (best is None or finding.score > best.score):
            best = finding
    return best


def _scan_fully(text: str) -> InjectionFinding | None:
    reading = _ScannedText(normalise_text(text))
    weights: dict[str, float] = {}
    best, best_start = 0.0, 0
    for phrase in load_phrases():
        near = reading.present_stems & phrase.stems
        for start, end in reading.windows(near) if near else ():
            for match in phrase.expression.finditer(reading.text, start, end):
                weight = phrase.weight * reading.compute_credibility(match.start(), phrase.is_imperative)
                if weight > weights.get(phrase.kind, 0.0):
                    weights[phrase.kind] = weight
                if weight > best:
                    best, best_start = weight, match.start()
                if weight == phrase.weight:
                    break  # the phrase cannot count for more
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
