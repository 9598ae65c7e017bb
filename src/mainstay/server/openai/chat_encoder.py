"""Encodes answers as chat completions, whole or in streaming chunks."""

from __future__ import annotations

import secrets
import time

from mainstay.core.events import ApprovalAsked
from mainstay.core.messages import Usage
from mainstay.server.openai.encoder_protocol import DONE_EVENT, encode_json
from mainstay.server.openai.errors import build_error
from mainstay.server.openai.turn_answer import OpenAIAnswer
from mainstay.server.problems import Problem


class ChatCompletionEncoder:
    """Encoder of one chat completion. `include_usage`: the client wants token counts at the end of the stream."""

    def __init__(self, model: str, *, include_usage: bool = False) -> None:
        self._include_usage = include_usage
        self._common_fields: dict[str, object] = {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": model,
        }
        # the JSON around each piece of text is encoded once: there are many pieces
        template = self._encode_chunk({"content": 0}).rpartition(b'{"content":0}')
        self._text_prefix, self._text_suffix = template[0] + b'{"content":', b"}" + template[2]

    def encode_start(self) -> bytes:
        return self._encode_chunk({"role": "assistant", "content": ""})

    def encode_text(self, text: str) -> bytes:
        return self._text_prefix + encode_json(text) + self._text_suffix

    def encode_end(self, answer: OpenAIAnswer) -> bytes:
        chunks = (
            [self._encode_chunk({"tool_calls": [{"index": 0, **_build_tool_call(answer.client_call)}]})]
            if answer.client_call
            else []
        )
        chunks.append(self._encode_chunk({}, answer.finish_reason, answer.score_fields))
        if self._include_usage:
            chunks.append(_encode_event({**self._chunk_fields, "choices": [], "usage": build_usage(answer.usage)}))
        return b"".join((*chunks, DONE_EVENT))

    def encode_failure(self, problem: Problem, answer: OpenAIAnswer) -> bytes:
        return _encode_event({"error": build_error(problem)}) + DONE_EVENT

    def build_response(self, answer: OpenAIAnswer) -> dict[str, object]:
        message: dict[str, object] = {"role": "assistant", "content": answer.text, "refusal": None}
        if answer.client_call is not None:
            message |= {"content": answer.text or None, "tool_calls": [_build_tool_call(answer.client_call)]}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": answer.finish_reason}
        head = {**self._common_fields, "object": "chat.completion", "system_fingerprint": None}
        return {**head, "choices": [choice], "usage": build_usage(answer.usage), **answer.score_fields}

    @property
    def _chunk_fields(self) -> dict[str, object]:
        return {**self._common_fields, "object": "chat.completion.chunk", "system_fingerprint": None}

    def _encode_chunk(
        self, delta: dict[str, object], finish_reason: str | None = None, score_fields: dict[str, object] | None = None
    ) -> bytes:
        choice = {"index": 0, "logprobs": None, "finish_reason": finish_reason, "delta": delta}
        usage = {"usage": None} if self._include_usage else {}
        return _encode_event({**self._chunk_fields, "choices": [choice], **usage, **(score_fields or {})})


def _encode_event(data: dict[str, object]) -> bytes:
    return b"data: %b\n\n" % encode_json(data)


def _build_tool_call(approval: ApprovalAsked) -> dict[str, object]:
    return {
        "id": approval.call_id,
        "type": "function",
        "function": {"name": approval.name, "arguments": approval.input},
    }


def build_usage(usage: Usage) -> dict[str, object]:
    """Return the token counts of all steps of a turn together."""
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
