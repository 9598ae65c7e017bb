"""Glob patterns of policy rules for words, paths and URLs. Matching takes time linear in the text.

Allow rules match narrowly, ask and deny rules broadly (`broad`): an unusual or ambiguous text is never allowed by a
pattern and always caught by one that denies.

Not the globs of io/globs: here `[` and `{` are ordinary characters, `**` crosses folders anywhere in a name, and the
separators differ for paths, URLs, capabilities and words.
"""

from __future__ import annotations

import ipaddress
import os
import posixpath
import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from urllib.parse import unquote, urlsplit

PATTERN_CHARS_MAX = 1000
_DEFAULT_PORTS = {"http": 80, "https": 443, "ftp": 21, "ws": 80, "wss": 443}
_INVALID_IN_URL = re.compile(r"[\x00-\x20\x7f\\<>\"^`{|}]|%(?![0-9a-fA-F]{2})")

TextMatcher = Callable[[str], bool]


@lru_cache(maxsize=1024)
def compile_glob(pattern: str, separators: str = "") -> TextMatcher:
    """Compile a glob into a predicate.

    `*` matches any text without a character of `separators`, `**` any text, `?` one character that is no separator;
    `**/` at the beginning or after a slash is any number of folders, or none; `\\` escapes the next character.
    """
    tokens = _split_tokens(pattern, separators)
    if not any(kind for kind, _ in tokens):
        whole = "".join(text for _, text in tokens)
        return lambda text: text == whole
    if all(not kind for kind, _ in tokens[:-1]) and tokens[-1][0] == "**":
        head = "".join(text for _, text in tokens[:-1])
        return lambda text: text.startswith(head)
    return _build_automaton(tokens, separators)


def _split_tokens(pattern: str, separators: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    index = 0
    while index < len(pattern):
        char = pattern[index]
        if char == "\\" and index + 1 < len(pattern):
            tokens.append(("", pattern[index + 1]))
            index += 2
        elif char == "*":
            run = len(pattern) - len(pattern[index:].lstrip("*")) - index
            is_component_start = not tokens or tokens[-1] == ("", "/")
            index += run
            if run > 1 and is_component_start and pattern[index : index + 1] == "/":
                tokens.append(("folders", ""))  # the `**` and the slash follow as tokens of their own
            tokens.append(("**" if run > 1 or not separators else "*", ""))
        else:
            tokens.append(("?" if char == "?" else "", char))
            index += 1
    return tokens


def _build_automaton(tokens: list[tuple[str, str]], separators: str) -> TextMatcher:
    """Build a nondeterministic automaton whose states are the bits of one integer, so that no pattern is slow."""
    stay_any = stay_some = any_char = 0
    letters: dict[str, int] = {}
    free = 0  # states that are left without reading a character
    no_folders = 0  # states that may also skip the `**` and the slash that follow
    for index, (kind, text) in enumerate(tokens):
        bit = 1 << index
        if kind == "**":
            stay_any |= bit
            free |= bit
        elif kind == "*":
            stay_some |= bit
            free |= bit
        elif kind == "folders":
            no_folders |= bit
            free |= bit
        elif kind == "?":
            any_char |= bit
        else:
            letters[text] = letters.get(text, 0) | bit
    end = 1 << len(tokens)

    def add_free_moves(states: int) -> int:
        passed = states & free
        while passed:
            passed = (passed << 1 | (passed & no_folders) << 3) & ~states
            states |= passed
            passed &= free
        return states

    start = add_free_moves(1)

    def matches(text: str) -> bool:
        states = start
        for char in text:
            stopped = char in separators
            moved = (states & letters.get(char, 0)) << 1
            if not stopped:
                moved |= (states & any_char) << 1 | states & stay_some
            states = add_free_moves(moved | states & stay_any)
            if not states:
                return False
        return bool(states & end)

    return matches


def fold_case(text: str) -> str:
    """Normalise to NFC and fold case, as file systems that ignore case and composition do."""
    return unicodedata.normalize("NFC", text).casefold()


# --- paths ---------------------------------------------------------------------------------------


def normalise_path(path: str, cwd: str) -> str:
    """Join with `cwd` and resolve `..` lexically; absolute if `cwd` is given."""
    whole = posixpath.normpath(posixpath.join(cwd or "", path or "."))
    return whole[1:] if whole.startswith("//") else whole


def resolve_links(path: str, cwd: str) -> str:
    """Resolve symbolic links on this disk; return the path unchanged if it has none, or without `cwd`."""
    if not cwd or "\0" in path:
        return path
    whole = posixpath.join(cwd, path)
    try:
        real = os.path.realpath(whole)
    except (OSError, ValueError):
        return path
    return path if real == normalise_path(path, cwd) else real


def path_matches(pattern: str, path: str, cwd: str, *, broad: bool) -> bool:
    """Match a path. A relative pattern matches inside `cwd` only; with `broad`, a leading ** matches anywhere."""
    if "\0" in path:
        return broad
    whole = normalise_path(path, cwd)
    rooted = posixpath.normpath(cwd) if cwd else ""
    inside = whole if not whole.startswith("/") else ""
    if rooted and (whole == rooted or whole.startswith(rooted.rstrip("/") + "/")):
        inside = whole[len(rooted) :].lstrip("/") or "."
    if inside.startswith(".."):
        inside = ""
    pattern = pattern[2:] if pattern.startswith("./") else pattern
    if broad:
        pattern, whole, inside = fold_case(pattern), fold_case(whole), fold_case(inside)
    if pattern.startswith("/"):
        return _path_glob_matches(pattern, whole)
    if inside and _path_glob_matches(pattern, inside):
        return True
    return broad and pattern.startswith("**") and _path_glob_matches("/" + pattern, whole)


def _path_glob_matches(pattern: str, path: str) -> bool:
    if compile_glob(pattern, "/")(path):
        return True
    return pattern.endswith("/**") and compile_glob(pattern[:-3], "/")(path)  # the folder itself


# --- URLs ----------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def split_url(url: str) -> tuple[str, str, int | None, str] | None:
    """Return scheme, host, port, and path with query, normalised; None if the URL is unusual: no rule allows it."""
    if _INVALID_IN_URL.search(url) or "://" not in url:
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    host = _normalise_host(parts.hostname or "")
    if host is None or "@" in parts.netloc or "%" in parts.netloc or parts.netloc.endswith(":"):
        return None
    path = _normalise_url_path(parts.path)
    if path is None:
        return None
    scheme = parts.scheme.lower()
    return (
        scheme,
        host,
        port or _DEFAULT_PORTS.get(scheme),
        path + (f"?{parts.query}" if "?" in url.split("#")[0] else ""),
    )


def _normalise_host(host: str) -> str | None:
    host = host.removesuffix(".")
    if not host:
        return None
    if ":" in host:
        try:
            return ipaddress.IPv6Address(host).compressed
        except ValueError:
            return None
    try:
        host = host.encode("idna").decode().lower() if not host.isascii() else host.lower()
    except UnicodeError:
        return None
    if re.fullmatch(r"(?:0x[0-9a-f]*|\d+)", host.rsplit(".", 1)[-1]):
        try:  # a numeric host is accepted only as a dotted quad
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            return None
    return host if re.fullmatch(r"[a-z0-9_*?-]+(?:\.[a-z0-9_*?-]+)*", host) else None


def _normalise_url_path(path: str) -> str | None:
    """Resolve dot segments, percent-encoded ones too; None if servers would disagree on the result."""
    if not path:
        return "/"
    plain = unquote(path)
    if re.search(r"%2f|%5c|%00|%25", path, re.I) and (".." in plain or "%" in plain):
        return None
    if any(segment in (".", "..") for segment in plain.split("/")):
        resolved = posixpath.normpath(plain)
        return resolved + ("/" if plain.endswith(("/", "/.", "/..")) and resolved != "/" else "")
    return path


@lru_cache(maxsize=1024)
def _parse_url_pattern(pattern: str) -> tuple[str, str, str, str | None] | None:
    """Return scheme, host, port and path of a pattern; parts it does not name are empty, the path None."""
    match = re.fullmatch(r"(?:([a-zA-Z*][a-zA-Z0-9+.*-]*)://)?(\[[^\]]*\]|[^/?#:@]*)(?::(\d+|\*))?([/?].*)?", pattern)
    if match is None or not match[2]:
        return None
    host = match[2].strip("[]").lower().removesuffix(".")
    if not host.isascii():
        host = _normalise_host(host) or ""
    return (match[1] or "").lower(), host, match[3] or "", match[4]


def is_valid_url_pattern(pattern: str) -> bool:
    return _parse_url_pattern(pattern) is not None


def url_matches(pattern: str, url: str, *, broad: bool) -> bool:
    """Match a URL. The pattern must match the whole host.

    Narrowly, a missing scheme means https and a missing path means the root. With `broad`, parts that the pattern does
    not name match anything, and a URL or pattern that cannot be parsed always matches.
    """
    pattern_parts = _parse_url_pattern(pattern)
    parts = split_url(url)
    if pattern_parts is None or parts is None:
        return broad
    scheme, host, port, path = pattern_parts
    if (scheme or not broad) and not compile_glob(scheme or "https")(parts[0]):
        return False
    if not compile_glob(host, "/")(parts[1]):
        return False
    expected_port = int(port) if port.isdigit() else _DEFAULT_PORTS.get(parts[0])
    if port != "*" and (port or not broad) and parts[2] != expected_port:
        return False
    if path is None:
        return broad or parts[3] in ("/", "") or host == "**"
    target = parts[3]
    path = re.sub(r"(?<!\\)\?", r"\\?", path)  # in a URL, `?` begins the query
    if broad:
        return compile_glob(path.casefold(), "/?#")(target.casefold()) or _matches_folder_itself(
            path.casefold(), target.casefold()
        )
    return compile_glob(path, "/?#")(target)


def _matches_folder_itself(path: str, target: str) -> bool:
    return path.endswith("/**") and compile_glob(path[:-3], "/?#")(target)
