"""Provider for Ollama's native chat API.

Ollama's OpenAI-compatible API has no option for the context window: it silently cuts prompts longer than a small
default. With the native API, each request states its window (`num_ctx`) and asks to refuse a longer prompt rather than
cut it. The server reloads the model when that number changes, so it is set before the first request and then stays.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import ClassVar

import msgspec

from mainstay.core.errors import ProviderError
from mainstay.core.messages import Binary, Message, Text, Thinking, ToolCall, ToolResult
from mainstay.core.ports import Context, ModelInfo, Options, Piece
from mainstay.core.provider_manifest import ProviderComponent, ProviderFactoryContext, ProviderSettings
from mainstay.core.runtime_notes import format_runtime_note
from mainstay.providers.ollama.environment import DEFAULT_WINDOW, apply_configured_window, find_ollama_model
from mainstay.providers.ollama.manifest import COMPONENT
from mainstay.providers.ollama.response import OllamaResponseParser
from mainstay.providers.wire.api_client import ApiRequest
from mainstay.providers.wire.decoding import DECODING_ERRORS, WINDOW_DIGITS_MAX, bound_window
from mainstay.providers.wire.encoding import (
    WireObject,
    build_encoding_tag,
    describe_file,
    encode,
    encode_arguments,
    encode_function_tools,
    encode_image,
    encode_items,
    encode_messages,
    encode_system_message,
    to_valid_id,
    to_valid_name,
)
from mainstay.providers.wire.http_provider import HttpProvider
from mainstay.providers.wire.ndjson import NdjsonDecoder

KEEP_ALIVE = "15m"  # reloading the model and rereading the conversation costs more than idle memory
SHOW_TIMEOUT_S = 0.5  # a local server needs a few milliseconds


class OllamaModelDetails(msgspec.Struct):
    """The fields of a response of /api/show that are used here."""

    parameters: str | None = None
    model_info: WireObject | None = None
    capabilities: list[str] | None = None


_decode_model_details = msgspec.json.Decoder(OllamaModelDetails).decode


def build_ollama_provider(model: str, settings: ProviderSettings, context: ProviderFactoryContext) -> OllamaProvider:
    info = apply_configured_window(context.info, context.environ)
    return OllamaProvider.from_context(model, msgspec.structs.replace(context, info=info))


class OllamaProvider(HttpProvider):
    """One model of an Ollama server. If no context window is configured, the server is asked for it once."""

    MANIFEST: ClassVar[ProviderComponent] = COMPONENT
    PARSER: ClassVar[type[OllamaResponseParser]] = OllamaResponseParser
    DECODER: ClassVar[type[NdjsonDecoder]] = NdjsonDecoder
    ACCEPT: ClassVar[str] = "application/x-ndjson"

    encode_system = staticmethod(encode_system_message)
    encode_tools = staticmethod(encode_function_tools)

    def default_info(self) -> ModelInfo:
        return find_ollama_model(self.name)

    def prepare(self) -> None:
        self._needs_details = self.info.window == DEFAULT_WINDOW
        self._can_think = False

    def build_url(self, base_url: str) -> str:
        return base_url.rstrip("/").removesuffix("/v1") + "/api/chat"

    def stream(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        return self._stream_first_chat(context, options) if self._needs_details else super().stream(context, options)

    def build_body(self, context: Context, options: Options) -> bytes:
        """Return the request body. The API cannot forbid tool calls, so no tools are sent if none may be called."""
        head = [b'{"model":%b,"stream":true,' % encode(self.name)]
        head.append(b'"keep_alive":%b,"truncate":false,"shift":false,' % encode(KEEP_ALIVE))
        if self._can_think:
            head.append(b'"think":true,')
        if context.tools and options.tool_choice != "none":
            head.append(self.cached_tools(context.tools))
        output_max = b"" if options.output_tokens_max is None else b',"num_predict":%d' % options.output_tokens_max
        head.append(b'"options":{"num_ctx":%d%b},' % (self.info.window, output_max))
        encoding_tag = build_encoding_tag("ollama", {"images": self.info.images})
        messages = encode_messages(context.messages, encoding_tag, self._encode_message)
        if context.system or context.profile:
            messages.insert(0, self.cached_system(context.system, context.profile))
        return b'%b"messages":[%b]}' % (b"".join(head), b"".join(messages)[1:])  # each begins with a comma

    def _encode_message(self, message: Message) -> bytes:
        return encode_items(_to_wire_messages(message, images=self.info.images))

    # --- details of the model ----------------------------------------------------------------------

    async def _stream_first_chat(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        """Fetch the details of the model, for `SHOW_TIMEOUT_S` at most, then stream the chat."""
        try:
            async with asyncio.timeout(SHOW_TIMEOUT_S):
                self._apply_details(await self._fetch_details())
            self._needs_details = False
        except TimeoutError:
            self._needs_details = False  # a later change of the window would reload the model
        except ProviderError:
            pass  # the chat request will report the problem; the next one tries again
        async with contextlib.aclosing(super().stream(context, options)) as pieces:
            async for piece in pieces:
                yield piece

    async def _fetch_details(self) -> OllamaModelDetails:
        url = self._url.removesuffix("/chat") + "/show"
        body = await self._api.post(ApiRequest(url, self._headers, encode({"model": self.name})), self._api_key)
        try:
            return _decode_model_details(body)
        except DECODING_ERRORS:
            return OllamaModelDetails()

    def _apply_details(self, details: OllamaModelDetails) -> None:
        configured, trained = (
            _parse_configured_window(details.parameters or ""),
            _parse_trained_window(details.model_info or {}),
        )
        window = configured or min(DEFAULT_WINDOW, trained or DEFAULT_WINDOW)
        capabilities = details.capabilities
        self._can_think = capabilities is not None and "thinking" in capabilities
        self.info = msgspec.structs.replace(
            self.info,
            window=window,
            output=min(self.info.output, max(window // 4, 256)),
            images=self.info.images if capabilities is None else "vision" in capabilities,
            thinking=self._can_think,
        )


def _parse_configured_window(parameters: str) -> int:
    """Return the window that the model's parameters set, or 0."""
    for line in parameters.splitlines():
        match line.split():
            case ["num_ctx", size] if size.isdecimal() and len(size) <= WINDOW_DIGITS_MAX:
                return bound_window(int(size))
    return 0


def _parse_trained_window(model_info: WireObject) -> int:
    """Return the window that the model was trained with, `<architecture>.context_length`, or 0."""
    sizes = [value for name, value in model_info.items() if name.endswith(".context_length") and isinstance(value, int)]
    return max(map(bound_window, sizes), default=0)


# --- messages ------------------------------------------------------------------------------------


def _to_wire_messages(message: Message, *, images: bool) -> list[WireObject]:
    match message.role:
        case "assistant":
            return _assistant_messages(message)
        case "tool":
            return [_tool_message(part) for part in message.parts if isinstance(part, ToolResult)]
        case "system":
            return [{"role": "user", "content": format_runtime_note(message)}] if message.text else []
        case "user":
            return _user_messages(message, images=images)


def _user_messages(message: Message, *, images: bool) -> list[WireObject]:
    """Encode a user message. Images have a field of their own; other files are described in the text."""
    lines: list[str] = []
    image_data: list[str] = []
    for part in message.parts:
        if isinstance(part, Text):
            lines.append(part.text)
        elif isinstance(part, Binary):
            if data := encode_image(part) if images else "":
                image_data.append(data)
            else:
                lines.append(describe_file(part))
    wire_message: WireObject = {"role": "user", "content": "\n".join(lines)}
    if image_data:
        wire_message["images"] = image_data
    return [wire_message] if image_data or wire_message["content"] else []


def _assistant_messages(message: Message) -> list[WireObject]:
    """Encode an assistant message. Thinking is sent only with the calls it led to, as models are trained on that."""
    calls = [_tool_call(part) for part in message.parts if isinstance(part, ToolCall)]
    wire_message: WireObject = {"role": "assistant", "content": message.text}
    if not calls:
        return [wire_message] if message.text else []
    wire_message["tool_calls"] = calls
    if thinking := "".join(part.text for part in message.parts if isinstance(part, Thinking)):
        wire_message["thinking"] = thinking
    return [wire_message]


def _tool_call(call: ToolCall) -> WireObject:
    function = {"name": to_valid_name(call.name), "arguments": encode_arguments(call.input)}
    return {"id": to_valid_id(call.id), "function": function}


def _tool_message(result: ToolResult) -> WireObject:
    head = {"role": "tool", "tool_name": to_valid_name(result.name), "tool_call_id": to_valid_id(result.call_id)}
    return {**head, "content": result.model_text}
