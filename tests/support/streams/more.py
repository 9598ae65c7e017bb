"""Answers in the formats of the younger APIs.

Their shapes are those of the makers' published clients, by whose own parsers these streams were read: openai 3.49
(Responses), google-genai 3.1 (Gemini), ollama 0.6, and botocore 1.44 (Bedrock, with its service model of 2023-09-30).
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

from mainstay.core.limits import Limits
from mainstay.core.messages import Usage
from mainstay.core.ports import ModelInfo
from mainstay.providers.bedrock.event_stream import AwsEventStreamDecoder
from mainstay.providers.bedrock.provider import BedrockProvider
from mainstay.providers.bedrock.response import BedrockResponseParser
from mainstay.providers.gemini.provider import GeminiProvider
from mainstay.providers.gemini.response import GeminiResponseParser
from mainstay.providers.ollama.provider import OllamaProvider
from mainstay.providers.ollama.response import OllamaResponseParser
from mainstay.providers.openai_responses.provider import OpenAIResponsesProvider
from mainstay.providers.openai_responses.response import OpenAIResponsesParser
from mainstay.providers.wire.api_client import ResponseParser
from mainstay.providers.wire.ndjson import NdjsonDecoder
from mainstay.providers.wire.sse import SseDecoder
from support.streams.formats import KEY, AnthropicFormat, Format, Made, OpenAIFormat, sse


def dumped(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


class ResponsesFormat(Format):
    name = "openai-responses"
    path = "/v1/responses"
    overloaded = {"message": "busy", "code": "server_error"}
    overload_counts = True
    too_long = {"message": "Your input exceeds the context window of this model.", "code": "context_length_exceeded"}
    ends = {"end": "", "tool_calls": "", "length": "max_output_tokens", "filtered": "content_filter"}
    usage = Usage(50, 7, 30, 2)
    signature = "openai:rs_1:gAAAAB=="
    image = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,iVBORw=="}

    def make(self, url: str, limits: Limits | None = None, info: ModelInfo | None = None) -> Made:
        return OpenAIResponsesProvider("m", base_url=url, api_key=KEY, limits=limits, info=info)

    def answer(self) -> ResponseParser:
        return OpenAIResponsesParser(self.name)

    def event(self, type: str, body: dict[str, Any]) -> bytes:
        return sse({"type": type, **body, "sequence_number": 3}, type)

    def item(self, place: int, item: dict[str, Any], *events: bytes, **done: Any) -> list[bytes]:
        return [
            self.event("response.output_item.added", {"output_index": place, "item": item}),
            *events,
            self.event("response.output_item.done", {"output_index": place, "item": {**item, **done}}),
        ]

    def begin(self) -> list[bytes]:
        response = {"id": "resp_1", "object": "response", "created_at": 1760000000, "status": "in_progress"}
        return [
            self.event("response.created", {"response": {**response, "output": [], "usage": None, "error": None}}),
            self.event("response.in_progress", {"response": {**response, "output": [], "usage": None}}),
        ]

    def text(self, *parts: str) -> list[bytes]:
        where = {"item_id": "msg_1", "output_index": 9, "content_index": 0}
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        return self.item(
            9,
            {"type": "message", "id": "msg_1", "status": "in_progress", "role": "assistant", "content": []},
            self.event("response.content_part.added", {**where, "part": part}),
            *(self.event("response.output_text.delta", {**where, "delta": one, "logprobs": []}) for one in parts),
            self.event("response.output_text.done", {**where, "text": "".join(parts), "logprobs": []}),
            self.event("response.content_part.done", {**where, "part": {**part, "text": "".join(parts)}}),
            status="completed",
        )

    def thinking(self, *parts: str) -> list[bytes]:
        where = {"item_id": "rs_1", "output_index": 0, "summary_index": 0}
        summary = {"type": "summary_text", "text": "".join(parts)}
        return self.item(
            0,
            {"type": "reasoning", "id": "rs_1", "summary": []},
            self.event(
                "response.reasoning_summary_part.added", {**where, "part": {"type": "summary_text", "text": ""}}
            ),
            *(self.event("response.reasoning_summary_text.delta", {**where, "delta": part}) for part in parts),
            self.event("response.reasoning_summary_text.done", {**where, "text": "".join(parts)}),
            self.event("response.reasoning_summary_part.done", {**where, "part": summary}),
            summary=[summary],
            encrypted_content="gAAAAB==",
        )

    def call(self, index: int, name: str, *parts: str) -> list[bytes]:
        id, place = f"fc_{index}", index + 1
        where = {"item_id": id, "output_index": place}
        item = {"type": "function_call", "id": id, "call_id": f"call_{index}", "name": name, "arguments": ""}
        written = "".join(parts)
        return self.item(
            place,
            item,
            *(self.event("response.function_call_arguments.delta", {**where, "delta": part}) for part in parts),
            self.event("response.function_call_arguments.done", {**where, "name": name, "arguments": written}),
            arguments=written,
            status="completed",
        )

    def end(self, reason: str) -> list[bytes]:
        usage = {
            "input_tokens": 50,
            "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 0},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 2},
            "total_tokens": 57,
        }
        cut = self.ends[reason]
        status = "incomplete" if cut else "completed"
        details = {"reason": cut} if cut else None
        response = {"id": "resp_1", "status": status, "incomplete_details": details, "usage": usage, "output": []}
        return [self.event(f"response.{status}", {"response": response})]

    def tail(self) -> list[bytes]:
        return []

    def error(self, error: dict[str, Any]) -> bytes:
        return self.event("error", {**error, "param": None})

    def tools(self, body: dict[str, Any]) -> list[str]:
        return [tool["name"] for tool in body.get("tools", ())]

    def bound(self, body: dict[str, Any]) -> Any:
        return body["max_output_tokens"]


class GeminiFormat(Format):
    name = "gemini"
    path = "/v1/models/m:streamGenerateContent?alt=sse"
    overloaded = {"code": 529, "message": "busy", "status": "UNAVAILABLE"}
    too_long = {
        "code": 400,
        "message": "The input token count exceeds the context window of 1048576.",
        "status": "INVALID_ARGUMENT",
    }
    ends = {"end": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "filtered": "SAFETY"}
    usage = Usage(50, 7, 30, 2)
    signature = "gemini:c2ln"
    image = {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}}

    def make(self, url: str, limits: Limits | None = None, info: ModelInfo | None = None) -> Made:
        return GeminiProvider("m", base_url=url, api_key=KEY, limits=limits, info=info)

    def answer(self) -> ResponseParser:
        return GeminiResponseParser(self.name)

    def chunk(self, *parts: dict[str, Any], reason: str | None = None, counts: dict[str, int] | None = None) -> bytes:
        candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
        if reason is not None:
            candidate["finishReason"] = reason
        usage = {"promptTokenCount": 50, "totalTokenCount": 50, **(counts or {})}
        return sse({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m", "responseId": "r"})

    def begin(self) -> list[bytes]:
        return []

    def text(self, *parts: str) -> list[bytes]:
        return [self.chunk({"text": part}) for part in parts]

    def thinking(self, *parts: str) -> list[bytes]:
        thoughts = [self.chunk({"text": part, "thought": True}) for part in parts]
        return [*thoughts, self.chunk({"text": "", "thoughtSignature": "c2ln"})]

    def call(self, index: int, name: str, *parts: str) -> list[bytes]:
        call: dict[str, Any] = {"name": name, "id": f"fc{index}"}
        written = "".join(parts)
        if not is_object(written):  # an answer that is cut has no such part
            return [self.chunk({"functionCall": call})]
        made = self.chunk({"functionCall": {**call, "args": {"ARGS": 1}}})
        return [made.replace(b'{"ARGS":1}', written.encode())]

    def end(self, reason: str) -> list[bytes]:
        counts = {"candidatesTokenCount": 5, "thoughtsTokenCount": 2, "cachedContentTokenCount": 30}
        return [self.chunk({"text": ""}, reason=self.ends[reason], counts=counts)]

    def tail(self) -> list[bytes]:
        return []

    def error(self, error: dict[str, Any]) -> bytes:
        return sse({"error": error})

    def tools(self, body: dict[str, Any]) -> list[str]:
        return [one["name"] for tool in body.get("tools", ()) for one in tool["functionDeclarations"]]

    def bound(self, body: dict[str, Any]) -> Any:
        return body["generationConfig"]["maxOutputTokens"]


class OllamaFormat(Format):
    name = "ollama"
    path = "/api/chat"
    overloaded = {"message": "busy", "code": 529}
    too_long = {"message": "the input length exceeds the context length"}
    ends = {"end": "stop", "tool_calls": "stop", "length": "length"}
    usage = Usage(50, 7)
    forbids_calls = False
    image = "iVBORw=="

    def make(self, url: str, limits: Limits | None = None, info: ModelInfo | None = None) -> Made:
        return OllamaProvider("m", base_url=url, api_key=KEY, limits=limits, info=info or ModelInfo(name="m"))

    def answer(self) -> ResponseParser:
        return OllamaResponseParser(self.name)

    def cutter(self) -> SseDecoder:
        return NdjsonDecoder()

    def frame(self, payload: bytes) -> bytes:
        return payload + b"\n"

    def huge(self, size: int) -> bytes:
        return b'{"' + b"x" * size

    def line(self, message: dict[str, Any], **rest: Any) -> bytes:
        head = {"model": "m", "created_at": "2026-11-15T09:00:00.123456789Z", "message": message}
        return self.frame(dumped({**head, "done": False, **rest}))

    def begin(self) -> list[bytes]:
        return []

    def text(self, *parts: str) -> list[bytes]:
        return [self.line({"role": "assistant", "content": part}) for part in parts]

    def thinking(self, *parts: str) -> list[bytes]:
        return [self.line({"role": "assistant", "content": "", "thinking": part}) for part in parts]

    def call(self, index: int, name: str, *parts: str) -> list[bytes]:
        written = "".join(parts) if is_object("".join(parts)) else "{}"
        function = {"index": index, "name": name, "arguments": {"ARGS": 1}}
        calls = [{"id": f"call_{index}", "function": function}]
        made = self.line({"role": "assistant", "content": "", "tool_calls": calls})
        return [made.replace(b'{"ARGS":1}', written.encode())]

    def end(self, reason: str) -> list[bytes]:
        counts = {"prompt_eval_count": 50, "prompt_eval_duration": 9, "eval_count": 7, "eval_duration": 9}
        times = {"total_duration": 174560334, "load_duration": 101397084}
        message = {"role": "assistant", "content": ""}
        return [self.line(message, done=True, done_reason=self.ends[reason], **times, **counts)]

    def tail(self) -> list[bytes]:
        return []

    def error(self, error: dict[str, Any]) -> bytes:
        """It says no more than a sentence; where the suite wants more, that is written beside it."""
        return self.frame(dumped({"error": error if "code" in error else error["message"]}))

    def tools(self, body: dict[str, Any]) -> list[str]:
        return [tool["function"]["name"] for tool in body.get("tools", ())]

    def bound(self, body: dict[str, Any]) -> Any:
        return body["options"]["num_predict"]


def framed(headers: dict[str, str], payload: bytes) -> bytes:
    """A frame of Amazon's event stream."""
    head = b"".join(
        struct.pack(">B", len(name)) + name.encode() + struct.pack(">BH", 7, len(value)) + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack(">II", len(head) + len(payload) + 16, len(head))
    body = prelude + struct.pack(">I", zlib.crc32(prelude)) + head + payload
    return body + struct.pack(">I", zlib.crc32(body))


class BedrockFormat(Format):
    name = "bedrock"
    path = "/v1/model/m/converse-stream"
    overloaded = {"type": "serviceUnavailableException", "message": "busy"}
    overload_counts = True
    too_long = {"type": "validationException", "message": "Input is too long for requested model."}
    ends = {"end": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "filtered": "content_filtered"}
    signature = "bedrock:sig"
    forbids_calls = False
    spare = 0
    image = {"image": {"format": "png", "source": {"bytes": "iVBORw=="}}}

    def make(self, url: str, limits: Limits | None = None, info: ModelInfo | None = None) -> Made:
        return BedrockProvider("m", base_url=url, api_key=KEY, limits=limits, info=info)

    def answer(self) -> ResponseParser:
        return BedrockResponseParser(self.name)

    def cutter(self) -> SseDecoder:
        return AwsEventStreamDecoder()

    def frame(self, payload: bytes, event: str = "contentBlockDelta") -> bytes:
        headers = {":event-type": event, ":content-type": "application/json", ":message-type": "event"}
        return framed(headers, payload)

    def huge(self, size: int) -> bytes:
        prelude = struct.pack(">II", size + 16, 0)
        return prelude + struct.pack(">I", zlib.crc32(prelude)) + b"x" * size

    def replaced(self, events: list[bytes], before: bytes, after: bytes) -> list[bytes]:
        made: list[bytes] = []
        for event in events:
            payload = event[12 + struct.unpack_from(">I", event, 4)[0] : -4]
            made.append(self.frame(payload.replace(before, after)) if before in payload else event)
        return made

    def event(self, event: str, body: dict[str, Any]) -> bytes:
        return self.frame(dumped({**body, "p": "abcdefgh"}), event)

    def delta(self, index: int, delta: dict[str, Any]) -> bytes:
        return self.event("contentBlockDelta", {"contentBlockIndex": index, "delta": delta})

    def begin(self) -> list[bytes]:
        return [self.event("messageStart", {"role": "assistant"})]

    def text(self, *parts: str) -> list[bytes]:
        stop = self.event("contentBlockStop", {"contentBlockIndex": 20})
        return [*(self.delta(20, {"text": part}) for part in parts), stop]

    def thinking(self, *parts: str) -> list[bytes]:
        thoughts = [self.delta(10, {"reasoningContent": {"text": part}}) for part in parts]
        signed = self.delta(10, {"reasoningContent": {"signature": "sig"}})
        return [*thoughts, signed, self.event("contentBlockStop", {"contentBlockIndex": 10})]

    def call(self, index: int, name: str, *parts: str) -> list[bytes]:
        start = {"toolUse": {"toolUseId": f"tooluse_{index}", "name": name}}
        return [
            self.event("contentBlockStart", {"contentBlockIndex": index, "start": start}),
            *(self.delta(index, {"toolUse": {"input": part}}) for part in parts),
            self.event("contentBlockStop", {"contentBlockIndex": index}),
        ]

    def end(self, reason: str) -> list[bytes]:
        return [self.event("messageStop", {"stopReason": self.ends[reason]})]

    def tail(self) -> list[bytes]:
        usage = {
            "inputTokens": 15,
            "outputTokens": 7,
            "totalTokens": 57,
            "cacheReadInputTokens": 30,
            "cacheWriteInputTokens": 5,
        }
        return [self.event("metadata", {"usage": usage, "metrics": {"latencyMs": 900}})]

    def error(self, error: dict[str, Any]) -> bytes:
        kind = error.get("type", "internalServerException")
        headers = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
        return framed(headers, dumped({"message": error["message"]}))

    def tools(self, body: dict[str, Any]) -> list[str]:
        return [tool["toolSpec"]["name"] for tool in body.get("toolConfig", {}).get("tools", ())]

    def bound(self, body: dict[str, Any]) -> Any:
        return body["inferenceConfig"]["maxTokens"]


EVENTS: list[Format] = [OpenAIFormat(), AnthropicFormat(), ResponsesFormat(), GeminiFormat()]  # server-sent ones
FORMATS = [*EVENTS, OllamaFormat(), BedrockFormat()]
