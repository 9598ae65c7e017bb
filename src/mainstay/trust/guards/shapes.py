"""How something looks that must not get out, spelled so that its beginning can be recognised too.

A shape is a sequence of literals and runs of characters. From it come two expressions: the whole, and the open one,
which matches if the text ends before it can be said that this is not the beginning of such a thing. What is open is
held back; so a text gives the same result however it was cut into pieces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

Run = tuple[str, int, int]  # a class of characters, how many at least, how many at most
Element = str | Run
Check = Callable[[str, str], bool]  # the secret itself, and the text before it
Match = Callable[[str, int], re.Match[str] | None]

BEFORE_CHARS = 96  # so much of what was let through is kept to look at

ALNUM = "[A-Za-z0-9]"
WORD = "[A-Za-z0-9_]"
DASHED = "[A-Za-z0-9_-]"
HEX = "[a-f0-9]"
DIGIT = "[0-9]"

# After a first character that is not inside of a word; an escape before it (\n, %20) only looks like the end of one.
_FREE = r"(?:(?<![A-Za-z0-9][\s\S])|(?<=\\[nrt][\s\S])|(?<=%[0-9A-Fa-f][0-9A-Fa-f][\s\S]))"


class Shape:
    """`full` has two groups: what stays as it is, and the secret. `open` matches up to the end of the text.

    Expressions are compiled on first use: most texts need none of them. `check` has the last word.
    """

    __slots__ = ("_full", "_open", "check", "expressions", "first", "name", "prefixes")

    def __init__(
        self, name: str, full: str, open: str, check: Check | None = None, prefixes: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.expressions = full, open
        self.check = check
        self.prefixes = prefixes
        self.first = frozenset(prefix[0] for prefix in prefixes)
        self._full: Match | None = None
        self._open: Match | None = None

    def open(self, text: str, start: int) -> bool:
        """Whether more text is needed to say if one begins here."""
        match = self._open
        if match is None:
            match = self._open = re.compile(self.expressions[1]).match
        return match(text, start) is not None

    def find(self, text: str, start: int) -> tuple[int, int] | None:
        """Where the secret stands, if one begins here."""
        match = self._full
        if match is None:
            match = self._full = re.compile(self.expressions[0]).match
        found = match(text, start)
        if found is None:
            return None
        if self.check is not None and not self.check(found[2], text[max(0, start - BEFORE_CHARS) : start]):
            return None
        return found.span(2)


def shape(name: str, *elements: Element, keep: int = 0, check: Check | None = None) -> Shape:
    """Spelled out; the first `keep` elements stay as they are."""
    full = f"({_whole(elements[:keep])})({_whole(elements[keep:])}){_stop(elements[-1])}"
    return Shape(name, full, _open(elements), check, _prefixes(elements))


def one(characters: str) -> Run:
    return (f"[{characters}]", 1, 1)


def _whole(elements: Sequence[Element]) -> str:
    # Possessive: a run takes all it can, so what follows it is never a part of it.
    return "".join(re.escape(e) if isinstance(e, str) else f"{e[0]}{{{e[1]},{e[2]}}}+" for e in elements)


def _stop(last: Element) -> str:
    """A run that goes on past its bound is something else."""
    return "" if isinstance(last, str) else f"(?!{last[0]})(?![A-Za-z0-9])"


def _open(elements: Sequence[Element]) -> str:
    expression = r"\Z"
    for element in reversed(elements):
        if isinstance(element, str):
            for character in reversed(element):
                expression = rf"(?:\Z|{re.escape(character)}{expression})"
        else:
            kind, least, most = element
            expression = rf"(?:{kind}{{{least},{most}}}+{expression}|{kind}{{0,{most}}}+\Z)"
    return expression


def _prefixes(elements: Sequence[Element], depth: int = 4) -> tuple[str, ...]:
    """All ways it can begin, as far as they are few."""
    found = [""]
    for element in elements:
        if isinstance(element, str):
            found = [prefix + element for prefix in found]
        elif element[1] == element[2] == 1 and element[0].startswith("[") and "-" not in element[0]:
            found = [prefix + character for prefix in found for character in element[0][1:-1]]
        else:
            break
        if len(found[0]) >= depth:
            break
    return tuple(dict.fromkeys(prefix[:depth] for prefix in found if prefix))


def starts(prefixes: Sequence[str]) -> str:
    """An expression for the beginning of any of these, or of a part of one at the end of the text."""
    tree: dict[str, set[str]] = {}
    for prefix in prefixes:
        tree.setdefault(prefix[0], set()).add(prefix[1:])
    alternatives = []
    for first in sorted(tree):
        rest = tree[first]
        inner = "" if "" in rest else rf"(?:\Z|{starts(sorted(rest))})"
        alternatives.append(re.escape(first) + inner)
    return alternatives[0] if len(alternatives) == 1 else f"(?:{'|'.join(alternatives)})"


def gate(prefixes: Sequence[str], always: Sequence[str], digits: str) -> str:
    """One expression for everything that may begin: prefixes that stand free, and what counts wherever it stands.

    Every alternative begins with a literal, which lets the search skip quickly; what follows is looked at before the
    rarer question whether it stands free.
    """
    tree: dict[str, set[str]] = {}
    for prefix in prefixes:
        tree.setdefault(prefix[0], set()).add(prefix[1:])
    found = [starts([one]) for one in always]
    found += [rf"{re.escape(first)}(?=\Z|{starts(sorted(rest))}){_FREE}" for first, rest in sorted(tree.items())]
    found += [f"{digit}(?={digits}){_FREE}" for digit in "0123456789"]
    return "|".join(found)


def trie(words: Sequence[str]) -> str:
    """An expression for the longest of these words that begins here."""
    tree: dict[str, list[str]] = {}
    for word in words:
        if word:
            tree.setdefault(word[0], []).append(word[1:])
    branches = [re.escape(first) + trie(rest) for first, rest in sorted(tree.items())]
    if not branches:
        return ""
    return f"(?:{'|'.join(branches)}){'?' if '' in words else ''}"
