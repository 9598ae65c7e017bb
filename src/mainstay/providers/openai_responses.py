"""OpenAI's Responses API, and servers that are compatible with it.

Nothing is kept there: the whole history goes with every request and `store` is off, so a session can be read, moved and
replayed from its journal alone. What the model thought goes back encrypted, as it came.
A history is kept as bytes: each message is encoded once, when it is first sent, and a request is a join.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any
from urllib.parse import urlsplit

import msgspec

from mainstay.core.errors import RequestRefused
from mainstay.core.limits import Limits
from mainstay.core.messages import AnyPart, Binary, Message, Text, Thinking, ToolCall, ToolResult
from mainstay.core.ports import Context, ModelInfo, Options, Piece, Tool
from mainstay.providers import opaque
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
)
from mainstay.providers.openai_responses_answer import OWNER, ResponsesAnswer
from mainstay.providers.wire import Key, Request, Wire

_TAGS = {
    (images, thoughts): f"responses{' images' if images else ''}{' thoughts' if thoughts else ''}"
    for images in (True, False)
    for thoughts in (True, False)
}


class ResponsesProvider:
    """One model behind a responses endpoint. `label` names it in sentences."""

    def __init__(
        self,
        name: str,
        *,
        base_url: str = "https://api.openai.com/v1",
        api_key: Key = None,
        limits: Limits | None = None,
        info: ModelInfo | None = None,
        label: str = "openai-responses",
    ) -> None:
        self._info = info or ModelInfo(name=name)
        self._key = api_key
        self._label = label
        self._wire = Wire(label, limits or Limits())
        self._url = base_url.rstrip("/") + "/responses"
        self._headers = {
            "Authorization": "Bearer {key}",
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
            "Accept-Encoding": "identity",
            "User-Agent": "mainstay",
        }
        if api_key is None:
            del self._headers["Authorization"]
        self._head = b'{"model":%b,"stream":true,"store":false,' % encode(name)
        if urlsplit(self._url).hostname == "api.openai.com":  # padding against eavesdroppers, which TLS is enough for
            self._head += b'"stream_options":{"include_obfuscation":false},'
        if self._info.thinking:  # others refuse to be asked for it
            self._head += b'"include":["reasoning.encrypted_content"],'
        self._summaries = self._info.thinking
        self._tag = _TAGS[self._info.images, self._info.thinking]
        self._system = Kept(_encode_system)
        self._tools = Kept(_encode_tools)

    def model(self) -> ModelInfo:
        return self._info

    def stream(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        return self._summed_up(context, options) if self._summaries else self._ask(context, options)

    async def close(self) -> None:
        await self._wire.close()

    def body(self, context: Context, options: Options) -> bytes:
        """The request as it is sent."""
        head = [self._head]
        if self._summaries:
            head.append(b'"reasoning":{"summary":"auto"},')
        if context.tools:
            head.append(self._tools(context.tools))
            if options.tool_choice == "none":  # the tools stay, so that the prefix is the same as before
                head.append(b'"tool_choice":"none",')
        if options.output_tokens is not None:
            head.append(b'"max_output_tokens":%d,' % options.output_tokens)
        if context.system or context.profile:
            head.append(self._system(context.system, context.profile))
        return b'%b"input":[%b]}' % (b"".join(head), self._history(context))

    def wire_messages(self, context: Context) -> list[dict[str, Any]]:
        """What would be sent, decoded."""
        return msgspec.json.decode(b"[" + self._history(context) + b"]", type=list[dict[str, Any]])

    def _ask(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        request = Request(self._url, self._headers, self.body(context, options))
        return self._wire.pieces(request, self._key, ResponsesAnswer(self._label), options.heard)

    async def _summed_up(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        """Summaries of what it thinks are not for every account: whoever is refused them is asked without."""
        try:
            async with aclosing(self._ask(context, options)) as pieces:
                async for piece in pieces:
                    yield piece
                return
        except RequestRefused as error:
            if "summar" not in str(error):
                raise
            self._summaries = False
        async with aclosing(self._ask(context, options)) as pieces:
            async for piece in pieces:
                yield piece

    def _history(self, context: Context) -> bytes:
        parts = kept_parts(context.messages, self._tag, self._written)
        return b"".join(parts)[1:]  # each begins with a comma

    def _written(self, message: Message) -> bytes:
        """Encoded once; the next request only joins it."""
        made = b"".join(b"," + encode(one) for one in _items(message, self._info))
        message.wire = (self._tag, made)
        return made


def _items(message: Message, info: ModelInfo) -> list[dict[str, Any]]:
    match message.role:
        case "assistant":
            return _assistant(message.parts, thoughts=info.thinking)
        case "tool":
            return [_result(part) for part in message.parts if isinstance(part, ToolResult)]
        case "system":
            return [{"role": "user", "content": runtime_note(message.text)}] if message.text else []
        case "user":
            return _user(message.parts, images=info.images)


def _user(parts: tuple[AnyPart, ...], *, images: bool) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, Text) and part.text:
            content.append({"type": "input_text", "text": part.text})
        elif isinstance(part, Binary):
            content.append(_binary(part, images=images))
    if len(content) == 1 and "text" in content[0]:
        return [{"role": "user", "content": content[0]["text"]}]
    return [{"role": "user", "content": content}] if content else []


def _binary(part: Binary, *, images: bool) -> dict[str, Any]:
    data = image_of(part) if images else ""
    if not data:
        return {"type": "input_text", "text": note_of(part)}
    return {"type": "input_image", "detail": "auto", "image_url": f"data:{part.mime};base64,{data}"}


def _assistant(parts: tuple[AnyPart, ...], *, thoughts: bool) -> list[dict[str, Any]]:
    """Items in the order in which they came. A thought goes back only before what it led to, and only to a model that
    thinks: others refuse a history in which another one did."""
    made: list[dict[str, Any]] = []
    thought: dict[str, Any] | None = None
    phase = ""
    for part in parts:
        match part:
            case Thinking(text=text, signature=signature) if thoughts and (value := opaque.of(OWNER, signature)):
                id, _, content = value.partition(":")
                if id == "phase":
                    phase = content
                else:
                    thought = _thought(text, id, content)
                continue
            case Text(text=text) if text:
                item = {"role": "assistant", "content": text, **({"phase": phase} if phase else {})}
                phase = ""
            case ToolCall():
                item = _call(part)
            case _:
                continue
        if thought is not None:
            made.append(thought)
            thought = None
        made.append(item)
    return made


def _thought(text: str, id: str, content: str) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": text}] if text else []
    return {"type": "reasoning", **({"id": id} if id else {}), "summary": summary, "encrypted_content": content}


def _call(call: ToolCall) -> dict[str, Any]:
    name, written = fit_name(call.name), arguments(call.input)
    return {"type": "function_call", "call_id": fit_id(call.id), "name": name, "arguments": written}


def _result(result: ToolResult) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": fit_id(result.call_id), "output": result.shown}


def _encode_system(*sections: str) -> bytes:
    return b'"instructions":%b,' % encode("\n\n".join(filter(None, sections)))


def _encode_tools(tools: tuple[Tool, ...]) -> bytes:
    """Not `strict`, which is the default here and refuses most schemas."""
    made = [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.schema,
            "strict": False,
        }
        for tool in tools
    ]
    return b'"tools":' + encode(made) + b","
