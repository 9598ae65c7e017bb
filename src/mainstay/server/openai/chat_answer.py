"""Answers in the older dialect."""

from __future__ import annotations

import secrets
import time
from typing import Any

from mainstay.core.events import ApprovalAsked
from mainstay.core.messages import Usage
from mainstay.server.openai.answer import Answer
from mainstay.server.openai.refusals import error_of
from mainstay.server.openai.voices import DONE, encode
from mainstay.server.problems import Problem


class ChatVoice:
    def __init__(self, model: str, *, usage: bool = False) -> None:
        self._usage = usage
        self._head: dict[str, Any] = {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": model,
        }
        # what stands around each piece of text is made once: there are many
        around = self._chunk({"content": 0}).rpartition(b'{"content":0}')
        self._before, self._after = around[0] + b'{"content":', b"}" + around[2]

    def begin(self) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    def say(self, text: str) -> bytes:
        return self._before + encode(text) + self._after

    def end(self, answer: Answer) -> bytes:
        made = [self._chunk({"tool_calls": [{"index": 0, **_call(answer.call)}]})] if answer.call else []
        made.append(self._chunk({}, answer.ending, answer.verdict))
        if self._usage:
            made.append(_event({**self._told, "choices": [], "usage": usage_of(answer.usage)}))
        return b"".join((*made, DONE))

    def fail(self, problem: Problem, answer: Answer) -> bytes:
        return _event({"error": error_of(problem)}) + DONE

    def whole(self, answer: Answer) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": answer.text, "refusal": None}
        if answer.call is not None:
            message |= {"content": answer.text or None, "tool_calls": [_call(answer.call)]}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": answer.ending}
        head = {**self._head, "object": "chat.completion", "system_fingerprint": None}
        return {**head, "choices": [choice], "usage": usage_of(answer.usage), **answer.verdict}

    @property
    def _told(self) -> dict[str, Any]:
        return {**self._head, "object": "chat.completion.chunk", "system_fingerprint": None}

    def _chunk(self, delta: dict[str, Any], ending: str | None = None, verdict: dict[str, Any] | None = None) -> bytes:
        choice = {"index": 0, "logprobs": None, "finish_reason": ending, "delta": delta}
        usage = {"usage": None} if self._usage else {}
        return _event({**self._told, "choices": [choice], **usage, **(verdict or {})})


def _event(data: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % encode(data)


def _call(asked: ApprovalAsked) -> dict[str, Any]:
    return {"id": asked.call_id, "type": "function", "function": {"name": asked.name, "arguments": asked.input}}


def usage_of(usage: Usage) -> dict[str, Any]:
    """Of all the steps of a turn together."""
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
