"""Embeddings from OpenAI's `/embeddings` endpoint and compatible servers."""

from __future__ import annotations

import asyncio
import math
from array import array
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, cast

import msgspec

from mainstay.core.embedder_settings import EmbedderFactoryContext, EmbedderOptions
from mainstay.core.errors import (
    ConfigError,
    ContextTooLong,
    EmbedderMissing,
    ProviderError,
    RequestRefused,
    StreamBroken,
    Unauthorised,
)
from mainstay.core.limits import Limits
from mainstay.core.provider_manifest import ApiKeySource
from mainstay.core.worker_threads import run_in_thread
from mainstay.providers import registry
from mainstay.providers.wire import errors
from mainstay.providers.wire.api_client import ApiClient, ApiRequest
from mainstay.providers.wire.decoding import DECODING_ERRORS, Index
from mainstay.providers.wire.encoding import encode

TEXTS_MAX = 64  # in one request
REQUEST_CHARS_MAX = 100_000  # in one request
TEXT_CHARS_MAX = 8_000  # of one text
TEXT_CHARS_MIN = 250  # a model that takes less is useless for messages
DIMENSIONS_MAX = 65_536  # of a vector
EXAMPLE = "openai/text-embedding-3-small"

Sleep = Callable[[float], Awaitable[None]]


def build_api_embedder(spec: str, options: EmbedderOptions, context: EmbedderFactoryContext) -> ApiEmbedder:
    """Build an embedder for `<provider>/<model>`, with the base URL and API key of the provider's chat models.

    Raises ConfigError if the name or the key is missing.
    """
    name, _, model = spec.partition("/")
    if not name or not model:
        raise ConfigError(f"{spec!r} does not name a model: write <provider>/<model>, e.g. {EXAMPLE}")
    settings, environ = context.provider, context.environ
    provider = registry.find_provider(name)
    if not (settings.base_url if provider is None else provider.has_embeddings):
        raise ConfigError(f"no provider {name!r} with an embeddings API is known; set base_url")
    url, key = settings.base_url, settings.api_key
    if provider is not None:
        url, key = url or provider.find_base_url(environ), key or provider.find_api_key(environ)
        if key is None and provider.key_variable and url == provider.base_url:
            raise provider.build_key_error(environ)
    return ApiEmbedder(model, base_url=url or "", api_key=key, limits=context.limits, label=name)


class ApiEmbedder:
    """One embedding model behind a base URL. `label` is the provider's name in error messages."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str = "https://api.openai.com/v1",
        api_key: ApiKeySource = None,
        limits: Limits | None = None,
        label: str = "openai",
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.name = f"{label}/{model}"
        self._model = model
        self._api_key = api_key
        self._label = label
        self._limits = limits or Limits()
        self._sleep = sleep
        self._api = ApiClient(label, self._limits)
        self._url = base_url.rstrip("/") + "/embeddings"
        self._dimensions = 0
        self._text_chars_max = TEXT_CHARS_MAX  # halved whenever the model refuses a text as too long
        self._headers = {
            "Authorization": "Bearer {key}",
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": "mainstay",
        }
        if api_key is None:
            del self._headers["Authorization"]

    async def load(self) -> int:
        """Return the number of dimensions. Requests one vector to learn it: no API reports it.

        Raises EmbedderMissing if the provider refuses the key or the model.
        """
        if not self._dimensions:
            try:
                await self._request_with_retries(["dimensions"])
            except (Unauthorised, RequestRefused) as error:  # permanent
                raise EmbedderMissing(f"{self.name} returns no embeddings: {error}") from error
        return self._dimensions

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return a vector for each text, in order. The vector of a blank text is all zeros: similar to nothing."""
        if not self._dimensions:
            await self.load()
        vectors = [bytes(4 * self._dimensions)] * len(texts)
        batch: list[int] = []
        chars = 0
        for index, text in enumerate(texts):
            if not text.strip():
                continue
            size = min(len(text), self._text_chars_max)
            if batch and (len(batch) >= TEXTS_MAX or chars + size > REQUEST_CHARS_MAX):
                await self._embed_batch(vectors, batch, texts)
                batch, chars = [], 0
            batch.append(index)
            chars += size
        if batch:
            await self._embed_batch(vectors, batch, texts)
        return vectors

    async def close(self) -> None:
        await self._api.close()

    async def _embed_batch(self, vectors: list[bytes], indexes: list[int], texts: Sequence[str]) -> None:
        embedded = await self._request_with_retries([texts[index] for index in indexes])
        for index, vector in zip(indexes, embedded, strict=True):
            vectors[index] = vector

    async def _request_with_retries(self, texts: list[str]) -> list[bytes]:
        """Request vectors: with shorter texts if they are too long, and after a backoff on temporary errors."""
        attempt, waited_s = 0, 0.0
        while True:
            try:
                return await self._request_vectors([text[: self._text_chars_max] for text in texts])
            except ContextTooLong:
                if self._text_chars_max // 2 < TEXT_CHARS_MIN:
                    raise
                self._text_chars_max //= 2
            except ProviderError as error:
                attempt += 1
                seconds = max(error.retry_after_s or 0.0, self._limits.retry_base_s * 2.0 ** (attempt - 1))
                waited_s += seconds
                if (
                    not error.retryable
                    or attempt > self._limits.retries_max
                    or waited_s > self._limits.retry_wait_max_s
                ):
                    raise
                await self._sleep(seconds)

    async def _request_vectors(self, texts: list[str]) -> list[bytes]:
        body = b'{"model":%b,"input":%b}' % (encode(self._model), encode(texts))
        answer = await self._api.post(ApiRequest(self._url, self._headers, body), self._api_key)
        vectors = cast(list[bytes] | None, await run_in_thread(partial(_decode_vectors, answer, len(texts))))
        if vectors is None:
            report = errors.parse_error_body(answer[:2048])
            if report.kind or report.status:  # some servers report errors with status 200
                raise errors.error_from_report(self._label, report)
            sentence = f"{self._label} returned no embeddings; check that {self._model} is an embedding model"
            raise StreamBroken(sentence, retryable=False)
        dimensions = len(vectors[0]) // 4
        if self._dimensions not in (0, dimensions):
            sentence = f"{self.name} now returns {dimensions} dimensions instead of {self._dimensions}"
            raise StreamBroken(sentence, retryable=False)
        self._dimensions = dimensions
        return vectors


# --- the response ------------------------------------------------------------------------------------


class EmbeddingRow(msgspec.Struct, frozen=True, gc=False):
    embedding: Annotated[list[float], msgspec.Meta(min_length=1, max_length=DIMENSIONS_MAX)]
    index: Index | None = None


class EmbeddingsBody(msgspec.Struct, frozen=True):
    data: list[EmbeddingRow]


def _decode_vectors(body: bytes, count: int) -> list[bytes] | None:
    """Return vectors of unit length in the order of the texts; None if the body is invalid or incomplete."""
    try:
        rows = msgspec.json.decode(body, type=EmbeddingsBody).data
    except DECODING_ERRORS:
        return None
    if all(row.index is not None for row in rows):
        rows = sorted(rows, key=lambda row: row.index or 0)
        if len({row.index for row in rows}) != len(rows):
            return None
    if len(rows) != count or len({len(row.embedding) for row in rows}) != 1:
        return None
    return [_to_unit_vector(row.embedding) for row in rows]


def _to_unit_vector(numbers: list[float]) -> bytes:
    length = math.sqrt(sum(number * number for number in numbers))
    scale = 1 / length if length else 0.0
    if not math.isfinite(length) or not math.isfinite(scale):  # numbers too large or too small to compute with
        return bytes(4 * len(numbers))
    return array("f", [number * scale for number in numbers]).tobytes()
