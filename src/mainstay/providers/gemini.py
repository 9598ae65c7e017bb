"""Google's Gemini API: generateContent, streamed.

A history is kept as bytes: each message's parts are encoded once. Neighbours of one role are one content there, but for
results of calls, which stand alone and directly after their calls.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from mainstay.core.limits import Limits
from mainstay.core.messages import Binary, Message, Text, Thinking, ToolCall, ToolResult
from mainstay.core.ports import Context, ModelInfo, Options, Piece, Tool
from mainstay.providers import opaque
from mainstay.providers.forms import Kept, arguments, encode, fit_id, fit_name, image_of, note_of, runtime_note
from mainstay.providers.gemini_answer import CALL, TEXT, GeminiAnswer
from mainstay.providers.wire import Key, Request, Wire

# From the third generation on, a call without its signature is refused. One that another model made has none; this is
# what Google says to write there instead.
_UNSIGNED = "skip_thought_signature_validator"
_SIGNS = re.compile(r"gemini-(?:[3-9]|\d\d)")


class Parts(msgspec.Struct, frozen=True):
    """A message's content: a comma before each part."""

    role: Literal["user", "model", "results"]
    parts: bytes


class GeminiProvider:
    """One model of the Gemini API. `label` names it in sentences."""

    def __init__(
        self,
        name: str,
        *,
        base_url: str = "https://generativelanguage.googleapis.com/v1beta",
        api_key: Key = None,
        limits: Limits | None = None,
        info: ModelInfo | None = None,
        label: str = "gemini",
    ) -> None:
        self._info = info or ModelInfo(name=name)
        self._key = api_key
        self._label = label
        self._wire = Wire(label, limits or Limits())
        path = quote(name.removeprefix("models/"), safe="-._~")
        place = base_url.rstrip("/").removesuffix("/openai")  # which is where its compatible API is
        self._url = f"{place}/models/{path}:streamGenerateContent?alt=sse"
        self._headers = {
            "x-goog-api-key": "{key}",
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
            "Accept-Encoding": "identity",
            "User-Agent": "mainstay",
        }
        if api_key is None:
            del self._headers["x-goog-api-key"]
        self._signs = _SIGNS.match(name.removeprefix("models/")) is not None
        self._tag = _TAGS[self._info.images, self._signs]
        self._system = Kept(_encode_system)
        self._tools = Kept(_encode_tools)

    def model(self) -> ModelInfo:
        return self._info

    def stream(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        request = Request(self._url, self._headers, self.body(context, options))
        return self._wire.pieces(request, self._key, GeminiAnswer(self._label))

    async def close(self) -> None:
        await self._wire.close()

    def body(self, context: Context, options: Options) -> bytes:
        """The request as it is sent."""
        head = [b"{"]
        if context.system or context.profile:
            head.append(self._system(context.system, context.profile))
        if context.tools:
            head.append(self._tools(context.tools))
            if options.tool_choice == "none":  # the tools stay, so that the prefix is the same as before
                head.append(b'"toolConfig":{"functionCallingConfig":{"mode":"NONE"}},')
        settings = []
        if options.output_tokens is not None:
            settings.append(b'"maxOutputTokens":%d' % options.output_tokens)
        if self._info.thinking:
            settings.append(b'"thinkingConfig":{"includeThoughts":true}')
        if settings:
            head.append(b'"generationConfig":{%b},' % b",".join(settings))
        return b'%b"contents":[%b]}' % (b"".join(head), self._history(context.messages))

    def wire_messages(self, context: Context) -> list[dict[str, Any]]:
        """What would be sent, decoded."""
        return msgspec.json.decode(b"[" + self._history(context.messages) + b"]", type=list[dict[str, Any]])

    def _history(self, messages: Sequence[Message]) -> bytes:
        groups: list[tuple[str, list[bytes]]] = []
        for message in messages:
            made = self._parts(message)
            if not made.parts:
                continue
            if not groups and made.role != "user":
                continue  # a history begins with the user; results without their calls would be refused
            if not groups or groups[-1][0] != made.role:
                groups.append((made.role, []))
            groups[-1][1].append(made.parts)
        return b",".join(
            b'{"role":"%b","parts":[%b]}' % (b"model" if role == "model" else b"user", b"".join(parts)[1:])
            for role, parts in groups
        )

    def _parts(self, message: Message) -> Parts:
        kept = message.wire
        if kept is None or kept[0] is not self._tag:
            kept = message.wire = (self._tag, _encode_parts(message, images=self._info.images, signs=self._signs))
        parts: Parts = kept[1]
        return parts


_TAGS = {
    (images, signs): f"gemini{' images' if images else ''}{' signed' if signs else ''}"
    for images in (True, False)
    for signs in (True, False)
}


def _encode_parts(message: Message, *, images: bool, signs: bool) -> Parts:
    match message.role:
        case "assistant":
            return Parts("model", _join(_assistant(message, signs=signs)))
        case "tool":
            return Parts("results", _join([_result(part) for part in message.parts if isinstance(part, ToolResult)]))
        case "system":
            return Parts("user", _join([{"text": runtime_note(message.text)}] if message.text.strip() else []))
        case "user":
            return Parts("user", _join(_user(message, images=images)))


def _user(message: Message, *, images: bool) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, Text) and part.text:
            made.append({"text": part.text})
        elif isinstance(part, Binary):
            data = image_of(part) if images else ""
            made.append({"inlineData": {"mimeType": part.mime, "data": data}} if data else {"text": note_of(part)})
    return made


def _assistant(message: Message, *, signs: bool) -> list[dict[str, Any]]:
    """Each signature where it was: on its call, or on a part of its own that says nothing."""
    made: list[dict[str, Any]] = []
    signature = ""
    first = signs  # of the calls of one answer only the first is signed
    for part in message.parts:
        match part:
            case Text(text=text) if text:
                made.append({"text": text})
            case Thinking(signature=given) if value := opaque.of(TEXT, given):
                made.append({"text": "", "thoughtSignature": value})
            case Thinking(signature=given):
                signature = opaque.of(CALL, given)
            case ToolCall():
                signature = signature or (_UNSIGNED if first else "")
                made.append({**_call(part), **({"thoughtSignature": signature} if signature else {})})
                signature, first = "", False
    return made if any(one.get("text") != "" for one in made) else []  # signatures alone are no message


def _call(call: ToolCall) -> dict[str, Any]:
    written = msgspec.Raw(arguments(call.input).encode(errors="replace"))
    return {"functionCall": {"id": fit_id(call.id), "name": _name(call.name), "args": written}}


def _result(result: ToolResult) -> dict[str, Any]:
    response = {"error" if result.is_error else "output": result.shown}
    made = {"id": fit_id(result.call_id), "name": _name(result.name), "response": response}
    return {"functionResponse": made}


def _name(name: str) -> str:
    """Names begin with a letter here."""
    fit = fit_name(name)
    return fit if fit[0].isalpha() or fit[0] == "_" else f"_{fit}"[:64]


def _join(parts: list[dict[str, Any]]) -> bytes:
    return b"".join(b"," + encode(part) for part in parts)


def _encode_system(*sections: str) -> bytes:
    parts = [{"text": section} for section in sections if section]
    return b'"systemInstruction":{"parts":%b},' % encode(parts)


def _encode_tools(tools: tuple[Tool, ...]) -> bytes:
    made = [
        {"name": tool.name, "description": tool.description, "parametersJsonSchema": {"type": "object", **tool.schema}}
        for tool in tools
    ]
    return b'"tools":[{"functionDeclarations":%b}],' % encode(made)
