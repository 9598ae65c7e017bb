"""Answers in the newer dialect: a response with items in it, and events that are numbered."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec

from mainstay.core.guests import GuestTool
from mainstay.core.messages import Usage
from mainstay.server.openai.answer import Answer
from mainstay.server.openai.ids import item_id
from mainstay.server.openai.refusals import details_of
from mainstay.server.openai.voices import DONE, encode
from mainstay.server.problems import Problem

_STATUS = {"stop": "completed", "tool_calls": "completed", "length": "incomplete", "content_filter": "incomplete"}
_WHY = {"length": "max_output_tokens", "content_filter": "content_filter"}


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What a response says of the request."""

    id: str
    model: str
    created: float = 0.0
    previous: str = ""
    conversation: str = ""
    metadata: dict[str, str] = {}
    tools: Sequence[GuestTool] = ()
    background: bool = False


class ResponsesVoice:
    def __init__(self, head: Head) -> None:
        self._head = head
        self._created = head.created or float(int(time.time()))
        self._number = 0
        self._spoke = False
        self._message = item_id("msg", head.id)
        place = {"item_id": self._message, "output_index": 0, "content_index": 0, "logprobs": []}
        start = encode({"type": "response.output_text.delta", **place})
        self._before = b"event: response.output_text.delta\ndata: " + start[:-1] + b',"delta":'

    # --- as a stream -----------------------------------------------------------------------------

    def begin(self) -> bytes:
        response = self._response("in_progress")
        told = {"response": response}
        return self._event("response.created", told) + self._event("response.in_progress", told)

    def say(self, text: str) -> bytes:
        opened = b"" if self._spoke else self._open()
        made = b'%b%b%b,"sequence_number":%d}\n\n' % (opened, self._before, encode(text), self._number)
        self._number += 1
        return made

    def end(self, answer: Answer) -> bytes:
        made = [self._close(answer)] if self._spoke else []
        if answer.call is not None:
            made.append(self._called(answer))
        whole = self.whole(answer)
        kind = "response.completed" if whole["status"] == "completed" else "response.incomplete"
        return b"".join((*made, self._event(kind, {"response": whole}), DONE))

    def fail(self, problem: Problem, answer: Answer) -> bytes:
        made = self._close(answer, "incomplete") if self._spoke else b""
        return made + self._event("response.failed", {"response": self.failed(problem, answer)}) + DONE

    def _open(self) -> bytes:
        self._spoke = True
        item = {"output_index": 0, "item": self._said("", "in_progress")}
        part = {**self._place, "part": _text("")}
        return self._event("response.output_item.added", item) + self._event("response.content_part.added", part)

    def _close(self, answer: Answer, status: str = "completed") -> bytes:
        text = answer.text
        return b"".join((
            self._event("response.output_text.done", {**self._place, "text": text, "logprobs": []}),
            self._event("response.content_part.done", {**self._place, "part": _text(text)}),
            self._event("response.output_item.done", {"output_index": 0, "item": self._said(text, status)}),
        ))  # fmt: skip

    def _called(self, answer: Answer) -> bytes:
        index = int(self._spoke)
        item = self._items(answer)[-1]
        place = {"item_id": item["id"], "output_index": index}
        begun = item | {"status": "in_progress", "arguments": ""}
        done = {"name": item["name"], "arguments": item["arguments"]}
        return b"".join((
            self._event("response.output_item.added", {"output_index": index, "item": begun}),
            self._event("response.function_call_arguments.delta", {**place, "delta": item["arguments"]}),
            self._event("response.function_call_arguments.done", {**place, **done}),
            self._event("response.output_item.done", {"output_index": index, "item": item}),
        ))  # fmt: skip

    def _event(self, type: str, fields: dict[str, Any]) -> bytes:
        data = encode({"type": type, "sequence_number": self._number, **fields})
        self._number += 1
        return b"event: %b\ndata: %b\n\n" % (type.encode(), data)

    # --- whole -----------------------------------------------------------------------------------

    def whole(self, answer: Answer) -> dict[str, Any]:
        status = "cancelled" if answer.stopped else _STATUS[answer.ending]
        made = self._response(status, self._items(answer), answer.usage)
        if status == "incomplete":
            made["incomplete_details"] = {"reason": _WHY[answer.ending]}
        return made | answer.verdict

    def unfinished(self) -> dict[str, Any]:
        return self._response("in_progress")

    def failed(self, problem: Problem, answer: Answer) -> dict[str, Any]:
        made = self._response("failed", self._items(answer, "incomplete"), answer.usage)
        code = "rate_limit_exceeded" if problem.status == 429 else "server_error"  # of all there are, the nearest
        return made | {"error": {"code": code, "message": problem.sentence, **details_of(problem)}}

    @property
    def _place(self) -> dict[str, Any]:
        return {"item_id": self._message, "output_index": 0, "content_index": 0}

    def _items(self, answer: Answer, status: str = "completed") -> list[dict[str, Any]]:
        items = [self._said(answer.text, status)] if answer.text else []
        if (asked := answer.call) is not None:
            told = {"call_id": asked.call_id, "name": asked.name, "arguments": asked.input}
            items.append({"type": "function_call", "id": item_id("fc", self._head.id), "status": "completed", **told})
        return items

    def _said(self, text: str, status: str) -> dict[str, Any]:
        content = [] if status == "in_progress" else [_text(text)]
        return {"type": "message", "id": self._message, "status": status, "role": "assistant", "content": content}

    def _response(
        self, status: str, output: Sequence[dict[str, Any]] = (), usage: Usage | None = None
    ) -> dict[str, Any]:
        head = self._head
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
            "previous_response_id": head.previous or None,
            "conversation": {"id": head.conversation} if head.conversation else None,
            "reasoning": {"effort": None, "summary": None},
            "store": True,
            "temperature": None,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [_tool(one) for one in head.tools],
            "top_p": None,
            "truncation": "disabled",
            "usage": _usage(usage) if usage is not None else None,
            "user": None,
            "metadata": head.metadata,
        }


def _text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _tool(tool: GuestTool) -> dict[str, Any]:
    told = {"description": tool.description, "parameters": tool.schema, "strict": False}
    return {"type": "function", "name": tool.name, **told}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
        "output_tokens": usage.completion,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.prompt + usage.completion,
    }
