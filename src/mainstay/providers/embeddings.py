"""Vectors from an API: OpenAI's `/embeddings`, and so every server that is compatible with it."""

from __future__ import annotations

import asyncio
import math
import os
from array import array
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import cast

import msgspec

from mainstay.core.errors import (
    ConfigError,
    ContextTooLong,
    EmbedderMissing,
    ModelSilent,
    ProviderError,
    RequestRefused,
    StreamBroken,
    Unauthorised,
)
from mainstay.core.limits import Limits
from mainstay.core.messages import FinishReason
from mainstay.core.ports import Finished, Piece
from mainstay.core.workers import in_thread
from mainstay.providers import catalogue, trouble
from mainstay.providers.forms import encode
from mainstay.providers.http1 import Broken
from mainstay.providers.http_client import Client
from mainstay.providers.wire import Key, Request, Wire

TEXTS_MAX = 64  # in one request
CHARS_MAX = 100_000  # in one request, and
TEXT_CHARS_MAX = 8_000  # of each text in it
TEXT_CHARS_MIN = 250  # a model that takes less than this is no model for messages

Sleep = Callable[[float], Awaitable[None]]


class ApiEmbedder:
    """One embedding model behind an address. `label` names who serves it, in sentences."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str = "https://api.openai.com/v1",
        api_key: Key = None,
        limits: Limits | None = None,
        label: str = "openai",
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.name = f"{label}/{model}"
        self._model = model
        self._key = api_key
        self._label = label
        self._limits = limits or Limits()
        self._sleep = sleep
        self._wire = _Wire(label, self._limits)
        self._url = base_url.rstrip("/") + "/embeddings"
        self._dimensions = 0
        self._chars = TEXT_CHARS_MAX  # fewer once the model has said that it takes no more
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
        """Asks for one vector: how long they are is known from nothing else."""
        if not self._dimensions:
            try:
                await self._vectors(["dimensions"])
            except (Unauthorised, RequestRefused) as error:  # it will say the same tomorrow
                raise EmbedderMissing(f"{self.name} gives no vectors: {error}") from error
        return self._dimensions

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        """A text with nothing in it has no direction: its vector is all zeros, near to nothing."""
        if not self._dimensions:
            await self.load()
        vectors = [bytes(4 * self._dimensions)] * len(texts)
        batch: list[int] = []
        chars = 0
        for place, text in enumerate(texts):
            if not text.strip():
                continue
            size = min(len(text), self._chars)
            if batch and (len(batch) >= TEXTS_MAX or chars + size > CHARS_MAX):
                await self._fill(vectors, batch, texts)
                batch, chars = [], 0
            batch.append(place)
            chars += size
        if batch:
            await self._fill(vectors, batch, texts)
        return vectors

    async def close(self) -> None:
        await self._wire.close()

    async def _fill(self, vectors: list[bytes], places: list[int], texts: Sequence[str]) -> None:
        made = await self._vectors([texts[place] for place in places])
        for place, vector in zip(places, made, strict=True):
            vectors[place] = vector

    async def _vectors(self, texts: list[str]) -> list[bytes]:
        """Shorter if the model says it is too long; again and later if it says not now."""
        attempt, waited_s = 0, 0.0
        while True:
            try:
                return await self._ask([text[: self._chars] for text in texts])
            except ContextTooLong:
                if self._chars // 2 < TEXT_CHARS_MIN:
                    raise
                self._chars //= 2
            except ProviderError as error:
                attempt += 1
                seconds = max(error.retry_after_s or 0.0, self._limits.retry_base_s * 2.0 ** (attempt - 1))
                waited_s += seconds
                if not error.retry or attempt > self._limits.retries_max or waited_s > self._limits.retry_wait_max_s:
                    raise
                await self._sleep(seconds)

    async def _ask(self, texts: list[str]) -> list[bytes]:
        body = b'{"model":%b,"input":%b}' % (encode(self._model), encode(texts))
        answer = _Answer()
        async for _ in self._wire.pieces(Request(self._url, self._headers, body), self._key, answer):
            pass
        vectors = cast(list[bytes] | None, await in_thread(partial(_decode, answer.body, len(texts))))
        if vectors is None:
            report = trouble.read_report(answer.body[:2048])
            if report.kind or report.status:  # some say 200 and then that it went wrong
                raise trouble.from_report(self._label, report)
            raise StreamBroken(f"{self._label} sent no vectors for what was asked; check that {self._model} makes them")
        dimensions = len(vectors[0]) // 4
        if self._dimensions not in (0, dimensions):
            raise StreamBroken(f"{self.name} makes vectors of {dimensions} numbers now, it was {self._dimensions}")
        self._dimensions = dimensions
        return vectors


NO_VECTORS = ("anthropic", "azure", "bedrock")  # or not in this way


def make(
    spec: str,
    base_url: str | None = None,
    api_key: Key = None,
    limits: Limits | None = None,
    environ: Mapping[str, str] = os.environ,
) -> ApiEmbedder:
    """An embedder for `<provider>/<model>`, found and paid for like the provider's models for talking."""
    provider, _, model = spec.partition("/")
    if not provider or not model:
        raise ConfigError(f"{spec!r} names no model: write <provider>/<model>, e.g. openai/text-embedding-3-small")
    place = catalogue.PLACES.get(provider) or (catalogue.Place(base_url) if base_url else None)
    if place is None or provider in NO_VECTORS:
        raise ConfigError(f"nobody called {provider!r} is known to make vectors; give a base_url")
    address = base_url or catalogue._address(place, environ)
    key = api_key or catalogue._key(place, environ)
    if key is None and place.key_variable and address == place.base_url:
        raise ConfigError(f"{provider} needs an API key: set {place.key_variable}, or pass api_key")
    return ApiEmbedder(model, base_url=address, api_key=key, limits=limits, label=provider)


# --- the answer --------------------------------------------------------------------------------------


class _Vector(msgspec.Struct, frozen=True, gc=False):
    embedding: list[float]
    index: int | None = None


class _Vectors(msgspec.Struct, frozen=True):
    data: list[_Vector]


def _decode(body: bytes, count: int) -> list[bytes] | None:
    """In the order asked, unit length; None if this is not what was asked for."""
    try:
        data = msgspec.json.decode(body, type=_Vectors).data
    except (ValueError, RecursionError, msgspec.DecodeError):
        return None
    if all(one.index is not None for one in data):
        data = sorted(data, key=lambda one: one.index or 0)
    size = len(data[0].embedding) if data else 0
    if len(data) != count or not size or any(len(one.embedding) != size for one in data):
        return None
    return [_unit(one.embedding) for one in data]


def _unit(numbers: list[float]) -> bytes:
    length = math.sqrt(sum(number * number for number in numbers))
    scale = 1 / length if length and math.isfinite(length) else 0.0
    return array("f", [number * scale for number in numbers]).tobytes()


class _Answer:
    """Keeps the body; what it means is found out in a thread."""

    def __init__(self) -> None:
        self.error: ProviderError | None = None
        self.over = False
        self.body = b""

    def feed(self, payloads: list[bytes]) -> list[Piece]:
        self.body = b"".join(payloads)
        self.over = True
        return []

    def finished(self) -> Finished | None:
        return Finished(FinishReason.END) if self.over else None


# --- a request whose answer is one body ------------------------------------------------------------


class _Body:
    """An answer that has come whole, read like one that streams."""

    stray = b""

    def __init__(self, body: bytes) -> None:
        self.spoken = False
        self.done = False
        self.headers: Mapping[str, str] = {}
        self._body = body

    async def read(self) -> list[bytes]:
        return [self._body]

    def close(self) -> None:
        pass  # the connection was given back already


class _Client(Client):
    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> bytes:
        """The whole body of a good answer. Raises only `ProviderError`s."""
        try:
            async with asyncio.timeout(self.limits.model_idle_timeout_s):
                return await self._whole(url, headers, body)
        except TimeoutError:
            raise ModelSilent(f"{self.who} did not answer within {self.limits.model_idle_timeout_s:g} s") from None
        except (Broken, OSError, ValueError) as error:
            raise trouble.unreachable(self.who, url, error) from None

    async def _whole(self, url: str, headers: Mapping[str, str], body: bytes) -> bytes:
        route = self._routes.get(url)
        if route is None:
            route = self._routes[url] = self._dialler.route(url)
        connection, head = await self._ask(route, route.request(headers, body))
        if head.status != 200:
            raise await self._refusal(connection, head)
        pieces: list[bytes] = []
        left = self.limits.response_bytes_max
        try:
            while more := await connection.read():
                left -= len(more)
                if left < 0:
                    raise StreamBroken(f"the answer of {self.who} is larger than response_bytes_max allows")
                pieces.append(more)
        except BaseException:
            self.drop(connection)
            raise
        self.give_back(connection, route)
        return b"".join(pieces)


class _Wire(Wire):
    """The same way to the API, for answers that do not stream."""

    def __init__(self, who: str, limits: Limits) -> None:
        super().__init__(who, limits)
        self._poster: _Client | None = None

    async def post_stream(self, url: str, headers: dict[str, str], body: bytes) -> _Body:
        if self._poster is None or not self._poster.usable():
            self._poster = _Client(self.who, self._limits)
        return _Body(await self._poster.post(url, headers, body))

    async def close(self) -> None:
        poster, self._poster = self._poster, None
        if poster is not None:
            await poster.close()
