"""Protocol of the encoders that turn an answer into chat completions or responses, and their JSON encoding."""

from __future__ import annotations

from typing import Protocol

import msgspec

from mainstay.core.surrogates import replace_surrogates_in
from mainstay.server.openai.turn_answer import OpenAIAnswer
from mainstay.server.problems import Problem

DONE_EVENT = b"data: [DONE]\n\n"
_encoder = msgspec.json.Encoder()


class AnswerEncoder(Protocol):
    """Encodes one answer. All methods return bytes of an event stream, except `build_response`."""

    def encode_start(self) -> bytes: ...
    def encode_text(self, text: str) -> bytes: ...
    def encode_end(self, answer: OpenAIAnswer) -> bytes: ...
    def encode_failure(self, problem: Problem, answer: OpenAIAnswer) -> bytes: ...
    def build_response(self, answer: OpenAIAnswer) -> dict[str, object]: ...


def encode_json(value: object) -> bytes:
    """Encode as JSON, with lone surrogates escaped: a model may stop in the middle of a character."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(replace_surrogates_in(value, "backslashreplace"))
