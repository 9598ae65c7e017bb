"""A streamed chat completion, chunk by chunk, as pieces."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from mainstay.core.messages import FinishReason, Usage
from mainstay.core.ports import Finished, Piece
from mainstay.providers.calls import OpenCalls
from mainstay.providers.forms import encode, mended
from mainstay.providers.pieces import PieceJoiner

# What servers send, as leniently as their differences ask for. Everything may be missing or null.


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _Call(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | int | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct, gc=False):
    content: str | list[Any] | None = None
    reasoning_content: str | None = None
    reasoning: Any = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None
    function_call: _Function | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    finish_reason: str | None = None
    index: int | None = None


class _Details(msgspec.Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_cache_hit_tokens: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode

_REASONS = {
    "stop": FinishReason.END,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "length": FinishReason.LENGTH,
    "content_filter": FinishReason.FILTERED,
}


class ChatAnswer(PieceJoiner):
    """Feeds on the payloads of a chat completion."""

    __slots__ = ("_calls", "_reason", "_usage")

    def __init__(self, who: str) -> None:
        super().__init__(who)
        self._calls = OpenCalls()
        self._reason: str | None = None
        self._usage: _Usage | None = None

    def feed(self, payloads: list[bytes]) -> list[Piece]:
        for payload in payloads:
            try:
                chunk = _decode(payload)
            except (ValueError, RecursionError, msgspec.DecodeError):
                odd = self._read_odd(payload)
                if odd is None:
                    break
                chunk = odd
            if chunk.choices:
                choice = chunk.choices[0]
                delta = choice.delta
                if delta is not None:
                    content = delta.content
                    if content:
                        if self._kind == "text" and content.__class__ is str:  # most chunks of most answers
                            self._buffer.append(content)
                        else:
                            self._take_content(content)
                    if delta.tool_calls or delta.reasoning_content or delta.reasoning or delta.refusal:
                        self._take(delta)
                    elif delta.function_call is not None:
                        self._take_call(0, None, delta.function_call)
                if choice.finish_reason is not None:
                    self._reason = choice.finish_reason
            if chunk.usage is not None:
                self._usage = chunk.usage
            if chunk.error is not None:
                self._fail(chunk.error)
                break
        if self._reason is not None:
            self._say(*self._calls.unsaid())
        return self._take_pieces()

    def finished(self) -> Finished | None:
        if self._reason is None:
            return None
        reason = _REASONS.get(self._reason, FinishReason.END)
        if reason in (FinishReason.END, FinishReason.TOOL_CALLS):
            reason = FinishReason.TOOL_CALLS if self._calls else FinishReason.END
        return Finished(reason, _tokens(self._usage) if self._usage is not None else Usage())

    # --- chunks ----------------------------------------------------------------------------------

    def _take(self, delta: _Delta) -> None:
        """What is not ordinary content."""
        thinking = delta.reasoning_content or delta.reasoning
        if thinking and isinstance(thinking, str):
            self._add("thinking", thinking)
        if delta.refusal:
            self._add("text", delta.refusal)
        for call in delta.tool_calls or ():
            self._take_call(call.index, call.id, call.function or _Function())

    def _take_content(self, content: str | list[Any]) -> None:
        if isinstance(content, str):
            self._add("text", content)
        else:
            self._take_parts(content)

    def _take_parts(self, parts: list[Any]) -> None:
        """Content as a list of parts, as some servers send it when the model thinks aloud."""
        for part in parts:
            match part:
                case {"type": "text", "text": str(text)}:
                    self._add("text", text)
                case {"type": "thinking", "thinking": list(inner)}:
                    for one in inner:
                        if isinstance(one, dict) and isinstance(one.get("text"), str):
                            self._add("thinking", one["text"])

    def _take_call(self, index: int | None, id: str | int | None, function: _Function) -> None:
        call, before = self._calls.find(index, id, function.name or "")
        if before:
            self._say(*before)
        call.add_name(function.name or "")
        written = function.arguments
        if isinstance(written, dict):
            written = encode(written).decode()
        if written:
            call.arguments.append(written)
            self._write(call.index, call.say(), written)

    # --- trouble ---------------------------------------------------------------------------------

    def _read_odd(self, payload: bytes) -> _Chunk | None:
        """The end mark; or JSON with half a surrogate pair, which only the standard decoder lets through."""
        if payload.strip() == b"[DONE]":
            self.over = True
            return None
        try:
            return msgspec.convert(mended(json.loads(payload)), _Chunk)
        except (ValueError, RecursionError, msgspec.ValidationError):
            if self._reason is None:
                self._break(payload)
            self.over = True
            return None


def _tokens(usage: _Usage) -> Usage:
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    cached = (prompt.cached_tokens if prompt else None) or usage.prompt_cache_hit_tokens or 0
    reasoning = (completion.reasoning_tokens if completion else None) or 0
    written = (prompt.cache_write_tokens if prompt else None) or 0
    return Usage(usage.prompt_tokens or 0, usage.completion_tokens or 0, cached, reasoning, written)
