"""Redaction of an answer that may show secrets to the person who asked for them.

The person's own data may contain a secret that they want to see: a link to reset a password. Secrets of the
configuration are redacted as always, and so are those that do not occur in the session's data. Chat platforms and
terminals fetch previews of addresses: a model that follows an attacker's text could write a secret into an address of
the attacker. So an address with a secret is shown only if it occurs in the data exactly so; an attacker, who does not
know the secret, cannot have put it there.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable

from mainstay.guards.redaction import RedactionStream, Redactor

HELD_CHARS_MAX = 8 * 1024
_WORDS = re.compile(r"[!-~]+|[^!-~]+")
_LAST_WORD = re.compile(r"[!-~]+\Z")
_ADDRESS_MARK = re.compile(r"[/?\\]|\w\.[A-Za-z]{2}|%[0-9A-Fa-f]{2}")
_MARKDOWN_LINK = re.compile(r"[^\w\[]{0,8}\[?([^\[\]()]*)\]\(<?([^()<>]+)>?\)\W{0,8}")
_AROUND = "\"'`*_~<>()[]{}.,;:!?|"


class OwnerAnswerStream(RedactionStream):
    """Redacts an answer for its owner. `always` redacts what is never shown; `full` recognises all secrets."""

    __slots__ = ("_full", "_held", "_is_in_data", "_kinds")

    def __init__(self, always: Redactor, full: Redactor, is_in_data: Callable[[str], bool]) -> None:
        super().__init__(always)
        self._full = full
        self._is_in_data = is_in_data
        self._held = ""
        self._kinds: dict[str, None] = {}

    @property
    def kinds(self) -> tuple[str, ...]:
        return (*super().kinds, *self._kinds)

    def feed(self, piece: str) -> str:
        return self._pass_words(super().feed(piece), final=False)

    def finish(self) -> str:
        return self._pass_words(super().finish(), final=True)

    def _pass_words(self, text: str, *, final: bool) -> str:
        """Return the text up to the last word, which may be the beginning of an address, and hold that back."""
        text, self._held = self._held + text, ""
        last = _LAST_WORD.search(text)
        if last is not None and not final and len(last[0]) < HELD_CHARS_MAX:
            text, self._held = text[: last.start()], last[0]
        return _WORDS.sub(self._check_word, text)

    def _check_word(self, match: re.Match[str]) -> str:
        word = match[0]
        clean, kinds = self._full.redact(word)
        if not kinds or self._may_be_shown(word, clean):
            return word
        self._kinds |= dict.fromkeys(kinds)
        return clean

    def _may_be_shown(self, word: str, clean: str) -> bool:
        if _ADDRESS_MARK.search(word) is None and clean.count("[redacted: ") == 1:
            before, _, rest = clean.partition("[redacted: ")
            after = rest.partition("]")[2]
            return self._is_in_data(word[len(before) : len(word) - len(after)])
        link = _MARKDOWN_LINK.fullmatch(word)
        if link is not None:
            label, target = link[1], link[2]
            return (label == target or _ADDRESS_MARK.search(label) is None) and self._is_in_data(target)
        return self._is_in_data(word.strip(_AROUND))


def occurs_in(text: str, contents: Iterable[str]) -> bool:
    """Return True if a text occurs in one of the contents, also if it is escaped there as HTML or JSON has it."""
    if not text:
        return False
    return any(
        text in content
        or text in html.unescape(content)
        or text in content.replace("\\/", "/").replace("\\u0026", "&").replace("\\u003d", "=")
        for content in contents
    )
