"""An embedder for Mainstay: the vector of a text counts its letter trigrams, so misspelled words are similar too."""

from __future__ import annotations

import math
import zlib
from array import array
from collections.abc import Iterator, Sequence
from typing import Annotated

from msgspec import Meta

from mainstay.core.components import Component
from mainstay.core.embedder_settings import EmbedderCheckContext, EmbedderFactoryContext, EmbedderOptions
from mainstay.core.health import CheckFinding


class TrigramOptions(EmbedderOptions, frozen=True, kw_only=True):
    dimensions: Annotated[int, Meta(ge=16, le=4096, description="Length of a vector.")] = 256


COMPONENT = Component(
    kind="embedder",
    name="trigrams",
    summary="Letter trigrams, on this machine; any language, misspelled words too.",
    settings=TrigramOptions,
    factory="mainstay_trigram_embedder:build_trigram_embedder",
    check="mainstay_trigram_embedder:check_trigram_embedder",
)


def build_trigram_embedder(model: str, options: TrigramOptions, context: EmbedderFactoryContext) -> TrigramEmbedder:
    return TrigramEmbedder(options.dimensions)


def check_trigram_embedder(
    model: str, options: TrigramOptions, context: EmbedderCheckContext
) -> Iterator[CheckFinding]:
    yield CheckFinding("Memory", "ok", f"full-text and semantic search; trigrams, {options.dimensions} dimensions")


class TrigramEmbedder:
    vector_weight = 0.5  # a match of whole words counts 1.0

    def __init__(self, dimensions: int) -> None:
        self.name = f"trigrams/{dimensions}"  # vectors of another name are computed again
        self._dimensions = dimensions

    async def load(self) -> int:
        return self._dimensions

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        return [self._embed(f"  {text.casefold()} ") for text in texts]

    async def close(self) -> None:
        pass

    def _embed(self, text: str) -> bytes:
        counts = [0.0] * self._dimensions
        for start in range(len(text) - 2):
            counts[zlib.crc32(text[start : start + 3].encode(errors="replace")) % self._dimensions] += 1.0
        length = math.sqrt(sum(count * count for count in counts)) or 1.0
        return array("f", [count / length for count in counts]).tobytes()
