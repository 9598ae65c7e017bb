"""Checks of a value that may be a secret: is it random, a placeholder, a word, a path or a part of a program."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter
from itertools import pairwise

_FILLER = re.compile(
    r"example|placeholder|change.?me|redacted|your[-_]|x{6,}|\*{3}|\.{3}|0{8,}|12345678|abcdefgh|insert[-_]|replace[-_]",
    re.IGNORECASE,
)
_FILLER_TAIL_CHARS = 16
_FILLER_KINDS_MAX = 4

_PLACEHOLDER = re.compile(
    r"your|example|placeholder|change.?me|replace|insert|dummy|redacted|sample|x{4,}|\*{3}|\.{3}|0{8,}|1234567|abcdef|"
    r"todo|^<|>$|^\$|^\{\{|^%\(|^%\w+%$|process\.env|environ|getenv|test_?key|fake|secret_here|my[-_]?secret|my[-_]?api",
    re.IGNORECASE,
)
_COMMON_VALUES = frozenset(
    [
        *("password", "pass", "passwd", "secret", "user", "username", "postgres", "mysql", "root", "admin", "guest"),
        *("test", "token", "changeme", "pw", "pwd", "none", "null", "true", "false", "string", "undefined", "required"),
        *("optional", "hidden", "letmein", "changeit", "nil", "bool", "boolean", "number", "integer"),
    ]
)
_WORD = r"(?:[A-Z]{1,12}|[A-Z]?[a-z]{1,15}(?:[A-Z][a-z]{1,15}){0,4})"
_JOINED_WORDS = re.compile(rf"{_WORD}(?:[-_./]{_WORD})+[-_./]?[0-9]{{0,2}}")
_ADDRESS = re.compile(r"[a-z+]{2,12}://|\.{1,2}/|~/|[A-Za-z]:\\|@")
_MEASURE = re.compile(
    r"[0-9]+-?(?:bits?|digits?|chars?|characters?|letters?|bytes?|days?|hours?|minutes?|words?|k?b|px|ms|%)\b"
    r"|(?:base|sha|md|utf|aes|rsa|rot|bcrypt|argon|hs|rs)-?[0-9]+(?:\b|_)|[0-9.,:/-]+\Z",
    re.IGNORECASE,
)
_RANDOM_CHARS_MIN = 24
_PASSWORD_SYMBOLS = "!@#$%^*+~?&"


def entropy(text: str) -> float:
    """Return the Shannon entropy in bits per character."""
    count = len(text)
    return -sum(n / count * math.log2(n / count) for n in Counter(text).values())


def count_kind_changes(text: str) -> int:
    """Count the changes between digits, upper-case and lower-case letters."""
    kinds = ["d" if c.isdigit() else "u" if c.isupper() else "l" if c.islower() else "-" for c in text]
    return sum(a != b and "-" not in (a, b) for a, b in pairwise(kinds))


def is_no_filler(secret: str, _: str = "") -> bool:
    """Return False for what no issuer writes after its prefix: a row of x, `EXAMPLE`, an ascending row."""
    return len(set(secret[-_FILLER_TAIL_CHARS:])) > _FILLER_KINDS_MAX and not _FILLER.search(secret)


def is_jumbled(secret: str, _: str = "") -> bool:
    """Stricter, where the prefix is also a word: the kind of character must change more often than in words."""
    if entropy(secret) < 3.0 or _PLACEHOLDER.search(secret):
        return False
    least = len(secret) // 8 if any(c.isdigit() for c in secret) else len(secret) * 0.3
    return count_kind_changes(secret) >= max(4, least)


def is_json_web_token(secret: str, _: str = "") -> bool:
    """Check that the first part of a JWT decodes to a JSON object."""
    head = secret.partition(".")[0]
    try:
        return base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)).lstrip().startswith(b"{")
    except (binascii.Error, ValueError):
        return False


def is_basic_credentials(secret: str) -> bool:
    """Check the value of a Basic header: base64 of a user name, a colon and a password."""
    try:
        plain = base64.b64decode(secret + "=" * (-len(secret) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return b":" in plain and plain.isascii()


def is_placeholder(value: str) -> bool:
    """Return True for a value that stands for another: a variable, a common word, a path, words in a row."""
    bare = value.rstrip(".:!?")
    if len(bare) >= _RANDOM_CHARS_MIN and count_kind_changes(bare) >= len(bare) // 4 and is_no_filler(bare):
        return False  # random, so a short word in it means nothing
    return (
        not any(c.isalnum() for c in bare)
        or bare.lower() in _COMMON_VALUES
        or _PLACEHOLDER.search(value) is not None
        or _is_path(value)
        or _JOINED_WORDS.fullmatch(bare) is not None
    )


def _is_path(value: str) -> bool:
    """Return True for an address or a path; a random value may begin with a slash, too."""
    if value.startswith("/"):
        return count_kind_changes(value) < len(value) // 6
    return _ADDRESS.match(value) is not None


def _is_measure(value: str) -> bool:
    return len(value) < _RANDOM_CHARS_MIN and _MEASURE.match(value) is not None


def is_password(value: str) -> bool:
    """Return True for a value that is no word: letters and digits, or symbols among them."""
    bare = value.rstrip(".:!?")
    if is_placeholder(value) or _is_measure(value):
        return False
    letters, digits = any(c.isalpha() for c in bare), any(c.isdigit() for c in bare)
    symbols = any(c in _PASSWORD_SYMBOLS for c in bare)
    return len(bare) >= 6 and (letters or symbols) and (digits or symbols) and entropy(bare) >= 2.2


def is_key(value: str) -> bool:
    """Return True for a value that looks like a generated key or token."""
    bare = value.rstrip(".:!?")
    if len(bare) < 12 or is_placeholder(value) or _is_measure(value) or entropy(bare) < 2.8:
        return False
    if not any(c.isalpha() for c in bare):
        return False
    changes = count_kind_changes(bare)
    if not any(c.isdigit() for c in bare):
        return len(bare) >= 20 and changes >= len(bare) * 0.35
    return changes >= max(3, len(bare) // 8)
