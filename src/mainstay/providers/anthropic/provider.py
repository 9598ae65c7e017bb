"""Provider for Anthropic's Messages API.

Each message's content blocks are encoded to JSON once and cached. The API takes neighbouring messages of one role as
one message, so a request joins the cached blocks, grouped by role.
"""

from __future__ import annotations

from typing import ClassVar

from mainstay.core.messages import Binary, Message, Text, Thinking, ToolCall, ToolResult
from mainstay.core.ports import Context, Options, Tool
from mainstay.core.provider_manifest import ProviderComponent, ProviderFactoryContext, ProviderSettings
from mainstay.core.runtime_notes import format_runtime_note
from mainstay.providers.anthropic.manifest import COMPONENT
from mainstay.providers.anthropic.response import AnthropicResponseParser
from mainstay.providers.wire.encoding import (
    ContentBlocks,
    WireObject,
    build_encoding_tag,
    describe_file,
    encode,
    encode_arguments,
    encode_image,
    encode_items,
    encode_messages,
    group_by_role,
    to_valid_id,
    to_valid_name,
)
from mainstay.providers.wire.http_provider import HttpProvider
from mainstay.providers.wire.reasoning_signatures import is_untagged

API_VERSION = "2023-06-01"
_CACHE_MARK = b',"cache_control":{"type":"ephemeral"}}'


def build_anthropic_provider(
    model: str, settings: ProviderSettings, context: ProviderFactoryContext
) -> AnthropicProvider:
    return AnthropicProvider.from_context(model, context)


class AnthropicProvider(HttpProvider):
    """One model behind a messages endpoint."""

    MANIFEST: ClassVar[ProviderComponent] = COMPONENT
    PARSER: ClassVar[type[AnthropicResponseParser]] = AnthropicResponseParser
    KEY_HEADER: ClassVar[tuple[str, str]] = ("x-api-key", "{key}")
    HEADERS: ClassVar[dict[str, str]] = {"anthropic-version": API_VERSION}

    def prepare(self) -> None:
        self._body_head = b'{"model":%b,"stream":true,' % encode(self.name)
        self._encoding_tag = build_encoding_tag("anthropic", {"images": self.info.images})

    def build_url(self, base_url: str) -> str:
        return base_url.rstrip("/").removesuffix("/v1") + "/v1/messages"

    def build_body(self, context: Context, options: Options) -> bytes:
        """Return the request body. The fixed part and the end of the history are marked for the prompt cache."""
        output_max = self.info.output if options.output_tokens_max is None else options.output_tokens_max
        head = [self._body_head, b'"max_tokens":%d,' % output_max]
        if context.tools:
            tools = self.cached_tools(context.tools)
            marked_later = context.system or context.profile
            head += [b'"tools":[', tools if marked_later else tools[:-1] + _CACHE_MARK, b"],"]
            if options.tool_choice == "none":  # the tools are still sent, so that the cached prefix stays valid
                head.append(b'"tool_choice":{"type":"none"},')
        if context.system or context.profile:
            head.append(self.cached_system(context.system, context.profile))
        return b'%b"messages":[%b]}' % (b"".join(head), self._encode_history(context))

    def _encode_history(self, context: Context) -> bytes:
        encodings = encode_messages(context.messages, self._encoding_tag, self._encode_blocks)
        groups = group_by_role(context.messages, encodings)
        user_indexes = [index for index, (role, _) in enumerate(groups) if role == "user"]
        for index in user_indexes[-2:]:  # the end of this request, and of the previous one, which the cache has
            groups[index] = ("user", groups[index][1][:-1] + _CACHE_MARK)
        return b",".join(b'{"role":"%b","content":[%b]}' % (role.encode(), content) for role, content in groups)

    def _encode_blocks(self, message: Message) -> ContentBlocks:
        return _encode_blocks(message, images=self.info.images)

    @staticmethod
    def encode_system(*sections: str) -> bytes:
        """Encode the fixed section and the profile, each with a cache mark: if only the profile changes, the fixed
        section is still a cache hit."""
        blocks = [encode(_text_block(section))[:-1] + _CACHE_MARK for section in sections if section]
        return b'"system":[%b],' % b",".join(blocks)

    @staticmethod
    def encode_tools(tools: tuple[Tool, ...]) -> bytes:
        definitions = [
            {"name": tool.name, "description": tool.description, "input_schema": {"type": "object", **tool.schema}}
            for tool in tools
        ]
        return encode_items(definitions)[1:]


def _encode_blocks(message: Message, *, images: bool) -> ContentBlocks:
    if message.role == "system":
        text = message.text.strip()
        return ContentBlocks("user", b"", encode_items([_text_block(format_runtime_note(message))]) if text else b"")
    role = "assistant" if message.role == "assistant" else "user"
    results: list[WireObject] = []
    others: list[WireObject] = []
    for part in message.parts:
        match part:
            case Text(text=text) if text.strip():  # the API refuses blank blocks
                others.append(_text_block(text))
            case Thinking(text=text, signature=signature) if role == "assistant" and is_untagged(signature):
                others.append({"type": "thinking", "thinking": text, "signature": signature})
            case ToolCall() if role == "assistant":
                others.append(_tool_use_block(part))
            case ToolResult() if role == "user":
                results.append(_tool_result_block(part))
            case Binary() if role == "user":
                others.append(_image_block(part, images=images))
    if role == "assistant" and all(block["type"] == "thinking" for block in others):
        others = []  # the API refuses a message of thinking alone
    return ContentBlocks(role, encode_items(results), encode_items(others))


def _text_block(text: str) -> WireObject:
    return {"type": "text", "text": text}


def _tool_use_block(call: ToolCall) -> WireObject:
    name, input = to_valid_name(call.name), encode_arguments(call.input)
    return {"type": "tool_use", "id": to_valid_id(call.id), "name": name, "input": input}


def _tool_result_block(result: ToolResult) -> WireObject:
    block: WireObject = {"type": "tool_result", "tool_use_id": to_valid_id(result.call_id)}
    if result.content.strip():
        block["content"] = result.model_text
    if result.is_error:
        block["is_error"] = True
    return block


def _image_block(part: Binary, *, images: bool) -> WireObject:
    data = encode_image(part) if images else ""
    if not data:
        return _text_block(describe_file(part))
    return {"type": "image", "source": {"type": "base64", "media_type": part.mime, "data": data}}
