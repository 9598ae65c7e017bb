"""Patterns of rules: globs over words, paths and addresses. All matching takes time in proportion to the text.

An allow is read narrowly and a refusal broadly: where a text is odd, or could be read in two ways, it is refused.
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

PATTERN_MAX = 1000
_PORTS = {"http": 80, "https": 443, "ftp": 21, "ws": 80, "wss": 443}
_ODD_IN_URL = re.compile(r"[\x00-\x20\x7f\\<>\"^`{|}]|%(?![0-9a-fA-F]{2})")

Matches = Callable[[str], bool]


@lru_cache(maxsize=1024)
def glob(pattern: str, stops: str = "") -> Matches:
    """`*` matches what holds none of `stops`, `**` anything, `?` one character, `\\` takes the next one as it is."""
    tokens = _tokens(pattern, stops)
    if not any(kind for kind, _ in tokens):
        whole = "".join(text for _, text in tokens)
        return lambda text: text == whole
    if all(not kind for kind, _ in tokens[:-1]) and tokens[-1][0] == "**":
        head = "".join(text for _, text in tokens[:-1])
        return lambda text: text.startswith(head)
    return _automaton(tokens, stops)


def _tokens(pattern: str, stops: str) -> list[tuple[str, str]]:
    made: list[tuple[str, str]] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\" and at + 1 < len(pattern):
            made.append(("", pattern[at + 1]))
            at += 2
        elif char == "*":
            run = len(pattern) - len(pattern[at:].lstrip("*")) - at
            made.append(("**" if run > 1 or not stops else "*", ""))
            at += run
        else:
            made.append(("?" if char == "?" else "", char))
            at += 1
    return made


def _automaton(tokens: list[tuple[str, str]], stops: str) -> Matches:
    """All states at once, as the bits of a number: no pattern makes it slow."""
    stay_any = stay_some = one = 0
    letters: dict[str, int] = {}
    free = 0  # states that are passed without reading anything
    for place, (kind, text) in enumerate(tokens):
        bit = 1 << place
        if kind == "**":
            stay_any |= bit
            free |= bit
        elif kind == "*":
            stay_some |= bit
            free |= bit
        elif kind == "?":
            one |= bit
        else:
            letters[text] = letters.get(text, 0) | bit
    end = 1 << len(tokens)

    def close(states: int) -> int:
        passed = states & free
        while passed:
            passed = (passed << 1) & ~states
            states |= passed
            passed &= free
        return states

    start = close(1)

    def matches(text: str) -> bool:
        states = start
        for char in text:
            stopped = char in stops
            moved = (states & letters.get(char, 0)) << 1
            if not stopped:
                moved |= (states & one) << 1 | states & stay_some
            states = close(moved | states & stay_any)
            if not states:
                return False
        return bool(states & end)

    return matches


def fold(text: str) -> str:
    """As file systems that ignore case and composition see it."""
    return unicodedata.normalize("NFC", text).casefold()


# --- paths ---------------------------------------------------------------------------------------


def normal_path(path: str, cwd: str) -> str:
    """Absolute where that can be said; `..` resolved as written."""
    whole = posixpath.normpath(posixpath.join(cwd or "", path or "."))
    return whole[1:] if whole.startswith("//") else whole


def led_to(path: str, cwd: str) -> str:
    """Where a path leads on this disk; the path itself if no link is on its way."""
    if not cwd or "\0" in path:
        return path
    whole = posixpath.join(cwd, path)
    try:
        real = os.path.realpath(whole)
    except (OSError, ValueError):
        return path
    return path if real == normal_path(path, cwd) else real


def path_matches(pattern: str, path: str, cwd: str, *, broad: bool) -> bool:
    """A relative pattern is about what lies in the folder of the session; a broad one that begins with ** anywhere."""
    if "\0" in path:
        return broad
    whole = normal_path(path, cwd)
    rooted = posixpath.normpath(cwd) if cwd else ""
    inside = whole if not whole.startswith("/") else ""
    if rooted and (whole == rooted or whole.startswith(rooted.rstrip("/") + "/")):
        inside = whole[len(rooted) :].lstrip("/") or "."
    if inside.startswith(".."):
        inside = ""
    pattern = pattern[2:] if pattern.startswith("./") else pattern
    if broad:
        pattern, whole, inside = fold(pattern), fold(whole), fold(inside)
    if pattern.startswith("/"):
        return _path_glob(pattern, whole)
    if inside and _path_glob(pattern, inside):
        return True
    return broad and pattern.startswith("**") and _path_glob("/" + pattern, whole)


def _path_glob(pattern: str, path: str) -> bool:
    if glob(pattern, "/")(path):
        return True
    if pattern.endswith("/**") and glob(pattern[:-3], "/")(path):
        return True  # the folder itself
    at = pattern.find("**/")  # which may stand for no folder at all
    return at >= 0 and (at == 0 or pattern[at - 1] == "/") and glob(pattern[:at] + pattern[at + 3 :], "/")(path)


# --- addresses -----------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def split_url(url: str) -> tuple[str, str, int | None, str] | None:
    """Scheme, host, port, and path with query; None if any of it is odd: then no rule that allows is about it."""
    if _ODD_IN_URL.search(url) or "://" not in url:
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    host = _host(parts.hostname or "")
    if host is None or "@" in parts.netloc or "%" in parts.netloc or parts.netloc.endswith(":"):
        return None
    path = _url_path(parts.path)
    if path is None:
        return None
    scheme = parts.scheme.lower()
    return scheme, host, port or _PORTS.get(scheme), path + (f"?{parts.query}" if "?" in url.split("#")[0] else "")


def _host(host: str) -> str | None:
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
        try:  # a number is an address only in its one usual form
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            return None
    return host if re.fullmatch(r"[a-z0-9_*?-]+(?:\.[a-z0-9_*?-]+)*", host) else None


def _url_path(path: str) -> str | None:
    """With dot segments resolved, however they are written; None if servers would disagree about it."""
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
def _url_pattern(pattern: str) -> tuple[str, str, str, str | None] | None:
    """Scheme, host, port and path of a pattern; empty or None where it does not say."""
    found = re.fullmatch(r"(?:([a-zA-Z*][a-zA-Z0-9+.*-]*)://)?(\[[^\]]*\]|[^/?#:@]*)(?::(\d+|\*))?([/?].*)?", pattern)
    if found is None or not found[2]:
        return None
    host = found[2].strip("[]").lower().removesuffix(".")
    if not host.isascii():
        host = _host(host) or ""
    return (found[1] or "").lower(), host, found[3] or "", found[4]


def url_pattern_is_sound(pattern: str) -> bool:
    return _url_pattern(pattern) is not None


def url_matches(pattern: str, url: str, *, broad: bool) -> bool:
    """The whole host, always. Without a scheme it is about https; without a path about the root alone.

    Broadly, about any scheme, port and path that it does not name, and about every address that is odd.
    """
    wanted = _url_pattern(pattern)
    given = split_url(url)
    if wanted is None or given is None:
        return broad
    scheme, host, port, path = wanted
    if (scheme or not broad) and not glob(scheme or "https")(given[0]):
        return False
    if not glob(host, "/")(given[1]):
        return False
    usual = int(port) if port.isdigit() else _PORTS.get(given[0])
    if port != "*" and (port or not broad) and given[2] != usual:
        return False
    if path is None:
        return broad or given[3] in ("/", "") or host == "**"
    target = given[3]
    path = re.sub(r"(?<!\\)\?", r"\\?", path)  # in an address it begins the query
    if broad:
        return glob(path.casefold(), "/?#")(target.casefold()) or _folder(path.casefold(), target.casefold())
    return glob(path, "/?#")(target)


def _folder(path: str, target: str) -> bool:
    return path.endswith("/**") and glob(path[:-3], "/?#")(target)
