"""Local embeddings from the word vectors of the `wordllama` wheel.

The vector of a text is the mean of its tokens' vectors. Only the two data files of the wheel are read: importing
the package itself takes seconds and would look for files on the network. The model takes 45 MB: all agents of a process
share one, which is freed with the last embedder that uses it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, cast
from weakref import WeakValueDictionary

import msgspec

from mainstay.core.embedder_settings import EmbedderFactoryContext, EmbedderOptions
from mainstay.core.errors import ConfigError, EmbedderMissing
from mainstay.core.worker_threads import run_in_thread
from mainstay.memory.embedders.local.manifest import COMPONENT

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

TEXT_CHARS_MAX = 8_000  # of one text; longer texts are truncated, so split them into chunks first
BATCH_MAX = 256  # texts per thread call, so that a concurrent query waits only milliseconds


def build_local_embedder(model: str, options: EmbedderOptions, context: EmbedderFactoryContext) -> LocalEmbedder:
    """Raises ConfigError if a model is named: there is only one."""
    if model:
        raise ConfigError(f"the embedder 'local' has no model {model[:80]!r}: write `local` only")
    return LocalEmbedder()


class LocalEmbedder:
    """Embeds with `wordllama`: 256 dimensions, tens of thousands of short texts a second, best for English."""

    vector_weight = 0.3  # measured: its similarity says less than a match of words

    def __init__(self) -> None:
        self.name = "local/wordllama-256"
        self._model: _WordVectorModel | None = None

    async def load(self) -> int:
        model = cast(_WordVectorModel, await run_in_thread(self._get_model))
        return model.dimensions

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return one vector per text. The vector of a text without tokens is all zeros, similar to nothing."""
        vectors: list[bytes] = []
        for start in range(0, len(texts), BATCH_MAX):
            batch = [text[:TEXT_CHARS_MAX] for text in texts[start : start + BATCH_MAX]]
            vectors += cast(list[bytes], await run_in_thread(partial(self._embed_batch, batch)))
        return vectors

    def embed_now(self, texts: Sequence[str]) -> list[bytes] | None:
        """Return one vector per text without waiting, in a fraction of a millisecond each; None: not loaded."""
        model = self._model
        return model.embed([text[:TEXT_CHARS_MAX] for text in texts]) if model is not None else None

    async def close(self) -> None:
        self._model = None

    def _embed_batch(self, texts: list[str]) -> list[bytes]:
        return self._get_model().embed(texts)

    def _get_model(self) -> _WordVectorModel:
        if (model := self._model) is None:
            model = self._model = _share_model(_find_model_folder())
        return model


class _WordVectorModel:
    """Word vector table and its tokenizer."""

    def __init__(self, table: NDArray[numpy.float32], tokenizer: Tokenizer) -> None:
        self._table = table
        self._tokenizer = tokenizer
        self.dimensions = int(table.shape[1])

    def embed(self, texts: list[str]) -> list[bytes]:
        import numpy  # optional, and slow to import

        texts = [text if text.isascii() else text.encode("utf-8", "replace").decode() for text in texts]
        encoded = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        sums = numpy.zeros((len(texts), self.dimensions), dtype=numpy.float32)
        for row, tokens in zip(sums, encoded, strict=True):  # one text at a time: a batch would not fit the CPU cache
            if ids := tokens.ids:
                self._table.take(ids, axis=0).sum(axis=0, out=row)
        lengths = numpy.linalg.norm(sums, axis=1, keepdims=True)
        numpy.divide(sums, lengths, out=sums, where=lengths > 0)
        return [row.tobytes() for row in sums]


class _TensorHeader(msgspec.Struct, frozen=True):
    """Description of one tensor in a safetensors file."""

    dtype: str
    shape: tuple[int, int]
    data_offsets: tuple[int, int]


class _SafetensorsHeader(msgspec.Struct, frozen=True):
    table: _TensorHeader = msgspec.field(name="embedding.weight")


def _find_model_folder() -> Path:
    """Locate the installed wheel without importing it. Raises EmbedderMissing."""
    spec = find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise EmbedderMissing(
            f"vectors need a model that is not installed; {COMPONENT.install}, or configure a model of an API"
        )
    return Path(spec.submodule_search_locations[0])


_shared_models: WeakValueDictionary[Path, _WordVectorModel] = WeakValueDictionary()
_shared_models_lock = threading.Lock()


def _share_model(folder: Path) -> _WordVectorModel:
    """Return the process's model, loaded on first use. Called in worker threads: concurrent callers get the same."""
    with _shared_models_lock:
        model = _shared_models.get(folder)
        if model is None:
            model = _shared_models[folder] = _load_model(folder)
        return model


def _load_model(folder: Path) -> _WordVectorModel:
    try:
        import numpy  # optional, and slow to import
        from tokenizers import Tokenizer
    except ImportError as error:
        raise EmbedderMissing(f"vectors need the package {error.name!r}; {COMPONENT.install}") from None
    weights = folder / "weights" / "l2_supercat_256.safetensors"
    vocabulary = folder / "tokenizers" / "l2_supercat_tokenizer_config.json"
    try:
        with weights.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            head = msgspec.json.decode(file.read(min(size, 1 << 20)), type=_SafetensorsHeader).table
        if head.dtype != "F16":
            raise ValueError(f"numbers of the type {head.dtype}")
        half_precision = numpy.memmap(
            weights, numpy.float16, "r", offset=8 + size + head.data_offsets[0], shape=head.shape
        )
        table = half_precision.astype(numpy.float32)
        # from_file is faster than from_str
        tokenizer = Tokenizer.from_file(str(vocabulary)) if vocabulary.is_file() else None
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise EmbedderMissing(f"the model in {folder} cannot be read ({error}); {COMPONENT.install} again") from None
    if tokenizer is None or tokenizer.get_vocab_size() != len(table):
        raise EmbedderMissing(f"the model in {folder} is not the one that was expected; {COMPONENT.install} again")
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return _WordVectorModel(table, tokenizer)
