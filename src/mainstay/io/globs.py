"""Glob patterns for file paths; no pattern can make matching take exponential time.

`*` and `?` stop at a slash, `**` is any number of folders, `[a-z]` one of these characters, `{a,b}` either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

PATTERN_CHARS_MAX = 1_000
ALTERNATIVES_MAX = 64

PathMatcher = Callable[[str], bool]
_POSIX_CLASSES = {
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


class GlobRefused(ValueError):
    """The pattern exceeds a limit; the message says which."""


@lru_cache(maxsize=512)
def compile_path_glob(pattern: str) -> PathMatcher:
    """Compile a glob to a matcher of relative paths. A pattern without a slash matches names at any depth."""
    if len(pattern) > PATTERN_CHARS_MAX:
        raise GlobRefused(f"the pattern has more than {PATTERN_CHARS_MAX} characters")
    matchers = [_compile_alternative(alternative) for alternative in expand_braces(pattern)]
    return matchers[0] if len(matchers) == 1 else lambda path: any(matches(path) for matches in matchers)


def _compile_alternative(pattern: str) -> PathMatcher:
    pattern = pattern.removeprefix("./")
    components = split_components(pattern.strip("/"))
    if len(components) == 1 and not pattern.startswith("/"):
        last = compile_component(components[0]) if components[0] != "**" else (lambda name: True)
        return lambda path: last(path.rsplit("/", 1)[-1])
    matches = compile_components(components)
    return lambda path: matches(path.split("/"))


def split_components(pattern: str) -> list[str]:
    """Split at slashes; a slash inside of brackets is one of their characters."""
    components, begin, at = [], 0, 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        escaped = char == "\\"
        if char == "/" or (escaped and pattern[at : at + 1] == "/"):
            components.append(pattern[begin : at - 1])
            at += escaped
            begin = at
        elif escaped:
            at += 1
        elif char == "[":
            _, at = _parse_character_set(pattern, at)
    return [*components, pattern[begin:]]


def compile_components(components: Sequence[str]) -> Callable[[Sequence[str]], bool]:
    """Compile pattern components to a function that matches path components; `**` stands for any number of them."""
    parts = [None if step == "**" else compile_component(step) for step in components]
    if parts and parts[-1] is None:  # matches the content of the folder, not the folder
        parts.append(compile_component("*"))
    return lambda path: _match_components(parts, path)


def _match_components(matchers: Sequence[PathMatcher | None], path: Sequence[str]) -> bool:
    """Match with backtracking to the last `**` only: whatever an earlier one could match, the last one can too."""
    at = position = 0
    star, star_position = -1, 0
    while position < len(path):
        part = matchers[at] if at < len(matchers) else None
        if at < len(matchers) and part is None:
            star, star_position = at, position
            at += 1
        elif part is not None and part(path[position]):
            at, position = at + 1, position + 1
        elif star >= 0:
            star_position += 1
            at, position = star + 1, star_position
        else:
            return False
    return all(part is None for part in matchers[at:])


@lru_cache(maxsize=4096)
def compile_component(pattern: str) -> PathMatcher:
    """Compile one pattern component to a function that matches one name."""
    if not any(char in pattern for char in "*?[\\"):
        return lambda name: name == pattern
    rest = pattern[1:]
    if pattern[:1] == "*" and not any(char in rest for char in "*?[\\"):
        return lambda name: name.endswith(rest)
    compiled = re.compile(_to_regex(pattern), re.DOTALL)
    return lambda name: compiled.fullmatch(name) is not None


def _to_regex(pattern: str) -> str:
    """Return a regular expression. Each star but the last matches as little as it can, in an atomic group: that is
    sufficient, and it prevents exponential backtracking."""
    fixed: list[str] = [""]  # the text between the stars
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
            text, at = _parse_character_set(pattern, at)
            fixed[-1] += text
        else:
            if char == "\\":
                if at >= len(pattern):
                    return "(?!)"  # a trailing backslash matches nothing
                char, at = pattern[at], at + 1
            fixed[-1] += re.escape(char)
    head, *rest = fixed
    if not rest:
        return head
    middle = "".join(f"(?>[^/]*?{text})" for text in rest[:-1])
    return f"{head}{middle}[^/]*{rest[-1]}"


def _parse_character_set(pattern: str, at: int) -> tuple[str, int]:
    """Parse a character set that starts after its `[`; return its regex and end. An unclosed set matches nothing."""
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
        posix_class = re.compile(r"\[:([a-z]+):\]").match(pattern, at)
        if posix_class is not None:
            if posix_class[1] not in _POSIX_CLASSES:
                return "(?!)", len(pattern)
            items.append(_POSIX_CLASSES[posix_class[1]])
            at = posix_class.end()
            continue
        low, at = _parse_char(pattern, at)
        if pattern[at : at + 1] == "-" and pattern[at + 1 : at + 2] not in ("]", ""):
            high, at = _parse_char(pattern, at + 1)
            if low <= high:
                items.append(f"{re.escape(low)}-{re.escape(high)}")
        else:
            items.append(re.escape(low))
    return "(?!)", at


def _parse_char(pattern: str, at: int) -> tuple[str, int]:
    if pattern[at] == "\\" and at + 1 < len(pattern):
        at += 1
    return pattern[at], at + 1


def expand_braces(pattern: str) -> list[str]:
    """Expand `{a,b}` into all alternatives, innermost braces first; the outer ones follow in later rounds."""
    pending, expanded = [pattern], []
    while pending:
        alternative = pending.pop()
        match = re.search(r"(?<!\\)\{([^{}]*,[^{}]*)\}", alternative)
        if match is None:
            expanded.append(alternative)
        else:
            pending += [
                alternative[: match.start()] + choice + alternative[match.end() :] for choice in match[1].split(",")
            ]
        if len(pending) + len(expanded) > ALTERNATIVES_MAX:
            raise GlobRefused(f"the pattern has more than {ALTERNATIVES_MAX} choices")
    return expanded
