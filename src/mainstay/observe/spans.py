"""Traces as values: what a turn did, when, and what belongs to what.

Names follow OpenTelemetry's conventions for generative AI where there is one (`gen_ai.*`), and are ours otherwise
(`mainstay.*`). Times are those of the journal's records, in ms since 1970; nothing here is measured a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from mainstay.core import errors
from mainstay.core.events import Folded, TurnEnded, TurnStarted
from mainstay.core.journal import Record
from mainstay.core.messages import FinishReason, Usage
from mainstay.core.outcome import Answered, Failed, Outcome

Value = str | bool | int | float | tuple[str, ...]
Attributes = dict[str, Value]
Kind = Literal["internal", "client"]

CONTENT_CHARS_MAX = 16 * 1024  # of one text in a span
NOTE_CHARS_MAX = 300  # of a sentence about an error

# Names of the conventions that differ from how providers are called here.
_PROVIDERS = {
    "openai-responses": "openai",
    "gemini": "gcp.gemini",
    "google": "gcp.gemini",
    "mistral": "mistral_ai",
    "xai": "x_ai",
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
}
_ERRORS = frozenset(name for name, kind in vars(errors).items() if isinstance(kind, type))
_REASONS = {FinishReason.END: "stop", FinishReason.FILTERED: "content_filter"}


class Mark(msgspec.Struct, frozen=True):
    """Something that happened at one moment: an event of a span."""

    at: int
    name: str
    attributes: Attributes = {}


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a turn. `error` is its kind in a word, and empty where all went well; `open`: it goes on."""

    id: str
    name: str
    start: int
    end: int
    parent: str = ""
    kind: Kind = "internal"
    attributes: Attributes = {}
    marks: tuple[Mark, ...] = ()
    error: str = ""
    note: str = ""  # about the error, for people
    open: bool = False


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """One turn, and all that was done for it. Its first span is the turn itself."""

    id: str
    session: str
    turn: int
    spans: tuple[Span, ...]

    @property
    def root(self) -> Span:
        return self.spans[0]


class Model(msgspec.Struct, frozen=True):
    """Who answers to a model's name."""

    provider: str
    name: str
    address: str = ""  # the host that is asked


class Telling(msgspec.Struct, frozen=True, kw_only=True):
    """How traces are told. `content`: with what was said; `notes`: with what is said of errors, which may quote that or
    what a provider answered. Every text that is not ours goes through `clean`."""

    workspace: str = ""
    models: Mapping[str, Model] = {}  # by the names under which journals know them
    clean: Callable[[str], str] = lambda text: text
    content: bool = False
    notes: bool = False

    def model(self, name: str) -> Model:
        if (known := self.models.get(name)) is not None:
            return known
        provider, slash, rest = name.partition("/")
        return Model(provider, rest) if slash else Model("unknown", name)

    def note(self, text: str) -> str:
        """What is said of an error, where that may be told."""
        return self.text(text, NOTE_CHARS_MAX) if text and (self.content or self.notes) else ""

    def text(self, text: str, most: int = CONTENT_CHARS_MAX) -> str:
        """Cleaned first: what was cut in two would not be recognised."""
        clean = self.clean(text)
        return clean if len(clean) <= most else clean[: most - 1] + "\u2026"


class Lineage(msgspec.Struct, frozen=True):
    """Where the spans of a session's turn belong. A sub-agent's are below the call that sent it, in the same trace."""

    trace: str
    session: str
    parent: str = ""
    prefix: str = ""  # before the names that ids are made of: ids are unique in a trace

    def child(self, call_id: str, span: str) -> Lineage:
        return Lineage(self.trace, f"{self.session}/{call_id}", span, f"{self.prefix}{call_id}/")


def provider_name(label: str) -> str:
    """As the conventions spell it."""
    return _PROVIDERS.get(label, label)


def reason_name(reason: FinishReason) -> str:
    return _REASONS.get(reason, str(reason))


def usage_attributes(usage: Usage | None, cost: float) -> Attributes:
    found: Attributes = {}
    if usage is not None:
        found["gen_ai.usage.input_tokens"] = usage.prompt
        found["gen_ai.usage.output_tokens"] = usage.completion
        if usage.cached:
            found["gen_ai.usage.cache_read.input_tokens"] = usage.cached
        if usage.reasoning:
            found["gen_ai.usage.reasoning.output_tokens"] = usage.reasoning
    if cost:
        found["mainstay.cost"] = cost
    return found


def fold_attributes(fold: Folded, telling: Telling) -> Attributes:
    found = usage_attributes(fold.usage, fold.cost)
    if fold.by:
        model = telling.model(fold.by)
        found |= {"gen_ai.request.model": model.name, "gen_ai.provider.name": provider_name(model.provider)}
    return found


def outcome_attributes(attributes: Attributes, outcome: Outcome | None) -> tuple[str, str]:
    """How it ended, as attributes; the kind of its failure, and what is said of it."""
    if outcome is None:
        return "", ""
    attributes["mainstay.outcome"] = type(outcome).__name__.lower()
    match outcome:
        case Answered(score=float() as score, passed=passed):
            attributes |= {"mainstay.evals.judges.score": score, "mainstay.evals.judges.passed": passed}
        case Failed(sentence=sentence, details=details):
            kind = details if details in _ERRORS else "turn_failed"  # few kinds, and nothing that somebody said
            attributes["error.type"] = kind
            return kind, sentence
    return "", ""


def turns_in(records: Sequence[Record]) -> dict[int, list[Record]]:
    """Records by the turn they stand in; what stands between two turns belongs to the one that comes, as its prompt
    does. What nobody has begun is under 0."""
    found: dict[int, list[Record]] = {}
    before: list[Record] = []
    current = 0
    for record in records:
        event = record.event
        if isinstance(event, TurnStarted):
            current = event.turn
            found[current] = [*before, record]
            before = []
        elif current:
            found[current].append(record)
            if isinstance(event, TurnEnded):
                current = 0
        else:
            before.append(record)
    if before:
        found[0] = before
    return found
