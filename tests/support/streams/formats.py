"""The same answers in the words of each API, event by event, so that one suite can be run over all."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from typing import Any, Protocol

from mainstay.core.limits import Limits
from mainstay.core.messages import Usage
from mainstay.core.ports import Context, ModelInfo, Options, Piece
from mainstay.providers.anthropic.provider import AnthropicProvider
from mainstay.providers.anthropic.response import AnthropicResponseParser
from mainstay.providers.openai.provider import OpenAIProvider
from mainstay.providers.openai.response import ChatCompletionParser
from mainstay.providers.wire.api_client import ApiClient, ResponseParser
from mainstay.providers.wire.sse import SseDecoder

KEY = "sk-secret-canary-0123456789"


class Made(Protocol):
    """A provider that talks HTTP."""

    _api: ApiClient
    _url: str

    def model(self) -> ModelInfo: ...
    def stream(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]: ...
    async def close(self) -> None: ...
    def build_body(self, context: Context, options: Options) -> bytes: ...


def sse(payload: Any, event: str = "") -> bytes:
    name = f"event: {event}\n".encode() if event else b""
    return name + b"data: " + json.dumps(payload, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"


class Format(ABC):
    """An API's answers. Unless it says otherwise they are server-sent events."""

    name: str
    path: str
    overloaded: dict[str, Any]
    too_long: dict[str, Any]
    ends: dict[str, str]
    usage = Usage(50, 7, 30, written=5)
    signature = ""  # of the thoughts that `thinking` makes
    overload_counts = False  # for the breaker, where it cannot say that it is only busy
    forbids_calls = True
    spare = 1  # bytes at the end of an event that it counts without: the second line end
    image: Any = None  # as `Binary("image/png", b"\x89PNG")` is sent

    @abstractmethod
    def make(self, url: str, limits: Limits | None = None, info: ModelInfo | None = None) -> Made: ...
    @abstractmethod
    def answer(self) -> ResponseParser: ...
    @abstractmethod
    def begin(self) -> list[bytes]: ...
    @abstractmethod
    def text(self, *parts: str) -> list[bytes]: ...
    @abstractmethod
    def thinking(self, *parts: str) -> list[bytes]: ...
    @abstractmethod
    def call(self, index: int, name: str, *parts: str) -> list[bytes]: ...
    @abstractmethod
    def end(self, reason: str) -> list[bytes]: ...
    @abstractmethod
    def tail(self) -> list[bytes]: ...
    @abstractmethod
    def error(self, error: dict[str, Any]) -> bytes: ...
    @abstractmethod
    def tools(self, body: dict[str, Any]) -> list[str]:
        """The names of the tools that a request offers."""

    @abstractmethod
    def bound(self, body: dict[str, Any]) -> Any:
        """The most that the answer may be."""

    def cutter(self) -> SseDecoder:
        return SseDecoder()

    def frame(self, payload: bytes) -> bytes:
        """An event of the API's with this in it."""
        return b"data: " + payload + b"\n\n"

    def huge(self, size: int) -> bytes:
        """The beginning of an event without an end."""
        return b"data: " + b"x" * size

    def replaced(self, events: list[bytes], before: bytes, after: bytes) -> list[bytes]:
        return [event.replace(before, after) for event in events]


class OpenAIFormat(Format):
    name = "openai"
    path = "/v1/chat/completions"
    usage = Usage(50, 7, 30, 2)
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}
    overloaded = {"message": "busy", "type": "server_error", "code": 529}
    too_long = {"message": "This model's maximum context length is 8192 tokens", "code": "context_length_exceeded"}
    ends = {"end": "stop", "tool_calls": "tool_calls", "length": "length", "filtered": "content_filter"}

    def make(self, url: str, limits: Limits | None = None, info: ModelInfo | None = None) -> Made:
        return OpenAIProvider("m", base_url=url, api_key=KEY, limits=limits, info=info)

    def answer(self) -> ResponseParser:
        return ChatCompletionParser(self.name)

    def delta(self, delta: dict[str, Any], reason: str | None = None) -> bytes:
        return sse({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}], "usage": None})

    def begin(self) -> list[bytes]:
        return [self.delta({"role": "assistant", "content": ""})]

    def text(self, *parts: str) -> list[bytes]:
        return [self.delta({"content": part}) for part in parts]

    def thinking(self, *parts: str) -> list[bytes]:
        return [self.delta({"reasoning_content": part}) for part in parts]

    def call(self, index: int, name: str, *parts: str) -> list[bytes]:
        head = {"index": index, "id": f"c{index}", "type": "function", "function": {"name": name, "arguments": ""}}
        rest = [{"index": index, "function": {"arguments": part}} for part in parts]
        return [self.delta({"tool_calls": [one]}) for one in (head, *rest)]

    def end(self, reason: str) -> list[bytes]:
        return [self.delta({}, self.ends[reason])]

    def tail(self) -> list[bytes]:
        usage = {
            "prompt_tokens": 50,
            "completion_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 30},
            "completion_tokens_details": {"reasoning_tokens": 2},
        }
        return [sse({"choices": [], "usage": usage}), b"data: [DONE]\n\n"]

    def error(self, error: dict[str, Any]) -> bytes:
        return sse({"error": error})

    def tools(self, body: dict[str, Any]) -> list[str]:
        return [tool["function"]["name"] for tool in body.get("tools", ())]

    def bound(self, body: dict[str, Any]) -> Any:
        return body["max_tokens"]


class AnthropicFormat(Format):
    name = "anthropic"
    signature = "sig"
    image = {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}
    path = "/v1/messages"
    overloaded = {"type": "overloaded_error", "message": "busy"}
    too_long = {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}
    ends = {"end": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "filtered": "refusal"}

    def make(self, url: str, limits: Limits | None = None, info: ModelInfo | None = None) -> Made:
        return AnthropicProvider("m", base_url=url, api_key=KEY, limits=limits, info=info)

    def answer(self) -> ResponseParser:
        return AnthropicResponseParser(self.name)

    def event(self, type: str, body: dict[str, Any]) -> bytes:
        return sse({"type": type, **body}, type)

    def begin(self) -> list[bytes]:
        usage = {
            "input_tokens": 15,
            "cache_read_input_tokens": 30,
            "cache_creation_input_tokens": 5,
            "output_tokens": 1,
        }
        return [self.event("message_start", {"message": {"usage": usage}}), self.event("ping", {})]

    def block(self, index: int, block: dict[str, Any], *deltas: dict[str, Any]) -> list[bytes]:
        return [
            self.event("content_block_start", {"index": index, "content_block": block}),
            *(self.event("content_block_delta", {"index": index, "delta": delta}) for delta in deltas),
            self.event("content_block_stop", {"index": index}),
        ]

    def text(self, *parts: str) -> list[bytes]:
        return self.block(20, {"type": "text", "text": ""}, *({"type": "text_delta", "text": part} for part in parts))

    def thinking(self, *parts: str) -> list[bytes]:
        deltas = [{"type": "thinking_delta", "thinking": part} for part in parts]
        return self.block(
            10, {"type": "thinking", "thinking": ""}, *deltas, {"type": "signature_delta", "signature": "sig"}
        )

    def call(self, index: int, name: str, *parts: str) -> list[bytes]:
        block = {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}}
        return self.block(index, block, *({"type": "input_json_delta", "partial_json": part} for part in parts))

    def end(self, reason: str) -> list[bytes]:
        return [
            self.event("message_delta", {"delta": {"stop_reason": self.ends[reason]}, "usage": {"output_tokens": 7}})
        ]

    def tail(self) -> list[bytes]:
        return [self.event("message_stop", {})]

    def error(self, error: dict[str, Any]) -> bytes:
        return self.event("error", {"error": error})

    def tools(self, body: dict[str, Any]) -> list[str]:
        return [tool["name"] for tool in body.get("tools", ())]

    def bound(self, body: dict[str, Any]) -> Any:
        return body["max_tokens"]


async def ask(provider: Made, context: Context, options: Options | None = None) -> tuple[list[Piece], Exception | None]:
    """All pieces, and what it raised in the end, if anything."""
    pieces: list[Piece] = []
    try:
        async for piece in provider.stream(context, options or Options()):
            pieces.append(piece)
    except Exception as error:
        return pieces, error
    return pieces, None
