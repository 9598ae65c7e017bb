"""Secret detection: formats of API keys and tokens, and passwords that the text before them announces.

What announces a value: a name such as `password` with an equals sign, a colon, a tag or a table cell; a header; a flag
of a command; a sentence such as "the password is"; the scheme of a URL.
"""

from __future__ import annotations

import re
from functools import cache

from mainstay.guards.redaction_pattern_compiler import (
    CONTEXT_CHARS,
    START_LOOKBACK_CHARS,
    AnnouncedPattern,
    RedactionPattern,
    build_pattern,
    build_start_expression,
    one_of,
    optional,
)
from mainstay.guards.secret_checks import (
    is_basic_credentials,
    is_jumbled,
    is_key,
    is_no_filler,
    is_password,
    is_placeholder,
)
from mainstay.guards.secret_formats import FORMAT_PATTERNS

# --- names ---------------------------------------------------------------------------------------

_PASSWORD_NAME = r"(?i:pass(?:wor[dt]|wd|phrase|code)?|pwd|mot de passe)"
_KEY_NAME = (
    r"(?i:secret|token|cred(?:ential)?|(?:api|access|private|secret|account|auth|signing|encryption|service|master|license"
    r"|app|application|shared[_-]?access|storage|subscription|admin|write|ingest|client|webhook|session|jwt|hmac|aes)"
    r"[ _-]?key)"
)
_NAME_END = (
    r"(s|[_.-][A-Za-z0-9_.-]{0,24}|[A-Z][A-Za-z0-9]{0,24}|[0-9]{1,2})?"
    r"\\?[\"'`*\]]{0,3}(?:[ \t]?:?[ \t](?i:string|str))?[ \t]{0,20}[?.!+]{0,2}"
)
_SECRET_NAME = re.compile(rf"(?:({_PASSWORD_NAME})|({_KEY_NAME}|(?i:key))){_NAME_END}\Z")
_OTHER_KEY = re.compile(
    r"(?i)(?:public|primary|foreign|cache|sort|partition|lookup|idempotency|routing|host|row|hash|object)[ _-]?\Z"
)
_METADATA_SUFFIX = re.compile(
    r"(?i)(?:name|id|url|uri|path|file|type|ref|arn|field|policy|length|count|hash|expiry|expires|ttl|version|label|"
    r"limit|size|prefix|header|hint|regex|pattern|class|provider|endpoint|algorithm|scope|usage|izer)s?\Z"
)
# `name: DB_PASSWORD` and then `value: …`, in YAML, JSON and XML
_NAMED_VALUE = re.compile(
    r"(?i:name|key)[\"']?\s{0,3}[:=]\s{0,3}[\"']?([A-Za-z0-9_.-]{1,40})[\"']?,?\s{1,20}[\"']?(?i:value)[\"']?\s{0,3}\Z"
)


def _accept_named_value(value: str, before: str) -> bool:
    """Check a value after a name such as `password`: it must look like a secret rather than like code or prose."""
    name = _SECRET_NAME.search(before)
    if name is None and (pair := _NAMED_VALUE.search(before)) is not None:
        name = _SECRET_NAME.search(pair[1])
    if name is None or _METADATA_SUFFIX.search(name[3] or ""):
        return False
    if name[1]:
        return is_password(value)
    if name[2].lower() == "key":  # one of many things, so its value must be long
        return (
            not name[3] and len(value) >= 20 and is_key(value) and not _OTHER_KEY.search(name.string[: name.start(2)])
        )
    return is_key(value)


# --- assignments, headers, sentences -------------------------------------------------------------


# `=`, `:=`, `::=`, `==`, `=>`, `:`, a cell, a tag, and the block scalars of YAML
_ASSIGN = r"(?:>\s{0,20}+|(?::{1,3}=|={1,3}>?|[=:|\t])[ \t]{0,20}+(?:[|>][-+]?\r?\n[ \t]{0,20}+)?)"
_ASSIGN_OPEN = r"[=:>|\t][=:>]{0,3}+[\s|>+-]{0,44}+"


def _build_assignment_pattern(quote: str, value: str, after: str) -> RedactionPattern:
    """Build the pattern for `name = value`. Only the value is held and replaced; `check` examines the name."""
    return RedactionPattern(
        "password or key",
        rf"({_ASSIGN}{quote})({value}{{6,2048}}+)(?!{value}){after}",
        rf"{_ASSIGN_OPEN}(?:\Z|\\?+\Z|{quote}{value}{{0,2048}}+\Z)",
        _accept_named_value,
    )


_ASSIGNMENT_PATTERNS = (
    _build_assignment_pattern(r"\\?[\"'`]", r"[^\s\"'`\\]", ""),
    _build_assignment_pattern("", r"[^\s\"'`,;<>(){}\[\]\\&|]", r"(?![(\[])"),
)
_ARGUMENT_PATTERNS = (  # set("DB_PASSWORD", "value")
    RedactionPattern(
        "password or key",
        r"([\"'],[ \t]{0,4}+[\"'])([^\s\"'`\\]{6,2048}+)(?![^\s\"'`\\])",
        r"[\"'](?:\Z|,[ \t]{0,4}+(?:\Z|[\"'][^\s\"'`\\]{0,2048}+\Z))",
        _accept_named_value,
    ),
)
_QUOTE = optional('"', "'", "`", '\\"', "\\'")
_VALUE = r"[^\s\"'`<>]"
_AUTHORIZATION = re.compile(r"(?i:authorization)\\?[\"'\]]{0,2}[ \t]{0,3}\Z")
_OTHER_SCHEME = re.compile(r"(?i)\b(?:bearer|basic)[ \t]")


def _accept_authorization(value: str, before: str) -> bool:
    if _OTHER_SCHEME.search(before[-12:]):
        return False  # these have patterns of their own
    return not is_placeholder(value) and (any(c.isdigit() for c in value) or is_jumbled(value))


_CREDENTIAL = ("[A-Za-z0-9._~+/=:|-]", 8, 2048)
_HEADER_BEGIN = frozenset(":="), ("[ \\t]", 0, 4), _QUOTE
_AUTHORIZATION_PATTERNS = (
    build_pattern(
        "authorization header",
        *(*_HEADER_BEGIN, ("[A-Za-z-]", 2, 20), ("[ \\t]", 1, 3), optional("token=", "key="), _QUOTE, _CREDENTIAL),
        keep=7,
        check=_accept_authorization,
        of=AnnouncedPattern,
    ),
    build_pattern(
        "authorization header", *_HEADER_BEGIN, _CREDENTIAL, keep=3, check=_accept_authorization, of=AnnouncedPattern
    ),
)


def _accept_sentence(value: str, before: str) -> bool:
    name = _SENTENCE.search(before)
    if name is None:
        return False
    if name[3] and not is_placeholder(value):
        return len(value) >= 5  # in quotes
    return is_password(value) if name[1] else is_key(value)


_ADVERBS = (" now", " still", " currently", " set to", " changed to", " reset to", " set back to")
_VERBS = frozenset(("is", "was", "to"))
_SUBJECT = rf"(?:({_PASSWORD_NAME})|({_KEY_NAME}))s?[\"'`*]{{0,2}} "
_SENTENCE_SUBJECT = re.compile(rf"{_SUBJECT}\Z")
_OWNER = r"(?:for|of|on|in) [\w@.' -]{1,40}? "
_VERB = rf"(?:is|was|to)(?:{'|'.join(_ADVERBS)})?:?[ \t]{{1,3}}"
_SENTENCE = re.compile(rf"{_SUBJECT}(?:{_OWNER})?{_VERB}(?:([\"'`])|[*(]{{0,3}})\Z")
_SENTENCE_PATTERNS = (
    build_pattern(
        "password or key",
        *(_VERBS, optional(*_ADVERBS), (":", 0, 1), ("[ \\t]", 1, 3), ("[\"'`*(]", 0, 3), (_VALUE, 5, 256)),
        keep=5,
        check=_accept_sentence,
        of=AnnouncedPattern,
    ),
    AnnouncedPattern(
        "password or key",
        rf"({_OWNER}{_VERB}[\"'`*(]{{0,3}}+)({_VALUE}{{5,256}}+)(?!{_VALUE})",
        rf"(?:f|fo|o|i)\Z|(?:for|of|on|in)(?:\Z| [\w@.' -]{{0,70}}:?[ \t]{{0,3}}[\"'`*(]{{0,3}}{_VALUE}{{0,256}}+\Z)",
        _accept_sentence,
    ),
)

# --- flags of commands ---------------------------------------------------------------------------

_OTHER_USERS = re.compile(r"\b(?:docker|podman|kubectl|chown|sudo|install|useradd|systemctl|journalctl)\b[^\n]{0,80}\Z")
_PASSWORD_COMMAND = re.compile(
    r"\b(?:mysql\w*|mariadb[\w-]*|sshpass|mongo\w*|redis-cli|ldap\w+|sqlcmd"
    r"|(?:docker|podman|helm registry|oras|skopeo|az|cf|nerdctl|buildah|oc|argocd)(?: \w+)? login)\b[^\n|;&]{0,90}\Z"
)
_NETRC = re.compile(
    r"(?:\bmachine\s{1,4}\S{1,80}|\bdefault|\blogin\s{1,4}\S{1,64}|\buser(?:name)?[: ]\s{0,3}[\w.@+-]{1,64})"
    r"(?:,| and)?\s{1,8}\Z"
)


def _accept_flag(value: str, before: str) -> bool:
    """Check a value after a flag such as `--token`."""
    name = _SECRET_NAME.search(before.rstrip(" \t=\"'`\\"))
    if name is None or _METADATA_SUFFIX.search(name[3] or "") or value.startswith(("-", "$")) or is_placeholder(value):
        return False
    if name[1]:
        return is_password(value) or (len(value) >= 8 and not value.isalpha())
    return is_key(value) or (len(value) >= 8 and any(c.isdigit() for c in value) and any(c.isalpha() for c in value))


def _accept_user_flag(value: str, before: str) -> bool:
    """Check the password of `-u user:password`, which is not a user and a group."""
    flag_at = max(before.rfind("-u"), before.rfind("--user"))
    user = before[flag_at:].removeprefix("--user").removeprefix("-u").strip(" \t=:\"'`\\")
    return (
        value not in (user, "$")
        and not value.isdigit()
        and not is_placeholder(value)
        and not value.startswith("[")
        and not _OTHER_USERS.search(before[:flag_at])
    )


def _accept_short_flag(value: str, before: str) -> bool:
    flag_at = before.rindex("-")
    return (
        _PASSWORD_COMMAND.search(before[:flag_at]) is not None
        and not value.startswith(("-", "$"))
        and not is_placeholder(value)
        and not (value.isdigit() and before[flag_at + 1] in "Pp" and len(value) < 6)  # a port
    )


_FLAG_PATTERNS = (
    build_pattern(
        "password or key",
        *("--", ("[A-Za-z0-9_-]", 2, 40), frozenset(("=", " ", "  ", "\t")), _QUOTE, (_VALUE, 4, 512)),
        keep=4,
        check=_accept_flag,
        of=AnnouncedPattern,
    ),
    build_pattern(
        "password of a command",
        *(frozenset(("-u", "--user")), optional("=", " ", "  "), _QUOTE, (r"[^\s:\"'`<>]", 0, 80), _QUOTE),
        *(":", _QUOTE, (_VALUE, 3, 256)),
        keep=7,
        check=_accept_user_flag,
        of=AnnouncedPattern,
    ),
    build_pattern(
        "password of a command",
        *(frozenset(("-p", "-P", "-a", "-w")), optional("=", " ", "  "), _QUOTE, (_VALUE, 3, 256)),
        keep=3,
        check=_accept_short_flag,
        of=AnnouncedPattern,
    ),
)
_NETRC_PATTERNS = (
    build_pattern(
        "password or key",
        *("password", (r"\s", 1, 4), _QUOTE, (_VALUE, 3, 256)),
        keep=3,
        check=lambda value, _: not is_placeholder(value),
        of=AnnouncedPattern,
    ),
)

# --- URLs and bearer tokens ----------------------------------------------------------------------


def _is_url_password(secret: str, _: str = "") -> bool:
    return not is_placeholder(secret) and not secret.startswith(("$", "%("))


_USER, _PASS = r"[^\s:@/?#\"'<>]{0,128}", r"[^\s/\"'<>]"
_USERINFO_PATTERNS = (  # scheme://user:password@host; only the password is replaced
    RedactionPattern(
        "password in url",
        rf"(://{_USER}:)({_PASS}{{1,256}})(?=@[A-Za-z0-9\[])",
        rf":(?:\Z|/(?:\Z|/{_USER}+(?:\Z|:{_PASS}{{0,260}}+\Z)))",
        _is_url_password,
    ),
)
_LONG_WORD = re.compile(r"[A-Za-z0-9_-]{16}")


def _is_bearer_token(secret: str, before: str) -> bool:
    if _AUTHORIZATION.search(before.rstrip(" \t:=\"'\\")):
        return is_no_filler(secret) and not is_placeholder(secret)
    return is_jumbled(secret) and bool(_LONG_WORD.search(secret))


def _is_basic_header(secret: str, before: str) -> bool:
    return is_basic_credentials(secret) and (
        bool(_LONG_WORD.search(secret)) or _AUTHORIZATION.search(before.rstrip(" \t:=\"'\\")) is not None
    )


_TOKEN = ("[A-Za-z0-9._~+/=-]", 16, 4096)
_SCHEME_PATTERNS = (
    build_pattern(
        "bearer token", one_of("Bb"), "earer", ("[ \\t]", 1, 3), _TOKEN, keep=3, check=_is_bearer_token
    ),
    build_pattern(
        "basic credentials",
        one_of("Bb"),
        "asic",
        ("[ \\t]", 1, 3),
        ("[A-Za-z0-9+/=]", 8, 512),
        keep=3,
        check=_is_basic_header,
    ),
)  # fmt: skip

# --- which patterns may begin where --------------------------------------------------------------

SECRET_PATTERNS: tuple[RedactionPattern, ...] = (*FORMAT_PATTERNS, *_SCHEME_PATTERNS)
_SEPARATORS = "=:>|\t"
_KEY_MARK = "-----B"
_SENTENCE_STARTS = ("is", "was", "to", "for", "of", "on", "in")
_FLAG_STARTS = ("-u", "-p", "-P", "-a", "-w", *(f"--{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"))


def patterns_at(text: str, start: int) -> tuple[RedactionPattern, ...]:
    """Return the patterns that may begin here. A separator counts only after a name such as `password`."""
    first = text[start]
    if first in _SEPARATORS:
        return _patterns_at_separator(text, start, first)
    if first == "-":
        return _FLAG_PATTERNS
    if first in "\"'":
        before = text[max(0, start - CONTEXT_CHARS) : start]
        return _ARGUMENT_PATTERNS if _SECRET_NAME.search(before) is not None else ()
    patterns = _BY_BEGIN.get(text[start : start + 2]) or (_BY_BEGIN.get(first, ()) if start + 1 == len(text) else ())
    if first not in "iwtpfo":
        return patterns
    before = text[max(0, start - CONTEXT_CHARS) : start]
    if first != "p":
        if _has_secret_name(before[-72:].lower()) and _SENTENCE_SUBJECT.search(before):
            return (*patterns, *_SENTENCE_PATTERNS)
        return patterns
    return (*patterns, *_NETRC_PATTERNS) if _NETRC.search(before) else patterns


def _patterns_at_separator(text: str, start: int, first: str) -> tuple[RedactionPattern, ...]:
    before = text[max(0, start - CONTEXT_CHARS) : start]
    patterns: tuple[RedactionPattern, ...] = ()
    lowered = before.lower()
    if _has_secret_name(lowered):
        if first in "=:" and _AUTHORIZATION.search(before) is not None:
            patterns = _AUTHORIZATION_PATTERNS
        elif _SECRET_NAME.search(before) is not None or lowered.rstrip(" \t\"'").endswith("value"):
            patterns = _ASSIGNMENT_PATTERNS
    return _USERINFO_PATTERNS + patterns if first == ":" else patterns


def _group_by_begin() -> dict[str, tuple[RedactionPattern, ...]]:
    """Return the patterns by their first two characters, and by the first alone, which may be the end of a text."""
    groups: dict[str, list[RedactionPattern]] = {}
    for pattern in SECRET_PATTERNS:
        prefixes = pattern.prefixes or [a + b for a in "0123456789" for b in "0123456789"]
        for begin in dict.fromkeys(prefix[:size] for prefix in prefixes for size in (1, 2)):
            groups.setdefault(begin, []).append(pattern)
    return {begin: tuple(patterns) for begin, patterns in groups.items()}


_BY_BEGIN = _group_by_begin()

# The ends of names, by length, after which a sentence says the value: "password", "token", "secret", "api key", …
_SENTENCE_NAMES = (
    ("pwd",),
    ("word", "wort", "sswd", "rase", "pass", "oken", "cret", "tial", "code", " key", "_key", "-key", "ikey"),
)


# One expression finds every position where a secret may begin. One that begins with digits is recognised by its colon.
@cache
def start_pattern() -> re.Pattern[str]:
    prefixes = [prefix for pattern in SECRET_PATTERNS for prefix in pattern.prefixes]
    sentences = "|".join(map(_build_sentence_start, _SENTENCE_STARTS))
    return re.compile(
        build_start_expression(
            [*prefixes, *_FLAG_STARTS, "password"],
            _SEPARATORS,
            marks=[_KEY_MARK, '",', "',"],
            others=rf"[0-9](?:[0-9]{{7,9}}+:|[0-9]{{0,9}}+\Z)|{sentences}",
        )
    )


def _build_sentence_start(word: str) -> str:
    """Return the expression for this word after a name such as `password`, or a part of it at the end of a text."""
    after_name = "|".join(
        rf"(?<=(?i:{'|'.join(names)}){end} {word})" for names in _SENTENCE_NAMES for end in ("", "[s\"'`*]")
    )
    expression = rf"(?=[ :]|\Z)(?:{after_name})"
    for character in reversed(word[1:]):
        expression = rf"(?:{character}{expression}|\Z)"
    return f"{word[0]}{expression}"


def find_start(text: str, position: int) -> int:
    """Return the next position from `position` on where a secret may begin; -1 if there is none."""
    search = start_pattern().search
    at = max(0, position - START_LOOKBACK_CHARS)
    while (match := search(text, at)) is not None:
        at = match.start()
        if at >= position and (match.lastindex or text[at] in _SEPARATORS or _KEY_MARK.startswith(text[at : at + 6])):
            return at
        if not match.lastindex and match.end() >= position:
            return match.end()
        at += 1
    return -1


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
    if _has_secret_name(text.lower()) or ("@" in text and "://" in text) or "-----BEGIN" in text:
        return True
    return "-" in text and _SHORT_FLAG.search(text) is not None


_SHORT_FLAG = re.compile(r"-(?:[upPaw]|-user)")


def _has_secret_name(lowered: str) -> bool:
    # Written out, because a loop is slower.
    return (
        "pass" in lowered
        or "token" in lowered
        or "secret" in lowered
        or "key" in lowered
        or "pwd" in lowered
        or "cred" in lowered
        or "authorization" in lowered
    )
