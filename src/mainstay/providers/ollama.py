"""Ollama's own chat API.

Its compatible address knows no window: there, a prompt that is longer than a small default is cut without a word. Here
each request says how many tokens it is for (`num_ctx`), and that a longer one is to be refused rather than cut. The
server loads a model anew when that number changes, so it is settled before the first request and stays.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from mainstay.core.errors import ProviderError
from mainstay.core.limits import Limits
from mainstay.core.messages import Binary, FinishReason, Message, Text, Thinking, ToolCall, ToolResult
from mainstay.core.ports import Context, Finished, ModelInfo, Options, Piece, Tool
from mainstay.providers.cutting import LineCutter
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
from mainstay.providers.known import OLLAMA_OUTPUT, OLLAMA_WINDOW
from mainstay.providers.ollama_answer import OllamaAnswer
from mainstay.providers.wire import Key, Request, Wire

KEEP_ALIVE = "15m"  # to load a model and read the conversation again costs more than memory that nobody else wants
SHOW_S = 0.5  # what a server on this machine needs a few milliseconds for
_TAGS = {True: "ollama", False: "ollama without images"}


class _Shown(msgspec.Struct):
    """What /api/show tells of a model, as far as it matters."""

    parameters: str | None = None
    model_info: dict[str, Any] | None = None
    capabilities: list[str] | None = None


_decode_shown = msgspec.json.Decoder(_Shown).decode


class _ShownAnswer:
    """Reads that, as the wire would have an answer read."""

    def __init__(self) -> None:
        self.error: ProviderError | None = None
        self.over = False
        self.shown: _Shown | None = None

    def feed(self, payloads: list[bytes]) -> list[Piece]:
        with contextlib.suppress(ValueError, RecursionError, msgspec.DecodeError):  # then nothing is known
            self.shown = _decode_shown(payloads[0])
        self.over = True
        return []

    def finished(self) -> Finished | None:
        return Finished(FinishReason.END)


class OllamaProvider:
    """One model of an Ollama server. A window that nobody chose is learned from the server, once."""

    def __init__(
        self,
        name: str,
        *,
        base_url: str = "http://127.0.0.1:11434",
        api_key: Key = None,
        limits: Limits | None = None,
        info: ModelInfo | None = None,
        label: str = "ollama",
    ) -> None:
        self._info = info or ModelInfo(name=name, window=OLLAMA_WINDOW, output=OLLAMA_OUTPUT)
        self._name = name
        self._key = api_key
        self._label = label
        self._wire = Wire(label, limits or Limits(), LineCutter)
        place = base_url.rstrip("/").removesuffix("/v1")
        self._url = place + "/api/chat"
        self._show_url = place + "/api/show"
        self._headers = {
            "Authorization": "Bearer {key}",
            "Content-Type": "application/json",
            "Accept": "application/x-ndjson",
            "Accept-Encoding": "identity",
            "User-Agent": "mainstay",
        }
        if api_key is None:
            del self._headers["Authorization"]
        self._unknown = self._info.window == OLLAMA_WINDOW
        self._thinks = False
        self._system = Kept(_encode_system)
        self._tools = Kept(_encode_tools)

    def model(self) -> ModelInfo:
        return self._info

    def stream(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        return self._first(context, options) if self._unknown else self._ask(context, options)

    def _ask(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        request = Request(self._url, self._headers, self.body(context, options))
        return self._wire.pieces(request, self._key, OllamaAnswer(self._label))

    async def close(self) -> None:
        await self._wire.close()

    def body(self, context: Context, options: Options) -> bytes:
        """The request as it is sent. There is no way to offer tools that must not be called: then none are sent."""
        head = [b'{"model":%b,"stream":true,' % encode(self._name)]
        head.append(b'"keep_alive":%b,"truncate":false,"shift":false,' % encode(KEEP_ALIVE))
        if self._thinks:
            head.append(b'"think":true,')
        if context.tools and options.tool_choice != "none":
            head.append(self._tools(context.tools))
        bound = b"" if options.output_tokens is None else b',"num_predict":%d' % options.output_tokens
        head.append(b'"options":{"num_ctx":%d%b},' % (self._info.window, bound))
        return b'%b"messages":[%b]}' % (b"".join(head), self._history(context))

    def wire_messages(self, context: Context) -> list[dict[str, Any]]:
        """What would be sent, decoded."""
        return msgspec.json.decode(b"[" + self._history(context) + b"]", type=list[dict[str, Any]])

    def _history(self, context: Context) -> bytes:
        parts = kept_parts(context.messages, _TAGS[self._info.images], self._written)
        if context.system or context.profile:
            parts.insert(0, self._system(context.system, context.profile))
        return b"".join(parts)[1:]  # each begins with a comma

    def _written(self, message: Message) -> bytes:
        """Encoded once; the next request only joins it."""
        images = self._info.images
        made = b"".join(b"," + encode(one) for one in _messages(message, images=images))
        message.wire = (_TAGS[images], made)
        return made

    # --- what the server knows of the model --------------------------------------------------------

    async def _first(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        """Learn what there is to know, but wait for it no longer than anybody would notice."""
        try:
            async with asyncio.timeout(SHOW_S):
                self._learn(await self._show())
            self._unknown = False
        except TimeoutError:
            self._unknown = False  # to learn it later would mean to load the model again
        except ProviderError:
            pass  # what is wrong, the request itself will tell; it may be right the next time
        async with contextlib.aclosing(self._ask(context, options)) as pieces:
            async for piece in pieces:
                yield piece

    async def _show(self) -> _Shown:
        answer = _ShownAnswer()
        request = Request(self._show_url, self._headers, encode({"model": self._name}))
        async with contextlib.aclosing(self._wire.pieces(request, self._key, answer)) as pieces:
            async for _ in pieces:
                pass
        return answer.shown or _Shown()

    def _learn(self, shown: _Shown) -> None:
        chosen, trained = _chosen(shown.parameters or ""), _trained(shown.model_info or {})
        window = chosen or min(OLLAMA_WINDOW, trained or OLLAMA_WINDOW)
        can = shown.capabilities
        self._thinks = can is not None and "thinking" in can
        self._info = msgspec.structs.replace(
            self._info,
            window=window,
            output=min(self._info.output, max(window // 4, 256)),
            images=self._info.images if can is None else "vision" in can,
            thinking=self._thinks,
        )


def _chosen(parameters: str) -> int:
    """The window that whoever made the model wrote into it, or 0."""
    for line in parameters.splitlines():
        match line.split():
            case ["num_ctx", size] if size.isdecimal():
                return int(size)
    return 0


def _trained(facts: dict[str, Any]) -> int:
    """The longest the model was made for: `<architecture>.context_length`, or 0."""
    sizes = [value for name, value in facts.items() if name.endswith(".context_length") and isinstance(value, int)]
    return max(sizes, default=0)


# --- messages ------------------------------------------------------------------------------------


def _messages(message: Message, *, images: bool) -> list[dict[str, Any]]:
    match message.role:
        case "assistant":
            return _assistant(message)
        case "tool":
            return [_result(part) for part in message.parts if isinstance(part, ToolResult)]
        case "system":
            return [{"role": "user", "content": runtime_note(message.text)}] if message.text else []
        case "user":
            return _user(message, images=images)


def _user(message: Message, *, images: bool) -> list[dict[str, Any]]:
    """Images have a place of their own; what cannot be shown is told in the text."""
    lines: list[str] = []
    shown: list[str] = []
    for part in message.parts:
        if isinstance(part, Text):
            lines.append(part.text)
        elif isinstance(part, Binary):
            if data := image_of(part) if images else "":
                shown.append(data)
            else:
                lines.append(note_of(part))
    made: dict[str, Any] = {"role": "user", "content": "\n".join(lines)}
    if shown:
        made["images"] = shown
    return [made] if shown or made["content"] else []


def _assistant(message: Message) -> list[dict[str, Any]]:
    """Thoughts go back only with the calls that they led to: that is what models are trained on."""
    calls = [_call(part) for part in message.parts if isinstance(part, ToolCall)]
    made: dict[str, Any] = {"role": "assistant", "content": message.text}
    if not calls:
        return [made] if message.text else []
    made["tool_calls"] = calls
    if thoughts := "".join(part.text for part in message.parts if isinstance(part, Thinking)):
        made["thinking"] = thoughts
    return [made]


def _call(call: ToolCall) -> dict[str, Any]:
    written = msgspec.Raw(arguments(call.input).encode(errors="replace"))
    return {"id": fit_id(call.id), "function": {"name": fit_name(call.name), "arguments": written}}


def _result(result: ToolResult) -> dict[str, Any]:
    made = {"role": "tool", "tool_name": fit_name(result.name), "tool_call_id": fit_id(result.call_id)}
    return {**made, "content": result.shown}


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
