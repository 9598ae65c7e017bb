"""Provider for Amazon Bedrock's Converse API, streamed: one request format for models of many vendors.

Each message's content blocks are encoded to JSON once and cached. The API takes neighbouring messages of one role as
one message, so a request joins the cached blocks, grouped by role.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import ClassVar
from urllib.parse import quote

from mainstay.core.limits import Limits
from mainstay.core.messages import Binary, Message, Text, Thinking, ToolCall, ToolResult
from mainstay.core.ports import Context, ModelInfo, Options, Piece, Tool
from mainstay.core.provider_manifest import ApiKeySource, ProviderComponent, ProviderFactoryContext, ProviderSettings
from mainstay.core.runtime_notes import format_runtime_note
from mainstay.providers.bedrock.aws_auth import AwsCredentials, resolve_endpoint, sign_headers
from mainstay.providers.bedrock.event_stream import AwsEventStreamDecoder
from mainstay.providers.bedrock.manifest import COMPONENT
from mainstay.providers.bedrock.response import SIGNATURE_OWNER, BedrockResponseParser
from mainstay.providers.wire import reasoning_signatures
from mainstay.providers.wire.api_client import ApiRequest
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

_PLACEHOLDER_TOOLS = (
    b'"toolConfig":{"tools":[{"toolSpec":{"name":"none","description":"Does nothing: there are no tools any more.",'
    b'"inputSchema":{"json":{"type":"object"}}}}]},'
)


def build_bedrock_provider(model: str, settings: ProviderSettings, context: ProviderFactoryContext) -> BedrockProvider:
    """Build the provider, with an API key or the AWS credentials of the environment. Raises ConfigError."""
    base_url, key = resolve_endpoint(context.base_url, context.api_key, context.environ)
    limits, info, label = context.limits, context.info, context.component.name
    return BedrockProvider(model, base_url=base_url, api_key=key, limits=limits, info=info, label=label)


class BedrockProvider(HttpProvider):
    """One model, named by its id or by an inference profile. Requests carry an API key or an AWS signature."""

    MANIFEST: ClassVar[ProviderComponent] = COMPONENT
    PARSER: ClassVar[type[BedrockResponseParser]] = BedrockResponseParser
    DECODER: ClassVar[type[AwsEventStreamDecoder]] = AwsEventStreamDecoder
    ACCEPT: ClassVar[str] = "application/vnd.amazon.eventstream"

    def __init__(
        self,
        name: str,
        *,
        base_url: str,
        api_key: ApiKeySource | AwsCredentials = None,
        limits: Limits | None = None,
        info: ModelInfo | None = None,
        label: str = "",
    ) -> None:
        self._credentials = api_key if isinstance(api_key, AwsCredentials) else None
        key = None if isinstance(api_key, AwsCredentials) else api_key
        super().__init__(name, base_url=base_url, api_key=key, limits=limits, info=info, label=label)

    def prepare(self) -> None:
        # only Anthropic's models sign their thinking, and most others refuse it; an ARN does not name the vendor
        self._sends_thinking = self.info.thinking or "anthropic." in self.name or self.name.startswith("arn:")
        flags = {"images": self.info.images, "thinking": self._sends_thinking}
        self._encoding_tag = build_encoding_tag("bedrock", flags)

    def build_url(self, base_url: str) -> str:
        return f"{base_url.rstrip('/')}/model/{quote(self.name, safe='-._~')}/converse-stream"

    def stream(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        if self._credentials is None:
            return super().stream(context, options)
        body = self.build_body(context, options)
        headers = sign_headers(self._url, self._headers, body, self._credentials, datetime.now(UTC))
        request = ApiRequest(self._url, headers, body)
        return self._api.stream_pieces(request, None, self.PARSER(self._label), options.on_rate_limits)

    def build_body(self, context: Context, options: Options) -> bytes:
        """Return the request body. The API cannot forbid tool calls, and it refuses a history with calls if no tool is
        declared: if there are no tools any more, a placeholder that does nothing is declared."""
        head = [b"{"]
        history = self._encode_history(context)
        if context.tools:
            head.append(self.cached_tools(context.tools))
        elif b'{"toolUse":' in history or b'{"toolResult":' in history:  # in text, quotes are escaped
            head.append(_PLACEHOLDER_TOOLS)
        if context.system or context.profile:
            head.append(self.cached_system(context.system, context.profile))
        output_max = self.info.output if options.output_tokens_max is None else options.output_tokens_max
        head.append(b'"inferenceConfig":{"maxTokens":%d},' % output_max)
        return b'%b"messages":[%b]}' % (b"".join(head), history)

    def _encode_history(self, context: Context) -> bytes:
        encodings = encode_messages(context.messages, self._encoding_tag, self._encode_blocks)
        groups = group_by_role(context.messages, encodings)
        return b",".join(b'{"role":"%b","content":[%b]}' % (role.encode(), content) for role, content in groups)

    def _encode_blocks(self, message: Message) -> ContentBlocks:
        return _encode_blocks(message, images=self.info.images, thinking=self._sends_thinking)

    @staticmethod
    def encode_system(*sections: str) -> bytes:
        return b'"system":%b,' % encode([{"text": section} for section in sections if section])

    @staticmethod
    def encode_tools(tools: tuple[Tool, ...]) -> bytes:
        definitions = [
            {
                "toolSpec": {
                    "name": tool.name,
                    "description": tool.description or tool.name,
                    "inputSchema": {"json": {"type": "object", **tool.schema}},
                }
            }
            for tool in tools
        ]
        return b'"toolConfig":{"tools":%b},' % encode(definitions)


def _encode_blocks(message: Message, *, images: bool, thinking: bool) -> ContentBlocks:
    if message.role == "system":
        text = message.text.strip()
        return ContentBlocks("user", b"", encode_items([{"text": format_runtime_note(message)}]) if text else b"")
    role = "assistant" if message.role == "assistant" else "user"
    thinking = thinking and role == "assistant"
    results: list[WireObject] = []
    others: list[WireObject] = []
    for part in message.parts:
        match part:
            case Text(text=text) if text.strip():  # the API refuses blank blocks
                others.append({"text": text})
            case Thinking(text=text, signature=tagged) if thinking and (
                value := reasoning_signatures.untag_signature(SIGNATURE_OWNER, tagged)
            ):
                others.append({"reasoningContent": {"reasoningText": {"text": text, "signature": value}}})
            case ToolCall() if role == "assistant":
                others.append(_tool_use_block(part))
            case ToolResult() if role == "user":
                results.append(_tool_result_block(part))
            case Binary() if role == "user":
                others.append(_image_block(part, images=images))
    if role == "assistant" and all("reasoningContent" in block for block in others):
        others = []  # the API refuses a message of thinking alone
    return ContentBlocks(role, encode_items(results), encode_items(others))


def _tool_use_block(call: ToolCall) -> WireObject:
    name, input = to_valid_name(call.name), encode_arguments(call.input)
    return {"toolUse": {"toolUseId": to_valid_id(call.id), "name": name, "input": input}}


def _tool_result_block(result: ToolResult) -> WireObject:
    text = result.model_text if result.content.strip() else "(nothing)"  # the API refuses an empty result
    block: WireObject = {"toolUseId": to_valid_id(result.call_id), "content": [{"text": text}]}
    if result.is_error:
        block["status"] = "error"
    return {"toolResult": block}


def _image_block(part: Binary, *, images: bool) -> WireObject:
    data = encode_image(part) if images else ""
    if not data:
        return {"text": describe_file(part)}
    return {"image": {"format": part.mime.removeprefix("image/"), "source": {"bytes": data}}}
