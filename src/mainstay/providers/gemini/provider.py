"""Provider for Google's Gemini API (`streamGenerateContent`).

Each message's parts are encoded to JSON once and cached. The API takes neighbouring messages of one role as one
content, except tool results: they form a content of their own, directly after their calls.
"""

from __future__ import annotations

import re
from typing import ClassVar
from urllib.parse import quote

from mainstay.core.messages import Binary, Message, Text, Thinking, ToolCall, ToolResult
from mainstay.core.ports import Context, Options, Tool
from mainstay.core.provider_manifest import ProviderComponent, ProviderFactoryContext, ProviderSettings
from mainstay.core.runtime_notes import format_runtime_note
from mainstay.providers.gemini.manifest import COMPONENT
from mainstay.providers.gemini.response import CALL_SIGNATURE, TEXT_SIGNATURE, GeminiResponseParser
from mainstay.providers.wire import reasoning_signatures
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

# From the third generation on, the API refuses a call without its signature. A call of another provider's model has
# none; this is the value that Google documents for that case.
_MISSING_SIGNATURE = "skip_thought_signature_validator"
_SIGNING_MODELS = re.compile(r"gemini-(?:[3-9]|\d\d)")
_RESULTS = "results"  # role of tool results while messages are grouped; sent as the user's


def build_gemini_provider(model: str, settings: ProviderSettings, context: ProviderFactoryContext) -> GeminiProvider:
    return GeminiProvider.from_context(model, context)


class GeminiProvider(HttpProvider):
    """One model of the Gemini API."""

    MANIFEST: ClassVar[ProviderComponent] = COMPONENT
    PARSER: ClassVar[type[GeminiResponseParser]] = GeminiResponseParser
    KEY_HEADER: ClassVar[tuple[str, str]] = ("x-goog-api-key", "{key}")

    def prepare(self) -> None:
        self._needs_signatures = _SIGNING_MODELS.match(self.name.removeprefix("models/")) is not None
        flags = {"images": self.info.images, "signed": self._needs_signatures}
        self._encoding_tag = build_encoding_tag("gemini", flags)

    def build_url(self, base_url: str) -> str:
        root = base_url.rstrip("/").removesuffix("/openai")  # the path of the OpenAI-compatible API
        model = quote(self.name.removeprefix("models/"), safe="-._~")
        return f"{root}/models/{model}:streamGenerateContent?alt=sse"

    def build_body(self, context: Context, options: Options) -> bytes:
        """Return the request body."""
        head = [b"{"]
        if context.system or context.profile:
            head.append(self.cached_system(context.system, context.profile))
        if context.tools:
            head.append(self.cached_tools(context.tools))
            if options.tool_choice == "none":  # the tools are still sent, so that the cached prefix stays valid
                head.append(b'"toolConfig":{"functionCallingConfig":{"mode":"NONE"}},')
        settings = []
        if options.output_tokens_max is not None:
            settings.append(b'"maxOutputTokens":%d' % options.output_tokens_max)
        if self.info.thinking:
            settings.append(b'"thinkingConfig":{"includeThoughts":true}')
        if settings:
            head.append(b'"generationConfig":{%b},' % b",".join(settings))
        encodings = encode_messages(context.messages, self._encoding_tag, self._encode_parts)
        contents = b",".join(
            b'{"role":"%b","parts":[%b]}' % (b"model" if role == "model" else b"user", parts)
            for role, parts in group_by_role(context.messages, encodings)
        )
        return b'%b"contents":[%b]}' % (b"".join(head), contents)

    def _encode_parts(self, message: Message) -> ContentBlocks:
        match message.role:
            case "assistant":
                parts = _assistant_parts(message, needs_signatures=self._needs_signatures)
                return ContentBlocks("model", others=encode_items(parts))
            case "tool":
                results = [_function_response_part(part) for part in message.parts if isinstance(part, ToolResult)]
                return ContentBlocks(_RESULTS, results=encode_items(results))
            case "system":
                parts = [{"text": format_runtime_note(message)}] if message.text.strip() else []
                return ContentBlocks("user", others=encode_items(parts))
            case "user":
                return ContentBlocks("user", others=encode_items(_user_parts(message, images=self.info.images)))

    @staticmethod
    def encode_system(*sections: str) -> bytes:
        parts = [{"text": section} for section in sections if section]
        return b'"systemInstruction":{"parts":%b},' % encode(parts)

    @staticmethod
    def encode_tools(tools: tuple[Tool, ...]) -> bytes:
        declarations = [
            {
                "name": tool.name,
                "description": tool.description,
                "parametersJsonSchema": {"type": "object", **tool.schema},
            }
            for tool in tools
        ]
        return b'"tools":[{"functionDeclarations":%b}],' % encode(declarations)


def _user_parts(message: Message, *, images: bool) -> list[WireObject]:
    parts: list[WireObject] = []
    for part in message.parts:
        if isinstance(part, Text) and part.text:
            parts.append({"text": part.text})
        elif isinstance(part, Binary):
            data = encode_image(part) if images else ""
            parts.append(
                {"inlineData": {"mimeType": part.mime, "data": data}} if data else {"text": describe_file(part)}
            )
    return parts


def _assistant_parts(message: Message, *, needs_signatures: bool) -> list[WireObject]:
    """Encode an assistant message with its signatures: on the call, or on a separate part with empty text."""
    parts: list[WireObject] = []
    signature = ""
    needs_signature = needs_signatures  # only the first call of a response carries one
    for part in message.parts:
        match part:
            case Text(text=text) if text:
                parts.append({"text": text})
            case Thinking(signature=tagged) if value := reasoning_signatures.untag_signature(TEXT_SIGNATURE, tagged):
                parts.append({"text": "", "thoughtSignature": value})
            case Thinking(signature=tagged):
                signature = reasoning_signatures.untag_signature(CALL_SIGNATURE, tagged)
            case ToolCall():
                signature = signature or (_MISSING_SIGNATURE if needs_signature else "")
                parts.append({**_function_call_part(part), **({"thoughtSignature": signature} if signature else {})})
                signature, needs_signature = "", False
    return parts if any(part.get("text") != "" for part in parts) else []  # signatures alone are no message


def _function_call_part(call: ToolCall) -> WireObject:
    name, args = _to_gemini_name(call.name), encode_arguments(call.input)
    return {"functionCall": {"id": to_valid_id(call.id), "name": name, "args": args}}


def _function_response_part(result: ToolResult) -> WireObject:
    response = {"error" if result.is_error else "output": result.model_text}
    return {
        "functionResponse": {
            "id": to_valid_id(result.call_id),
            "name": _to_gemini_name(result.name),
            "response": response,
        }
    }


def _to_gemini_name(name: str) -> str:
    """Return a valid name that begins with a letter or an underscore, as this API requires."""
    valid = to_valid_name(name)
    return valid if valid[0].isalpha() or valid[0] == "_" else f"_{valid}"[:64]
