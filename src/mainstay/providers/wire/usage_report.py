"""Token counts as a model server reports them: untrusted numbers, checked here for all APIs.

A report with a wrong type or with negative or absurd numbers is not believed: the usage is then empty, and its
`correction` says why. A budget charges the reservation of the call instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mainstay.core.messages import Usage
from mainstay.core.usage_bounds import RECORD_TOKENS_MAX, format_count
from mainstay.providers.wire.decoding import DECODING_ERRORS

Names = tuple[str, ...]
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


class UsageFields(msgspec.Struct, frozen=True):
    """Where an API's usage object has its counts. `inner.name` is in an inner object. `is_always_sent`: a response
    without a count of the prompt is suspicious."""

    prompt: Names  # to be added
    completion: Names  # to be added
    cached: Names = ()  # the same count under several names
    reasoning: Names = ()
    written: Names = ()
    is_always_sent: bool = False


class UsageReport:
    """The usage of one response. APIs omit counts or send null; later reports replace the counts that they contain."""

    __slots__ = ("_counts", "_fields", "_problems")

    def __init__(self, fields: UsageFields) -> None:
        self._fields = fields
        self._counts: dict[str, int] = {}
        self._problems: dict[str, str] = {}  # by count, until a later report has a valid one; "" is the whole report

    def update(self, report: msgspec.Raw) -> None:
        """Read a usage object, or null. Never raises: what is wrong with it becomes the usage's `correction`."""
        data = bytes(report)
        if not data or data == b"null":
            return
        try:
            self.update_counts(_decode_object(data))
        except DECODING_ERRORS:
            self._problems[""] = "the report is no object of numbers"

    def update_counts(self, decoded: Mapping[str, Any]) -> None:
        """Read a decoded usage object."""
        self._problems.pop("", None)
        fields = self._fields
        for name in (*fields.prompt, *fields.completion, *fields.cached, *fields.reasoning, *fields.written):
            outer, _, inner = name.partition(".")
            value = decoded.get(outer)
            if inner and isinstance(value, dict):
                value = value.get(inner)
            if isinstance(value, float) and value.is_integer():  # some servers write all numbers so
                value = int(value)
            if type(value) is int and 0 <= value <= RECORD_TOKENS_MAX:
                self._counts[name] = value
                self._problems.pop(name, None)
            elif value is not None:
                self._problems[name] = f"{name} is {format_count(value)}"

    def build(self) -> Usage:
        """Return the checked usage; empty if the API reported none."""
        fields, counts = self._fields, self._counts
        prompt = completion = cached = reasoning = written = 0
        for name in fields.prompt:
            prompt += counts.get(name, 0)
        for name in fields.completion:
            completion += counts.get(name, 0)
        for name in fields.cached:
            cached = max(cached, counts.get(name, 0))
        for name in fields.reasoning:
            reasoning = max(reasoning, counts.get(name, 0))
        for name in fields.written:
            written = max(written, counts.get(name, 0))
        if self._problems:
            return Usage(correction=f"not believed: {', '.join(self._problems.values())}")
        if fields.is_always_sent and not prompt:
            return Usage(correction="missing in the response")
        correction = ""
        # some servers count a part beside its whole; where it is larger than that, it must be so
        if cached + written > prompt:
            prompt, correction = prompt + cached + written, "cached tokens were reported beside the prompt"
        if reasoning > completion:
            completion, correction = completion + reasoning, "reasoning tokens were reported beside the completion"
        return Usage(prompt, completion, cached, reasoning, written, correction)


_COUNT_FIELDS = UsageFields(("prompt",), ("completion",), ("cached",), ("reasoning",), ("written",))


def build_usage(
    prompt: int | None,
    completion: int | None,
    *,
    cached: int | None = None,
    reasoning: int | None = None,
    written: int | None = None,
) -> Usage:
    """Return the checked usage of a response whose count of prompt tokens includes cached ones; for parsers that decode
    the counts themselves."""
    report = UsageReport(_COUNT_FIELDS)
    counts = {"prompt": prompt, "completion": completion, "cached": cached, "reasoning": reasoning, "written": written}
    report.update_counts(counts)
    return report.build()
