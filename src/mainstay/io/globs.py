"""Patterns for paths, in time that grows with the length of the name and not with the cunning of the pattern.

`*` and `?` stop at a slash, `**` is any number of folders, `[a-z]` one of these characters, `{a,b}` either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

PATTERN_CHARS_MAX = 1_000
CHOICES_MAX = 64

Matches = Callable[[str], bool]
_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "\\x21-\\x7e",
    "lower": "a-z",
    "print": "\\x20-\\x7e",
    "punct": "!-/:-@\\[-`{-~",
    "space": " \\t\\n\\r\\f\\v",
    "upper": "A-Z",
    "xdigit": "a-fA-F0-9",
}


class BadPattern(ValueError):
    """Not a pattern, in a sentence."""


@lru_cache(maxsize=512)
def glob(pattern: str) -> Matches:
    """Whether a relative path fits. A pattern without a slash fits the name at any depth."""
    if len(pattern) > PATTERN_CHARS_MAX:
        raise BadPattern(f"the pattern has more than {PATTERN_CHARS_MAX} characters")
    choices = [_whole(one) for one in braces(pattern)]
    return choices[0] if len(choices) == 1 else lambda path: any(one(path) for one in choices)


def _whole(pattern: str) -> Matches:
    pattern = pattern.removeprefix("./")
    steps = split(pattern.strip("/"))
    if len(steps) == 1 and not pattern.startswith("/"):
        last = segment(steps[0]) if steps[0] != "**" else (lambda name: True)
        return lambda path: last(path.rsplit("/", 1)[-1])
    matches = folders(steps)
    return lambda path: matches(path.split("/"))


def split(pattern: str) -> list[str]:
    """At its slashes; one inside of brackets is only one of their characters."""
    steps, begin, at = [], 0, 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        escaped = char == "\\"
        if char == "/" or (escaped and pattern[at : at + 1] == "/"):
            steps.append(pattern[begin : at - 1])
            at += escaped
            begin = at
        elif escaped:
            at += 1
        elif char == "[":
            _, at = _one_of(pattern, at)
    return [*steps, pattern[begin:]]


def folders(steps: Sequence[str]) -> Callable[[Sequence[str]], bool]:
    """Whether the parts of a path fit these, of which `**` stands for any number."""
    parts = [None if step == "**" else segment(step) for step in steps]
    if parts and parts[-1] is None:  # what is in a folder, not the folder
        parts.append(segment("*"))
    return lambda path: _fits(parts, path)


def _fits(parts: Sequence[Matches | None], path: Sequence[str]) -> bool:
    """Only the last `**` is ever gone back to: what an earlier one could take, it can take too."""
    at = here = 0
    star, resumed = -1, 0
    while here < len(path):
        part = parts[at] if at < len(parts) else None
        if at < len(parts) and part is None:
            star, resumed = at, here
            at += 1
        elif part is not None and part(path[here]):
            at, here = at + 1, here + 1
        elif star >= 0:
            resumed += 1
            at, here = star + 1, resumed
        else:
            return False
    return all(part is None for part in parts[at:])


@lru_cache(maxsize=4096)
def segment(pattern: str) -> Matches:
    """Whether one name fits."""
    if not any(char in pattern for char in "*?[\\"):
        return lambda name: name == pattern
    rest = pattern[1:]
    if pattern[:1] == "*" and not any(char in rest for char in "*?[\\"):
        return lambda name: name.endswith(rest)
    compiled = re.compile(_translate(pattern), re.DOTALL)
    return lambda name: compiled.fullmatch(name) is not None


def _translate(pattern: str) -> str:
    """Each star but the last takes as little as it can, and then never takes anything else: that is enough, and it
    keeps the time from exploding."""
    fixed: list[str] = [""]  # what stands between the stars
    at = 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "*":
            if fixed[-1] or len(fixed) == 1:
                fixed.append("")
        elif char == "?":
            fixed[-1] += "[^/]"
        elif char == "[":
            text, at = _one_of(pattern, at)
            fixed[-1] += text
        else:
            if char == "\\":
                if at >= len(pattern):
                    return "(?!)"  # escapes nothing: fits nothing
                char, at = pattern[at], at + 1
            fixed[-1] += re.escape(char)
    head, *rest = fixed
    if not rest:
        return head
    middle = "".join(f"(?>[^/]*?{one})" for one in rest[:-1])
    return f"{head}{middle}[^/]*{rest[-1]}"


def _one_of(pattern: str, at: int) -> tuple[str, int]:
    """A set of characters, from behind its bracket; without an end it fits nothing."""
    negated = pattern[at : at + 1] in ("!", "^")
    at += negated
    items: list[str] = []
    first = True
    while at < len(pattern):
        char = pattern[at]
        if char == "]" and not first:
            inside = "".join(items)
            if negated:
                return f"[^/{inside}]", at + 1
            return (f"(?!/)[{inside}]" if inside else "(?!)"), at + 1
        first = False
        named = re.compile(r"\[:([a-z]+):\]").match(pattern, at)
        if named is not None:
            if named[1] not in _CLASSES:
                return "(?!)", len(pattern)
            items.append(_CLASSES[named[1]])
            at = named.end()
            continue
        low, at = _char(pattern, at)
        if pattern[at : at + 1] == "-" and pattern[at + 1 : at + 2] not in ("]", ""):
            high, at = _char(pattern, at + 1)
            if low <= high:
                items.append(f"{re.escape(low)}-{re.escape(high)}")
        else:
            items.append(re.escape(low))
    return "(?!)", at


def _char(pattern: str, at: int) -> tuple[str, int]:
    if pattern[at] == "\\" and at + 1 < len(pattern):
        at += 1
    return pattern[at], at + 1


def braces(pattern: str) -> list[str]:
    """Each choice written out; only the ones that are not inside others need be, as they come round again."""
    todo, done = [pattern], []
    while todo:
        one = todo.pop()
        found = re.search(r"(?<!\\)\{([^{}]*,[^{}]*)\}", one)
        if found is None:
            done.append(one)
        else:
            todo += [one[: found.start()] + choice + one[found.end() :] for choice in found[1].split(",")]
        if len(todo) + len(done) > CHOICES_MAX:
            raise BadPattern(f"the pattern has more than {CHOICES_MAX} choices")
    return done
