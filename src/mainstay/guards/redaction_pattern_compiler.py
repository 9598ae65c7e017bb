"""Patterns for streaming redaction, which can also recognise a partial match at the end of the text.

A pattern is a sequence of literals and runs of characters, compiled into two expressions: the full one, and the open
one, which matches if the text ends before a match can be ruled out. A partial match is held back, so the result does
not depend on how the text was cut into pieces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

CharacterRun = tuple[str, int, int]  # a character class, minimum and maximum count
Alternatives = frozenset[str]  # literals, of which the longest that fits is taken; an empty one makes it optional
PatternElement = str | CharacterRun | Alternatives
MatchCheck = Callable[[str, str], bool]  # takes the secret and the text before it
MatchFunction = Callable[[str, int], re.Match[str] | None]

CONTEXT_CHARS = 96  # how much emitted text is kept as context before a match

ALNUM = "[A-Za-z0-9]"
WORD = "[A-Za-z0-9_]"
DASHED = "[A-Za-z0-9_-]"
HEX = "[a-f0-9]"
DIGIT = "[0-9]"


class RedactionPattern:
    """A kind of secret or personal data.

    `full` has two groups: what is kept, and the secret. `open` matches a possible beginning up to the end of the text.
    `check` may reject a match. Expressions are compiled on first use: most texts need none of them.
    """

    __slots__ = ("_full", "_open", "check", "expressions", "first_characters", "name", "prefixes")

    def __init__(
        self, name: str, full: str, open: str, check: MatchCheck | None = None, prefixes: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.expressions = full, open
        self.check = check
        self.prefixes = prefixes
        self.first_characters = frozenset(prefix[0] for prefix in prefixes)
        self._full: MatchFunction | None = None
        self._open: MatchFunction | None = None

    def needs_more_text(self, text: str, start: int) -> bool:
        """Return True if more text is needed to decide whether a match begins here."""
        match = self._open
        if match is None:
            match = self._open = re.compile(self.expressions[1]).match
        return match(text, start) is not None

    def find(self, text: str, start: int) -> tuple[int, int] | None:
        """Return the span of the secret that begins here; None if there is none."""
        match = self._full
        if match is None:
            match = self._full = re.compile(self.expressions[0]).match
        result = match(text, start)
        if result is None:
            return None
        if self.check is not None and not self.check(result[2], text[max(0, start - CONTEXT_CHARS) : start]):
            return None
        return result.span(2)


class AnnouncedPattern(RedactionPattern):
    """A secret that the kept text announces: `check` gets that text too, and punctuation after the secret is kept."""

    __slots__ = ()

    def find(self, text: str, start: int) -> tuple[int, int] | None:
        match = self._full
        if match is None:
            match = self._full = re.compile(self.expressions[0]).match
        result = match(text, start)
        if result is None:
            return None
        secret = result[2].rstrip(".,;:)*")
        before = text[max(0, start - CONTEXT_CHARS) : start]
        if not secret or (self.check is not None and not self.check(secret, before + result[1])):
            return None
        return result.start(2), result.start(2) + len(secret)


def build_pattern(
    name: str,
    *elements: PatternElement,
    keep: int = 0,
    check: MatchCheck | None = None,
    of: type[RedactionPattern] = RedactionPattern,
) -> RedactionPattern:
    """Build a pattern from its elements; the first `keep` of them are not redacted."""
    full = f"({_full_expression(elements[:keep])})({_full_expression(elements[keep:])}){_end_expression(elements[-1])}"
    return of(name, full, _open_expression(elements), check, _find_prefixes(elements))


def one_of(characters: str) -> CharacterRun:
    return (f"[{characters}]", 1, 1)


def optional(*literals: str) -> Alternatives:
    return frozenset(("", *literals))


def _full_expression(elements: Sequence[PatternElement]) -> str:
    return "".join(map(_element_expression, elements))


def _element_expression(element: PatternElement) -> str:
    match element:
        case str():
            return re.escape(element)
        case frozenset():
            return f"(?:{'|'.join(map(re.escape, _longest_first(element)))})"
    # Possessive: a run takes all characters it can, so that the next element never backtracks into it.
    return f"{element[0]}{{{element[1]},{element[2]}}}+"


def _longest_first(literals: frozenset[str]) -> list[str]:
    return sorted(literals, key=lambda literal: (-len(literal), literal))


def _end_expression(last: PatternElement) -> str:
    """Reject a run that continues past its maximum: it is something else."""
    return f"(?!{last[0]})(?![A-Za-z0-9])" if isinstance(last, tuple) else ""


def _open_expression(elements: Sequence[PatternElement]) -> str:
    expression = r"\Z"
    for element in reversed(elements):
        if isinstance(element, str):
            for character in reversed(element):
                expression = rf"(?:\Z|{re.escape(character)}{expression})"
        elif isinstance(element, frozenset):
            parts = frozenset(literal[:size] for literal in element for size in range(len(literal)))
            unfinished = "|".join(map(re.escape, _longest_first(parts))) or ""
            expression = rf"(?:{_element_expression(element)}{expression}|(?:{unfinished})\Z)"
        else:
            kind, least, most = element
            expression = rf"(?:{kind}{{{least},{most}}}+{expression}|{kind}{{0,{most}}}+\Z)"
    return expression


def _find_prefixes(elements: Sequence[PatternElement], depth: int = 8) -> tuple[str, ...]:
    """Return all prefixes up to `depth` characters, as far as the elements determine them."""
    prefixes = [""]
    for element in elements:
        if isinstance(element, str):
            prefixes = [prefix + element for prefix in prefixes]
        elif isinstance(element, frozenset):
            break
        elif element[1] == element[2] == 1 and element[0].startswith("[") and "-" not in element[0]:
            prefixes = [prefix + character for prefix in prefixes for character in element[0][1:-1]]
        else:
            break
        if len(prefixes[0]) >= depth:
            break
    return tuple(dict.fromkeys(prefix[:depth] for prefix in prefixes if prefix))


def build_prefix_expression(prefixes: Sequence[str]) -> str:
    """Return an expression that matches any of these prefixes, or a part of one at the end of the text."""
    tree: dict[str, set[str]] = {}
    for prefix in prefixes:
        tree.setdefault(prefix[0], set()).add(prefix[1:])
    alternatives = []
    for first in sorted(tree):
        rest = tree[first]
        inner = "" if "" in rest else rf"(?:\Z|{build_prefix_expression(sorted(rest))})"
        alternatives.append(re.escape(first) + inner)
    return alternatives[0] if len(alternatives) == 1 else f"(?:{'|'.join(alternatives)})"


START_LOOKBACK_CHARS = 3  # an escape before a word, %20


def build_start_expression(prefixes: Sequence[str], separators: str, marks: Sequence[str], others: str) -> str:
    """Return one expression for every possible start: prefixes at the start of a word, separators and marks anywhere.

    A match begins with a character that is no letter or digit, so that the search skips words quickly. If its group 1
    matched, that character is the start; otherwise the start is the word after the match. An escape before a word, such
    as %20, is not a part of it. `others` are further expressions for what follows at the start of a word.
    """
    anywhere = "|".join(rf"(?<={re.escape(mark[0])})(?={build_prefix_expression([mark[1:]])}|\Z)" for mark in marks)
    word = rf"(?=[A-Za-z0-9-])(?={build_prefix_expression(prefixes).removeprefix('(?:').removesuffix(')')}|{others})"
    escape = r"(?<![\\%])|(?<=\\)[nrt]?|(?<=%)(?:[0-9A-Fa-f]{2})?"
    return rf"[^A-Za-z0-9](?:(?:{escape}){word}|((?<=[{re.escape(separators)}])|{anywhere}))"


def build_trie_expression(words: Sequence[str]) -> str:
    """Return an expression that matches the longest of these words."""
    tree: dict[str, list[str]] = {}
    for word in words:
        if word:
            tree.setdefault(word[0], []).append(word[1:])
    branches = [re.escape(first) + build_trie_expression(rest) for first, rest in sorted(tree.items())]
    if not branches:
        return ""
    return f"(?:{'|'.join(branches)}){'?' if '' in words else ''}"
