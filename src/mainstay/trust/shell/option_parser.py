"""Parses the options and operands of a command line."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from mainstay.trust.shell.syntax import ShellWord, literal_word


class ParsedCommandArguments(msgspec.Struct):
    """The parsed arguments of one command."""

    # in order: a short letter or a long name, and its value if it has one
    pairs: list[tuple[str, ShellWord | None]] = []
    operands: list[ShellWord] = []
    has_separator: bool = False  # the arguments contain `--`
    may_have_more: bool = False  # a word that is not known before the command runs may be an option

    def has(self, *names: str) -> bool:
        """Return True if one of these options is given. Long ones may be abbreviated, as most programs allow."""
        return any(name in names or _is_abbreviation(name, names) for name, _ in self.pairs)

    def values(self, *names: str) -> list[ShellWord]:
        return [
            value
            for name, value in self.pairs
            if value is not None and (name in names or _is_abbreviation(name, names))
        ]


def _is_abbreviation(name: str, names: Collection[str]) -> bool:
    return len(name) > 1 and any(len(full_name) > 1 and full_name.startswith(name) for full_name in names)


def parse_options(
    words: Sequence[ShellWord],
    valued: str = "",
    long: Collection[str] = (),
    *,
    stop_at_operand: bool = False,
    attached: str = "",
) -> ParsedCommandArguments:
    """Parse the words after the program's name.

    `valued` letters and `long` names take a value; `attached` letters take one only in the same word. With
    `stop_at_operand`, the first operand ends the options, as for programs that run the rest as a command.
    """
    options = ParsedCommandArguments()
    queue = list(words)
    index = 0
    while index < len(queue):
        word = queue[index]
        index += 1
        text = word.value if word.value is not None else word.prefix
        if word.value == "--":
            options.has_separator = True
            options.operands += queue[index:]
            break
        if word.may_be_option and not word.prefix:
            options.may_have_more = True
        if len(text) < 2 or text[0] != "-":
            if stop_at_operand:
                options.operands = queue[index - 1 :]
                break
            options.operands.append(word)
        elif text.startswith("--"):
            name, equals, rest = text[2:].partition("=")
            if equals:
                options.pairs.append((name, literal_word(rest) if word.value is not None else word))
            elif word.value is None:
                options.pairs.append((name, word))
                options.may_have_more = True
            elif name in long or _is_abbreviation(name, long):
                options.pairs.append((name, queue[index] if index < len(queue) else None))
                index += 1
            else:
                options.pairs.append((name, None))
        else:
            index = _parse_short_options(options, word, text, (valued, attached), queue, index)
    return options


def _parse_short_options(
    options: ParsedCommandArguments,
    word: ShellWord,
    text: str,
    kinds: tuple[str, str],
    queue: list[ShellWord],
    index: int,
) -> int:
    valued, attached = kinds
    for end, letter in enumerate(text[1:], 2):
        if letter in attached:
            options.pairs.append((letter, literal_word(text[end:]) if word.value is not None else word))
            return index
        if letter in valued:
            if text[end:] or word.value is None:
                options.pairs.append((letter, literal_word(text[end:]) if word.value is not None else word))
                return index
            options.pairs.append((letter, queue[index] if index < len(queue) else None))
            return index + 1
        options.pairs.append((letter, None))
    if word.value is None:
        options.may_have_more = True
    return index
