"""Redaction of secrets and PII in text, whole or streaming.

The text passes a chain of filters: known values of the configuration, then secrets by their format, then PII. A filter
emits text at once, except what may be the beginning of a match. So no part of a secret is ever emitted, and the result
does not depend on how the text was cut into pieces.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from urllib.parse import quote, quote_plus

from mainstay.core.errors import ConfigError
from mainstay.guards import pii as personal
from mainstay.guards import secrets as secret
from mainstay.guards.redaction_pattern_compiler import (
    CONTEXT_CHARS,
    START_LOOKBACK_CHARS,
    RedactionPattern,
    build_prefix_expression,
)
from mainstay.guards.secret_tables import TABLE_CONTEXT_CHARS, TableHeadings

KNOWN_CHARS_MIN = 6
KNOWN_MAX = 1000
PEM_CHARS_MAX = 32 * 1024

# what stands before each line of a quoted key: the marks of quotes, comments and strings, and line numbers
_LINE_PREFIX = r"(?:\s|\\[rn]|[>#*|;%!/\"'+,]|-(?!----)|[0-9]{1,5}[:.|)])"
_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    rf"(?={_LINE_PREFIX}{{0,40}}+(?:[A-Za-z0-9+/=]{{20}}|[A-Z][A-Za-z-]{{2,20}}: ))"  # a text about keys contains none
)
_PEM_OPEN = re.compile(
    r"-(?:\Z|-(?:\Z|-(?:\Z|-(?:\Z|-(?:\Z|B(?:\Z|E(?:\Z|G(?:\Z|I(?:\Z|N(?:\Z| [A-Z0-9 ]{0,60}+(?:-{0,4}+\Z|-----"
    rf"{_LINE_PREFIX}{{0,40}}+(?:\\?+\Z|-{{1,5}}+\Z|[A-Za-z0-9+/=]{{0,19}}+\Z|[A-Z][A-Za-z-]{{0,20}}+:?+\Z))))))))))))"
)
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{1,60}-----|[^A-Za-z0-9+/=\s\\,:.()@<>#*|;%!\"'-]|[\"'](?=\s{0,3}[:)\]}])")
_PEM_END_CHARS = 80

RedactionMatch = tuple[int, int, str]  # start, end and kind of a match; an empty kind: not decidable yet


class RedactionFilter:
    """Streaming filter that replaces every match of its patterns with `[redacted: kind]`."""

    __slots__ = ("_held", "_is_holding", "_patterns_at", "_search_start", "_tail", "kinds")

    def __init__(self, start: re.Pattern[str], patterns_at: Callable[[str, int], Sequence[RedactionPattern]]) -> None:
        self._search_start = start.search
        self._patterns_at = patterns_at
        self._tail = "\n"  # the end of the emitted text: a name before a secret decides about it
        self._held = ""
        self._is_holding = False  # text is held back
        self.kinds: dict[str, None] = {}

    def feed(self, piece: str) -> str:
        if not self._is_holding:
            text = self._tail + piece
            known = len(self._tail)
            begin = known - START_LOOKBACK_CHARS if known > START_LOOKBACK_CHARS else 0
            if self._search_start(text, begin) is None:
                self._tail = text[-CONTEXT_CHARS:]
                return piece
        out = self._feed_held(piece)
        self._is_holding = bool(self._held) or self._needs_every_piece()
        return out

    def _feed_held(self, piece: str) -> str:
        return self._filter_text(self._held + piece, final=False)

    def finish(self) -> str:
        held, self._held, self._is_holding = self._held, "", False
        return self._filter_text(held, final=True) if held else ""

    def _filter_text(self, new: str, *, final: bool) -> str:
        text = self._tail + new
        done = search_start = len(self._tail)
        out = []
        while True:
            start = self._find_start(text, search_start)
            if start < 0:
                out.append(text[done:])
                done = len(text)
                break
            match = self._match_at(text, start, final)
            if match is None:
                search_start = start + 1
                continue
            begin, end, kind = match
            out.append(text[done:begin])
            done = search_start = begin
            if not kind:  # still open
                break
            out.append(f"[redacted: {kind}]")
            self.kinds[kind] = None
            done = search_start = self._find_match_end(text, end)
            if self._is_in_private_key():
                break
        self._tail, self._held = text[max(0, done - self._context_chars(text, done)) : done], text[done:]
        return "".join(out)

    def _find_start(self, text: str, position: int) -> int:
        """Return where the next match may begin; -1 if nowhere."""
        candidate = self._search_start(text, position)
        return -1 if candidate is None else candidate.start()

    def _context_chars(self, text: str, end: int) -> int:
        """Return how much of the text up to `end` is needed to judge what follows."""
        return CONTEXT_CHARS

    def _match_at(self, text: str, start: int, final: bool) -> RedactionMatch | None:
        """Return the match that begins here; with an empty kind if more text is needed to decide."""
        for shape in self._patterns_at(text, start):
            if not final and shape.needs_more_text(text, start):
                return start, start, ""
            span = shape.find(text, start)
            if span is not None:
                return *span, shape.name
        return None

    def _find_match_end(self, text: str, end: int) -> int:
        return end

    def _is_in_private_key(self) -> bool:
        return False

    def _needs_every_piece(self) -> bool:
        """Return True if a piece without a possible start must be looked at, too."""
        return False


class SecretFormatFilter(RedactionFilter):
    """Filter for secrets by their format. A private key (PEM) is dropped up to its end, over any number of pieces."""

    __slots__ = ("_key_chars", "_table")

    def __init__(self) -> None:
        super().__init__(secret.start_pattern(), secret.patterns_at)
        self._key_chars = -1  # characters of a private key dropped so far; -1 outside of one
        self._table = TableHeadings()

    def _feed_held(self, piece: str) -> str:
        return super()._feed_held(piece) if self._key_chars < 0 else self._drop_private_key(piece, final=False)

    def finish(self) -> str:
        if self._key_chars < 0:
            return super().finish()
        out = self._drop_private_key("", final=True)
        if self._key_chars >= 0:  # the key never ended
            self._key_chars, self._held, self._is_holding = -1, "", False
        return out

    def _find_start(self, text: str, position: int) -> int:
        return secret.find_start(text, position)

    def _context_chars(self, text: str, end: int) -> int:
        if text.find("|", max(0, end - TABLE_CONTEXT_CHARS), end) >= 0:
            return TABLE_CONTEXT_CHARS  # a table may go on
        return CONTEXT_CHARS

    def _needs_every_piece(self) -> bool:
        return self._key_chars >= 0 or "|" in self._tail

    def _match_at(self, text: str, start: int, final: bool) -> RedactionMatch | None:
        if text[start] == "|" and (cell := self._table.pattern_for_cell(text, start)) is not None:
            if not final and cell.needs_more_text(text, start):
                return start, start, ""
            if (span := cell.find(text, start)) is not None:
                return *span, cell.name
        if not text.startswith("-----B"[: len(text) - start], start):
            return super()._match_at(text, start, final)
        if not final and _PEM_OPEN.match(text, start):
            return start, start, ""
        match = _PEM.match(text, start)
        if match is None:
            return super()._match_at(text, start, final)
        self._key_chars = 0
        return start, match.end(), "private key"

    def _drop_private_key(self, piece: str, *, final: bool) -> str:
        text = self._held + piece
        end = self._find_match_end(text, 0)
        self._held = text[end:]
        if self._key_chars >= 0:
            return ""
        self._held, self._tail = "", text[max(0, end - CONTEXT_CHARS) : end] or "\n"
        return self._filter_text(text[end:], final=final)

    def _find_match_end(self, text: str, end: int) -> int:
        """Return where the private key ends; what may begin its last line is held and examined again."""
        if self._key_chars < 0:
            return end
        limit = end + PEM_CHARS_MAX - self._key_chars
        stop = _PEM_END.search(text, end, limit)
        if stop is not None or len(text) >= limit:
            self._key_chars = -1
            if stop is None:
                return limit
            return stop.end() if stop[0][0] == "-" else stop.start()
        rest = max(end, len(text) - _PEM_END_CHARS)
        self._key_chars += rest - end
        return rest

    def _is_in_private_key(self) -> bool:
        return self._key_chars >= 0


class KnownValueFilter:
    """Filter for known values, whether plain, percent-encoded or escaped for JSON."""

    __slots__ = ("_by_first", "_find_start", "_held", "kinds")

    def __init__(self, start: re.Pattern[str], by_first: dict[str, tuple[str, ...]]) -> None:
        self._find_start = start.search
        self._by_first = by_first
        self._held = ""
        self.kinds: dict[str, None] = {}

    def feed(self, piece: str) -> str:
        if not self._held and self._find_start(piece) is None:
            return piece
        return self._filter_text(self._held + piece, final=False)

    def finish(self) -> str:
        return self._filter_text(self._held, final=True) if self._held else ""

    def _filter_text(self, text: str, *, final: bool) -> str:
        out: list[str] = []
        done = search_start = 0
        self._held = ""
        while (candidate := self._find_start(text, search_start)) is not None:
            start = candidate.start()
            value = self._match_at(text, start, final)
            if value == "":  # still open
                self._held = text[start:]
                return "".join((*out, text[done:start]))
            if value is None:
                search_start = start + 1
                continue
            out += (text[done:start], "[redacted: configured secret]")
            self.kinds["configured secret"] = None
            done = search_start = start + len(value)
        return "".join((*out, text[done:]))

    def _match_at(self, text: str, start: int, final: bool) -> str | None:
        rest = len(text) - start
        for value in self._by_first.get(text[start], ()):  # longest first
            if rest >= len(value):
                if text.startswith(value, start):
                    return value
            elif not final and value.startswith(text[start:]):
                return ""
        return None


def encoded_forms(value: str) -> tuple[str, ...]:
    """Return the forms in which a value may occur: plain, percent-encoded, escaped for JSON."""
    raw = value.encode("utf-8", "surrogatepass")
    quoted = quote(raw), quote(raw, safe=""), quote_plus(raw)
    escaped = json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]
    lowered = tuple(re.sub("%..", lambda escape: escape[0].lower(), text) for text in quoted)
    return tuple(dict.fromkeys((value, *quoted, *lowered, *escaped)))


class RedactionStream:
    """Redacts one streamed text. What `feed` returns may be shown; `finish` returns the text still held back."""

    __slots__ = ("_filters",)

    def __init__(self, redactor: Redactor) -> None:
        self._filters = redactor.build_filters()

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds redacted so far."""
        return tuple(kind for sieve in self._filters for kind in sieve.kinds)

    def feed(self, piece: str) -> str:
        for sieve in self._filters:
            piece = sieve.feed(piece)
        return piece

    def finish(self) -> str:
        rest = ""
        for sieve in self._filters:
            rest = (sieve.feed(rest) if rest else "") + sieve.finish()
        return rest


class Redactor:
    """Redacts secrets and PII. `known` values are always redacted, unless shorter than KNOWN_CHARS_MIN."""

    def __init__(self, known: Sequence[str] = (), *, secrets: bool = True, pii: bool = False) -> None:
        values = [value for value in dict.fromkeys(known) if len(value) >= KNOWN_CHARS_MIN]
        if len(values) > KNOWN_MAX:
            raise ConfigError(f"At most {KNOWN_MAX} known secrets can be redacted; {len(values)} are configured.")
        self._known = sorted({form for value in values for form in encoded_forms(value)}, key=lambda v: (-len(v), v))
        self._known_start = re.compile(
            build_prefix_expression([value[:KNOWN_CHARS_MIN] for value in self._known]) if values else ""
        )
        self._by_first: dict[str, tuple[str, ...]] = {}
        for value in self._known:
            self._by_first[value[0]] = (*self._by_first.get(value[0], ()), value)
        self._secrets = secrets
        self._pii = pii

    @property
    def is_active(self) -> bool:
        return bool(self._known or self._secrets or self._pii)

    def redact(self, text: str) -> tuple[str, tuple[str, ...]]:
        """Redact a whole text; return it and the kinds redacted."""
        if not self._may_match(text):
            return text, ()
        stream = self.open_stream()
        clean = stream.feed(text) + stream.finish()
        return clean, stream.kinds

    def open_stream(self) -> RedactionStream:
        return RedactionStream(self)

    def build_filters(self) -> tuple[RedactionFilter | KnownValueFilter, ...]:
        filters: list[RedactionFilter | KnownValueFilter] = []
        if self._known:
            filters.append(KnownValueFilter(self._known_start, self._by_first))
        if self._secrets:
            filters.append(SecretFormatFilter())
        if self._pii:
            filters.append(RedactionFilter(personal.start_pattern(), personal.patterns_at))
        return tuple(filters)

    def _may_match(self, text: str) -> bool:
        if self._secrets and secret.may_contain_secret(text):
            return True
        if self._pii and personal.may_contain_pii(text):
            return True
        return any(value in text for value in self._known)
