"""Amazon Bedrock's Converse API, streamed: one form for the models of many makers.

A history is kept as bytes: each message's blocks are encoded once. Neighbours of one role are one message there, so a
request is the kept blocks, grouped.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec

from mainstay.core.limits import Limits
from mainstay.core.messages import Binary, Message, Text, Thinking, ToolCall, ToolResult
from mainstay.core.ports import Context, ModelInfo, Options, Piece, Tool
from mainstay.providers import opaque
from mainstay.providers.bedrock_answer import OWNER, ConverseAnswer
from mainstay.providers.bedrock_frames import FrameCutter
from mainstay.providers.bedrock_keys import AwsKeys, signed
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
from mainstay.providers.wire import Key, Request, Wire

_TAGS = {
    (images, thoughts): f"bedrock{' images' if images else ''}{' thoughts' if thoughts else ''}"
    for images in (True, False)
    for thoughts in (True, False)
}
_NO_TOOLS = (
    b'"toolConfig":{"tools":[{"toolSpec":{"name":"none","description":"Does nothing: there are no tools any more.",'
    b'"inputSchema":{"json":{"type":"object"}}}}]},'
)


class BedrockProvider:
    """One model, by its id or that of an inference profile. Asked with a bearer's key, or signed for with AWS keys."""

    def __init__(
        self,
        name: str,
        *,
        base_url: str,
        api_key: Key | AwsKeys = None,
        limits: Limits | None = None,
        info: ModelInfo | None = None,
        label: str = "bedrock",
    ) -> None:
        self._info = info or ModelInfo(name=name)
        self._keys = api_key if isinstance(api_key, AwsKeys) else None
        self._key = None if isinstance(api_key, AwsKeys) else api_key
        self._label = label
        self._wire = Wire(label, limits or Limits(), FrameCutter)
        self._url = f"{base_url.rstrip('/')}/model/{quote(name, safe='-._~')}/converse-stream"
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "application/vnd.amazon.eventstream",
            "Accept-Encoding": "identity",
            "User-Agent": "mainstay",
        }
        if self._key is not None:
            self._headers["Authorization"] = "Bearer {key}"
        # signed thoughts are those of Anthropic's models, and most others refuse them; an ARN does not say whose it is
        self._thoughts = self._info.thinking or "anthropic." in name or name.startswith("arn:")
        self._tag = _TAGS[self._info.images, self._thoughts]
        self._system = Kept(_encode_system)
        self._tools = Kept(_encode_tools)

    def model(self) -> ModelInfo:
        return self._info

    def stream(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        body, headers = self.body(context, options), self._headers
        if self._keys is not None:
            headers = signed(self._url, headers, body, self._keys, datetime.now(UTC))
        return self._wire.pieces(Request(self._url, headers, body), self._key, ConverseAnswer(self._label))

    async def close(self) -> None:
        await self._wire.close()

    def body(self, context: Context, options: Options) -> bytes:
        """The request as it is sent. There is no way to forbid calls, and a history with calls is refused without any
        tool: where there are none any more, one is named that does nothing."""
        head = [b"{"]
        history = self._history(context.messages)
        if context.tools:
            head.append(self._tools(context.tools))
        elif b'{"toolUse":' in history or b'{"toolResult":' in history:  # what people wrote has its quotes escaped
            head.append(_NO_TOOLS)
        if context.system or context.profile:
            head.append(self._system(context.system, context.profile))
        bound = self._info.output if options.output_tokens is None else options.output_tokens
        head.append(b'"inferenceConfig":{"maxTokens":%d},' % bound)
        return b'%b"messages":[%b]}' % (b"".join(head), history)

    def wire_messages(self, context: Context) -> list[dict[str, Any]]:
        """What would be sent, decoded."""
        return msgspec.json.decode(b"[" + self._history(context.messages) + b"]", type=list[dict[str, Any]])

    def _history(self, messages: Sequence[Message]) -> bytes:
        made = group_blocks(messages, self._blocks)
        return b",".join(b'{"role":"%b","content":[%b]}' % (role.encode(), content) for role, content in made)

    def _blocks(self, message: Message) -> Blocks:
        kept = message.wire
        if kept is None or kept[0] is not self._tag:
            made = _encode_blocks(message, images=self._info.images, thoughts=self._thoughts)
            kept = message.wire = (self._tag, made)
        blocks: Blocks = kept[1]
        return blocks


def _encode_blocks(message: Message, *, images: bool, thoughts: bool) -> Blocks:
    if message.role == "system":
        text = message.text.strip()
        return Blocks("user", b"", _join([{"text": runtime_note(text)}]) if text else b"")
    role = "assistant" if message.role == "assistant" else "user"
    thoughts = thoughts and role == "assistant"
    results: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for part in message.parts:
        match part:
            case Text(text=text) if text.strip():  # a blank block is refused
                others.append({"text": text})
            case Thinking(text=text, signature=given) if thoughts and (value := opaque.of(OWNER, given)):
                others.append({"reasoningContent": {"reasoningText": {"text": text, "signature": value}}})
            case ToolCall() if role == "assistant":
                others.append(_call(part))
            case ToolResult() if role == "user":
                results.append(_result(part))
            case Binary() if role == "user":
                others.append(_binary(part, images=images))
    if role == "assistant" and all("reasoningContent" in one for one in others):
        others = []  # thoughts alone are no message
    return Blocks(role, _join(results), _join(others))


def _join(blocks: list[dict[str, Any]]) -> bytes:
    return b"".join(b"," + encode(block) for block in blocks)


def _call(call: ToolCall) -> dict[str, Any]:
    written = msgspec.Raw(arguments(call.input).encode(errors="replace"))
    return {"toolUse": {"toolUseId": fit_id(call.id), "name": fit_name(call.name), "input": written}}


def _result(result: ToolResult) -> dict[str, Any]:
    text = result.shown if result.content.strip() else "(nothing)"  # an empty one is refused
    made: dict[str, Any] = {"toolUseId": fit_id(result.call_id), "content": [{"text": text}]}
    if result.is_error:
        made["status"] = "error"
    return {"toolResult": made}


def _binary(part: Binary, *, images: bool) -> dict[str, Any]:
    data = image_of(part) if images else ""
    if not data:
        return {"text": note_of(part)}
    return {"image": {"format": part.mime.removeprefix("image/"), "source": {"bytes": data}}}


def _encode_system(*sections: str) -> bytes:
    return b'"system":%b,' % encode([{"text": section} for section in sections if section])


def _encode_tools(tools: tuple[Tool, ...]) -> bytes:
    made = [
        {
            "toolSpec": {
                "name": tool.name,
                "description": tool.description or tool.name,
                "inputSchema": {"json": {"type": "object", **tool.schema}},
            }
        }
        for tool in tools
    ]
    return b'"toolConfig":{"tools":%b},' % encode(made)
