"""The provider `acme`: requests are JSON, responses are lines of JSON (NDJSON). The API has text only, no tools."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from mainstay_acme_manifest import COMPONENT, AcmeSettings

from mainstay.core.messages import Binary, FinishReason, Message, Text, ToolCall, ToolResult
from mainstay.core.ports import Context, Options, Piece, StreamFinished, Tool
from mainstay.core.provider_manifest import ProviderComponent, ProviderFactoryContext
from mainstay.core.runtime_notes import format_runtime_note, remove_imitations
from mainstay.providers.wire.batching_parser import DECODING_ERRORS, BatchingParser, build_usage
from mainstay.providers.wire.encoding import describe_file, encode
from mainstay.providers.wire.http_provider import HttpProvider
from mainstay.providers.wire.ndjson import NdjsonDecoder
from mainstay.providers.wire.sse import SseDecoder


def build_acme_provider(model: str, settings: AcmeSettings, context: ProviderFactoryContext) -> AcmeProvider:
    provider = AcmeProvider.from_context(model, context)
    provider.temperature = settings.temperature
    return provider


# --- the response --------------------------------------------------------------------------------


class AcmeUsage(msgspec.Struct):
    read: int | None = None
    written: int | None = None


class AcmeLine(msgspec.Struct):
    delta: str | None = None
    done: str | None = None  # why the answer ended
    usage: AcmeUsage | None = None
    error: Any = None


REASONS = {"stop": FinishReason.END, "length": FinishReason.LENGTH, "blocked": FinishReason.FILTERED}
_line_decoder = msgspec.json.Decoder(AcmeLine)


class AcmeParser(BatchingParser):
    __slots__ = ("_last",)

    def __init__(self, label: str) -> None:
        super().__init__(label)
        self._last: AcmeLine | None = None

    def feed(self, payloads: list[bytes]) -> list[Piece]:
        for payload in payloads:
            try:
                line: AcmeLine | None = _line_decoder.decode(payload)
            except DECODING_ERRORS:
                line = self.decode_leniently(payload, _line_decoder)
            if line is None:
                break
            if line.delta:
                self.append_text("text", line.delta)
            if line.error is not None:
                self.handle_error(line.error)
                break
            if line.done is not None:
                self._last = line
                self.is_over = True
                break
        return self.drain_pieces()

    def final_piece(self) -> StreamFinished | None:
        if self._last is None:
            return None
        usage = self._last.usage or AcmeUsage()
        reason = REASONS.get(self._last.done or "", FinishReason.END)
        return StreamFinished(reason, build_usage(usage.read, usage.written))


# --- the request ---------------------------------------------------------------------------------


class AcmeProvider(HttpProvider):
    MANIFEST: ClassVar[ProviderComponent] = COMPONENT
    PARSER: ClassVar[type[BatchingParser]] = AcmeParser
    DECODER: ClassVar[type[SseDecoder]] = NdjsonDecoder
    KEY_HEADER: ClassVar[tuple[str, str]] = ("X-Acme-Key", "{key}")
    ACCEPT: ClassVar[str] = "application/x-ndjson"

    temperature = 0.7

    def prepare(self) -> None:
        self._body_head = b'{"model":%b' % encode(self.name)

    def build_url(self, base_url: str) -> str:
        return base_url.rstrip("/") + "/generate"

    @staticmethod
    def encode_system(*sections: str) -> bytes:
        return encode("\n\n".join(filter(None, sections)))

    @staticmethod
    def encode_tools(tools: tuple[Tool, ...]) -> bytes:
        return b""  # the API has none

    def build_body(self, context: Context, options: Options) -> bytes:
        turns = [turn for message in context.messages if (turn := to_turn(remove_imitations(message)))]
        output = self.info.output if options.output_tokens_max is None else options.output_tokens_max
        system = self.cached_system(context.system, context.profile)
        settings = b',"temperature":%b,"output":%d' % (encode(self.temperature), output)
        return self._body_head + settings + b',"system":%b,"turns":%b}' % (system, encode(turns))


def to_turn(message: Message) -> dict[str, str] | None:
    """Return a message for the API. What it has no field for becomes text; reasoning is left out."""
    lines: list[str] = []
    for part in message.parts:
        match part:
            case Text():
                lines.append(part.text)
            case Binary():
                lines.append(describe_file(part))
            case ToolCall():
                lines.append(f"[called the tool {part.name}: {part.input}]")
            case ToolResult():
                lines.append(f"[result of {part.name}: {part.model_text}]")
    text = "\n".join(filter(None, lines))
    if message.role == "system":
        text = format_runtime_note(message)
    return {"from": "model" if message.role == "assistant" else "user", "text": text} if text else None
