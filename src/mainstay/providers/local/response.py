"""Parses streamed responses of the local llama.cpp server: a keyword, then text or the arguments of a tool call.

    say Hello!
    read {"path":"notes.txt"}

The grammar allows nothing else, so the keyword is known after a token or two, and from then on everything is passed on
as it arrives. A response without a keyword is treated as text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

import msgspec

from mainstay.core.messages import FinishReason
from mainstay.core.ports import Piece, StreamFinished
from mainstay.providers.wire.batching_parser import BatchingParser
from mainstay.providers.wire.decoding import DECODING_ERRORS, Count, Word
from mainstay.providers.wire.usage_report import UsageFields

# --- structs of the server -------------------------------------------------------------------------


class LlamaDelta(msgspec.Struct, frozen=True, gc=False):
    content: str | None = None
    reasoning_content: str | None = None


class LlamaChoice(msgspec.Struct, gc=False):
    delta: LlamaDelta = LlamaDelta()
    finish_reason: Word | None = None


class PromptProgress(msgspec.Struct, gc=False):
    """How far the server has read the prompt: tokens in total, tokens from the cache, and tokens processed so far,
    cached ones included."""

    total: Count = 0
    cache: Count = 0
    processed: Count = 0
    time_ms: float = 0.0


class LlamaChunk(msgspec.Struct, gc=False):
    choices: list[LlamaChoice] = []
    timings: msgspec.Raw = msgspec.Raw(b"")
    prompt_progress: PromptProgress | None = None
    error: Any = None


_chunk_decoder = msgspec.json.Decoder(LlamaChunk)
_decode_chunk = _chunk_decoder.decode
_FINISH_REASONS = {"stop": FinishReason.END, "length": FinishReason.LENGTH}


class LocalResponseParser(BatchingParser):
    """Parses the payloads of one chat completion of llama.cpp.

    `text_keyword` begins a text answer; if it is empty, the whole response is text. `tool_names` may be called.
    `on_progress` is called while the server reads the prompt.
    """

    USAGE_FIELDS: ClassVar[UsageFields] = UsageFields(("cache_n", "prompt_n"), ("predicted_n",), cached=("cache_n",))

    __slots__ = ("_finish_reason", "_mode", "_on_progress", "_pending_text", "_text_keyword", "_tool_names")

    def __init__(
        self, label: str, text_keyword: str, tool_names: frozenset[str], on_progress: Callable[[PromptProgress], None]
    ) -> None:
        super().__init__(label)
        self._text_keyword = text_keyword
        self._tool_names = tool_names
        self._mode: Literal["", "words", "call"] = "" if text_keyword else "words"
        self._pending_text = ""
        self._finish_reason: str | None = None
        self._on_progress = on_progress

    def feed(self, payloads: list[bytes]) -> list[Piece]:
        chunk: LlamaChunk | None
        for payload in payloads:
            try:
                chunk = _decode_chunk(payload)
            except DECODING_ERRORS:
                chunk = self.decode_leniently(payload, _chunk_decoder)
                if chunk is None:
                    break
            if chunk.error is not None:
                self.handle_error(chunk.error)
                break
            self._handle_chunk(chunk)
        if self._finish_reason is not None and self._pending_text:  # it ended before the keyword was complete
            self._append_words(self._pending_text.removeprefix(self._text_keyword).lstrip())
            self._pending_text = ""
        return self.drain_pieces()

    def final_piece(self) -> StreamFinished | None:
        if self._finish_reason is None:
            return None
        reason = _FINISH_REASONS.get(self._finish_reason, FinishReason.END)
        if reason is FinishReason.END and self._mode == "call":
            reason = FinishReason.TOOL_CALLS
        return StreamFinished(reason, self.usage.build())

    def _handle_chunk(self, chunk: LlamaChunk) -> None:
        if chunk.prompt_progress is not None:
            self._on_progress(chunk.prompt_progress)
        for choice in chunk.choices[:1]:
            if choice.delta.reasoning_content:
                self.append_text("thinking", choice.delta.reasoning_content)
            if choice.delta.content:
                self._handle_content(choice.delta.content)
            self._finish_reason = choice.finish_reason or self._finish_reason
        self.usage.update(chunk.timings)

    def _handle_content(self, text: str) -> None:
        match self._mode:
            case "words":
                self._append_words(text)
            case "call":
                self.append_call_input(0, "", text)
            case _:
                self._read_keyword(text)

    def _read_keyword(self, text: str) -> None:
        """Buffer the text until the keyword is complete, then pass on the rest."""
        self._pending_text += text
        word, space, rest = self._pending_text.partition(" ")
        if not space and self._may_become_keyword():
            return
        if space and word in self._tool_names:
            self._mode = "call"
            self.append_call_input(0, word, rest)
        else:
            self._mode = "words"
            self._append_words(rest if space and word == self._text_keyword else self._pending_text)
        self._pending_text = ""

    def _may_become_keyword(self) -> bool:
        return any(keyword.startswith(self._pending_text) for keyword in (self._text_keyword, *self._tool_names))

    def _append_words(self, text: str) -> None:
        if text:
            self.append_text("text", text)
