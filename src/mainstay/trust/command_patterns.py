"""Command patterns of rules, such as `git *` or `npm run test`, matched word by word against one simple command."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from mainstay.trust.rule_patterns import compile_glob, fold_case

if TYPE_CHECKING:
    from mainstay.trust.shell.analysis import AnalysedCommand, ScriptAnalysis
    from mainstay.trust.shell.syntax import AcceptedBy

SYSTEM_FOLDERS = frozenset(
    ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt/homebrew/bin")
)
_WORD = re.compile(r"(?:\\.|[^\s\\])+", re.DOTALL)
_ESCAPED_CHAR = re.compile(r"\\.", re.DOTALL)


@lru_cache(maxsize=1024)
def split_pattern(pattern: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(pattern))


def matches_strictly(pattern: str, command: AnalysedCommand) -> bool:
    """Match strictly, for rules that allow: every word must be known and match.

    A `*` as a word of its own stands for any number of words, known or not. A program that may run anything, such as
    `kubectl`, is matched only by a pattern that spells its name.
    """
    pattern_words = split_pattern(pattern)
    argv = list(command.argv)
    if not pattern_words or not argv or argv[0] is None:
        return False
    if not _accepts_opacity(pattern_words, command.accepted_by):
        return False
    if "/" in argv[0] and not compile_glob(pattern_words[0])(argv[0]) and is_system_program(argv[0]):
        argv[0] = posixpath.basename(argv[0])
    elif "/" in argv[0] and "/" not in pattern_words[0]:
        return False  # `*` stands for any program in a system folder, not for any executable file
    states = _skip_wildcards({0}, pattern_words)
    for word in argv:
        next_states = {index for index in states if index < len(pattern_words) and pattern_words[index] in ("*", "**")}
        if word is not None:
            next_states |= {
                index + 1
                for index in states
                if index < len(pattern_words) and _word_matches(pattern_words[index], word)
            }
        states = _skip_wildcards(next_states, pattern_words)
    return len(pattern_words) in states


def _accepts_opacity(pattern_words: Sequence[str], accepted_by: AcceptedBy) -> bool:
    """Return whether a pattern spells enough of a command of which it cannot be known what it runs."""
    match accepted_by:
        case "name":
            return not _has_wildcard(pattern_words[0])
        case "input":  # code that stands in no word of the command: `python3` alone means no code at all
            return not _has_wildcard(pattern_words[0]) and pattern_words[-1] in ("*", "**")
        case "exact":
            return not any(_has_wildcard(word) for word in pattern_words)
    return True


def _has_wildcard(pattern_word: str) -> bool:
    return re.search(r"[*?]", _ESCAPED_CHAR.sub("", pattern_word)) is not None


def _skip_wildcards(states: set[int], pattern_words: Sequence[str]) -> set[int]:
    """Add the states after each `*`, which may also stand for no word at all."""
    reachable = set(states)
    for index in sorted(states):
        while index < len(pattern_words) and pattern_words[index] in ("*", "**"):
            index += 1
            reachable.add(index)
    return reachable


def _word_matches(pattern: str, word: str) -> bool:
    if "/" in pattern and ".." in word:
        word = posixpath.normpath(word)  # src/../.. is not inside src
    return compile_glob(pattern, "/" if "/" in pattern else "")(word)


def matches_broadly(pattern: str, command: AnalysedCommand) -> bool:
    """Match broadly, for rules that ask or deny.

    Options may come in any position and spelling, more words may follow, and a word whose value is not known before
    the command runs matches anything.
    """
    pattern_words = [fold_case(word) for word in split_pattern(pattern)]
    if not pattern_words or not command.argv:
        return False
    argv = [None if word is None else fold_case(word) for word in command.argv]
    if argv[0] is None:
        return True
    if not any(compile_glob(pattern_words[0])(name) for name in (argv[0], posixpath.basename(argv[0]))):
        return False
    options = [word for word in pattern_words[1:] if word.startswith("-")]
    if None not in argv and not all(_has_option(option, [word or "" for word in argv[1:]]) for option in options):
        return False
    return _has_operands_in_order([word for word in pattern_words[1:] if not word.startswith("-")], argv[1:])


def _has_option(option: str, argv: Sequence[str]) -> bool:
    if any(compile_glob(option)(word) for word in argv):
        return True
    if option.startswith("--") or not option[1:].isalnum():
        return any(word.startswith(option.rstrip("*") + "=") for word in argv)
    letters = {
        letter for word in argv if word.startswith("-") for letter in (word[2:3] if word[1:2] == "-" else word[1:])
    }
    return set(option[1:]) <= letters


def _has_operands_in_order(operands: Sequence[str], argv: Sequence[str | None]) -> bool:
    """Return True if the operands of a pattern occur in order in a command, with options and their values between."""
    states = {(index, False) for index in _skip_wildcards({0}, operands)}
    for word in argv:
        if any(index == len(operands) for index, _ in states):
            return True
        next_states: set[tuple[int, bool]] = set()
        for index, after_option in states:
            if word is None:
                next_states |= {(later_index, False) for later_index in range(index, len(operands) + 1)}
                continue
            if operands[index] in ("*", "**") or after_option:
                next_states.add((index, False))
            if word.startswith("-"):
                next_states.add((index, True))  # the next word may be its value
            if compile_glob(operands[index])(word):
                next_states.add((index + 1, False))
        states = {(reachable, flag) for index, flag in next_states for reachable in _skip_wildcards({index}, operands)}
    return any(index == len(operands) for index, _ in states)


def has_only_plain_redirects(script: ScriptAnalysis) -> bool:
    """Return True if redirections write only ordinary files below cwd: `git log > ~/.bashrc` is more than git."""
    return all(
        not target.startswith(("/", "~", "?", ".")) and "/." not in target and "*" not in target
        for target in script.redirect_targets
    )


def escape_pattern(text: str) -> str:
    return re.sub(r"([\\*?(),\s])", r"\\\1", text)


def is_system_program(path: str) -> bool:
    """Return True for a program's path in one of the system's program folders."""
    return posixpath.dirname(path) in SYSTEM_FOLDERS
