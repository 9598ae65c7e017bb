"""Parses .gitignore files and matches paths against them, as git does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from mainstay.io.globs import compile_component, compile_components, split_components

RULES_MAX = 2_000
BYTES_MAX = 256 * 1024
FILE_NAMES = (".gitignore",)


class IgnoreRule(msgspec.Struct, frozen=True):
    """One line of a .gitignore. `matches` takes the path components below the folder of the file."""

    is_negated: bool
    is_folders_only: bool
    matches: Callable[[Sequence[str]], bool]


def parse_rules(text: str) -> list[IgnoreRule]:
    lines = text.removeprefix("\ufeff").split("\n")[:RULES_MAX]
    return [rule for line in lines if (rule := _parse_rule(line.removesuffix("\r"))) is not None]


def _parse_rule(line: str) -> IgnoreRule | None:
    if line.startswith("#"):
        return None
    line = _strip_trailing_spaces(line)
    negated = line.startswith("!")
    line = line[1:] if negated else line
    folders_only = line.endswith("/")
    line = line[:-1] if folders_only else line
    if not line:
        return None
    if "/" not in line:
        name = compile_component(line)
        return IgnoreRule(negated, folders_only, lambda steps: name(steps[-1]))
    return IgnoreRule(negated, folders_only, compile_components(split_components(line.removeprefix("/"))))


def _strip_trailing_spaces(line: str) -> str:
    """Strip trailing spaces, unless they are escaped."""
    stripped = line.rstrip(" ")
    backslashes = len(stripped) - len(stripped.rstrip("\\"))
    return stripped + " " if backslashes % 2 and len(stripped) < len(line) else stripped


class IgnoreRules:
    """The rules that apply in one folder: those of its parents, then its own. The last matching rule decides."""

    __slots__ = ("_levels",)

    def __init__(self, levels: Sequence[tuple[int, list[IgnoreRule]]] = ()) -> None:
        self._levels = tuple(levels)  # depth of the folder, and its rules

    def with_rules(self, depth: int, text: str) -> IgnoreRules:
        """Return these rules with those of a deeper folder added."""
        rules = parse_rules(text)
        return IgnoreRules((*self._levels, (depth, rules))) if rules else self

    def is_ignored(self, components: Sequence[str], *, is_folder: bool) -> bool:
        """Return whether a path is ignored. `components` are all names from the folder at depth 0 on."""
        for depth, rules in reversed(self._levels):
            for rule in reversed(rules):
                if rule.is_folders_only and not is_folder:
                    continue
                if rule.matches(components[depth:]):
                    return not rule.is_negated
        return False
