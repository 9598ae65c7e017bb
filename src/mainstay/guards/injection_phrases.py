"""Phrases of prompt-injection attacks, as regular expressions over normalised text.

They are defined in phrases/*.txt, each with a kind and a weight, and loaded on first use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import msgspec

from mainstay.guards.redaction_pattern_compiler import build_trie_expression
from mainstay.guards.text_normalisation import REVERSED_WORDS, ROT13_WORDS, fold_letters

_FOLDER = Path(__file__).parent / "phrases"
_HEAD = re.compile(r"([a-z -]+) (0\.\d+)( command)?")
_ANY_WORD = re.compile(r"[^\W\d_]{2,}")
_FIRST_WORD = re.compile(r" ?([a-z]{2,})")
_OTHER_SCRIPT = re.compile("[\u0400-\u06ff\u0900-\u097f\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
_MACRO_HEAD = re.compile(r"([A-Z]+) =")


class InjectionPhrase(msgspec.Struct, frozen=True):
    """One phrase that attacks use."""

    kind: str
    weight: float  # confidence from this phrase alone, 0 to 1
    expression: re.Pattern[str]
    stems: frozenset[str]  # stems; the expression is searched only around them
    is_imperative: bool = False  # counts fully only as an imperative, much less inside a statement


@cache
def load_phrases() -> tuple[InjectionPhrase, ...]:
    """Load all phrases. Compiled once, which is slow: only a suspicious text pays for it."""
    return (*_read_phrases("english.txt", folded=False), *_read_phrases("others.txt", folded=True))


class StemIndex:
    """Index of all stems, which finds those that occur in a text cheaply."""

    def __init__(self, stems: Iterable[str]) -> None:
        self._by_word: dict[str, list[str]] = {}  # stems that begin with a word, by that word
        self._by_first_character: dict[str, list[str]] = {}  # other ASCII stems, by their first character
        self._other_scripts: list[str] = []  # stems in other scripts
        for stem in sorted(set(stems)):
            word = _FIRST_WORD.match(stem)
            if word:
                self._by_word.setdefault(word[1], []).append(stem)
            elif stem.isascii():
                self._by_first_character.setdefault(stem[0], []).append(stem)
            else:
                self._other_scripts.append(stem)
        self._search = re.compile("\n" + build_trie_expression(list(self._by_word))).findall

    def find_in_text(self, text: str) -> frozenset[str]:
        words = "\n" + "\n".join(set(_ANY_WORD.findall(text)))  # each word once: a long text repeats its words
        begun_words = {word[1 : 1 + size] for word in self._search(words) for size in range(2, len(word))}
        matches = [stem for word in begun_words for stem in self._by_word.get(word, ()) if stem == word or stem in text]
        for first, stems in self._by_first_character.items():
            if first in text:
                matches += [stem for stem in stems if stem in text]
        if _OTHER_SCRIPT.search(words):
            matches += [stem for stem in self._other_scripts if stem in text]
        return frozenset(matches)


@cache
def load_stem_index() -> StemIndex:
    return StemIndex(stem for phrase in load_phrases() for stem in phrase.stems)


@cache
def load_trigger_words() -> frozenset[bytes]:
    """Return words of which every attack contains one, including their reversed and ROT13 forms."""
    lines = (_FOLDER / "words.txt").read_text("utf-8").splitlines()
    words = {word for line in lines if not line.startswith("#") for word in line.split()}
    return frozenset(word.encode() for word in words | ROT13_WORDS | REVERSED_WORDS)


def _read_phrases(name: str, *, folded: bool) -> list[InjectionPhrase]:
    phrases_read = []
    macros: dict[str, str] = {}
    for head, near, body in _split_entries((_FOLDER / name).read_text("utf-8")):
        expression = "".join(body)
        for macro, value in macros.items():
            expression = expression.replace("{" + macro + "}", value)
        if folded:
            expression = fold_letters(expression)
        if "<>" in expression:
            left, right = expression.split("<>")
            expression = rf"{left}[^.\n]{{0,30}}?{right}|{right}[^.\n]{{0,30}}?{left}"
        if definition := _MACRO_HEAD.fullmatch(head):
            macros[definition[1]] = expression
            continue
        parts = _HEAD.fullmatch(head)
        assert parts is not None, f"{name}: {head}"
        phrases_read.append(
            InjectionPhrase(parts[1], float(parts[2]), re.compile(expression), frozenset(near), bool(parts[3]))
        )
    return phrases_read


def _split_entries(text: str) -> list[tuple[str, tuple[str, ...], list[str]]]:
    """Split a phrase file into entries: head, stems, and the lines of the expression."""
    entries: list[tuple[str, tuple[str, ...], list[str]]] = []
    for line in text.splitlines():
        if line.startswith("    "):
            entries[-1][2].append(line[4:])
        elif line.startswith("  near "):
            head, near, body = entries[-1]
            entries[-1] = (
                head,
                (*near, *(fold_letters(stem) for stem in msgspec.json.decode(line[7:], type=list[str]))),
                body,
            )
        elif line and not line.startswith("#"):
            entries.append((line, (), []))
    return entries
