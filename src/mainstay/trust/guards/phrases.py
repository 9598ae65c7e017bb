"""What attacks say, as expressions over normalised text: lower case, no accents, one space.

They stand in phrases/*.txt, each with a kind and a weight, and are read on first use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import msgspec

from mainstay.trust.guards.normalise import BACKWARDS, ROT13, fold
from mainstay.trust.guards.shapes import trie

_FOLDER = Path(__file__).parent / "phrases"
_HEAD = re.compile(r"([a-z -]+) (0\.\d+)( command)?")
_ANY_WORD = re.compile(r"[^\W\d_]{2,}")
_FIRST_WORD = re.compile(r" ?([a-z]{2,})")
_OTHER_SCRIPT = re.compile("[\u0400-\u06ff\u0900-\u097f\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
_NAME = re.compile(r"([A-Z]+) =")


class Phrase(msgspec.Struct, frozen=True):
    kind: str
    weight: float  # how sure one can be of it alone
    expression: re.Pattern[str]
    near: frozenset[str]  # it is looked for around these only
    command: bool = False  # it counts where it is a command, and much less in a sentence about something


@cache
def phrases() -> tuple[Phrase, ...]:
    """All of them. Compiled once, which takes a moment: only a text that looks suspicious pays for it."""
    return (*_read("english.txt", folded=False), *_read("others.txt", folded=True))


class Stems:
    """All that phrases are looked for around, in an order that makes it cheap to say which are in a text."""

    def __init__(self, stems: Iterable[str]) -> None:
        self._by_word: dict[str, list[str]] = {}  # those that begin with a word, by that word
        self._plain: dict[str, list[str]] = {}  # by their first character
        self._other: list[str] = []  # in other scripts
        for stem in sorted(set(stems)):
            word = _FIRST_WORD.match(stem)
            if word:
                self._by_word.setdefault(word[1], []).append(stem)
            elif stem.isascii():
                self._plain.setdefault(stem[0], []).append(stem)
            else:
                self._other.append(stem)
        self._search = re.compile("\n" + trie(list(self._by_word))).findall

    def present(self, text: str) -> frozenset[str]:
        words = "\n" + "\n".join(set(_ANY_WORD.findall(text)))  # a long text says the same words again and again
        begun = {word[1 : 1 + size] for word in self._search(words) for size in range(2, len(word))}
        found = [stem for word in begun for stem in self._by_word.get(word, ()) if stem == word or stem in text]
        for mark, stems in self._plain.items():
            if mark in text:
                found += [stem for stem in stems if stem in text]
        if _OTHER_SCRIPT.search(words):
            found += [stem for stem in self._other if stem in text]
        return frozenset(found)


@cache
def stems() -> Stems:
    return Stems(stem for phrase in phrases() for stem in phrase.near)


@cache
def telling_words() -> frozenset[bytes]:
    """One of these is in every text that is worth reading, also backwards or turned by thirteen letters."""
    lines = (_FOLDER / "words.txt").read_text("utf-8").splitlines()
    words = {word for line in lines if not line.startswith("#") for word in line.split()}
    return frozenset(word.encode() for word in words | ROT13 | BACKWARDS)


def _read(name: str, *, folded: bool) -> list[Phrase]:
    found = []
    names: dict[str, str] = {}
    for head, near, body in _entries((_FOLDER / name).read_text("utf-8")):
        expression = "".join(body)
        for known, meaning in names.items():
            expression = expression.replace("{" + known + "}", meaning)
        if folded:
            expression = fold(expression)
        if "<>" in expression:
            one, other = expression.split("<>")
            expression = rf"{one}[^.\n]{{0,30}}?{other}|{other}[^.\n]{{0,30}}?{one}"
        if named := _NAME.fullmatch(head):
            names[named[1]] = expression
            continue
        parts = _HEAD.fullmatch(head)
        assert parts is not None, f"{name}: {head}"
        found.append(Phrase(parts[1], float(parts[2]), re.compile(expression), frozenset(near), bool(parts[3])))
    return found


def _entries(text: str) -> list[tuple[str, tuple[str, ...], list[str]]]:
    """Heads, the stems they are looked for around, and the lines of their expressions."""
    entries: list[tuple[str, tuple[str, ...], list[str]]] = []
    for line in text.splitlines():
        if line.startswith("    "):
            entries[-1][2].append(line[4:])
        elif line.startswith("  near "):
            head, near, body = entries[-1]
            entries[-1] = head, (*near, *(fold(stem) for stem in msgspec.json.decode(line[7:], type=list[str]))), body
        elif line and not line.startswith("#"):
            entries.append((line, (), []))
    return entries
