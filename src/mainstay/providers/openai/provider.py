"""Provider for OpenAI's chat completions API and all compatible servers.

Each message is encoded to JSON once, when it is first sent, and cached; a request joins the cached bytes.
"""

from __future__ import annotations

from typing import ClassVar
from urllib.parse import urlsplit

from mainstay.core.messages import AnyPart, Binary, Message, Text, ToolCall, ToolResult
from mainstay.core.ports import Context, Options
from mainstay.core.provider_manifest import ProviderComponent, ProviderFactoryContext, ProviderSettings
from mainstay.core.runtime_notes import format_runtime_note
from mainstay.providers.openai.manifest import COMPONENT
from mainstay.providers.openai.response import ChatCompletionParser
from mainstay.providers.wire.encoding import (
    WireObject,
    build_encoding_tag,
    describe_file,
    encode,
    encode_function_tools,
    encode_image,
    encode_items,
    encode_messages,
    encode_system_message,
    hash_id,
    normalise_arguments,
    to_valid_id,
    to_valid_name,
)
from mainstay.providers.wire.http_provider import HttpProvider


def build_openai_provider(model: str, settings: ProviderSettings, context: ProviderFactoryContext) -> OpenAIProvider:
    return OpenAIProvider.from_context(model, context)


class OpenAIProvider(HttpProvider):
    """One model behind a chat completions endpoint."""

    MANIFEST: ClassVar[ProviderComponent] = COMPONENT
    PARSER: ClassVar[type[ChatCompletionParser]] = ChatCompletionParser
    SHORT_IDS: ClassVar[bool] = False  # call ids have nine characters

    encode_system = staticmethod(encode_system_message)
    encode_tools = staticmethod(encode_function_tools)

    def prepare(self) -> None:
        is_openai = urlsplit(self._url).hostname == "api.openai.com"
        self._output_limit_field = b'"max_completion_tokens":%d,' if is_openai else b'"max_tokens":%d,'
        self._body_head = b'{"model":%b,"stream":true,"stream_options":{"include_usage":true},' % encode(self.name)
        self._encoder = ChatMessageEncoder(
            images=self.info.images, short_ids=self.SHORT_IDS, note_role="developer" if is_openai else "user"
        )

    def build_url(self, base_url: str) -> str:
        return base_url.rstrip("/") + "/chat/completions"

    def build_body(self, context: Context, options: Options) -> bytes:
        """Return the request body."""
        head = [self._body_head]
        if context.tools:
            head.append(self.cached_tools(context.tools))
            if options.tool_choice == "none":  # the tools are still sent, so that the cached prefix stays valid
                head.append(b'"tool_choice":"none",')
        if options.output_tokens_max is not None:
            head.append(self._output_limit_field % options.output_tokens_max)
        messages = encode_messages(context.messages, self._encoder.encoding_tag, self._encoder.encode)
        if context.system or context.profile:
            messages.insert(0, self.cached_system(context.system, context.profile))
        return b'%b"messages":[%b]}' % (b"".join(head), b"".join(messages)[1:])  # each begins with a comma


class ChatMessageEncoder:
    """Encodes messages. Encoders with the same options share a tag, and so the cached encoding of a message."""

    __slots__ = ("_images", "_note_role", "_to_call_id", "encoding_tag")

    def __init__(self, *, images: bool, short_ids: bool, note_role: str = "user") -> None:
        """`note_role` is the role of the runtime's notes: other servers refuse system messages inside the history."""
        self._images = images
        self._note_role = note_role
        self._to_call_id = hash_id if short_ids else to_valid_id
        self.encoding_tag = build_encoding_tag("openai", {"images": images, "short": short_ids, note_role: True})

    def encode(self, message: Message) -> bytes:
        """Return zero or more JSON messages, with a comma before each."""
        match message.role:
            case "assistant":
                wire_messages = self._assistant_messages(message)
            case "tool":
                wire_messages = [self._tool_message(part) for part in message.parts if isinstance(part, ToolResult)]
            case "system":
                wire_messages = (
                    [{"role": self._note_role, "content": format_runtime_note(message)}] if message.text else []
                )
            case "user":
                wire_messages = self._user_messages(message.parts)
        return encode_items(wire_messages)

    def _user_messages(self, parts: tuple[AnyPart, ...]) -> list[WireObject]:
        content: list[WireObject] = []
        for part in parts:
            if isinstance(part, Text):
                content.append({"type": "text", "text": part.text})
            elif isinstance(part, Binary):
                content.append(self._image_part(part))
        if all("text" in part for part in content):  # every server understands plain text
            text = "\n".join(str(part["text"]) for part in content)
            return [{"role": "user", "content": text}] if text else []
        return [{"role": "user", "content": [part for part in content if part.get("text") != ""]}]

    def _image_part(self, part: Binary) -> WireObject:
        data = encode_image(part) if self._images else ""
        if not data:
            return {"type": "text", "text": describe_file(part)}
        return {"type": "image_url", "image_url": {"url": f"data:{part.mime};base64,{data}"}}

    def _assistant_messages(self, message: Message) -> list[WireObject]:
        calls = [self._tool_call(part) for part in message.parts if isinstance(part, ToolCall)]
        text = message.text
        if calls:
            return [{"role": "assistant", "content": text or None, "tool_calls": calls}]
        return [{"role": "assistant", "content": text}] if text else []

    def _tool_call(self, call: ToolCall) -> WireObject:
        function = {"name": to_valid_name(call.name), "arguments": normalise_arguments(call.input)}
        return {"id": self._to_call_id(call.id), "type": "function", "function": function}

    def _tool_message(self, result: ToolResult) -> WireObject:
        return {"role": "tool", "tool_call_id": self._to_call_id(result.call_id), "content": result.model_text}
