"""Secrets and personal data taken out of text, whole or as it streams.

The text goes through sieves: the configuration's own values, then secrets by their looks, then personal data. A sieve
lets everything through at once but what may be the beginning of something; so half of a secret is never let through,
and a text comes out the same however it was cut.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from urllib.parse import quote, quote_plus

from mainstay.core.errors import ConfigError
from mainstay.trust.guards import pii as personal
from mainstay.trust.guards import secrets as secret
from mainstay.trust.guards.shapes import BEFORE_CHARS, Shape, starts

KNOWN_CHARS_MIN = 6
KNOWN_MAX = 1000
PEM_CHARS_MAX = 32 * 1024

_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?=(?:\s|\\[rn]){0,12}+(?:[A-Za-z0-9+/=]{20}|[A-Z][A-Za-z-]{2,20}: ))"  # a text about keys has no key
)
_PEM_OPEN = re.compile(
    r"-(?:\Z|-(?:\Z|-(?:\Z|-(?:\Z|-(?:\Z|B(?:\Z|E(?:\Z|G(?:\Z|I(?:\Z|N(?:\Z| [A-Z0-9 ]{0,60}+(?:-{0,4}+\Z|-----"
    r"(?:\s|\\[rn]){0,12}+(?:\\?+\Z|[A-Za-z0-9+/=]{0,19}+\Z|[A-Z][A-Za-z-]{0,20}+:?+\Z))))))))))))"
)
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{1,60}-----|[^A-Za-z0-9+/=\s\\,:.()@<>-]")
_PEM_END_CHARS = 80

Found = tuple[int, int, str]  # where it begins and ends, and what it is


class Sieve:
    """Lets text through, piece by piece, but for what it is there to hold back."""

    __slots__ = ("_busy", "_held", "_shapes_at", "_start", "_tail", "kinds")

    def __init__(self, start: re.Pattern[str], shapes_at: Callable[[str, int], Sequence[Shape]]) -> None:
        self._start = start.search
        self._shapes_at = shapes_at
        self._tail = ""  # what was let through last; names stand before secrets
        self._held = ""
        self._busy = False  # something is held
        self.kinds: dict[str, None] = {}

    def feed(self, piece: str) -> str:
        if not self._busy:
            text = self._tail + piece
            if self._start(text, len(self._tail)) is None:
                self._tail = text[-BEFORE_CHARS:]
                return piece
        out = self._more(piece)
        self._busy = bool(self._held) or self._swallows()
        return out

    def _more(self, piece: str) -> str:
        return self._sift(self._held + piece, final=False)

    def end(self) -> str:
        held, self._held, self._busy = self._held, "", False
        return self._sift(held, final=True) if held else ""

    def _sift(self, new: str, *, final: bool) -> str:
        text = self._tail + new
        done = look = len(self._tail)
        out = []
        while True:
            begun = self._start(text, look)
            if begun is None:
                out.append(text[done:])
                done = len(text)
                break
            start = begun.start()
            found = self._look(text, start, final)
            if found is None:
                look = start + 1
                continue
            begin, end, kind = found
            out.append(text[done:begin])
            done = look = begin
            if not kind:  # still open
                break
            out.append(f"[redacted: {kind}]")
            self.kinds[kind] = None
            done = look = self._after(text, end)
            if self._swallows():
                break
        self._tail, self._held = text[max(0, done - BEFORE_CHARS) : done], text[done:]
        return "".join(out)

    def _look(self, text: str, start: int, final: bool) -> Found | None:
        """What begins here; without a kind, if that cannot be said yet."""
        for shape in self._shapes_at(text, start):
            if not final and shape.open(text, start):
                return start, start, ""
            span = shape.find(text, start)
            if span is not None:
                return *span, shape.name
        return None

    def _after(self, text: str, end: int) -> int:
        return end

    def _swallows(self) -> bool:
        return False


class SecretSieve(Sieve):
    """The sieve for secrets; a private key is swallowed to its end, however long that takes to come."""

    __slots__ = ("_swallowed",)

    def __init__(self) -> None:
        super().__init__(secret.start(), secret.shapes_at)
        self._swallowed = -1  # characters of a key so far; -1 outside of one

    def _more(self, piece: str) -> str:
        return super()._more(piece) if self._swallowed < 0 else self._swallow(piece, final=False)

    def end(self) -> str:
        if self._swallowed < 0:
            return super().end()
        out = self._swallow("", final=True)
        if self._swallowed >= 0:  # the key never ended
            self._swallowed, self._held, self._busy = -1, "", False
        return out

    def _look(self, text: str, start: int, final: bool) -> Found | None:
        if text[start] != "-":
            return super()._look(text, start, final)
        if not final and _PEM_OPEN.match(text, start):
            return start, start, ""
        found = _PEM.match(text, start)
        if found is None:
            return None
        self._swallowed = 0
        return start, found.end(), "private key"

    def _swallow(self, piece: str, *, final: bool) -> str:
        text = self._held + piece
        end = self._after(text, 0)
        self._held = text[end:]
        if self._swallowed >= 0:
            return ""
        self._held, self._tail = "", text[max(0, end - BEFORE_CHARS) : end]
        return self._sift(text[end:], final=final)

    def _after(self, text: str, end: int) -> int:
        """Where a key ends that goes on here; what may be the beginning of its last line is looked at again."""
        if self._swallowed < 0:
            return end
        limit = end + PEM_CHARS_MAX - self._swallowed
        stop = _PEM_END.search(text, end, limit)
        if stop is not None or len(text) >= limit:
            self._swallowed = -1
            if stop is None:
                return limit
            return stop.end() if stop[0][0] == "-" else stop.start()
        rest = max(end, len(text) - _PEM_END_CHARS)
        self._swallowed += rest - end
        return rest

    def _swallows(self) -> bool:
        return self._swallowed >= 0


class KnownSieve:
    """The sieve for exact values, however they are written: plain, percent-encoded or escaped for JSON."""

    __slots__ = ("_by_first", "_held", "_start", "kinds")

    def __init__(self, start: re.Pattern[str], by_first: dict[str, tuple[str, ...]]) -> None:
        self._start = start.search
        self._by_first = by_first
        self._held = ""
        self.kinds: dict[str, None] = {}

    def feed(self, piece: str) -> str:
        if not self._held and self._start(piece) is None:
            return piece
        return self._sift(self._held + piece, final=False)

    def end(self) -> str:
        return self._sift(self._held, final=True) if self._held else ""

    def _sift(self, text: str, *, final: bool) -> str:
        out: list[str] = []
        done = look = 0
        self._held = ""
        while (begun := self._start(text, look)) is not None:
            start = begun.start()
            value = self._look(text, start, final)
            if value == "":  # still open
                self._held = text[start:]
                return "".join((*out, text[done:start]))
            if value is None:
                look = start + 1
                continue
            out += (text[done:start], "[redacted: configured secret]")
            self.kinds["configured secret"] = None
            done = look = start + len(value)
        return "".join((*out, text[done:]))

    def _look(self, text: str, start: int, final: bool) -> str | None:
        rest = len(text) - start
        for value in self._by_first.get(text[start], ()):  # the longest first
            if rest >= len(value):
                if text.startswith(value, start):
                    return value
            elif not final and value.startswith(text[start:]):
                return ""
        return None


def spellings(value: str) -> tuple[str, ...]:
    """How a value may be written in an address or in JSON."""
    raw = value.encode("utf-8", "surrogatepass")
    quoted = quote(raw), quote(raw, safe=""), quote_plus(raw)
    escaped = json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]
    lowered = tuple(re.sub("%..", lambda found: found[0].lower(), text) for text in quoted)
    return tuple(dict.fromkeys((value, *quoted, *lowered, *escaped)))


class Stream:
    """Text on its way out. What `feed` returns may be shown; `end` gives what was still held."""

    __slots__ = ("_sieves",)

    def __init__(self, redactor: Redactor) -> None:
        self._sieves = redactor.sieves()

    @property
    def kinds(self) -> tuple[str, ...]:
        """What was taken out so far."""
        return tuple(kind for sieve in self._sieves for kind in sieve.kinds)

    def feed(self, piece: str) -> str:
        for sieve in self._sieves:
            piece = sieve.feed(piece)
        return piece

    def end(self) -> str:
        rest = ""
        for sieve in self._sieves:
            rest = (sieve.feed(rest) if rest else "") + sieve.end()
        return rest


class Redactor:
    """`known` are exact values that are always taken out."""

    def __init__(self, known: Sequence[str] = (), *, secrets: bool = True, pii: bool = False) -> None:
        values = [value for value in dict.fromkeys(known) if len(value) >= KNOWN_CHARS_MIN]
        if len(values) > KNOWN_MAX:
            raise ConfigError(f"At most {KNOWN_MAX} known secrets can be looked for; these are {len(values)}.")
        self._known = sorted({spelt for value in values for spelt in spellings(value)}, key=lambda v: (-len(v), v))
        self._known_start = re.compile(starts([value[:KNOWN_CHARS_MIN] for value in self._known]) if values else "")
        self._by_first: dict[str, tuple[str, ...]] = {}
        for value in self._known:
            self._by_first[value[0]] = (*self._by_first.get(value[0], ()), value)
        self._secrets = secrets
        self._pii = pii

    @property
    def active(self) -> bool:
        return bool(self._known or self._secrets or self._pii)

    def whole(self, text: str) -> tuple[str, tuple[str, ...]]:
        """The text without what must not get out, and the kinds of that."""
        if not self._suspects(text):
            return text, ()
        stream = self.stream()
        clean = stream.feed(text) + stream.end()
        return clean, stream.kinds

    def stream(self) -> Stream:
        return Stream(self)

    def sieves(self) -> tuple[Sieve | KnownSieve, ...]:
        found: list[Sieve | KnownSieve] = []
        if self._known:
            found.append(KnownSieve(self._known_start, self._by_first))
        if self._secrets:
            found.append(SecretSieve())
        if self._pii:
            found.append(Sieve(personal.start(), personal.shapes_at))
        return tuple(found)

    def _suspects(self, text: str) -> bool:
        if self._secrets and secret.may_hold_secret(text):
            return True
        if self._pii and personal.may_hold(text):
            return True
        return any(value in text for value in self._known)
