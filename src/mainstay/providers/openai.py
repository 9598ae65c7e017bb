"""OpenAI's chat completions, and so every server that is compatible with them.

A history is kept as bytes: each message is encoded once, when it is first sent, and a request is a join.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import urlsplit

import msgspec

from mainstay.core.limits import Limits
from mainstay.core.messages import AnyPart, Binary, Message, Text, ToolCall, ToolResult
from mainstay.core.ports import Context, ModelInfo, Options, Piece, Tool
from mainstay.providers.forms import (
    Kept,
    arguments,
    encode,
    fit_id,
    fit_name,
    image_of,
    kept_parts,
    note_of,
    runtime_note,
    short_id,
)
from mainstay.providers.openai_answer import ChatAnswer
from mainstay.providers.wire import Key, Request, Wire


class OpenAIProvider:
    """One model behind a chat-completions endpoint. `label` names it in sentences."""

    def __init__(
        self,
        name: str,
        *,
        base_url: str = "https://api.openai.com/v1",
        api_key: Key = None,
        limits: Limits | None = None,
        info: ModelInfo | None = None,
        label: str = "openai",
    ) -> None:
        self._info = info or ModelInfo(name=name)
        self._key = api_key
        self._label = label
        self._wire = Wire(label, limits or Limits())
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._headers = {
            "Authorization": "Bearer {key}",
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
            "Accept-Encoding": "identity",
            "User-Agent": "mainstay",
        }
        if api_key is None:
            del self._headers["Authorization"]
        own = urlsplit(self._url).hostname == "api.openai.com"
        self._bound = b'"max_completion_tokens":%d,' if own else b'"max_tokens":%d,'
        self._head = b'{"model":%b,"stream":true,"stream_options":{"include_usage":true},' % encode(name)
        self._dialect = Dialect(images=self._info.images, short_ids=label == "mistral")
        self._system = Kept(_encode_system)
        self._tools = Kept(_encode_tools)

    def model(self) -> ModelInfo:
        return self._info

    def stream(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        request = Request(self._url, self._headers, self.body(context, options))
        return self._wire.pieces(request, self._key, ChatAnswer(self._label), options.heard)

    async def close(self) -> None:
        await self._wire.close()

    def body(self, context: Context, options: Options) -> bytes:
        """The request as it is sent."""
        head = [self._head]
        if context.tools:
            head.append(self._tools(context.tools))
            if options.tool_choice == "none":  # the tools stay, so that the prefix is the same as before
                head.append(b'"tool_choice":"none",')
        if options.output_tokens is not None:
            head.append(self._bound % options.output_tokens)
        return b'%b"messages":[%b]}' % (b"".join(head), self._history(context))

    def wire_messages(self, context: Context) -> list[dict[str, Any]]:
        """What would be sent, decoded."""
        return msgspec.json.decode(b"[" + self._history(context) + b"]", type=list[dict[str, Any]])

    def _history(self, context: Context) -> bytes:
        parts = kept_parts(context.messages, self._dialect.tag, self._written)
        if context.system or context.profile:
            parts.insert(0, self._system(context.system, context.profile))
        return b"".join(parts)[1:]  # each begins with a comma

    def _written(self, message: Message) -> bytes:
        """Encoded once; the next request only joins it."""
        message.wire = (self._dialect.tag, self._dialect.encode(message))
        return message.wire[1]


class Dialect:
    """How a message is written. Two dialects that write alike share a tag, and so what is kept of a message."""

    __slots__ = ("_id", "_images", "tag")

    def __init__(self, *, images: bool, short_ids: bool) -> None:
        self._images = images
        self._id = short_id if short_ids else fit_id
        self.tag = _TAGS[images, short_ids]

    def encode(self, message: Message) -> bytes:
        """Zero or more JSON messages, a comma before each."""
        match message.role:
            case "assistant":
                made = self._assistant(message)
            case "tool":
                made = [self._result(part) for part in message.parts if isinstance(part, ToolResult)]
            case "system":
                made = [{"role": "user", "content": runtime_note(message.text)}] if message.text else []
            case "user":
                made = self._user(message.parts)
        return b"".join(b"," + encode(one) for one in made)

    def _user(self, parts: tuple[AnyPart, ...]) -> list[dict[str, Any]]:
        content: list[dict[str, Any]] = []
        for part in parts:
            if isinstance(part, Text):
                content.append({"type": "text", "text": part.text})
            elif isinstance(part, Binary):
                content.append(self._binary(part))
        if all("text" in one for one in content):  # plain text is what every server understands
            text = "\n".join(one["text"] for one in content)
            return [{"role": "user", "content": text}] if text else []
        return [{"role": "user", "content": [one for one in content if one.get("text") != ""]}]

    def _binary(self, part: Binary) -> dict[str, Any]:
        data = image_of(part) if self._images else ""
        if not data:
            return {"type": "text", "text": note_of(part)}
        return {"type": "image_url", "image_url": {"url": f"data:{part.mime};base64,{data}"}}

    def _assistant(self, message: Message) -> list[dict[str, Any]]:
        calls = [self._call(part) for part in message.parts if isinstance(part, ToolCall)]
        text = message.text
        if calls:
            return [{"role": "assistant", "content": text or None, "tool_calls": calls}]
        return [{"role": "assistant", "content": text}] if text else []

    def _call(self, call: ToolCall) -> dict[str, Any]:
        function = {"name": fit_name(call.name), "arguments": arguments(call.input)}
        return {"id": self._id(call.id), "type": "function", "function": function}

    def _result(self, result: ToolResult) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": self._id(result.call_id), "content": result.shown}


_TAGS = {
    (images, short): f"openai{' images' if images else ''}{' short' if short else ''}"
    for images in (True, False)
    for short in (True, False)
}


def _encode_system(*sections: str) -> bytes:
    return b"," + encode({"role": "system", "content": "\n\n".join(filter(None, sections))})


def _encode_tools(tools: tuple[Tool, ...]) -> bytes:
    made = [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema},
        }
        for tool in tools
    ]
    return b'"tools":' + encode(made) + b","
