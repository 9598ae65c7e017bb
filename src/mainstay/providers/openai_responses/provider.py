"""Provider for OpenAI's Responses API and compatible servers.

Nothing is stored at the provider: the whole history goes with every request and `store` is off, so a session can be
read, moved and replayed from its journal alone. The model's reasoning is sent back encrypted, unchanged.
Each message is encoded to JSON once, when it is first sent, and cached; a request joins the cached bytes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import ClassVar
from urllib.parse import urlsplit

from mainstay.core.errors import RequestRefused
from mainstay.core.messages import AnyPart, Binary, Message, Text, Thinking, ToolCall, ToolResult
from mainstay.core.ports import Context, ModelInfo, Options, Piece, Tool
from mainstay.core.provider_manifest import ProviderComponent, ProviderFactoryContext, ProviderSettings
from mainstay.core.runtime_notes import format_runtime_note
from mainstay.providers.openai_responses.manifest import COMPONENT
from mainstay.providers.openai_responses.response import SIGNATURE_OWNER, OpenAIResponsesParser
from mainstay.providers.wire import reasoning_signatures
from mainstay.providers.wire.encoding import (
    WireObject,
    build_encoding_tag,
    describe_file,
    encode,
    encode_image,
    encode_items,
    encode_messages,
    normalise_arguments,
    to_valid_id,
    to_valid_name,
)
from mainstay.providers.wire.http_provider import HttpProvider


def build_responses_provider(
    model: str, settings: ProviderSettings, context: ProviderFactoryContext
) -> OpenAIResponsesProvider:
    return OpenAIResponsesProvider.from_context(model, context)


class OpenAIResponsesProvider(HttpProvider):
    """One model behind a responses endpoint."""

    MANIFEST: ClassVar[ProviderComponent] = COMPONENT
    PARSER: ClassVar[type[OpenAIResponsesParser]] = OpenAIResponsesParser

    def prepare(self) -> None:
        self._body_head = b'{"model":%b,"stream":true,"store":false,' % encode(self.name)
        if urlsplit(self._url).hostname == "api.openai.com":  # without padding of the stream: TLS is enough
            self._body_head += b'"stream_options":{"include_obfuscation":false},'
        if self.info.thinking:  # other models refuse this option
            self._body_head += b'"include":["reasoning.encrypted_content"],'
        self._wants_summaries = self.info.thinking
        flags = {"images": self.info.images, "thinking": self.info.thinking}
        self._encoding_tag = build_encoding_tag("responses", flags)

    def build_url(self, base_url: str) -> str:
        return base_url.rstrip("/") + "/responses"

    def stream(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        return (
            self._stream_with_summaries(context, options) if self._wants_summaries else super().stream(context, options)
        )

    def build_body(self, context: Context, options: Options) -> bytes:
        """Return the request body."""
        head = [self._body_head]
        if self._wants_summaries:
            head.append(b'"reasoning":{"summary":"auto"},')
        if context.tools:
            head.append(self.cached_tools(context.tools))
            if options.tool_choice == "none":  # the tools are still sent, so that the cached prefix stays valid
                head.append(b'"tool_choice":"none",')
        if options.output_tokens_max is not None:
            head.append(b'"max_output_tokens":%d,' % options.output_tokens_max)
        if context.system or context.profile:
            head.append(self.cached_system(context.system, context.profile))
        items = encode_messages(context.messages, self._encoding_tag, self._encode_message)
        return b'%b"input":[%b]}' % (b"".join(head), b"".join(items)[1:])  # each begins with a comma

    def _encode_message(self, message: Message) -> bytes:
        return encode_items(_to_items(message, self.info))

    @staticmethod
    def encode_system(*sections: str) -> bytes:
        return b'"instructions":%b,' % encode("\n\n".join(filter(None, sections)))

    @staticmethod
    def encode_tools(tools: tuple[Tool, ...]) -> bytes:
        """Encode the tools with `strict` off: it is the default of this API and refuses most schemas."""
        definitions = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.schema,
                "strict": False,
            }
            for tool in tools
        ]
        return b'"tools":' + encode(definitions) + b","

    async def _stream_with_summaries(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        """Stream with reasoning summaries; without them if the API refuses, because not every account may have them."""
        try:
            async with aclosing(super().stream(context, options)) as pieces:
                async for piece in pieces:
                    yield piece
                return
        except RequestRefused as error:
            if "summar" not in str(error):
                raise
            self._wants_summaries = False
        async with aclosing(super().stream(context, options)) as pieces:
            async for piece in pieces:
                yield piece


def _to_items(message: Message, info: ModelInfo) -> list[WireObject]:
    match message.role:
        case "assistant":
            return _assistant_items(message.parts, thinking=info.thinking)
        case "tool":
            return [_function_output_item(part) for part in message.parts if isinstance(part, ToolResult)]
        case "system":
            return [{"role": "developer", "content": format_runtime_note(message)}] if message.text else []
        case "user":
            return _user_items(message.parts, images=info.images)


def _user_items(parts: tuple[AnyPart, ...], *, images: bool) -> list[WireObject]:
    content: list[WireObject] = []
    for part in parts:
        if isinstance(part, Text) and part.text:
            content.append({"type": "input_text", "text": part.text})
        elif isinstance(part, Binary):
            content.append(_image_part(part, images=images))
    if len(content) == 1 and "text" in content[0]:
        return [{"role": "user", "content": content[0]["text"]}]
    return [{"role": "user", "content": content}] if content else []


def _image_part(part: Binary, *, images: bool) -> WireObject:
    data = encode_image(part) if images else ""
    if not data:
        return {"type": "input_text", "text": describe_file(part)}
    return {"type": "input_image", "detail": "auto", "image_url": f"data:{part.mime};base64,{data}"}


def _assistant_items(parts: tuple[AnyPart, ...], *, thinking: bool) -> list[WireObject]:
    """Encode the parts of an assistant message in order. Reasoning is sent only before the item it led to, and only to
    a reasoning model: other models refuse a history with reasoning."""
    items: list[WireObject] = []
    item: WireObject
    thought: WireObject | None = None
    phase = ""
    for part in parts:
        match part:
            case Thinking(text=text, signature=signature) if thinking and (
                value := reasoning_signatures.untag_signature(SIGNATURE_OWNER, signature)
            ):
                id, _, content = value.partition(":")
                if id == "phase":
                    phase = content
                else:
                    thought = _reasoning_item(text, id, content)
                continue
            case Text(text=text) if text:
                item = {"role": "assistant", "content": text, **({"phase": phase} if phase else {})}
                phase = ""
            case ToolCall():
                item = _function_call_item(part)
            case _:
                continue
        if thought is not None:
            items.append(thought)
            thought = None
        items.append(item)
    return items


def _reasoning_item(text: str, id: str, content: str) -> WireObject:
    summary = [{"type": "summary_text", "text": text}] if text else []
    return {"type": "reasoning", **({"id": id} if id else {}), "summary": summary, "encrypted_content": content}


def _function_call_item(call: ToolCall) -> WireObject:
    name, input_json = to_valid_name(call.name), normalise_arguments(call.input)
    return {"type": "function_call", "call_id": to_valid_id(call.id), "name": name, "arguments": input_json}


def _function_output_item(result: ToolResult) -> WireObject:
    return {"type": "function_call_output", "call_id": to_valid_id(result.call_id), "output": result.model_text}
