"""Patterns over commands: `git *`, `npm run test`. A pattern is about one command, word by word."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from functools import lru_cache

from mainstay.trust.globs import fold, glob
from mainstay.trust.shell.analysis import Script, Simple, in_system

_WORD = re.compile(r"(?:\\.|[^\s\\])+", re.DOTALL)


@lru_cache(maxsize=1024)
def pattern_words(pattern: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(pattern))


def allows(pattern: str, simple: Simple) -> bool:
    """Every word must be known and match; a `*` of its own stands for any number of words, known or not."""
    words = pattern_words(pattern)
    argv = list(simple.argv)
    if not words or not argv or argv[0] is None:
        return False
    if "/" in argv[0] and not glob(words[0])(argv[0]) and in_system(argv[0]):
        argv[0] = posixpath.basename(argv[0])
    elif "/" in argv[0] and "/" not in words[0]:
        return False  # `*` is any program of the system, not any file
    states = _passed({0}, words)
    for word in argv:
        moved = {at for at in states if at < len(words) and words[at] in ("*", "**")}
        if word is not None:
            moved |= {at + 1 for at in states if at < len(words) and _word_matches(words[at], word)}
        states = _passed(moved, words)
    return len(words) in states


def _passed(states: set[int], words: Sequence[str]) -> set[int]:
    """A `*` may also stand for no word."""
    made = set(states)
    for at in sorted(states):
        while at < len(words) and words[at] in ("*", "**"):
            at += 1
            made.add(at)
    return made


def _word_matches(pattern: str, word: str) -> bool:
    if "/" in pattern and ".." in word:
        word = posixpath.normpath(word)  # src/../.. does not lie in src
    return glob(pattern, "/" if "/" in pattern else "")(word)


def concerns(pattern: str, simple: Simple) -> bool:
    """Read broadly, for rules that ask or deny: options may stand anywhere and be written in other ways, more words may
    follow, and a word that is not known yet may be any."""
    words = [fold(word) for word in pattern_words(pattern)]
    if not words or not simple.argv:
        return False
    argv = [None if word is None else fold(word) for word in simple.argv]
    if argv[0] is None:
        return True
    if not any(glob(words[0])(name) for name in (argv[0], posixpath.basename(argv[0]))):
        return False
    options = [word for word in words[1:] if word.startswith("-")]
    if None not in argv and not all(_has_option(option, [word or "" for word in argv[1:]]) for option in options):
        return False
    return _in_order([word for word in words[1:] if not word.startswith("-")], argv[1:])


def _has_option(option: str, argv: Sequence[str]) -> bool:
    if any(glob(option)(word) for word in argv):
        return True
    if option.startswith("--") or not option[1:].isalnum():
        return any(word.startswith(option.rstrip("*") + "=") for word in argv)
    given = {
        letter for word in argv if word.startswith("-") for letter in (word[2:3] if word[1:2] == "-" else word[1:])
    }
    return set(option[1:]) <= given


def _in_order(wanted: Sequence[str], argv: Sequence[str | None]) -> bool:
    """The operands of a pattern among those of a command, which may have options with values between them."""
    states = {(at, False) for at in _passed({0}, wanted)}
    for word in argv:
        if any(at == len(wanted) for at, _ in states):
            return True
        moved: set[tuple[int, bool]] = set()
        for at, after_option in states:
            if word is None:
                moved |= {(later, False) for later in range(at, len(wanted) + 1)}
                continue
            if wanted[at] in ("*", "**") or after_option:
                moved.add((at, False))
            if word.startswith("-"):
                moved.add((at, True))  # and its value may be the next word
            if glob(wanted[at])(word):
                moved.add((at + 1, False))
        states = {(passed, flag) for at, flag in moved for passed in _passed({at}, wanted)}
    return any(at == len(wanted) for at, _ in states)


def plain_redirects(script: Script) -> bool:
    """True if the shell itself writes nothing but ordinary files below: `git log > ~/.bashrc` is more than git."""
    return all(
        not target.startswith(("/", "~", "?", ".")) and "/." not in target and "*" not in target
        for target in script.redirected
    )


def escaped(text: str) -> str:
    return re.sub(r"([\\*?(),\s])", r"\\\1", text)
