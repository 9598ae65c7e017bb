"""The options of a command line, apart from its operands."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from mainstay.trust.shell.nouns import Word, literal


class Options(msgspec.Struct):
    """`given` in order: a short letter or a long name, and its value where it takes one."""

    given: list[tuple[str, Word | None]] = []
    operands: list[Word] = []
    ended: bool = False  # a `--` stood among them
    unsure: bool = False  # a word that nobody knows yet may turn out to be an option

    def has(self, *names: str) -> bool:
        """Long ones may be shortened, as most programs let one."""
        return any(name in names or _shortens(name, names) for name, _ in self.given)

    def values(self, *names: str) -> list[Word]:
        return [value for name, value in self.given if value is not None and (name in names or _shortens(name, names))]


def _shortens(name: str, names: Collection[str]) -> bool:
    return len(name) > 1 and any(len(one) > 1 and one.startswith(name) for one in names)


def read_options(
    words: Sequence[Word], valued: str = "", long: Collection[str] = (), *, stop: bool = False, attached: str = ""
) -> Options:
    """`valued` letters and `long` names take a value, `attached` letters only one that touches them.

    `stop`: the first operand ends the options, as for programs that run what follows.
    """
    made = Options()
    queue = list(words)
    at = 0
    while at < len(queue):
        word = queue[at]
        at += 1
        text = word.value if word.value is not None else word.prefix
        if word.value == "--":
            made.ended = True
            made.operands += queue[at:]
            break
        if word.may_be_option and not word.prefix:
            made.unsure = True
        if len(text) < 2 or text[0] != "-":
            if stop:
                made.operands = queue[at - 1 :]
                break
            made.operands.append(word)
        elif text.startswith("--"):
            name, equals, rest = text[2:].partition("=")
            if equals:
                made.given.append((name, literal(rest) if word.value is not None else word))
            elif word.value is None:
                made.given.append((name, word))
                made.unsure = True
            elif name in long or _shortens(name, long):
                made.given.append((name, queue[at] if at < len(queue) else None))
                at += 1
            else:
                made.given.append((name, None))
        else:
            at = _cluster(made, word, text, (valued, attached), queue, at)
    return made


def _cluster(made: Options, word: Word, text: str, kinds: tuple[str, str], queue: list[Word], at: int) -> int:
    valued, attached = kinds
    for place, letter in enumerate(text[1:], 2):
        if letter in attached:
            made.given.append((letter, literal(text[place:]) if word.value is not None else word))
            return at
        if letter in valued:
            if text[place:] or word.value is None:
                made.given.append((letter, literal(text[place:]) if word.value is not None else word))
                return at
            made.given.append((letter, queue[at] if at < len(queue) else None))
            return at + 1
        made.given.append((letter, None))
    if word.value is None:
        made.unsure = True
    return at
