"""The kinds of secrets that are known by their looks.

Most begin with something that says whose they are. The others are known by what stands before them: a name such as
`password` and an equals sign, `Bearer`, the scheme of an address.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter
from functools import cache
from itertools import pairwise

from mainstay.trust.guards.shapes import ALNUM, BEFORE_CHARS, DASHED, DIGIT, HEX, WORD, Shape, gate, one, shape

_HEX_ANY = "[A-Fa-f0-9]"

_PLACEHOLDER = re.compile(
    r"your|example|placeholder|change.?me|replace|insert|dummy|redacted|sample|x{4,}|\*{3}|\.{3}|0{8,}|1234567|abcdef|"
    r"todo|<|>|\$\{|\{\{|%\(|process\.env|environ|getenv|test_?key|fake|secret_here|my[-_]?secret|my[-_]?api",
    re.IGNORECASE,
)
_EVERYDAY = frozenset(
    [
        *("password", "pass", "passwd", "secret", "user", "username", "postgres", "mysql", "root", "admin", "guest"),
        *("test", "token", "changeme", "pw", "pwd", "none", "null", "true", "false", "string", "undefined", "required"),
        *("optional", "hidden", "letmein"),
    ]
)
_WORDS = re.compile(r"[A-Za-z]+(?:[-_./][A-Za-z]+)+[-_./]?[0-9]{0,2}")
_PATH = re.compile(r"[a-z+]{2,12}://|\.{0,2}/|~/|[A-Za-z]:\\|@")


def entropy(text: str) -> float:
    """Bits per character."""
    count = len(text)
    return -sum(n / count * math.log2(n / count) for n in Counter(text).values())


def _random(secret: str, _: str = "") -> bool:
    """Nobody would write this by hand: a placeholder repeats itself or says that it is one."""
    return entropy(secret) >= 3.0 and not _PLACEHOLDER.search(secret)


def _mixed(secret: str, _: str = "") -> bool:
    """The same for what has a short name in front: sorts of characters change more often than in words."""
    least = len(secret) // 8 if any(c.isdigit() for c in secret) else len(secret) * 0.45
    return _random(secret) and _changes(secret) >= max(4, least)


def _jumbled(secret: str, _: str = "") -> bool:
    """The same for short ones, which may have no digit."""
    return _random(secret) and _changes(secret) >= 5


def _changes(text: str) -> int:
    """How often it goes from one sort of character to another."""
    sorts = ["d" if c.isdigit() else "u" if c.isupper() else "l" if c.islower() else "-" for c in text]
    return sum(a != b and "-" not in (a, b) for a, b in pairwise(sorts))


def _credentials(secret: str, _: str = "") -> bool:
    """The value of a Basic header: base64 of a name, a colon and a password."""
    try:
        plain = base64.b64decode(secret + "=" * (-len(secret) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return b":" in plain and plain.isascii() and bool(_LONG.search(secret))


_LONG = re.compile(r"[A-Za-z0-9_-]{16}")


def _bearer(secret: str, _: str = "") -> bool:
    return _mixed(secret) and bool(_LONG.search(secret))


def _token_json(secret: str, _: str = "") -> bool:
    """The first part of a JWT is a JSON object."""
    head = secret.partition(".")[0]
    try:
        return base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)).lstrip().startswith(b"{")
    except (binascii.Error, ValueError):
        return False


def _in_url(secret: str, _: str = "") -> bool:
    return secret.lower() not in _EVERYDAY and not _PLACEHOLDER.search(secret) and not secret.startswith(("$", "%("))


# --- by their own looks --------------------------------------------------------------------------

SHAPES: tuple[Shape, ...] = (
    shape("aws key id", "A", one("KS"), "IA", ("[A-Z0-9]", 16, 16), check=_random),
    shape("mainstay key", "ms_", ("[a-z0-9]", 12, 12), "_", (ALNUM, 40, 40)),
    shape("github token", "gh", one("pousr"), "_", (ALNUM, 36, 255), check=_random),
    shape("github token", "github_pat_", (WORD, 40, 255), check=_random),
    shape("gitlab token", "gl", ("[a-z]", 2, 7), "-", (DASHED, 20, 255), check=_jumbled),
    shape("slack token", "xox", one("abeoprs"), "-", (DASHED, 20, 250), check=_random),
    shape("slack token", "xapp-", (DASHED, 30, 250), check=_random),
    shape("slack webhook", "hooks.slack.com/", ("[a-z]", 4, 12), "/", ("[A-Za-z0-9/_]", 30, 120), keep=3),
    shape(
        "discord webhook", "discord", ("[a-z.]", 4, 8), "/api/webhooks/", (DIGIT, 15, 22), "/", (DASHED, 50, 90), keep=5
    ),
    shape("stripe key", one("srp"), "k_", one("lt"), ("[a-z]", 3, 3), "_", (ALNUM, 16, 250), check=_random),
    shape("stripe webhook secret", "whsec_", ("[A-Za-z0-9+/=]", 24, 100), check=_random),
    shape("anthropic key", "sk-ant-", (DASHED, 32, 250), check=_random),
    shape("api key", "sk-", (DASHED, 20, 250), check=_mixed),
    shape("google key", "AIza", (DASHED, 35, 35), check=_random),
    shape("google token", "ya29.", (DASHED, 30, 1000), check=_random),
    shape("google client secret", "GOCSPX-", (DASHED, 28, 28), check=_random),
    shape("hugging face token", "hf_", (ALNUM, 30, 64), check=_mixed),
    shape("npm token", "npm_", (ALNUM, 36, 36), check=_mixed),
    shape("pypi token", "pypi-", (DASHED, 50, 500), check=_mixed),
    shape("twilio key", "SK", (HEX, 32, 32), check=_random),
    shape("sendgrid key", "SG.", (DASHED, 16, 32), ".", (DASHED, 30, 64), check=_random),
    shape("mailgun key", "key-", (HEX, 32, 32), check=_random),
    shape("telegram bot token", (DIGIT, 8, 10), ":AA", (DASHED, 32, 34), check=_random),
    shape("telegram bot token", "bot", (DIGIT, 8, 10), ":AA", (DASHED, 32, 34), keep=1, check=_random),
    shape(
        "discord token",
        one("MNO"),
        one("DTjz"),
        one("AEIMQUYcgk"),
        ("[0-5w-z]", 1, 1),
        (DASHED, 18, 26),
        ".",
        (DASHED, 6, 7),
        ".",
        (DASHED, 25, 45),
    ),
    shape(
        "json web token", "eyJ", (DASHED, 10, 4096), ".", (DASHED, 10, 8192), ".", (DASHED, 10, 2048), check=_token_json
    ),
    shape("age key", "AGE-SECRET-KEY-1", ("[0-9A-Z]", 50, 60)),
    shape("digitalocean token", "do", one("opr"), "_v1_", (HEX, 64, 64)),
    shape("shopify token", "shp", one("acpsu"), (r"[a-z]", 1, 2), "_", (_HEX_ANY, 32, 40), check=_random),
    shape("square token", "sq0", ("[a-z]", 3, 3), "-", (DASHED, 22, 60), check=_random),
    shape("square token", "EAAA", ("[A-Za-z0-9_-]", 56, 70), check=_mixed),
    shape("databricks token", "dapi", (HEX, 32, 32), check=_random),
    shape("vault token", "hv", one("sbr"), ".", (DASHED, 24, 300), check=_mixed),
    shape("doppler token", "dp.", ("[a-z]", 2, 6), ".", ("[A-Za-z0-9_.-]", 40, 80), check=_random),
    shape("linear key", "lin_", ("[a-z]", 3, 6), "_", (ALNUM, 32, 64), check=_mixed),
    shape("notion token", "ntn_", (ALNUM, 40, 64), check=_mixed),
    shape("notion token", "secret_", (ALNUM, 43, 43), check=_mixed),
    shape("atlassian token", "AT", one("AC"), "TT3xFfGF0", ("[A-Za-z0-9_=-]", 30, 300), check=_random),
    shape("postman key", "PMAK-", (HEX, 24, 24), "-", (HEX, 34, 34)),
    shape("grafana token", "glsa_", (ALNUM, 32, 32), "_", (_HEX_ANY, 8, 8), check=_random),
    shape("grafana token", "glc_", ("[A-Za-z0-9+/=]", 32, 400), check=_mixed),
    shape("new relic key", "NR", one("ABIRJ"), one("ABKLMS"), "-", (DASHED, 24, 64), check=_mixed),
    shape("openrouter key", "sk-or-v1-", (HEX, 64, 64)),
    shape("groq key", "gsk_", (ALNUM, 40, 64), check=_mixed),
    shape("replicate token", "r8_", (ALNUM, 30, 48), check=_mixed),
    shape("perplexity key", "pplx-", (ALNUM, 40, 64), check=_mixed),
    shape("xai key", "xai-", (ALNUM, 60, 90), check=_mixed),
    shape("fly token", "fo1_", (DASHED, 30, 64), check=_mixed),
    shape("netlify token", "nf", one("pcu"), "_", (ALNUM, 30, 64), check=_mixed),
    shape("render key", "rnd_", (ALNUM, 24, 40), check=_mixed),
    shape("sentry token", "sntry", one("su"), "_", ("[A-Za-z0-9+/=_-]", 40, 400), check=_mixed),
    shape("planetscale token", "pscale_", ("[a-z]", 2, 6), "_", ("[A-Za-z0-9_=.-]", 30, 64), check=_mixed),
    shape("supabase key", "sb", one("ps"), "_", (DASHED, 30, 80), check=_mixed),
    shape("airtable token", "pat", (ALNUM, 14, 14), ".", (HEX, 64, 64)),
    shape("figma token", "figd_", (DASHED, 36, 60), check=_mixed),
    shape("docker token", "dckr_", ("[a-z]", 3, 4), "_", (DASHED, 24, 64), check=_mixed),
    shape("rubygems key", "rubygems_", (HEX, 48, 48)),
    shape("pulumi token", "pul-", (HEX, 40, 40), check=_random),
    shape(
        "dynatrace token", "dt0", ("[a-z]", 1, 1), ("[0-9]", 2, 2), ".", ("[A-Z0-9]", 24, 24), ".", ("[A-Z0-9]", 64, 64)
    ),
    shape("cloudflare token", "v1.0-", (HEX, 24, 24), "-", (HEX, 100, 160)),
    shape(
        "bearer token", one("Bb"), "earer", ("[ \\t]", 1, 3), ("[A-Za-z0-9._~+/=-]", 20, 4096), keep=3, check=_bearer
    ),
    shape(
        "basic credentials",
        one("Bb"),
        "asic",
        ("[ \\t]", 1, 3),
        ("[A-Za-z0-9+/=]", 16, 512),
        keep=3,
        check=_credentials,
    ),
)

# --- by what stands before them ------------------------------------------------------------------

_NAMED = re.compile(
    r"((?i:pass(?:word|wd|phrase)?|pwd|secret|token|credential|(?:api|access|private|secret|account|auth|signing|encryption"
    r"|service|master|license|app|application|shared[_-]?access)[ _-]?key))"
    r"(s|[_.-][A-Za-z0-9_.-]{0,24}|[A-Z][A-Za-z0-9]{0,24})?\\?[\"'\]]{0,2}[ \t]{0,3}\Z"
)
_ABOUT = re.compile(
    r"(?i)(?:name|id|url|uri|path|file|type|ref|arn|field|policy|length|count|hash|expiry|expires|ttl|version|label|"
    r"limit|size|prefix|header|hint|regex|pattern|class|provider|endpoint|algorithm|scope|usage|izer)s?\Z"
)


def _named(secret: str, before: str) -> bool:
    """A value that a name says is secret, and that looks like one rather than like code or prose."""
    name = _NAMED.search(before)
    if name is None or _ABOUT.search(name[2] or ""):
        return False
    bare = secret.rstrip(".:!?")
    if bare.lower() in _EVERYDAY or _PLACEHOLDER.search(secret) or _PATH.match(secret) or _WORDS.fullmatch(bare):
        return False
    letters, digits = any(c.isalpha() for c in bare), any(c.isdigit() for c in bare)
    if name[1][:4].lower() in ("pass", "pwd"):
        symbols = any(c in "!@#$%^*+~?&" for c in bare)
        return len(bare) >= 6 and (letters or symbols) and (digits or symbols) and entropy(bare) >= 2.2
    if len(bare) < 12 or not letters or not digits or entropy(bare) < 2.8:
        return False
    return _changes(bare) >= max(3, len(bare) // 8)


def _assigned(quote: str, value: str, after: str) -> Shape:
    """`name = value`: only the value is held and replaced; the name was let through and is looked at again."""
    return Shape(
        "password or key",
        rf"((?::=|=>|[=:])[ \t]{{0,4}}+{quote})({value}{{6,2048}}+)(?!{value}){after}",
        rf"[=:](?:\Z|[=>]?+[ \t]{{0,4}}+(?:\Z|\\?+\Z|{quote}{value}{{0,2048}}+\Z))",
        _named,
    )


_ASSIGNED = (
    _assigned(r"\\?[\"'`]", r"[^\s\"'`<>\\]", ""),
    _assigned("", r"[^\s\"'`,;<>(){}\[\]\\&]", r"(?![(\[])"),
)
_USER, _PASS = r"[^\s:@/?#\"'<>]{0,128}", r"[^\s/\"'<>]"
_USERINFO = (  # scheme://user:password@host, of which only the password is replaced
    Shape(
        "password in url",
        rf"(://{_USER}:)({_PASS}{{1,256}})(?=@[A-Za-z0-9\[])",
        rf":(?:\Z|/(?:\Z|/{_USER}+(?:\Z|:{_PASS}{{0,260}}+\Z)))",
        _in_url,
    ),
)


def shapes_at(text: str, start: int) -> tuple[Shape, ...]:
    """What may begin here. A separator counts only after a telling name, or nothing would flow past a colon."""
    first = text[start]
    if first not in "=:":
        return _BY_FIRST.get(first, ())
    before = text[max(0, start - BEFORE_CHARS) : start]
    named = _has_name(before.lower()) and _NAMED.search(before) is not None
    if first == ":":
        return _USERINFO + _ASSIGNED if named else _USERINFO
    return _ASSIGNED if named else ()


_BY_FIRST = {
    first: tuple(one for one in SHAPES if first in (one.first or "0123456789"))
    for first in frozenset("0123456789").union(*(one.first for one in SHAPES))
}


# One search says where something may begin. What begins with digits is told by its colon.
@cache
def start() -> re.Pattern[str]:
    prefixes = [prefix for one in SHAPES for prefix in one.prefixes]
    return re.compile(gate(prefixes, always=("=", ":", "-----B"), digits=r"[0-9]{7,9}+:|[0-9]{0,9}+\Z"))


# --- what a text without secrets lacks -----------------------------------------------------------

_RUN = (
    bytes(
        120 if chr(c).isalnum() or chr(c) in "_-" else 32  # x for what tokens are made of
        for c in range(128)
    )
    + b" " * 128
)
_LONG_RUN = b"x" * 16


def may_hold_secret(text: str) -> bool:
    """False for most text, cheaply: a secret is a long run of letters and digits, or has a telling name before it."""
    if _LONG_RUN in text.encode("ascii", "replace").translate(_RUN):
        return True
    return _has_name(text.lower()) or ("@" in text and "://" in text) or "-----BEGIN" in text


def _has_name(low: str) -> bool:
    # Spelled out: a loop over the six costs more than the six.
    return "pass" in low or "token" in low or "secret" in low or "key" in low or "pwd" in low or "credential" in low
