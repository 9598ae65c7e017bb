"""Encodes answers for the responses API: a response with output items, whole or as numbered events."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import msgspec

from mainstay.core.client_tools import ClientTool
from mainstay.core.messages import Usage
from mainstay.server.openai.encoder_protocol import DONE_EVENT, encode_json
from mainstay.server.openai.errors import location_details
from mainstay.server.openai.ids import format_item_id
from mainstay.server.openai.turn_answer import OpenAIAnswer
from mainstay.server.problems import Problem

_STATUS_OF_FINISH_REASON = {
    "stop": "completed",
    "tool_calls": "completed",
    "length": "incomplete",
    "content_filter": "incomplete",
}
_INCOMPLETE_REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}


class ResponseFields(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of a response that come from its request."""

    id: str
    model: str
    created: float = 0.0  # seconds; 0: now
    previous_response_id: str = ""  # id of the response that it continues
    conversation: str = ""
    metadata: dict[str, str] = {}
    tools: Sequence[ClientTool] = ()
    background: bool = False


class ResponsesEncoder:
    """Encoder of one response."""

    def __init__(self, fields: ResponseFields) -> None:
        self._fields = fields
        self._created = fields.created or float(int(time.time()))
        self._sequence_number = 0
        self._has_text = False
        self._message_id = format_item_id("msg", fields.id)
        start = encode_json({"type": "response.output_text.delta", **self._content_position, "logprobs": []})
        self._delta_prefix = b"event: response.output_text.delta\ndata: " + start[:-1] + b',"delta":'

    # --- streamed --------------------------------------------------------------------------------

    def encode_start(self) -> bytes:
        fields = {"response": self._build_object("in_progress")}
        return self._encode_event("response.created", fields) + self._encode_event("response.in_progress", fields)

    def encode_text(self, text: str) -> bytes:
        start = b"" if self._has_text else self._encode_message_start()
        data = b'%b%b%b,"sequence_number":%d}\n\n' % (
            start,
            self._delta_prefix,
            encode_json(text),
            self._sequence_number,
        )
        self._sequence_number += 1
        return data

    def encode_end(self, answer: OpenAIAnswer) -> bytes:
        events = [self._encode_message_end(answer)] if self._has_text else []
        if answer.client_call is not None:
            events.append(self._encode_function_call(answer))
        response = self.build_response(answer)
        kind = "response.completed" if response["status"] == "completed" else "response.incomplete"
        return b"".join((*events, self._encode_event(kind, {"response": response}), DONE_EVENT))

    def encode_failure(self, problem: Problem, answer: OpenAIAnswer) -> bytes:
        end = self._encode_message_end(answer, "incomplete") if self._has_text else b""
        return (
            end + self._encode_event("response.failed", {"response": self.build_failed(problem, answer)}) + DONE_EVENT
        )

    def _encode_message_start(self) -> bytes:
        self._has_text = True
        item = {"output_index": 0, "item": self._build_message("", "in_progress")}
        part = {**self._content_position, "part": _build_text("")}
        return self._encode_event("response.output_item.added", item) + self._encode_event(
            "response.content_part.added", part
        )

    def _encode_message_end(self, answer: OpenAIAnswer, status: str = "completed") -> bytes:
        text = answer.text
        return b"".join((
            self._encode_event("response.output_text.done", {**self._content_position, "text": text, "logprobs": []}),
            self._encode_event("response.content_part.done", {**self._content_position, "part": _build_text(text)}),
            self._encode_event(
                "response.output_item.done", {"output_index": 0, "item": self._build_message(text, status)}
            ),
        ))  # fmt: skip

    def _encode_function_call(self, answer: OpenAIAnswer) -> bytes:
        index = int(self._has_text)
        item = self._build_items(answer)[-1]
        position = {"item_id": item["id"], "output_index": index}
        started = item | {"status": "in_progress", "arguments": ""}
        done = {"name": item["name"], "arguments": item["arguments"]}
        return b"".join((
            self._encode_event("response.output_item.added", {"output_index": index, "item": started}),
            self._encode_event("response.function_call_arguments.delta", {**position, "delta": item["arguments"]}),
            self._encode_event("response.function_call_arguments.done", {**position, **done}),
            self._encode_event("response.output_item.done", {"output_index": index, "item": item}),
        ))  # fmt: skip

    def _encode_event(self, type: str, fields: Mapping[str, object]) -> bytes:
        data = encode_json({"type": type, "sequence_number": self._sequence_number, **fields})
        self._sequence_number += 1
        return b"event: %b\ndata: %b\n\n" % (type.encode(), data)

    # --- whole -----------------------------------------------------------------------------------

    def build_response(self, answer: OpenAIAnswer) -> dict[str, object]:
        status = "cancelled" if answer.is_aborted else _STATUS_OF_FINISH_REASON[answer.finish_reason]
        response = self._build_object(status, self._build_items(answer), answer.usage)
        if status == "incomplete":
            response["incomplete_details"] = {"reason": _INCOMPLETE_REASONS[answer.finish_reason]}
        return response | answer.score_fields

    def build_unfinished(self) -> dict[str, object]:
        return self._build_object("in_progress")

    def build_failed(self, problem: Problem, answer: OpenAIAnswer) -> dict[str, object]:
        response = self._build_object("failed", self._build_items(answer, "incomplete"), answer.usage)
        code = "rate_limit_exceeded" if problem.status == 429 else "server_error"  # the nearest codes of this API
        return response | {"error": {"code": code, "message": problem.sentence, **location_details(problem)}}

    @property
    def _content_position(self) -> dict[str, object]:
        return {"item_id": self._message_id, "output_index": 0, "content_index": 0}

    def _build_items(self, answer: OpenAIAnswer, status: str = "completed") -> list[dict[str, object]]:
        items = [self._build_message(answer.text, status)] if answer.text else []
        if (approval := answer.client_call) is not None:
            call = {"call_id": approval.call_id, "name": approval.name, "arguments": approval.input}
            items.append(
                {"type": "function_call", "id": format_item_id("fc", self._fields.id), "status": "completed", **call}
            )
        return items

    def _build_message(self, text: str, status: str) -> dict[str, object]:
        content = [] if status == "in_progress" else [_build_text(text)]
        return {"type": "message", "id": self._message_id, "status": status, "role": "assistant", "content": content}

    def _build_object(
        self, status: str, output: Sequence[dict[str, object]] = (), usage: Usage | None = None
    ) -> dict[str, object]:
        head = self._fields
        return {
            "id": head.id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "background": head.background,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "max_output_tokens": None,
            "model": head.model,
            "output": list(output),
            "parallel_tool_calls": False,
            "previous_response_id": head.previous_response_id or None,
            "conversation": {"id": head.conversation} if head.conversation else None,
            "reasoning": {"effort": None, "summary": None},
            "store": True,
            "temperature": None,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [_build_tool(tool) for tool in head.tools],
            "top_p": None,
            "truncation": "disabled",
            "usage": _build_usage(usage) if usage is not None else None,
            "user": None,
            "metadata": head.metadata,
        }


def _build_text(text: str) -> dict[str, object]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _build_tool(tool: ClientTool) -> dict[str, object]:
    fields = {"description": tool.description, "parameters": tool.schema, "strict": False}
    return {"type": "function", "name": tool.name, **fields}


def _build_usage(usage: Usage) -> dict[str, object]:
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
        "output_tokens": usage.completion,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.prompt + usage.completion,
    }
