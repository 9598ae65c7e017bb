"""Normalises a copy of a text for the injection scan: drops invisible characters, decodes encodings, folds look-alikes.

The text itself is never changed. Every step is linear in its input, and the input is bounded.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
import unicodedata
from urllib.parse import unquote

from mainstay.guards.line_escaping import INVISIBLE_CHARACTERS

PIECE_CHARS_MAX = 64 * 1024  # a longer text is normalised and scanned in pieces
PIECE_OVERLAP_CHARS = 2 * 1024
CHARS_MAX = 1024 * 1024  # of a longer text, the beginning and the end are scanned
LAYERS_MAX = 3  # encodings inside of each other that are decoded
DECODED_CHARS_MAX = 2 * PIECE_CHARS_MAX  # of decoded text per layer

_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_BIDI = "\u202a-\u202e\u2066-\u2069"
_DIRECTION_MARKS = "\u200e\u200f\u061c"
_JOINERS = "\u200c\u200d"
_INVISIBLE = re.compile(
    f"[{INVISIBLE_CHARACTERS}{_SELECTORS}{_BIDI}{_DIRECTION_MARKS}{_JOINERS}\x00-\x08\x0e-\x1f\x7f]"
)
_FLAG = re.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{2,6}\U000e007f")
_TAG_RUN = re.compile("[\U000e0020-\U000e007e]{2,}")
_SELECTOR_RUN = re.compile(f"[{_SELECTORS}]{{4,}}")
_ACCENTS = re.compile("[\u0300-\u036f\u064b-\u0652\u0670\u0591-\u05c7]")  # Latin accents, Arabic and Hebrew vowels


def split_into_pieces(text: str) -> list[str]:
    """Split a long text into overlapping pieces, if possible between words; all of it is covered up to CHARS_MAX."""
    if len(text) <= PIECE_CHARS_MAX:
        return [text]
    if len(text) > CHARS_MAX:
        text = text[: CHARS_MAX * 3 // 4] + "\n" + text[-CHARS_MAX // 4 :]
    pieces, start = [], 0
    while len(text) - start > PIECE_CHARS_MAX:
        end = start + PIECE_CHARS_MAX
        pieces.append(text[start:end])
        gap = text.find(" ", end - PIECE_OVERLAP_CHARS, end - PIECE_OVERLAP_CHARS // 2)
        start = gap + 1 if gap >= 0 else end - PIECE_OVERLAP_CHARS
    return [*pieces, text[start:]]


# --- hidden text ---------------------------------------------------------------------------------

_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_HIDING_TECHNIQUES = (
    ("bidi", re.compile("[\u202d\u202e]")),
    (
        "zero-width",
        re.compile(
            f"[A-Za-z][{INVISIBLE_CHARACTERS}{_JOINERS}{_DIRECTION_MARKS}]{{0,8}}[\u200b-\u200d\u2060-\u2064\ufeff\u3164\u115f\u1160\uffa0\u180e"
            f"\u034f][{INVISIBLE_CHARACTERS}{_JOINERS}{_DIRECTION_MARKS}]{{0,8}}[A-Za-z]|[\u200b-\u200f\u2060-\u2064\ufeff]{{6,}}"
        ),
    ),
    ("soft hyphens", re.compile("(?:[A-Za-z]\u00ad){3,}")),
    ("variation selectors", re.compile(f"[{_SELECTORS}]{{2,}}|[A-Za-z][{_SELECTORS}]")),
)
_ISOLATES = re.compile("[\u202a\u202b\u2066-\u2068]")


def find_hidden_text(text: str) -> tuple[str, ...]:
    """Return the techniques by which this text hides content from a reader, such as "bidi" or "tags".

    Right-to-left writing, joiners of Persian and Indian scripts, and emoji do not count.
    """
    if text.isascii() or not _ANY_INVISIBLE.search(text):
        return ()
    techniques = []
    bare = _FLAG.sub("", text)
    if _TAG.search(bare):
        techniques.append("tags")
    techniques += [kind for kind, trick in _HIDING_TECHNIQUES if trick.search(bare)]
    if "bidi" not in techniques and _ISOLATES.search(bare) and not _RIGHT_TO_LEFT.search(bare):
        techniques.append("bidi")  # the text has no right-to-left writing
    return tuple(techniques)


_ANY_INVISIBLE = re.compile(f"[{INVISIBLE_CHARACTERS}{_SELECTORS}{_BIDI}{_JOINERS}{_DIRECTION_MARKS}]")
_TAG = re.compile("[\U000e0001\U000e0020-\U000e007f]")

# --- letters -------------------------------------------------------------------------------------

_LOOK_ALIKES = str.maketrans(
    "\u0430\u0432\u0435\u0454\u0456\u0458\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445\u0455\u04af\u04bb\u051d"
    "\u051b\u0501\u0457\u0491\u04cf\u0475"  # Cyrillic
    "\u03b1\u03b2\u03b5\u03b7\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u03b3\u03c9\u03c3\u03f3\u03f2"  # Greek
    "\u0561\u0563\u0570\u0578\u057d\u0581\u0584\u0585",  # Armenian
    "abeeijkmhopctyxsyhwqdirlv" + "abenikvoptuxywojc" + "wqhnugfo",
)
_OTHER_ALPHABET = re.compile("[\u0370-\u03ff\u0400-\u052f\u0561-\u0587]")
_MIXED_SCRIPT_WORD = re.compile("\\b(?=\\w*[a-z])\\w*[\u0370-\u03ff\u0400-\u052f\u0561-\u0587]\\w*")
_ORNAMENTAL_LETTERS = str.maketrans(
    "\u1d00\u0299\u1d04\u1d05\u1d07\ua730\u0262\u029c\u026a\u1d0a\u1d0b\u029f\u1d0d\u0274\u1d0f\u1d18\u0280\ua731\u1d1b"
    "\u1d1c\u1d20\u1d21\u028f\u1d22"  # small capitals
    "\u0142\u0131\u00f8\u0111\u0127\u0251\u0261\u0269"  # letters without a decomposition
    "\u0167\u0180\u0188\u0199\u01a5\u01ad\u01b4\u01b6\u01e5\u0247\u0249\u024b\u024d\u024f\u0256\u0260\u0268\u026b\u0272\u0288\u028b"
    "\u2018\u2019\u201c\u201d\u2010\u2011\u2013\u2014",
    "abcdefghijklmnoprstuvwyz" + "liodhagi" + "tbckptyzgejqrydgilntv" + "''\"\"----",
) | {  # boxes, circles and flags
    start + i: chr(97 + i) for start in (0x1F130, 0x1F150, 0x1F170, 0x1F1E6) for i in range(26)
}

# Two expressions: one class with characters of the BMP and beyond is slow to search.
_ORNAMENTAL = re.compile(f"[{''.join(chr(code) for code in _ORNAMENTAL_LETTERS if code < 0x10000)}]")
_BOXED = re.compile("[\U0001f130-\U0001f1ff]")


def fold_letters(text: str) -> str:
    """Reduce letters to their plain form, without case, accents and ornament."""
    text = unicodedata.normalize("NFKD", text)
    text = unicodedata.normalize("NFC", _ACCENTS.sub("", text)).casefold()
    text = _ORNAMENTAL.sub(lambda char: char[0].translate(_ORNAMENTAL_LETTERS), text)
    return _BOXED.sub(lambda char: char[0].translate(_ORNAMENTAL_LETTERS), text)


def _replace_look_alikes(text: str) -> str:
    """Replace Cyrillic, Greek and Armenian look-alikes by Latin letters in words that mix scripts.

    A mostly Latin text is followed by a copy with all look-alikes replaced: a word of nothing but look-alikes is
    ambiguous.
    """
    foreign = len(_OTHER_ALPHABET.findall(text))
    if not foreign:
        return text
    mixed = _MIXED_SCRIPT_WORD.sub(lambda word: word[0].translate(_LOOK_ALIKES), text)
    # more of the most frequent Latin letters than foreign ones
    if _OTHER_ALPHABET.search(mixed) and sum(map(text.count, "aeiounrst")) > foreign:
        return f"{mixed}\n{text.translate(_LOOK_ALIKES)}"
    return mixed


# --- byte tables for cheap checks ----------------------------------------------------------------

LOWER_TABLE = bytes.maketrans(  # lower case, and letters for the digits that imitate them
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZ013457@$", b"abcdefghijklmnopqrstuvwxyzoieastas"
)
WORD_TABLE = (
    bytes(  # the same, and a space for every other byte
        c if chr(c).isalpha() else 32 for c in LOWER_TABLE[:128]
    )
    + b" " * 128
)
RUN_TABLE = bytes(120 if chr(c).isalnum() or chr(c) in "+/" else 32 for c in range(128)) + b" " * 128
_HEX_TABLE = bytes(120 if chr(c) in "0123456789abcdefABCDEF" else 32 for c in range(128)) + b" " * 128
LONG_RUN = b"x" * 16
_SPACED_LETTERS = b"x x x x x", b"x  x  x  x", b"x   x   x"
_SPACED_HEX = b"xx xx xx xx xx xx xx xx"
_CONTROLS = bytes(c for c in range(32) if c not in b"\t\n\r\f\v") + b"\x7f"

# --- encodings -----------------------------------------------------------------------------------

_PERCENT = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_ESCAPED = re.compile(
    r"\\{1,4}(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|u\{([0-9A-Fa-f]{1,5})\}|U000([0-9A-Fa-f]{5})|([nrt]))"
)
_BASE64_RUN = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
_BASE64_LINES = re.compile(r"(?:^[ \t>|#*]{0,4}[A-Za-z0-9+/_-]{4,100}={0,2}[ \t]{0,4}\r?$\n?){2,}+", re.MULTILINE)
_BASE64_LINE = re.compile(
    r"\n[ \t>|#*]{0,4}(?=[A-Za-z0-9+/_-]{4,100}={0,2}[ \t]{0,4}\r?(?:\n|\Z))[A-Za-z0-9+/_-]{0,99}?[a-z][A-Z0-9]"
)
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/_-]+")
_URL_SAFE = str.maketrans("-_", "+/")
_HEX_RUN = re.compile(r"\b(?:(?:0[xX])?[0-9A-Fa-f]{2}[ \t\n:;,.|-]{0,3}+){8,}+")
_HEX_GAPS = re.compile(r"0[xX]|[^0-9A-Fa-f]")
_PRINTED = re.compile("[^\x00-\x08\x0e-\x1f\x7f-\x9f\ufffd]{8,}")
_MARKUP = re.compile(  # tags that do not end a word, comments, and the emphasis of Markdown
    r"[<*`~](?:(?<=<)(?!/?(?:p|div|h[1-6]|li|[uod]l|d[dt]|t[rdh]|br|hr|tool\w*|system|user|assistant|invoke|important)\b)"
    r"[!/A-Za-z][^<>]{0,200}>|(?<=[*`])|(?<=~)~)"
)
_COMMON_WORDS = frozenset(
    [
        *("ignore", "instructions", "previous", "prompt", "system", "your", "you", "the", "and", "all", "must", "this"),
        *("with", "that", "send", "user", "from", "rules", "assistant", "mode", "without"),
    ]
)
ROT13_WORDS = frozenset(codecs.encode(word, "rot13") for word in _COMMON_WORDS)
REVERSED_WORDS = frozenset(word[::-1] for word in _COMMON_WORDS)
_ROT13_BYTES, _REVERSED_BYTES = (frozenset(word.encode() for word in words) for words in (ROT13_WORDS, REVERSED_WORDS))
_SPACED = re.compile(r"(?<![^\W_])[^\W_](?:[\W_]{1,3}[^\W_](?![^\W_])){4,}+")
_SEPARATOR = re.compile(r"[\W_]+")
_LEET = re.compile(
    r"(?<![^\W_])(?=[a-z]{0,24}[0134579@$!|])(?=[0134579@$!|]{0,24}[a-z])[a-z0134579@$!|]{3,24}(?![^\W_])"
)
_LEET_LETTERS = str.maketrans("0134579@$!|", "oieastgasil")


def normalise_text(text: str) -> str:
    """Return a normalised copy of `text`, with the decoded content of encoded runs appended."""
    text = _decode_escapes(text)
    parts = [text]
    layer = [text]
    for _ in range(LAYERS_MAX):
        layer = _limit_chars([found for part in layer for found in map(_decode_escapes, _decode_runs(part))])
        parts += layer
    if (unmarked := remove_markup_in_words(text)) is not None:
        parts.append(unmarked)
    return _simplify("\n".join(parts))


def _limit_chars(parts: list[str]) -> list[str]:
    """Return the parts that fit into DECODED_CHARS_MAX together."""
    kept, count = [], 0
    for part in dict.fromkeys(parts):
        count += len(part)
        if count > DECODED_CHARS_MAX:
            break
        kept.append(part)
    return kept


def _decode_escapes(text: str) -> str:
    """Decode HTML entities, percent escapes and backslash escapes in place, also several layers of them."""
    for _ in range(LAYERS_MAX):
        before = text
        if "&" in text:
            text = html.unescape(text)
        if "%" in text:
            text = _PERCENT.sub(lambda run: unquote(run[0], errors="replace"), text)
        if "\\" in text:
            text = _ESCAPED.sub(_decode_backslash, text)
        if text == before:
            break
    return text


def _decode_backslash(escape: re.Match[str]) -> str:
    return "\n" if escape[5] else chr(int(escape[escape.lastindex or 0], 16))


def may_be_spaced(data: bytes) -> bool:
    """Return True if letters or pairs of hex digits stand apart."""
    runs = data.translate(RUN_TABLE)
    return _SPACED_HEX in runs or any(letters in runs for letters in _SPACED_LETTERS)


def has_encoded_lines(text: str) -> bool:
    """Return True if a line looks like one of a wrapped base64 text."""
    return _BASE64_LINE.search(text) is not None


def remove_markup_in_words(text: str) -> str | None:
    """Return the text without inline markup; None if no markup divides a word."""
    if not ("<" in text or "*" in text or "`" in text or "~" in text):
        return None
    start = end = -1  # of adjacent markup
    for mark in _MARKUP.finditer(text):
        if mark.start() != end:
            start = mark.start()
        end = mark.end()
        if start > 0 and text[start - 1].isalnum() and text[end : end + 1].isalnum():
            return _MARKUP.sub("", text)
    return None


def _decode_runs(text: str) -> list[str]:
    """Return the decoded content of tag characters, base64, hex, ROT13 and reversed text."""
    decoded = []
    if not text.isascii() and _ANY_INVISIBLE.search(text):
        decoded += ["".join(chr(ord(c) - 0xE0000) for c in run) for run in _TAG_RUN.findall(_FLAG.sub("", text))]
        decoded += [_decode_selectors(run) for run in _SELECTOR_RUN.findall(text)]
        text = _INVISIBLE.sub("", text)
    data = text.encode("ascii", "replace")
    runs = data.translate(RUN_TABLE)
    if LONG_RUN in runs:
        for run in _BASE64_RUN.findall(text):
            decoded += _decode_base64(run)
    if has_encoded_lines(text):
        for block in _BASE64_LINES.findall(text):
            decoded += _decode_base64(_NOT_BASE64.sub("", block))
    hex_runs = data.translate(_HEX_TABLE)
    if LONG_RUN in hex_runs or _SPACED_HEX in hex_runs or data.count(b"0x") > 7:
        for run in _HEX_RUN.findall(text):
            decoded += _decode_hex(run)
    words = data.translate(WORD_TABLE).split()
    if len(_ROT13_BYTES.intersection(words)) > 1:
        decoded.append(codecs.decode(text, "rot13"))
    if len(_REVERSED_BYTES.intersection(words)) > 1:
        decoded.append(text[::-1])
    return decoded


def _decode_selectors(run: str) -> str:
    codes = (ord(c) - (0xFE00 if ord(c) < 0xE0100 else 0xE0100 - 16) for c in run)
    return bytes(code for code in codes if 0 <= code < 256).decode("utf-8", "replace")


def _decode_base64(run: str) -> list[str]:
    """Decode a run of base64. Characters before its beginning shift it, so four positions are tried."""
    if run == run.lower():
        return []  # words, a path or hex: base64 of a text has capitals
    run = run.rstrip("=").translate(_URL_SAFE)
    for shift in range(4):
        part = run[shift : len(run) - ((len(run) - shift) % 4 == 1)]
        try:
            found = _find_printed(base64.b64decode(part + "=" * (-len(part) % 4)))
        except (binascii.Error, ValueError):
            continue
        if found:
            return found
    return []


def _decode_hex(run: str) -> list[str]:
    digits = _HEX_GAPS.sub("", run)
    return _find_printed(bytes.fromhex(digits[: len(digits) // 2 * 2]))


def _find_printed(data: bytes) -> list[str]:
    """Return the parts of these bytes that are printable text."""
    if b"\0" in data:
        data = data.replace(b"\0", b"")  # UTF-16
    return _PRINTED.findall(data.decode("utf-8", "replace"))


def _simplify(text: str) -> str:
    if text.isascii():
        text = text.encode().translate(None, _CONTROLS).decode().lower()
    else:
        text = _replace_look_alikes(fold_letters(_INVISIBLE.sub("", text)))
    data = text.encode("ascii", "replace")
    runs = data.translate(RUN_TABLE)
    if any(letters in runs for letters in _SPACED_LETTERS):
        text = _SPACED.sub(_join_spaced_letters, text)
    if _DIGIT_IN_WORD.search(text):
        # common words once digits are read as letters
        common = _COMMON_BYTES.intersection(data.translate(WORD_TABLE).split())
        if len(common.difference(data.split())) > 1:
            text = _LEET.sub(lambda word: word[0].translate(_LEET_LETTERS), text)
    return "\n".join(" ".join(line.split()) for line in text.splitlines() if line and not line.isspace())


def _join_spaced_letters(run: re.Match[str]) -> str:
    """Join letters that were written apart; a separator other than the usual one of the run ends a word."""
    separators = _SEPARATOR.findall(run[0])
    usual = max(set(separators), key=separators.count)
    return "".join(
        letter + ("" if separator == usual else " ")
        for letter, separator in zip(_SEPARATOR.split(run[0]), (*separators, usual), strict=True)
    )


_DIGIT_IN_WORD = re.compile("[a-z][013457@$]+[a-z]")
_COMMON_BYTES = frozenset(word.encode() for word in _COMMON_WORDS)
