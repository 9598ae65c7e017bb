"""What a small model answers, read as it comes: a word that says what it is, then words or the arguments of a call.

    say Hello!
    read {"path":"notes.txt"}

The grammar allows nothing else, so the first word is known after a token or two, and from there on everything is
passed on as it arrives. Should a model answer without that word all the same, what it says is words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from mainstay.core.messages import FinishReason, Usage
from mainstay.core.ports import Finished, Piece
from mainstay.providers.pieces import PieceJoiner

# --- what the server sends -------------------------------------------------------------------------


class _Delta(msgspec.Struct, frozen=True, gc=False):
    content: str | None = None
    reasoning_content: str | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta = _Delta()
    finish_reason: str | None = None


class _Timings(msgspec.Struct, gc=False):
    cache_n: int = 0
    prompt_n: int = 0
    predicted_n: int = 0


class Progress(msgspec.Struct, gc=False):
    """How far it has read: tokens in all, known from before, and looked at so far, these included."""

    total: int = 0
    cache: int = 0
    processed: int = 0
    time_ms: float = 0.0


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] = []
    timings: _Timings | None = None
    prompt_progress: Progress | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode
_REASONS = {"stop": FinishReason.END, "length": FinishReason.LENGTH}


class LocalAnswer(PieceJoiner):
    """Feeds on the payloads of llama.cpp's chat completion. `word` is what words begin with, `names` are the tools that
    may be called; without a word, all of it is words. `heed` is told how far it has read."""

    __slots__ = ("_head", "_heed", "_mode", "_names", "_reason", "_usage", "_word")

    def __init__(self, who: str, word: str, names: frozenset[str], heed: Callable[[Progress], None]) -> None:
        super().__init__(who)
        self._word = word
        self._names = names
        self._mode: Literal["", "words", "call"] = "" if word else "words"
        self._head = ""
        self._reason: str | None = None
        self._usage = Usage()
        self._heed = heed

    def feed(self, payloads: list[bytes]) -> list[Piece]:
        for payload in payloads:
            try:
                chunk = _decode(payload)
            except (ValueError, msgspec.DecodeError):
                if payload.strip() != b"[DONE]" and self._reason is None:
                    self._break(payload)
                self.over = True
                break
            if chunk.error is not None:
                self._fail(chunk.error)
                break
            self._take(chunk)
        if self._reason is not None and self._head:  # it ended before it said what it is
            self._words(self._head.removeprefix(self._word).lstrip())
            self._head = ""
        return self._take_pieces()

    def finished(self) -> Finished | None:
        if self._reason is None:
            return None
        reason = _REASONS.get(self._reason, FinishReason.END)
        if reason is FinishReason.END and self._mode == "call":
            reason = FinishReason.TOOL_CALLS
        return Finished(reason, self._usage)

    def _take(self, chunk: _Chunk) -> None:
        if chunk.prompt_progress is not None:
            self._heed(chunk.prompt_progress)
        for choice in chunk.choices[:1]:
            if choice.delta.reasoning_content:
                self._add("thinking", choice.delta.reasoning_content)
            if choice.delta.content:
                self._hear(choice.delta.content)
            self._reason = choice.finish_reason or self._reason
        if (spent := chunk.timings) is not None:
            self._usage = Usage(spent.cache_n + spent.prompt_n, spent.predicted_n, spent.cache_n)

    def _hear(self, text: str) -> None:
        match self._mode:
            case "words":
                self._words(text)
            case "call":
                self._write(0, "", text)
            case _:
                self._begin(text)

    def _begin(self, text: str) -> None:
        """Nothing is passed on until its first word is whole."""
        self._head += text
        word, space, rest = self._head.partition(" ")
        if not space and self._may_become_a_word():
            return
        if space and word in self._names:
            self._mode = "call"
            self._write(0, word, rest)
        else:
            self._mode = "words"
            self._words(rest if space and word == self._word else self._head)
        self._head = ""

    def _may_become_a_word(self) -> bool:
        return any(one.startswith(self._head) for one in (self._word, *self._names))

    def _words(self, text: str) -> None:
        if text:
            self._add("text", text)
