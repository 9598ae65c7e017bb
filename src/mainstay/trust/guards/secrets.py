"""Secret detection: formats of API keys, tokens and passwords.

Most have a prefix that names their issuer. The others are recognised by the text before them: a name such as `password`
and an equals sign, `Bearer`, the scheme of a URL.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter
from functools import cache
from itertools import pairwise

from mainstay.trust.guards.redaction_pattern_compiler import (
    ALNUM,
    CONTEXT_CHARS,
    DASHED,
    DIGIT,
    HEX,
    WORD,
    RedactionPattern,
    build_pattern,
    build_start_expression,
    one_of,
)

_HEX_ANY = "[A-Fa-f0-9]"

_PLACEHOLDER = re.compile(
    r"your|example|placeholder|change.?me|replace|insert|dummy|redacted|sample|x{4,}|\*{3}|\.{3}|0{8,}|1234567|abcdef|"
    r"todo|<|>|\$\{|\{\{|%\(|process\.env|environ|getenv|test_?key|fake|secret_here|my[-_]?secret|my[-_]?api",
    re.IGNORECASE,
)
_COMMON_VALUES = frozenset(
    [
        *("password", "pass", "passwd", "secret", "user", "username", "postgres", "mysql", "root", "admin", "guest"),
        *("test", "token", "changeme", "pw", "pwd", "none", "null", "true", "false", "string", "undefined", "required"),
        *("optional", "hidden", "letmein"),
    ]
)
_JOINED_WORDS = re.compile(r"[A-Za-z]+(?:[-_./][A-Za-z]+)+[-_./]?[0-9]{0,2}")
_PATH = re.compile(r"[a-z+]{2,12}://|\.{0,2}/|~/|[A-Za-z]:\\|@")


def entropy(text: str) -> float:
    """Return the Shannon entropy in bits per character."""
    count = len(text)
    return -sum(n / count * math.log2(n / count) for n in Counter(text).values())


def _is_random(secret: str, _: str = "") -> bool:
    """Return True if the text looks random: enough entropy, and not worded like a placeholder."""
    return entropy(secret) >= 3.0 and not _PLACEHOLDER.search(secret)


def _is_mixed(secret: str, _: str = "") -> bool:
    """Stricter, for short prefixes: the kind of character must change more often than in words."""
    least = len(secret) // 8 if any(c.isdigit() for c in secret) else len(secret) * 0.45
    return _is_random(secret) and _count_kind_changes(secret) >= max(4, least)


def _is_jumbled(secret: str, _: str = "") -> bool:
    """Stricter, for short tokens, which may have no digit."""
    return _is_random(secret) and _count_kind_changes(secret) >= 5


def _count_kind_changes(text: str) -> int:
    """Count the changes between digits, upper-case and lower-case letters."""
    kinds = ["d" if c.isdigit() else "u" if c.isupper() else "l" if c.islower() else "-" for c in text]
    return sum(a != b and "-" not in (a, b) for a, b in pairwise(kinds))


def _is_basic_credentials(secret: str, _: str = "") -> bool:
    """Check the value of a Basic header: base64 of a user name, a colon and a password."""
    try:
        plain = base64.b64decode(secret + "=" * (-len(secret) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return b":" in plain and plain.isascii() and bool(_LONG_WORD.search(secret))


_LONG_WORD = re.compile(r"[A-Za-z0-9_-]{16}")


def _is_bearer_token(secret: str, _: str = "") -> bool:
    return _is_mixed(secret) and bool(_LONG_WORD.search(secret))


def _is_json_web_token(secret: str, _: str = "") -> bool:
    """Check that the first part of a JWT decodes to a JSON object."""
    head = secret.partition(".")[0]
    try:
        return base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)).lstrip().startswith(b"{")
    except (binascii.Error, ValueError):
        return False


def _is_url_password(secret: str, _: str = "") -> bool:
    return (
        secret.lower() not in _COMMON_VALUES and not _PLACEHOLDER.search(secret) and not secret.startswith(("$", "%("))
    )


# --- recognised by their format ------------------------------------------------------------------

SECRET_PATTERNS: tuple[RedactionPattern, ...] = (
    build_pattern("aws key id", "A", one_of("KS"), "IA", ("[A-Z0-9]", 16, 16), check=_is_random),
    build_pattern("mainstay key", "ms_", ("[a-z0-9]", 12, 12), "_", (ALNUM, 40, 40)),
    build_pattern("github token", "gh", one_of("pousr"), "_", (ALNUM, 36, 255), check=_is_random),
    build_pattern("github token", "github_pat_", (WORD, 40, 255), check=_is_random),
    build_pattern("gitlab token", "gl", ("[a-z]", 2, 7), "-", (DASHED, 20, 255), check=_is_jumbled),
    build_pattern("slack token", "xox", one_of("abeoprs"), "-", (DASHED, 20, 250), check=_is_random),
    build_pattern("slack token", "xapp-", (DASHED, 30, 250), check=_is_random),
    build_pattern("slack webhook", "hooks.slack.com/", ("[a-z]", 4, 12), "/", ("[A-Za-z0-9/_]", 30, 120), keep=3),
    build_pattern(
        "discord webhook", "discord", ("[a-z.]", 4, 8), "/api/webhooks/", (DIGIT, 15, 22), "/", (DASHED, 50, 90), keep=5
    ),
    build_pattern(
        "stripe key", one_of("srp"), "k_", one_of("lt"), ("[a-z]", 3, 3), "_", (ALNUM, 16, 250), check=_is_random
    ),
    build_pattern("stripe webhook secret", "whsec_", ("[A-Za-z0-9+/=]", 24, 100), check=_is_random),
    build_pattern("anthropic key", "sk-ant-", (DASHED, 32, 250), check=_is_random),
    build_pattern("api key", "sk-", (DASHED, 20, 250), check=_is_mixed),
    build_pattern("google key", "AIza", (DASHED, 35, 35), check=_is_random),
    build_pattern("google token", "ya29.", (DASHED, 30, 1000), check=_is_random),
    build_pattern("google client secret", "GOCSPX-", (DASHED, 28, 28), check=_is_random),
    build_pattern("hugging face token", "hf_", (ALNUM, 30, 64), check=_is_mixed),
    build_pattern("npm token", "npm_", (ALNUM, 36, 36), check=_is_mixed),
    build_pattern("pypi token", "pypi-", (DASHED, 50, 500), check=_is_mixed),
    build_pattern("twilio key", "SK", (HEX, 32, 32), check=_is_random),
    build_pattern("sendgrid key", "SG.", (DASHED, 16, 32), ".", (DASHED, 30, 64), check=_is_random),
    build_pattern("mailgun key", "key-", (HEX, 32, 32), check=_is_random),
    build_pattern("telegram bot token", (DIGIT, 8, 10), ":AA", (DASHED, 32, 34), check=_is_random),
    build_pattern("telegram bot token", "bot", (DIGIT, 8, 10), ":AA", (DASHED, 32, 34), keep=1, check=_is_random),
    build_pattern(
        "discord token",
        one_of("MNO"),
        one_of("DTjz"),
        one_of("AEIMQUYcgk"),
        ("[0-5w-z]", 1, 1),
        (DASHED, 18, 26),
        ".",
        (DASHED, 6, 7),
        ".",
        (DASHED, 25, 45),
    ),
    build_pattern(
        "json web token",
        "eyJ",
        (DASHED, 10, 4096),
        ".",
        (DASHED, 10, 8192),
        ".",
        (DASHED, 10, 2048),
        check=_is_json_web_token,
    ),
    build_pattern("age key", "AGE-SECRET-KEY-1", ("[0-9A-Z]", 50, 60)),
    build_pattern("digitalocean token", "do", one_of("opr"), "_v1_", (HEX, 64, 64)),
    build_pattern("shopify token", "shp", one_of("acpsu"), (r"[a-z]", 1, 2), "_", (_HEX_ANY, 32, 40), check=_is_random),
    build_pattern("square token", "sq0", ("[a-z]", 3, 3), "-", (DASHED, 22, 60), check=_is_random),
    build_pattern("square token", "EAAA", ("[A-Za-z0-9_-]", 56, 70), check=_is_mixed),
    build_pattern("databricks token", "dapi", (HEX, 32, 32), check=_is_random),
    build_pattern("vault token", "hv", one_of("sbr"), ".", (DASHED, 24, 300), check=_is_mixed),
    build_pattern("doppler token", "dp.", ("[a-z]", 2, 6), ".", ("[A-Za-z0-9_.-]", 40, 80), check=_is_random),
    build_pattern("linear key", "lin_", ("[a-z]", 3, 6), "_", (ALNUM, 32, 64), check=_is_mixed),
    build_pattern("notion token", "ntn_", (ALNUM, 40, 64), check=_is_mixed),
    build_pattern("notion token", "secret_", (ALNUM, 43, 43), check=_is_mixed),
    build_pattern("atlassian token", "AT", one_of("AC"), "TT3xFfGF0", ("[A-Za-z0-9_=-]", 30, 300), check=_is_random),
    build_pattern("postman key", "PMAK-", (HEX, 24, 24), "-", (HEX, 34, 34)),
    build_pattern("grafana token", "glsa_", (ALNUM, 32, 32), "_", (_HEX_ANY, 8, 8), check=_is_random),
    build_pattern("grafana token", "glc_", ("[A-Za-z0-9+/=]", 32, 400), check=_is_mixed),
    build_pattern("new relic key", "NR", one_of("ABIRJ"), one_of("ABKLMS"), "-", (DASHED, 24, 64), check=_is_mixed),
    build_pattern("openrouter key", "sk-or-v1-", (HEX, 64, 64)),
    build_pattern("groq key", "gsk_", (ALNUM, 40, 64), check=_is_mixed),
    build_pattern("replicate token", "r8_", (ALNUM, 30, 48), check=_is_mixed),
    build_pattern("perplexity key", "pplx-", (ALNUM, 40, 64), check=_is_mixed),
    build_pattern("xai key", "xai-", (ALNUM, 60, 90), check=_is_mixed),
    build_pattern("fly token", "fo1_", (DASHED, 30, 64), check=_is_mixed),
    build_pattern("netlify token", "nf", one_of("pcu"), "_", (ALNUM, 30, 64), check=_is_mixed),
    build_pattern("render key", "rnd_", (ALNUM, 24, 40), check=_is_mixed),
    build_pattern("sentry token", "sntry", one_of("su"), "_", ("[A-Za-z0-9+/=_-]", 40, 400), check=_is_mixed),
    build_pattern("planetscale token", "pscale_", ("[a-z]", 2, 6), "_", ("[A-Za-z0-9_=.-]", 30, 64), check=_is_mixed),
    build_pattern("supabase key", "sb", one_of("ps"), "_", (DASHED, 30, 80), check=_is_mixed),
    build_pattern("airtable token", "pat", (ALNUM, 14, 14), ".", (HEX, 64, 64)),
    build_pattern("figma token", "figd_", (DASHED, 36, 60), check=_is_mixed),
    build_pattern("docker token", "dckr_", ("[a-z]", 3, 4), "_", (DASHED, 24, 64), check=_is_mixed),
    build_pattern("rubygems key", "rubygems_", (HEX, 48, 48)),
    build_pattern("pulumi token", "pul-", (HEX, 40, 40), check=_is_random),
    build_pattern(
        "dynatrace token", "dt0", ("[a-z]", 1, 1), ("[0-9]", 2, 2), ".", ("[A-Z0-9]", 24, 24), ".", ("[A-Z0-9]", 64, 64)
    ),
    build_pattern("cloudflare token", "v1.0-", (HEX, 24, 24), "-", (HEX, 100, 160)),
    build_pattern(
        "bearer token",
        one_of("Bb"),
        "earer",
        ("[ \\t]", 1, 3),
        ("[A-Za-z0-9._~+/=-]", 20, 4096),
        keep=3,
        check=_is_bearer_token,
    ),
    build_pattern(
        "basic credentials",
        one_of("Bb"),
        "asic",
        ("[ \\t]", 1, 3),
        ("[A-Za-z0-9+/=]", 16, 512),
        keep=3,
        check=_is_basic_credentials,
    ),
)

# --- recognised by the text before them ----------------------------------------------------------

_SECRET_NAME = re.compile(
    r"((?i:pass(?:word|wd|phrase)?|pwd|secret|token|credential|(?:api|access|private|secret|account|auth|signing|encryption"
    r"|service|master|license|app|application|shared[_-]?access)[ _-]?key))"
    r"(s|[_.-][A-Za-z0-9_.-]{0,24}|[A-Z][A-Za-z0-9]{0,24})?\\?[\"'\]]{0,2}[ \t]{0,3}\Z"
)
_METADATA_SUFFIX = re.compile(
    r"(?i)(?:name|id|url|uri|path|file|type|ref|arn|field|policy|length|count|hash|expiry|expires|ttl|version|label|"
    r"limit|size|prefix|header|hint|regex|pattern|class|provider|endpoint|algorithm|scope|usage|izer)s?\Z"
)


def _is_named_secret(secret: str, before: str) -> bool:
    """Check a value after a name such as `password`: it must look like a secret rather than like code or prose."""
    name = _SECRET_NAME.search(before)
    if name is None or _METADATA_SUFFIX.search(name[2] or ""):
        return False
    bare = secret.rstrip(".:!?")
    if (
        bare.lower() in _COMMON_VALUES
        or _PLACEHOLDER.search(secret)
        or _PATH.match(secret)
        or _JOINED_WORDS.fullmatch(bare)
    ):
        return False
    letters, digits = any(c.isalpha() for c in bare), any(c.isdigit() for c in bare)
    if name[1][:4].lower() in ("pass", "pwd"):
        symbols = any(c in "!@#$%^*+~?&" for c in bare)
        return len(bare) >= 6 and (letters or symbols) and (digits or symbols) and entropy(bare) >= 2.2
    if len(bare) < 12 or not letters or not digits or entropy(bare) < 2.8:
        return False
    return _count_kind_changes(bare) >= max(3, len(bare) // 8)


def _build_assignment_pattern(quote: str, value: str, after: str) -> RedactionPattern:
    """Build the pattern for `name = value`. Only the value is held and replaced; `check` examines the name."""
    return RedactionPattern(
        "password or key",
        rf"((?::=|=>|[=:])[ \t]{{0,4}}+{quote})({value}{{6,2048}}+)(?!{value}){after}",
        rf"[=:](?:\Z|[=>]?+[ \t]{{0,4}}+(?:\Z|\\?+\Z|{quote}{value}{{0,2048}}+\Z))",
        _is_named_secret,
    )


_ASSIGNMENT_PATTERNS = (
    _build_assignment_pattern(r"\\?[\"'`]", r"[^\s\"'`<>\\]", ""),
    _build_assignment_pattern("", r"[^\s\"'`,;<>(){}\[\]\\&]", r"(?![(\[])"),
)
_USER, _PASS = r"[^\s:@/?#\"'<>]{0,128}", r"[^\s/\"'<>]"
_USERINFO_PATTERNS = (  # scheme://user:password@host; only the password is replaced
    RedactionPattern(
        "password in url",
        rf"(://{_USER}:)({_PASS}{{1,256}})(?=@[A-Za-z0-9\[])",
        rf":(?:\Z|/(?:\Z|/{_USER}+(?:\Z|:{_PASS}{{0,260}}+\Z)))",
        _is_url_password,
    ),
)


def patterns_at(text: str, start: int) -> tuple[RedactionPattern, ...]:
    """Return the patterns that may begin here. A separator counts only after a name such as `password`."""
    first = text[start]
    if first not in "=:":
        return _BY_FIRST.get(first, ())
    before = text[max(0, start - CONTEXT_CHARS) : start]
    after_name = _has_secret_name(before.lower()) and _SECRET_NAME.search(before) is not None
    if first == ":":
        return _USERINFO_PATTERNS + _ASSIGNMENT_PATTERNS if after_name else _USERINFO_PATTERNS
    return _ASSIGNMENT_PATTERNS if after_name else ()


_BY_FIRST = {
    first: tuple(pattern for pattern in SECRET_PATTERNS if first in (pattern.first_characters or "0123456789"))
    for first in frozenset("0123456789").union(*(pattern.first_characters for pattern in SECRET_PATTERNS))
}


# One expression finds every position where a secret may begin. One that begins with digits is recognised by its colon.
@cache
def start_pattern() -> re.Pattern[str]:
    prefixes = [prefix for pattern in SECRET_PATTERNS for prefix in pattern.prefixes]
    return re.compile(
        build_start_expression(prefixes, always=("=", ":", "-----B"), digits=r"[0-9]{7,9}+:|[0-9]{0,9}+\Z")
    )


# --- cheap check ---------------------------------------------------------------------------------

_TOKEN_TABLE = (
    bytes(
        120 if chr(c).isalnum() or chr(c) in "_-" else 32  # x for the characters of tokens
        for c in range(128)
    )
    + b" " * 128
)
_LONG_RUN = b"x" * 16


def may_contain_secret(text: str) -> bool:
    """Return False for most text, cheaply: a secret is a long run of letters and digits, or follows a typical name."""
    if _LONG_RUN in text.encode("ascii", "replace").translate(_TOKEN_TABLE):
        return True
    return _has_secret_name(text.lower()) or ("@" in text and "://" in text) or "-----BEGIN" in text


def _has_secret_name(lowered: str) -> bool:
    # Written out, because a loop is slower.
    return (
        "pass" in lowered
        or "token" in lowered
        or "secret" in lowered
        or "key" in lowered
        or "pwd" in lowered
        or "credential" in lowered
    )
