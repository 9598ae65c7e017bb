"""Sends a request to a model API and yields the pieces of its streamed response. All HTTP providers use it."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Protocol

import msgspec

from mainstay.core.errors import ModelSilent, ProviderError, StreamBroken, Unauthorised
from mainstay.core.limits import Limits
from mainstay.core.ports import Piece, StreamFinished
from mainstay.core.provider_manifest import ApiKeySource
from mainstay.core.rate_limits import RateLimitStatus
from mainstay.providers.wire import errors, rate_limit_headers
from mainstay.providers.wire.sse import SseDecoder


class ApiRequest(msgspec.Struct, frozen=True):
    url: str
    headers: dict[str, str]
    body: bytes


class PayloadStream(Protocol):
    """A streamed response as batches of payloads: payloads that arrived together are handled together.

    The reader sets `has_output` after the first piece and `is_done` after the last: only between them are reads paused.
    `close` returns the connection to the pool if `is_done`, else closes it at once.
    """

    has_output: bool
    is_done: bool
    headers: Mapping[str, str]

    async def read(self) -> list[bytes]: ...
    @property
    def non_event_data(self) -> bytes: ...
    def close(self) -> None: ...


class ResponseParser(Protocol):
    """Turns payloads into pieces. `error` is to be raised after the pieces that `feed` returned."""

    error: ProviderError | None
    is_over: bool  # nothing follows in the stream

    def feed(self, payloads: list[bytes]) -> list[Piece]: ...
    def final_piece(self) -> StreamFinished | None:
        """Return the last piece, with finish reason and usage; None until the model has finished."""
        ...


class ModelHttpClient(Protocol):
    def is_usable(self) -> bool: ...
    async def close(self) -> None: ...
    async def post(self, url: str, headers: dict[str, str], body: bytes) -> bytes: ...
    async def open_stream(
        self, url: str, headers: dict[str, str], body: bytes, decoder_factory: Callable[[], SseDecoder]
    ) -> PayloadStream: ...


class ApiClient:
    """Client of one model API. `label` is the provider's name in error messages; `decoder_factory` returns a decoder
    that splits a response into events."""

    def __init__(self, label: str, limits: Limits, decoder_factory: Callable[[], SseDecoder] = SseDecoder) -> None:
        self.label = label
        self._limits = limits
        self._decoder_factory = decoder_factory
        self._http_client: ModelHttpClient | None = None
        self.key_places = ""  # where the API key may be set, for the error if it is refused

    async def close(self) -> None:
        client, self._http_client = self._http_client, None
        if client is not None:
            await client.close()

    async def post_stream(self, url: str, headers: dict[str, str], body: bytes) -> PayloadStream:
        """Send a request and return its response once it begins. Raises only `ProviderError`s."""
        return await self._get_client().open_stream(url, headers, body, self._decoder_factory)

    async def post(self, request: ApiRequest, api_key: ApiKeySource) -> bytes:
        """Send a request and return the whole body of its response. Raises only `ProviderError`s."""
        secret = await _resolve_key(api_key, self.label)
        headers = _insert_key(request.headers, secret)
        try:
            return await self._get_client().post(request.url, headers, request.body)
        except ProviderError as error:
            raise self._complete_error(error, secret) from None

    async def stream_pieces(
        self,
        request: ApiRequest,
        api_key: ApiKeySource,
        parser: ResponseParser,
        on_rate_limits: Callable[[RateLimitStatus], None] | None = None,
    ) -> AsyncGenerator[Piece, None]:
        """Send a request and yield the pieces of its response. Closing this generator closes the connection at once.

        `on_rate_limits` is called with the rate limits in the response headers.
        """
        secret = await _resolve_key(api_key, self.label)
        try:
            events = await self.post_stream(request.url, _insert_key(request.headers, secret), request.body)
        except ProviderError as error:
            raise self._complete_error(error, secret) from None
        try:
            if on_rate_limits is not None:
                on_rate_limits(rate_limit_headers.parse_rate_limits(events.headers))
            finished: Piece | None = None
            while not parser.is_over:
                try:
                    payloads = await events.read()
                except (StreamBroken, ModelSilent):
                    if events.is_done:  # the model had finished: only the end mark is missing
                        break
                    raise
                if not payloads:
                    break
                for piece in parser.feed(payloads):
                    events.has_output = True
                    yield piece
                if parser.error is not None:
                    raise self._complete_error(parser.error, secret)
                finished = parser.final_piece()
                events.is_done = finished is not None
            if finished is None:
                raise self._complete_error(self._unfinished_error(events), secret)
            yield finished
        finally:
            events.close()

    def _get_client(self) -> ModelHttpClient:
        if self._http_client is None or not self._http_client.is_usable():
            self._http_client = self._open_client()
        return self._http_client

    def _open_client(self) -> ModelHttpClient:
        # loads TLS and proxy support, so only if used
        from mainstay.providers.wire.http_client import HttpClient

        return HttpClient(self.label, self._limits)

    def _complete_error(self, error: ProviderError, secret: str) -> ProviderError:
        return errors.name_key_places(_redact_key(error, secret), self.key_places)

    def _unfinished_error(self, events: PayloadStream) -> ProviderError:
        if events.has_output:
            return StreamBroken(f"the answer of {self.label} stopped in the middle")
        return errors.error_for_missing_stream(self.label, events.non_event_data)


async def _resolve_key(api_key: ApiKeySource, label: str) -> str:
    """Return the API key, from the caller's function if it is one; empty if there is none. Raises Unauthorised."""
    secret = api_key
    if callable(api_key):
        try:
            returned = api_key()
            secret = await returned if inspect.isawaitable(returned) else returned
        except Exception as error:  # the caller's function may raise anything; the key is missing in any case
            sentence = f"the function that returns the API key for {label} failed: {type(error).__name__}"
            raise Unauthorised(sentence) from error
    secret = str(secret or "").strip()
    if not secret.isprintable():
        raise Unauthorised(f"the API key for {label} contains unprintable characters")
    return secret


def _insert_key(headers: dict[str, str], secret: str) -> dict[str, str]:
    """Replace `{key}` in the headers by the API key. Without a key, such headers are dropped."""
    return {name: value.replace("{key}", secret) for name, value in headers.items() if secret or "{key}" not in value}


def _redact_key(error: ProviderError, secret: str) -> ProviderError:
    """Redact the API key in an error, in case the provider repeats it in its message."""
    if secret and (secret in str(error) or secret in error.details):
        error.args = tuple(str(arg).replace(secret, "***") for arg in error.args)
        error.details = error.details.replace(secret, "***")
    return error
