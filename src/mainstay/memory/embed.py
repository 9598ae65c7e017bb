"""Meaning as numbers, on this machine: a table of word vectors that lies inside a wheel.

The vector of a text is the mean of its tokens' vectors. Only the two data files of the wheel are read: importing
the package itself takes seconds and would look for files on the network.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import msgspec

from mainstay.core.errors import EmbedderMissing
from mainstay.core.workers import in_thread

INSTALL = "pip install -e '.[memory]'"
TEXT_CHARS_MAX = 8_000  # of one text; what is longer is cut into pieces first
BATCH_MAX = 256  # texts a thread takes at once, so that a question asked meanwhile waits milliseconds
PIECE_CHARS = 1_000
PIECES_MAX = 16  # of one message: what stands further on is found by its words

_BREAKS = tuple(re.compile(pattern) for pattern in (r"\n\s*\n", r"\n", r"[.!?…]\s|[\u3002\uff01\uff1f]", r"\s"))


def pieces(text: str) -> list[str]:
    """A text in pieces that are each about one thing: cut where a paragraph, a line, a sentence, a word ends."""
    found: list[str] = []
    start, end = 0, len(text)
    while start < end and len(found) < PIECES_MAX:
        stop = end if end - start <= PIECE_CHARS else _break(text, start)
        if piece := text[start:stop].strip():
            found.append(piece)
        start = stop
    return found


def _break(text: str, start: int) -> int:
    """The last break in the second half of a piece, of the best kind there is."""
    low, high = start + PIECE_CHARS // 2, start + PIECE_CHARS
    for kind in _BREAKS:
        stops = [match.end() for match in kind.finditer(text, low, high)]
        if stops:
            return stops[-1]
    return high


class LocalEmbedder:
    """Vectors from the `wordllama` wheel: 256 numbers, tens of thousands of short texts a second, English above all."""

    def __init__(self) -> None:
        self.name = "local/wordllama-256"
        self._lock = threading.Lock()
        self._model: _Model | None = None

    async def load(self) -> int:
        model = cast(_Model, await in_thread(self._ready))
        return model.dimensions

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        """A text without any token has no direction: its vector is all zeros, near to nothing."""
        vectors: list[bytes] = []
        for start in range(0, len(texts), BATCH_MAX):
            batch = [text[:TEXT_CHARS_MAX] for text in texts[start : start + BATCH_MAX]]
            vectors += cast(list[bytes], await in_thread(partial(self._embed, batch)))
        return vectors

    async def close(self) -> None:
        self._model = None

    def _embed(self, texts: list[str]) -> list[bytes]:
        return self._ready().embed(texts)

    def _ready(self) -> _Model:
        with self._lock:  # in a worker: whoever comes while it is loading waits for the same one
            if self._model is None:
                self._model = _load(_folder())
            return self._model


class _Model:
    """The table and what cuts text into its rows."""

    def __init__(self, table: Any, tokenizer: Any) -> None:
        self._table = table
        self._tokenizer = tokenizer
        self.dimensions = int(table.shape[1])

    def embed(self, texts: list[str]) -> list[bytes]:
        import numpy  # loaded by those who have vectors

        texts = [text if text.isascii() else text.encode("utf-8", "replace").decode() for text in texts]
        encoded = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        sums = numpy.zeros((len(texts), self.dimensions), dtype=numpy.float32)
        for row, one in zip(sums, encoded, strict=True):  # one at a time: the rows of a batch would not fit the cache
            if ids := one.ids:
                self._table.take(ids, axis=0).sum(axis=0, out=row)
        lengths = numpy.linalg.norm(sums, axis=1, keepdims=True)
        numpy.divide(sums, lengths, out=sums, where=lengths > 0)
        return [row.tobytes() for row in sums]


class _Tensor(msgspec.Struct, frozen=True):
    """What the file says of a tensor in it."""

    dtype: str
    shape: tuple[int, int]
    data_offsets: tuple[int, int]


class _Head(msgspec.Struct, frozen=True):
    table: _Tensor = msgspec.field(name="embedding.weight")


def _folder() -> Path:
    """Where the wheel was unpacked; finding it does not import it."""
    spec = find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise EmbedderMissing(f"vectors need a model that is not installed; {INSTALL}, or name one of an API")
    return Path(spec.submodule_search_locations[0])


def _load(folder: Path) -> _Model:
    try:
        import numpy  # heavy, and only here
        from tokenizers import Tokenizer
    except ImportError as error:
        raise EmbedderMissing(f"vectors need the package {error.name!r}; {INSTALL}") from None
    weights = folder / "weights" / "l2_supercat_256.safetensors"
    words = folder / "tokenizers" / "l2_supercat_tokenizer_config.json"
    try:
        with weights.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            head = msgspec.json.decode(file.read(min(size, 1 << 20)), type=_Head).table
        if head.dtype != "F16":
            raise ValueError(f"numbers of the kind {head.dtype}")
        half = numpy.memmap(weights, numpy.float16, "r", offset=8 + size + head.data_offsets[0], shape=head.shape)
        table = half.astype(numpy.float32)
        # a file, not a text: the tokenizer's own reader is the quicker
        tokenizer = Tokenizer.from_file(str(words)) if words.is_file() else None
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise EmbedderMissing(f"the model in {folder} cannot be read ({error}); {INSTALL} again") from None
    if tokenizer is None or tokenizer.get_vocab_size() != len(table):
        raise EmbedderMissing(f"the model in {folder} is not the one that was expected; {INSTALL} again")
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return _Model(table, tokenizer)
