"""The guards of one agent, by configuration: what comes in, what tools answer, what goes out.

They fail closed: a guard that breaks lets nothing through.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from mainstay.core.errors import MainstayError
from mainstay.trust.guards.marks import mark_of, neutralise
from mainstay.trust.guards.redact import KNOWN_CHARS_MIN, Redactor, Stream
from mainstay.trust.guards.scan import Finding, Scanner

Mode = Literal["block", "flag", "off"]
Action = Literal["", "flagged", "blocked", "redacted", "neutralised"]

READ_CHARS = 32 * 1024
LOOK_ALIKE = "call look-alike"
WITHHELD = "[withheld: a guard failed]"
LEARNT_MAX = 16


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
            for sieve in self._sieves:
                piece = sieve.feed(piece)
            return piece
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
        self._given = tuple(known)
        self._learnt: tuple[str, ...] = ()
        self._look_for()

    def keep_secret(self, value: str) -> None:
        """One more secret of the owner's, for as long as we run."""
        if value not in self._given and len(value) >= KNOWN_CHARS_MIN:
            self._given = (*self._given, value)
            self._look_for()

    def know(self, value: str) -> None:
        """One more secret of the owner's, such as a token that was made just now; the oldest such is forgotten."""
        if value in self._secrets or len(value) < KNOWN_CHARS_MIN:
            return
        self._learnt = (*self._learnt, value)[-LEARNT_MAX:]
        self._look_for()

    def _look_for(self) -> None:
        rules = self._rules
        self._secrets = frozenset((*self._given, *self._learnt))
        known = [*self._given, *self._learnt]
        self._known = Redactor(known, secrets=False) if known else None
        self._out = Redactor(known, secrets=rules.secrets, pii=rules.pii)

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

    def result(self, content: str, *, foreign: bool, outside: bool = True) -> Cleaned:
        """`foreign` is what a plugin answered; what is not from `outside` is the owner's own and is never withheld."""
        try:
            return self._result(content, foreign, outside)
        except Exception as error:  # the same for a result
            raise GuardFailed("The result could not be checked, so it is withheld.") from error

    def _result(self, content: str, foreign: bool, outside: bool) -> Cleaned:
        kinds: tuple[str, ...] = ()
        action: Action = ""
        if self._known is not None:
            content, kinds = self._known.whole(content)
            action = "redacted" if kinds else ""
        finding = self._scanner.scan(self._read(content)) if self._rules.tools != "off" else None
        if foreign:
            content, count = neutralise(content)
            if count:
                kinds, action = (*kinds, LOOK_ALIKE), "neutralised"
        if finding is not None:
            kinds, action = (*kinds, *finding.kinds), "flagged"
            if outside and self._rules.tools == "block":
                said = f"The result was withheld: it reads like an attack ({', '.join(finding.kinds)})."
                return Cleaned(said, kinds, "blocked")
        return Cleaned(content, kinds, action)

    def _read(self, content: str) -> str:
        """Of a long result, where only a flag depends on it, what stands at its beginning and its end."""
        if self._rules.tools == "block" or len(content) <= READ_CHARS:
            return content
        return f"{content[: READ_CHARS * 3 // 4]}\n{content[-READ_CHARS // 4 :]}"

    def mark(self, call_key: str) -> str:
        """The delimiter of the block that a call's result is shown in."""
        return mark_of(self._key, call_key)

    def answer(self) -> Stream | None:
        """What the answer's text goes through, piece by piece; None if nothing is to be looked for."""
        return Answer(self._out) if self._out.active else None

    def beside(self) -> Stream | None:
        """The same for thoughts and arguments: only the owner's own secrets are looked for, all else is as it was."""
        return Answer(self._known) if self._known is not None else None

    def hide(self, text: str) -> str:
        """A text for a log, without any secret."""
        return self._out.whole(text)[0]

    def shown(self, value: Any) -> Any:
        """What a tool says while it runs, without the owner's own secrets."""
        if self._known is None:
            return value
        match value:
            case str():
                return self._known.whole(value)[0]
            case dict():
                return {self.shown(name): self.shown(one) for name, one in value.items()}
            case list() | tuple():
                return [self.shown(one) for one in value]
        return value
