"""A copy of a text for scanning: what hides words is taken away, what is encoded is read.

The text itself is never changed by this. Every step is linear in what it is given, and what is given is bounded.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
import unicodedata
from urllib.parse import unquote

from mainstay.trust.guards.lines import INVISIBLE_CLASS

CHARS_MAX = 256 * 1024  # of a longer text the beginning and the end are looked at
DECODED_MAX = 32  # runs that are decoded
DECODED_CHARS_MAX = 8 * 1024  # of each

_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_BIDI = "\u202a-\u202e\u2066-\u2069"
_MARKS = "\u200e\u200f\u061c"
_JOINERS = "\u200c\u200d"
_GONE = re.compile(f"[{INVISIBLE_CLASS}{_SELECTORS}{_BIDI}{_MARKS}{_JOINERS}\x00-\x08\x0e-\x1f\x7f]")
_FLAG = re.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{2,6}\U000e007f")
_TAGGED = re.compile("[\U000e0020-\U000e007e]{2,}")
_SELECTED = re.compile(f"[{_SELECTORS}]{{4,}}")
_ACCENTS = re.compile("[\u0300-\u036f\u064b-\u0652\u0670\u0591-\u05c7]")  # Latin accents, Arabic and Hebrew vowels

# --- trickery ------------------------------------------------------------------------------------

_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_TRICKS = (
    ("bidi", re.compile("[\u202d\u202e]")),
    (
        "zero-width",
        re.compile(
            f"[A-Za-z][{INVISIBLE_CLASS}{_JOINERS}{_MARKS}]{{0,8}}[\u200b-\u200d\u2060-\u2064\ufeff\u3164\u115f\u1160\uffa0\u180e"
            f"\u034f][{INVISIBLE_CLASS}{_JOINERS}{_MARKS}]{{0,8}}[A-Za-z]|[\u200b-\u200f\u2060-\u2064\ufeff]{{6,}}"
        ),
    ),
    ("soft hyphens", re.compile("(?:[A-Za-z]\u00ad){3,}")),
    ("variation selectors", re.compile(f"[{_SELECTORS}]{{2,}}|[A-Za-z][{_SELECTORS}]")),
)
_ISOLATES = re.compile("[\u202a\u202b\u2066-\u2068]")


def hidden(text: str) -> tuple[str, ...]:
    """The ways in which this text hides something from whoever reads it.

    Right-to-left writing, joiners of Persian and of Indian scripts, and emoji are not among them.
    """
    if text.isascii() or not _UNSEEN.search(text):
        return ()
    found = []
    bare = _FLAG.sub("", text)
    if _TAG.search(bare):
        found.append("tags")
    found += [kind for kind, trick in _TRICKS if trick.search(bare)]
    if "bidi" not in found and _ISOLATES.search(bare) and not _RIGHT_TO_LEFT.search(bare):
        found.append("bidi")  # nothing in it is written from right to left
    return tuple(found)


_UNSEEN = re.compile(f"[{INVISIBLE_CLASS}{_SELECTORS}{_BIDI}{_JOINERS}{_MARKS}]")
_TAG = re.compile("[\U000e0001\U000e0020-\U000e007f]")

# --- letters -------------------------------------------------------------------------------------

_ALIKE = str.maketrans(
    "\u0430\u0432\u0435\u0454\u0456\u0458\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445\u0455\u04af\u04bb\u051d"
    "\u051b\u0501\u0457\u0491\u04cf\u0475"  # Cyrillic
    "\u03b1\u03b2\u03b5\u03b7\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u03b3\u03c9\u03c3\u03f3\u03f2",  # Greek
    "abeeijkmhopctyxsyhwqdirlv" + "abenikvoptuxywojc",
)
_FOREIGN = re.compile("[\u0370-\u03ff\u0400-\u052f]")
_MIXED = re.compile("\\b(?=\\w*[a-z])\\w*[\u0370-\u03ff\u0400-\u052f]\\w*")
_OTHERS = str.maketrans(
    "\u1d00\u0299\u1d04\u1d05\u1d07\ua730\u0262\u029c\u026a\u1d0a\u1d0b\u029f\u1d0d\u0274\u1d0f\u1d18\u0280\ua731\u1d1b"
    "\u1d1c\u1d20\u1d21\u028f\u1d22"  # small capitals
    "\u0142\u0131\u00f8\u0111\u0127\u0251\u0261\u0269"  # letters without a decomposition
    "\u2018\u2019\u201c\u201d\u2010\u2011\u2013\u2014",
    "abcdefghijklmnoprstuvwyz" + "liodhagi" + "''\"\"----",
) | {  # boxes, circles and flags
    start + i: chr(97 + i) for start in (0x1F130, 0x1F150, 0x1F170, 0x1F1E6) for i in range(26)
}

# Two expressions: a class that holds both near and far characters is searched slowly.
_OTHER = re.compile(f"[{''.join(chr(code) for code in _OTHERS if code < 0x10000)}]")
_BOXED = re.compile("[\U0001f130-\U0001f1ff]")


def fold(text: str) -> str:
    """Letters as they sound: without case, accents and ornament."""
    text = unicodedata.normalize("NFKD", text)
    text = unicodedata.normalize("NFC", _ACCENTS.sub("", text)).casefold()
    text = _OTHER.sub(lambda one: one[0].translate(_OTHERS), text)
    return _BOXED.sub(lambda one: one[0].translate(_OTHERS), text)


def _latin(text: str) -> str:
    """Look-alikes of other scripts as Latin letters, in words that have both. A text that has both is given once more
    with all of them, because a word of nothing but look-alikes may be meant either way."""
    foreign = len(_FOREIGN.findall(text))
    if not foreign:
        return text
    mixed = _MIXED.sub(lambda word: word[0].translate(_ALIKE), text)
    if (
        _FOREIGN.search(mixed) and sum(map(text.count, "aeiounrst")) > foreign
    ):  # more of the most frequent letters than of all the others
        return f"{mixed}\n{text.translate(_ALIKE)}"
    return mixed


# --- cheap looks, over bytes ---------------------------------------------------------------------

CHEAP = bytes.maketrans(  # lower case, and letters for the figures that stand for them
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZ013457@$", b"abcdefghijklmnopqrstuvwxyzoieastas"
)
WORDS = (
    bytes(  # the same, and a space for all that is no letter
        c if chr(c).isalpha() else 32 for c in CHEAP[:128]
    )
    + b" " * 128
)
RUNS = bytes(120 if chr(c).isalnum() or chr(c) in "+/" else 32 for c in range(128)) + b" " * 128
LONG_RUN = b"x" * 20
APART = b"x x x x x"
_CONTROLS = bytes(c for c in range(32) if c not in b"\t\n\r\f\v") + b"\x7f"

# --- encodings -----------------------------------------------------------------------------------

_PERCENT = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_ESCAPED = re.compile(r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})")
_BASE64_RUN = re.compile(r"[A-Za-z0-9+/_-]{20,}={0,2}")
_HEX_RUN = re.compile(r"(?:[0-9A-Fa-f]{2}[ :,]?){10,}")
_HEX_GAPS = re.compile(r"[ :,]")
_COMMON = frozenset(
    [
        *("ignore", "instructions", "previous", "prompt", "system", "your", "you", "the", "and", "all", "must", "this"),
        *("with", "that", "send", "user", "from", "rules", "assistant", "mode", "without"),
    ]
)
ROT13 = frozenset(codecs.encode(word, "rot13") for word in _COMMON)
BACKWARDS = frozenset(word[::-1] for word in _COMMON)
_ROT13, _BACKWARDS = (frozenset(word.encode() for word in words) for words in (ROT13, BACKWARDS))
_SPACED = re.compile(
    r"(?<!\S)(?:\S ){2}(?:\S {1,2}){2,}\S(?!\S)|(?<![^\W_])(?:[^\W_][ .*_|~\u00b7-]{1,2}){4,}[^\W_](?![^\W_])"
)
_LEET = re.compile(r"(?<![^\W_])(?=[a-z]{0,24}[0134579@$!|]{1,8}[a-z])[a-z0134579@$!|]{3,24}(?![^\W_])")
_LEET_LETTERS = str.maketrans("0134579@$!|", "oieastgasil")


def normalise(text: str) -> str:
    """A copy of `text` to be scanned, with what was encoded in it at its end."""
    if len(text) > CHARS_MAX:
        text = text[: CHARS_MAX * 3 // 4] + "\n" + text[-CHARS_MAX // 4 :]
    text = _decoded(text)
    return _plain("\n".join((text, *_readings(text))))


def _decoded(text: str) -> str:
    """Entities (twice), percent escapes and backslash escapes, in place."""
    for _ in range(2):
        if "&" in text:
            text = html.unescape(text)
    if "%" in text:
        text = _PERCENT.sub(lambda run: unquote(run[0], errors="replace"), text)
    if "\\" in text:
        text = _ESCAPED.sub(lambda one: chr(int(one[0][2:], 16)), text)
    return text


def _readings(text: str) -> list[str]:
    """What is written in it in another alphabet of bytes."""
    found = []
    if not text.isascii() and _UNSEEN.search(text):
        found += ["".join(chr(ord(c) - 0xE0000) for c in run) for run in _TAGGED.findall(_FLAG.sub("", text))]
        found += [_selected(run) for run in _SELECTED.findall(text)]
    data = text.encode("ascii", "replace")
    runs = data.translate(RUNS)
    if LONG_RUN in runs:
        for run in _BASE64_RUN.findall(text)[:DECODED_MAX]:
            found += _base64(run)
    if LONG_RUN in runs or b"xx xx xx xx xx xx " in runs:
        for run in _HEX_RUN.findall(text)[:DECODED_MAX]:
            found += _hex(run)
    words = data.translate(WORDS).split()
    if len(_ROT13.intersection(words)) > 1:
        found.append(codecs.decode(text, "rot13"))
    if len(_BACKWARDS.intersection(words)) > 1:
        found.append(text[::-1])
    return found


def _selected(run: str) -> str:
    codes = (ord(c) - (0xFE00 if ord(c) < 0xE0100 else 0xE0100 - 16) for c in run)
    return bytes(code for code in codes if 0 <= code < 256).decode("utf-8", "replace")


def _base64(run: str, depth: int = 0) -> list[str]:
    run = run.rstrip("=")[:DECODED_CHARS_MAX].replace("-", "+").replace("_", "/")
    run = run[: len(run) - (len(run) % 4 == 1)]
    try:
        data = base64.b64decode(run + "=" * (-len(run) % 4))
    except (binascii.Error, ValueError):
        return []
    text = _readable(data)
    if not text:
        return []
    inner = _BASE64_RUN.fullmatch(text.strip())
    return [text, *(_base64(inner[0], depth + 1) if inner and depth < 2 else ())]


def _hex(run: str) -> list[str]:
    digits = _HEX_GAPS.sub("", run)[:DECODED_CHARS_MAX]
    text = _readable(bytes.fromhex(digits[: len(digits) // 2 * 2]))
    return [text] if text else []


def _readable(data: bytes) -> str:
    """As text, if that is what it is."""
    text = data.decode("utf-8", "ignore")
    if len(text) < 8 or len(text) < len(data) // 4 or not text.replace("\n", " ").replace("\t", " ").isprintable():
        return ""
    return text


def _plain(text: str) -> str:
    if text.isascii():
        text = text.encode().translate(None, _CONTROLS).decode().lower()
    else:
        text = _latin(fold(_GONE.sub("", text)))
    data = text.encode("ascii", "replace")
    if APART in data.translate(RUNS):
        text = _SPACED.sub(_joined, text)
    if _FIGURES.search(text):
        told = _COMMON_BYTES.intersection(data.translate(WORDS).split())  # common words, figures taken for letters
        if len(told.difference(data.split())) > 1:
            text = _LEET.sub(lambda word: word[0].translate(_LEET_LETTERS), text)
    return "\n".join(" ".join(line.split()) for line in text.splitlines() if line and not line.isspace())


def _joined(run: re.Match[str]) -> str:
    """Letters that stood apart; two spaces were the space between words."""
    return " ".join(_NO_LETTER.sub("", word) for word in _GAP.split(run[0]))


_FIGURES = re.compile("[a-z][013457@$]+[a-z]")
_COMMON_BYTES = frozenset(word.encode() for word in _COMMON)
_NO_LETTER = re.compile(r"[\W_]+")
_GAP = re.compile(r"\s{2}")
