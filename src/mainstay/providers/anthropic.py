"""Anthropic's messages API.

A history is kept as bytes: each message's blocks are encoded once. Neighbours of one role are one message
there, so a request is the kept blocks, grouped.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import msgspec

from mainstay.core.limits import Limits
from mainstay.core.messages import Binary, Message, Text, Thinking, ToolCall, ToolResult
from mainstay.core.ports import Context, ModelInfo, Options, Piece, Tool
from mainstay.providers.anthropic_answer import MessagesAnswer
from mainstay.providers.forms import (
    Blocks,
    Kept,
    arguments,
    encode,
    fit_id,
    fit_name,
    group_blocks,
    image_of,
    note_of,
    runtime_note,
)
from mainstay.providers.opaque import is_unmarked
from mainstay.providers.wire import Key, Request, Wire

VERSION = "2023-06-01"
_CACHED = b',"cache_control":{"type":"ephemeral"}}'
_TAGS = {True: "anthropic", False: "anthropic without images"}


class AnthropicProvider:
    """One model behind a messages endpoint. `label` names it in sentences."""

    def __init__(
        self,
        name: str,
        *,
        base_url: str = "https://api.anthropic.com",
        api_key: Key = None,
        limits: Limits | None = None,
        info: ModelInfo | None = None,
        label: str = "anthropic",
    ) -> None:
        self._info = info or ModelInfo(name=name)
        self._key = api_key
        self._label = label
        self._wire = Wire(label, limits or Limits())
        self._url = base_url.rstrip("/").removesuffix("/v1") + "/v1/messages"
        self._headers = {
            "x-api-key": "{key}",
            "anthropic-version": VERSION,
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
            "Accept-Encoding": "identity",
            "User-Agent": "mainstay",
        }
        if api_key is None:
            del self._headers["x-api-key"]
        self._head = b'{"model":%b,"stream":true,' % encode(name)
        self._tag = _TAGS[self._info.images]
        self._system = Kept(_encode_system)
        self._tools = Kept(_encode_tools)

    def model(self) -> ModelInfo:
        return self._info

    def stream(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        request = Request(self._url, self._headers, self.body(context, options))
        return self._wire.pieces(request, self._key, MessagesAnswer(self._label), options.heard)

    async def close(self) -> None:
        await self._wire.close()

    def body(self, context: Context, options: Options) -> bytes:
        """The request as it is sent. The fixed part is marked for the prompt cache, and so is the history's end."""
        bound = self._info.output if options.output_tokens is None else options.output_tokens
        head = [self._head, b'"max_tokens":%d,' % bound]
        if context.tools:
            tools = self._tools(context.tools)
            marked = context.system or context.profile
            head += [b'"tools":[', tools if marked else tools[:-1] + _CACHED, b"],"]
            if options.tool_choice == "none":  # the tools stay, so that the prefix is the same as before
                head.append(b'"tool_choice":{"type":"none"},')
        if context.system or context.profile:
            head.append(self._system(context.system, context.profile))
        return b'%b"messages":[%b]}' % (b"".join(head), self._history(context.messages))

    def wire_messages(self, context: Context) -> list[dict[str, Any]]:
        """What would be sent, decoded."""
        return msgspec.json.decode(b"[" + self._history(context.messages) + b"]", type=list[dict[str, Any]])

    def _history(self, messages: Sequence[Message]) -> bytes:
        made = group_blocks(messages, self._blocks)
        theirs = [place for place, (role, _) in enumerate(made) if role == "user"]
        for place in theirs[-2:]:  # the end of this request, and of the one before: there the cache is found again
            made[place] = ("user", made[place][1][:-1] + _CACHED)
        return b",".join(b'{"role":"%b","content":[%b]}' % (role.encode(), content) for role, content in made)

    def _blocks(self, message: Message) -> Blocks:
        kept = message.wire
        if kept is None or kept[0] is not self._tag:
            kept = message.wire = (self._tag, _encode_blocks(message, images=self._info.images))
        blocks: Blocks = kept[1]
        return blocks


def _encode_blocks(message: Message, *, images: bool) -> Blocks:
    if message.role == "system":
        text = message.text.strip()
        return Blocks("user", b"", _join([_text(runtime_note(text))]) if text else b"")
    role = "assistant" if message.role == "assistant" else "user"
    results: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for part in message.parts:
        match part:
            case Text(text=text) if text.strip():  # a blank block is refused
                others.append(_text(text))
            case Thinking(text=text, signature=signature) if role == "assistant" and is_unmarked(signature):
                others.append({"type": "thinking", "thinking": text, "signature": signature})
            case ToolCall() if role == "assistant":
                others.append(_call(part))
            case ToolResult() if role == "user":
                results.append(_result(part))
            case Binary() if role == "user":
                others.append(_binary(part, images=images))
    if role == "assistant" and all(one["type"] == "thinking" for one in others):
        others = []  # thoughts alone are no message
    return Blocks(role, _join(results), _join(others))


def _join(blocks: list[dict[str, Any]]) -> bytes:
    return b"".join(b"," + encode(block) for block in blocks)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _call(call: ToolCall) -> dict[str, Any]:
    written = msgspec.Raw(arguments(call.input).encode(errors="replace"))
    return {"type": "tool_use", "id": fit_id(call.id), "name": fit_name(call.name), "input": written}


def _result(result: ToolResult) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "tool_result", "tool_use_id": fit_id(result.call_id)}
    if result.content.strip():
        made["content"] = result.shown
    if result.is_error:
        made["is_error"] = True
    return made


def _binary(part: Binary, *, images: bool) -> dict[str, Any]:
    data = image_of(part) if images else ""
    if not data:
        return _text(note_of(part))
    return {"type": "image", "source": {"type": "base64", "media_type": part.mime, "data": data}}


def _encode_system(*sections: str) -> bytes:
    """The fixed section and the profile, each marked: if only the second changes, the first is still a hit."""
    blocks = [encode(_text(section))[:-1] + _CACHED for section in sections if section]
    return b'"system":[%b],' % b",".join(blocks)


def _encode_tools(tools: tuple[Tool, ...]) -> bytes:
    made = [
        {"name": tool.name, "description": tool.description, "input_schema": {"type": "object", **tool.schema}}
        for tool in tools
    ]
    return _join(made)[1:]
