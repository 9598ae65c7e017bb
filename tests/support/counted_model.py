"""A provider that counts every request as it would be sent, with the real vocabulary, and refuses what is too long.

The bytes are those of the OpenAI provider; the count is the server's own and knows nothing of ours.
"""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import splintr

from mainstay.core.errors import ContextTooLong
from mainstay.core.messages import FinishReason, Usage
from mainstay.core.ports import Context, ModelInfo, Options, Piece, StreamFinished, TextPiece, ToolCallPiece
from mainstay.providers.openai.provider import OpenAIProvider

VOCABULARY = splintr.Tokenizer.from_pretrained("o200k_base")


def count(text: str) -> int:
    return len(VOCABULARY.encode_ordinary(text))


def count_request(body: dict[str, Any]) -> int:
    """As a chat-completions server counts: three tokens around a message, names and arguments of calls, schemas."""
    total = 3
    for tool in body.get("tools", []):
        total += 7 + count(json.dumps(tool["function"], separators=(",", ":"), ensure_ascii=False))
    for message in body["messages"]:
        total += 4
        content = message.get("content") or ""
        parts = [content] if isinstance(content, str) else [one.get("text", "") for one in content]
        total += sum(map(count, parts))
        for call in message.get("tool_calls", []):
            total += 6 + count(call["function"]["name"]) + count(call["function"]["arguments"])
        if "tool_call_id" in message:
            total += 3
    return total


class CountedModel:
    """`say` decides what the model does with a request: a text, or calls as (name, arguments)."""

    def __init__(
        self,
        say: Callable[[dict[str, Any]], str | list[tuple[str, str]]],
        *,
        window: int,
        name: str = "gpt-4.1-mini",
        weighs: float = 1.0,
        tells: bool = True,
    ) -> None:
        self._wire = OpenAIProvider(name, info=ModelInfo(name=name, window=window))
        self._say = say
        self._weighs = weighs
        self._tells = tells
        self.limit = window - min(16_384, window // 4)
        self.window = window
        self.bodies: list[bytes] = []
        self.counts: list[int] = []
        self.refused = 0

    def model(self) -> ModelInfo:
        return self._wire.model()

    async def close(self) -> None:
        await self._wire.close()

    async def stream(self, context: Context, options: Options) -> AsyncIterator[Piece]:
        raw = self._wire.build_body(context, options)
        body = json.loads(raw)
        tokens = round(count_request(body) * self._weighs)
        if tokens > self.window - self.window // 8:  # room for an answer
            self.refused += 1
            said = f"maximum context length is {self.window} tokens" if self._tells else "too many tokens"
            raise ContextTooLong(said, window=self.window if self._tells else None)
        self.bodies.append(raw)
        self.counts.append(tokens)
        match self._say(body):
            case str(text):
                yield TextPiece(text)
                yield StreamFinished(FinishReason.END, Usage(tokens, count(text)))
            case calls:
                for index, (name, arguments) in enumerate(calls):
                    yield ToolCallPiece(index, name, arguments)
                yield StreamFinished(FinishReason.TOOL_CALLS, Usage(tokens, 20))


_SAMPLE = """
the of and to in for is on that by this with you it not or be are from at as your all have new more an was we will
can us about if page my has search free but our one other do no information time they site he up may what which
news out use any there see only so his when contact here business who web also now help get view Straße naïve café
東京 你好世界 привет שלום مرحبا 🙂 function() { return x; } 0xdeadbeef https://example.org/a?b=c their home
"""
WORDS = tuple(_SAMPLE.split())


def prose(chance: random.Random, chars: int) -> str:
    kind = chance.random()
    if kind < 0.05:
        return chance.randbytes(chars // 2 + 1).hex()[:chars]
    if kind < 0.1:
        return chance.choice(["a", " ", "\n", "你", "🙂"]) * chars
    return " ".join(chance.choices(WORDS, k=chars // 4 + 1))[:chars]
