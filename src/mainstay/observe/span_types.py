"""Types and attributes of traces and spans, named as in OpenTelemetry's GenAI semantic conventions.

Attributes that the conventions do not define are called `mainstay.*`. Times are those of the journal's records, in ms
since 1970; nothing is measured a second time.
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
from mainstay.core.provider_manifest import find_telemetry_name

AttributeValue = str | bool | int | float | tuple[str, ...]
Attributes = dict[str, AttributeValue]
SpanKind = Literal["internal", "client"]

CONTENT_CHARS_MAX = 16 * 1024  # of one text attribute
ERROR_MESSAGE_CHARS_MAX = 300  # of an error message

_ERROR_CLASSES = frozenset(name for name, kind in vars(errors).items() if isinstance(kind, type))
_FINISH_REASONS = {FinishReason.END: "stop", FinishReason.FILTERED: "content_filter"}


class SpanEvent(msgspec.Struct, frozen=True):
    """An event of a span: something that happened at one moment."""

    at: int  # ms
    name: str
    attributes: Attributes = {}


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """An operation within a turn, or the turn itself."""

    id: str
    name: str
    start: int  # ms
    end: int  # ms; of a span that is not finished: the time until which it is shown
    parent_id: str = ""  # span id; empty: the root of the trace
    kind: SpanKind = "internal"
    attributes: Attributes = {}
    events: tuple[SpanEvent, ...] = ()
    error_type: str = ""  # value of `error.type`; empty: no error
    error_message: str = ""  # for people; empty where error messages are not included
    is_open: bool = False  # not finished


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """A turn with all its operations, including sub-agents. The first span is the turn itself."""

    id: str
    session: str
    turn: int
    spans: tuple[Span, ...]

    @property
    def root(self) -> Span:
        return self.spans[0]


class ModelEndpoint(msgspec.Struct, frozen=True):
    """Provider, name and host of a model."""

    provider: str  # its name in the semantic conventions, see `ProviderComponent.telemetry_name`
    name: str
    host: str = ""  # host name; empty: not known


class TelemetryOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What traces and metrics may contain. `redact` is applied to every text that the runtime did not write."""

    workspace: str = ""
    models: Mapping[str, ModelEndpoint] = {}  # by their names in the journals
    redact: Callable[[str], str] = lambda text: text
    include_content: bool = False  # message contents, tool arguments and results
    include_error_messages: bool = False  # error messages, which may quote contents or a provider's response

    def find_model(self, name: str) -> ModelEndpoint:
        if (known := self.models.get(name)) is not None:
            return known
        provider, slash, rest = name.partition("/")
        return ModelEndpoint(find_telemetry_name(provider), rest) if slash else ModelEndpoint("unknown", name)

    def error_message(self, text: str) -> str:
        """Return the error message for a span; empty where messages are not included."""
        return (
            self.redact_text(text, ERROR_MESSAGE_CHARS_MAX)
            if text and (self.include_content or self.include_error_messages)
            else ""
        )

    def redact_text(self, text: str, chars_max: int = CONTENT_CHARS_MAX) -> str:
        """Redact a text, then cut it: a secret that was cut in two would not be recognised."""
        redacted = self.redact(text)
        return redacted if len(redacted) <= chars_max else redacted[: chars_max - 1] + "\u2026"


class TraceContext(msgspec.Struct, frozen=True):
    """Trace and parent span of a turn's spans. A sub-agent's are below the call that spawned it, in the same trace."""

    trace_id: str
    session: str
    parent_id: str = ""  # span id; empty: the turn is the root
    id_prefix: str = ""  # of the names from which span ids are derived, so that ids are unique in a trace

    def for_sub_agent(self, call_id: str, span_id: str) -> TraceContext:
        return TraceContext(self.trace_id, f"{self.session}/{call_id}", span_id, f"{self.id_prefix}{call_id}/")


def finish_reason_name(reason: FinishReason) -> str:
    return _FINISH_REASONS.get(reason, str(reason))


def usage_attributes(usage: Usage | None, cost: float) -> Attributes:
    attributes: Attributes = {}
    if usage is not None:
        attributes["gen_ai.usage.input_tokens"] = usage.prompt
        attributes["gen_ai.usage.output_tokens"] = usage.completion
        if usage.cached:
            attributes["gen_ai.usage.cache_read.input_tokens"] = usage.cached
        if usage.reasoning:
            attributes["gen_ai.usage.reasoning.output_tokens"] = usage.reasoning
        if usage.correction:
            attributes["mainstay.usage.correction"] = usage.correction
    if cost:
        attributes["mainstay.cost"] = cost
    return attributes


def fold_attributes(fold: Folded, options: TelemetryOptions) -> Attributes:
    attributes = usage_attributes(fold.usage, fold.cost)
    if fold.by:
        model = options.find_model(fold.by)
        attributes |= {"gen_ai.request.model": model.name, "gen_ai.provider.name": model.provider}
    return attributes


def add_outcome_attributes(attributes: Attributes, outcome: Outcome | None) -> tuple[str, str]:
    """Add the attributes of an outcome; return the error type and message, both empty if the turn did not fail."""
    if outcome is None:
        return "", ""
    attributes["mainstay.outcome"] = type(outcome).__name__.lower()
    match outcome:
        case Answered(score=float() as score, passed=passed):
            attributes |= {"mainstay.judge.score": score, "mainstay.judge.passed": passed}
        case Failed(sentence=sentence, details=details):
            error_type = details if details in _ERROR_CLASSES else "turn_failed"  # few values, and never a message
            attributes["error.type"] = error_type
            return error_type, sentence
    return "", ""


def group_by_turn(records: Sequence[Record]) -> dict[int, list[Record]]:
    """Group records by turn. Those between two turns, such as prompts, belong to the next one; those after the last
    turn are under 0."""
    turns: dict[int, list[Record]] = {}
    before: list[Record] = []
    current = 0
    for record in records:
        event = record.event
        if isinstance(event, TurnStarted):
            current = event.turn
            turns[current] = [*before, record]
            before = []
        elif current:
            turns[current].append(record)
            if isinstance(event, TurnEnded):
                current = 0
        else:
            before.append(record)
    if before:
        turns[0] = before
    return turns
