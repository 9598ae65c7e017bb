"""The guards of one agent, by configuration: what comes in, what tools answer, what goes out.

They fail closed: a guard that breaks lets nothing through.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from mainstay.core.errors import MainstayError
from mainstay.guards.redact import Redactor, Stream
from mainstay.guards.scan import Finding, Scanner
from mainstay.guards.wrap import mark_of, neutralise, wrap

Mode = Literal["block", "flag", "off"]
Action = Literal["", "flagged", "blocked", "redacted", "neutralised"]

LOOK_ALIKE = "call look-alike"
WITHHELD = "[withheld: a guard failed]"


class GuardFailed(MainstayError):
    """A guard broke, so what it had to look at is withheld."""


class GuardRules(msgspec.Struct, frozen=True, kw_only=True):
    """Which guards are on. `forbidden` are regular expressions of the owner's."""

    input: Mode = "flag"
    tools: Mode = "flag"
    secrets: bool = True
    pii: bool = False
    forbidden: tuple[str, ...] = ()


class Cleaned(msgspec.Struct, frozen=True):
    """A result as the model may see it, what was found in it, and the weightiest thing that was done about it."""

    content: str
    kinds: tuple[str, ...] = ()
    action: Action = ""


class Answer(Stream):
    """An answer on its way out. If the filter breaks, the rest of the text is withheld."""

    __slots__ = ("_broken",)

    def __init__(self, redactor: Redactor) -> None:
        super().__init__(redactor)
        self._broken = False

    def feed(self, piece: str) -> str:
        if self._broken:
            return ""
        try:
            return super().feed(piece)
        except Exception:  # nothing may leave unseen
            self._broken = True
            return WITHHELD

    def end(self) -> str:
        if self._broken:
            return ""
        try:
            return super().end()
        except Exception:  # the same
            self._broken = True
            return WITHHELD


class Guards:
    """`key` makes the marks of blocks; `known` are the secrets of the configuration, which nothing may show."""

    def __init__(self, settings: GuardRules, key: bytes, known: Sequence[str]) -> None:
        self._rules = settings
        self._key = key
        self._scanner = Scanner(settings.forbidden)
        self._known = Redactor(known, secrets=False) if known else None
        self._out = Redactor(known, secrets=settings.secrets, pii=settings.pii)

    @property
    def redactor(self) -> Redactor:
        """What goes out passes it: answers, logs, traces."""
        return self._out

    def input(self, text: str) -> Finding | None:
        """What is wrong with an input; whether that blocks it or is only told is the caller's rule."""
        if self._rules.input == "off":
            return None
        try:
            return self._scanner.scan(text)
        except Exception as error:  # a guard that broke has not said that the text is fine
            raise GuardFailed("The input could not be checked, so it was not taken.") from error

    def result(self, content: str, call_key: str, source: str, *, foreign: bool) -> Cleaned:
        """`source` is empty for what needs no block; `foreign` is what a plugin answered."""
        try:
            return self._result(content, call_key, source, foreign)
        except Exception as error:  # the same for a result
            raise GuardFailed("The result could not be checked, so it is withheld.") from error

    def _result(self, content: str, call_key: str, source: str, foreign: bool) -> Cleaned:
        kinds: tuple[str, ...] = ()
        action: Action = ""
        if self._known is not None:
            content, kinds = self._known.whole(content)
            action = "redacted" if kinds else ""
        finding = self._scanner.scan(content) if self._rules.tools != "off" else None
        if foreign:
            content, count = neutralise(content)
            if count:
                kinds, action = (*kinds, LOOK_ALIKE), "neutralised"
        if finding is not None:
            kinds, action = (*kinds, *finding.kinds), "flagged"
            if foreign and self._rules.tools == "block":
                said = f"The result was withheld: it reads like an attack ({', '.join(finding.kinds)})."
                return Cleaned(said, kinds, "blocked")
        if source:
            content = wrap(content, mark_of(self._key, call_key), source)
        return Cleaned(content, kinds, action)

    def mark(self, call_key: str) -> str:
        """The delimiter of the block that a call's result is shown in."""
        return mark_of(self._key, call_key)

    def answer(self) -> Stream | None:
        """What the answer's text goes through, piece by piece; None if nothing is to be looked for."""
        return Answer(self._out) if self._out.active else None
