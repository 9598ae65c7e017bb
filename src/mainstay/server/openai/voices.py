"""How an answer is put, in either dialect: whole, or as a stream of events."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from mainstay.server.openai.answer import Answer
from mainstay.server.problems import Problem

DONE = b"data: [DONE]\n\n"
_encoder = msgspec.json.Encoder()


class Voice(Protocol):
    """Made for one answer. Everything it gives is bytes of an event stream, but for `whole`."""

    def begin(self) -> bytes: ...
    def say(self, text: str) -> bytes: ...
    def end(self, answer: Answer) -> bytes: ...
    def fail(self, problem: Problem, answer: Answer) -> bytes: ...
    def whole(self, answer: Answer) -> dict[str, Any]: ...


def encode(value: Any) -> bytes:
    """As JSON, whatever it holds: a model may break off in the midst of a character."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(_mended(value))


def _mended(value: Any) -> Any:
    match value:
        case str():
            return value.encode(errors="backslashreplace").decode()
        case dict():
            return {_mended(key): _mended(item) for key, item in value.items()}
        case list() | tuple():
            return [_mended(item) for item in value]
    return value
