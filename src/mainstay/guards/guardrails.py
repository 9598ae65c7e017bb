"""Guardrails of one agent: prompt-injection checks on input and tool results, redaction of secrets and PII in output.

They fail closed: if a guardrail raises, its text is withheld.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, overload

import msgspec

from mainstay.core.errors import MainstayError
from mainstay.guards.delimiters import compute_delimiter, neutralise_markup
from mainstay.guards.injection_scanner import InjectionFinding, InjectionScanner
from mainstay.guards.owner_answer_stream import OwnerAnswerStream
from mainstay.guards.redaction import KNOWN_CHARS_MIN, RedactionStream, Redactor

GuardMode = Literal["block", "flag", "off"]
GuardAction = Literal["", "flagged", "blocked", "redacted", "neutralised"]

LOOK_ALIKE_KIND = "call look-alike"
WITHHELD_NOTICE = "[withheld: a guard failed]"
TEMPORARY_SECRETS_MAX = 16


class GuardFailed(MainstayError):
    """A guardrail raised, so the text that it had to check is withheld."""


class GuardrailOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which guardrails are on, and what they do about a finding."""

    input: GuardMode = "flag"
    tools: GuardMode = "flag"  # tool results
    secrets: bool = True  # redact them in output
    pii: bool = False  # redact it in output
    forbidden: tuple[str, ...] = ()  # the owner's regular expressions


class CheckedResult(msgspec.Struct, frozen=True):
    """A tool result after its checks."""

    content: str  # as the model may see it
    kinds: tuple[str, ...] = ()  # of all findings
    action: GuardAction = ""  # the weightiest one taken; empty: nothing was found


class FailClosedRedactionStream(RedactionStream):
    """A redaction stream that fails closed: if a filter raises, the rest of the text is withheld."""

    __slots__ = ("_has_failed",)

    def __init__(self, redactor: Redactor) -> None:
        super().__init__(redactor)
        self._has_failed = False

    def feed(self, piece: str) -> str:
        if self._has_failed:
            return ""
        try:
            for sieve in self._filters:
                piece = sieve.feed(piece)
            return piece
        except Exception:  # no text may pass unfiltered
            self._has_failed = True
            return WITHHELD_NOTICE

    def finish(self) -> str:
        if self._has_failed:
            return ""
        try:
            return super().finish()
        except Exception:  # no text may pass unfiltered
            self._has_failed = True
            return WITHHELD_NOTICE


class _FailClosedOwnerStream(OwnerAnswerStream):
    """Withholds the rest of the text if a filter raises."""

    __slots__ = ("_has_failed",)

    def __init__(self, always: Redactor, full: Redactor, is_in_data: Callable[[str], bool]) -> None:
        super().__init__(always, full, is_in_data)
        self._has_failed = False

    def feed(self, piece: str) -> str:
        return self._guard(lambda: super(_FailClosedOwnerStream, self).feed(piece))

    def finish(self) -> str:
        return self._guard(super().finish)

    def _guard(self, step: Callable[[], str]) -> str:
        if self._has_failed:
            return ""
        try:
            return step()
        except Exception:  # no text may pass unfiltered
            self._has_failed = True
            return WITHHELD_NOTICE


class Guardrails:
    """All guardrails of one agent.

    `key` seeds the delimiters of data blocks; `known` are the secrets of the configuration, which are always redacted.
    """

    def __init__(self, options: GuardrailOptions, key: bytes, known: Sequence[str]) -> None:
        self._options = options
        self.redacts_secrets = options.secrets  # False: only those of the configuration are redacted
        self._key = key
        self._scanner = InjectionScanner(options.forbidden)
        self._permanent_secrets = tuple(known)
        self._temporary_secrets: tuple[str, ...] = ()
        self._rebuild_redactors()

    def add_secret(self, value: str) -> None:
        """Add a secret of the owner's, for the life of the process."""
        if value not in self._permanent_secrets and len(value) >= KNOWN_CHARS_MIN:
            self._permanent_secrets = (*self._permanent_secrets, value)
            self._rebuild_redactors()

    def add_temporary_secret(self, value: str) -> None:
        """Add a short-lived secret of the owner's, such as a fresh token; TEMPORARY_SECRETS_MAX of them are kept."""
        if value in self._all_secrets or len(value) < KNOWN_CHARS_MIN:
            return
        self._temporary_secrets = (*self._temporary_secrets, value)[-TEMPORARY_SECRETS_MAX:]
        self._rebuild_redactors()

    def _rebuild_redactors(self) -> None:
        rules = self._options
        self._all_secrets = frozenset((*self._permanent_secrets, *self._temporary_secrets))
        known = [*self._permanent_secrets, *self._temporary_secrets]
        self._known_redactor = Redactor(known, secrets=False) if known else None
        self._output_redactor = Redactor(known, secrets=rules.secrets, pii=rules.pii)
        self._secret_redactor = Redactor(known, secrets=rules.secrets)
        self._owner_redactor = Redactor(known, secrets=False, pii=rules.pii)

    @property
    def redactor(self) -> Redactor:
        """Redacts all output: answers, logs, traces."""
        return self._output_redactor

    @property
    def secret_redactor(self) -> Redactor:
        """Redacts secrets, but no PII: for the arguments of calls, such as the address of a mail."""
        return self._secret_redactor

    def check_input(self, text: str) -> InjectionFinding | None:
        """Scan an input; the caller decides whether a finding blocks it or is only flagged. Raises GuardFailed."""
        if self._options.input == "off":
            return None
        try:
            return self._scanner.scan(text)
        except Exception as error:  # a scan that failed is no approval
            raise GuardFailed("The input could not be checked, so it was not accepted.") from error

    def check_result(self, content: str, *, external: bool, untrusted: bool = True) -> CheckedResult:
        """Check a tool result. Raises GuardFailed.

        `external`: it comes from an external tool or a trigger, so markup that imitates calls is neutralised.
        `untrusted`: False for the owner's own content, which is never withheld.
        """
        try:
            return self._check_result(content, external, untrusted)
        except Exception as error:  # a check that failed is no approval
            raise GuardFailed("The result could not be checked, so it is withheld.") from error

    def _check_result(self, content: str, external: bool, untrusted: bool) -> CheckedResult:
        kinds: tuple[str, ...] = ()
        action: GuardAction = ""
        if self._known_redactor is not None:
            content, kinds = self._known_redactor.redact(content)
            action = "redacted" if kinds else ""
        finding = self._scanner.scan(content) if self._options.tools != "off" else None
        if external:
            content, count = neutralise_markup(content)
            if count:
                kinds, action = (*kinds, LOOK_ALIKE_KIND), "neutralised"
        if finding is not None:
            kinds, action = (*kinds, *finding.kinds), "flagged"
            if untrusted and self._options.tools == "block":
                notice = f"The result was withheld: it looks like an attack ({', '.join(finding.kinds)})."
                return CheckedResult(notice, kinds, "blocked")
        return CheckedResult(content, kinds, action)

    def compute_delimiter(self, call_key: str) -> str:
        """Return the delimiter of the data block that a call's result is shown in."""
        return compute_delimiter(self._key, call_key)

    def open_answer_stream(self) -> RedactionStream | None:
        """Open the redaction stream for an answer's text; None if redaction is off."""
        return FailClosedRedactionStream(self._output_redactor) if self._output_redactor.is_active else None

    def open_owner_answer_stream(self, is_in_data: Callable[[str], bool]) -> RedactionStream:
        """Open the redaction stream for an answer that may show secrets to the person who asked for them; those of the
        configuration are redacted. `is_in_data` says whether an address occurs in the session's data."""
        return _FailClosedOwnerStream(self._owner_redactor, self._secret_redactor, is_in_data)

    def open_thinking_stream(self) -> RedactionStream | None:
        """Open the redaction stream for thinking and tool arguments: known secrets only; None if there are none."""
        return FailClosedRedactionStream(self._known_redactor) if self._known_redactor is not None else None

    def redact_text(self, text: str) -> str:
        """Return a text for a log, without any secret."""
        return self._output_redactor.redact(text)[0]

    def redact_secrets(self, text: str) -> str:
        """Return a text without any secret, but with PII: for the audit log, which has names of people."""
        return self._secret_redactor.redact(text)[0]

    @overload
    def redact_known(self, value: str) -> str: ...
    @overload
    def redact_known(self, value: object) -> object: ...
    def redact_known(self, value: object) -> object:
        """Return a value without known secrets; texts in dicts and lists are redacted too."""
        if self._known_redactor is None:
            return value
        match value:
            case str():
                return self._known_redactor.redact(value)[0]
            case dict():
                return {self.redact_known(name): self.redact_known(item) for name, item in value.items()}
            case list() | tuple():
                return [self.redact_known(item) for item in value]
        return value
