"""What a project does not count as its own: the rules of its .gitignore files, as git reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from mainstay.io.globs import folders, segment, split

RULES_MAX = 2_000
BYTES_MAX = 256 * 1024
NAMES = (".gitignore",)


class Rule(msgspec.Struct, frozen=True):
    """One line. `fits` is asked with the steps from the folder of the file on."""

    negated: bool
    folders_only: bool
    fits: Callable[[Sequence[str]], bool]


def parse(text: str) -> list[Rule]:
    lines = text.removeprefix("\ufeff").split("\n")[:RULES_MAX]
    return [rule for line in lines if (rule := _rule(line.removesuffix("\r"))) is not None]


def _rule(line: str) -> Rule | None:
    if line.startswith("#"):
        return None
    line = _trimmed(line)
    negated = line.startswith("!")
    line = line[1:] if negated else line
    folders_only = line.endswith("/")
    line = line[:-1] if folders_only else line
    if not line:
        return None
    if "/" not in line:
        name = segment(line)
        return Rule(negated, folders_only, lambda steps: name(steps[-1]))
    return Rule(negated, folders_only, folders(split(line.removeprefix("/"))))


def _trimmed(line: str) -> str:
    """Without the spaces at its end, unless they are escaped."""
    kept = line.rstrip(" ")
    slashes = len(kept) - len(kept.rstrip("\\"))
    return kept + " " if slashes % 2 and len(kept) < len(line) else kept


class Ignored:
    """The rules that hold in one folder: those of the folders above it, then its own. The last that fits decides."""

    __slots__ = ("_levels",)

    def __init__(self, levels: Sequence[tuple[int, list[Rule]]] = ()) -> None:
        self._levels = tuple(levels)  # how deep the folder lies, and its rules

    def within(self, depth: int, text: str) -> Ignored:
        """With those of a folder further in."""
        rules = parse(text)
        return Ignored((*self._levels, (depth, rules))) if rules else self

    def covers(self, steps: Sequence[str], *, folder: bool) -> bool:
        """`steps` is the whole way from the folder at depth 0."""
        for depth, rules in reversed(self._levels):
            for rule in reversed(rules):
                if rule.folders_only and not folder:
                    continue
                if rule.fits(steps[depth:]):
                    return not rule.negated
        return False
