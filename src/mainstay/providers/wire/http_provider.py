"""Base class of providers that stream over HTTP: settings, headers, caches, and one request per call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from typing import ClassVar, Self

from mainstay.core.limits import Limits
from mainstay.core.ports import Context, ModelInfo, Options, Piece, Tool
from mainstay.core.provider_manifest import ApiKeySource, ProviderComponent, ProviderFactoryContext
from mainstay.providers.wire.api_client import ApiClient, ApiRequest
from mainstay.providers.wire.batching_parser import BatchingParser
from mainstay.providers.wire.encoding import IdentityCache
from mainstay.providers.wire.sse import SseDecoder


class HttpProvider(ABC):
    """One model of an HTTP API. A subclass builds the URL and the request body, and names the parser of responses.

    `label` is the provider's name in error messages.
    """

    MANIFEST: ClassVar[ProviderComponent]
    PARSER: ClassVar[type[BatchingParser]]
    DECODER: ClassVar[type[SseDecoder]] = SseDecoder  # splits a response into events
    KEY_HEADER: ClassVar[tuple[str, str]] = ("Authorization", "Bearer {key}")
    HEADERS: ClassVar[Mapping[str, str]] = {}  # that the API needs beside the usual ones
    ACCEPT: ClassVar[str] = "text/event-stream"

    def __init__(
        self,
        name: str,
        *,
        base_url: str = "",
        api_key: ApiKeySource = None,
        limits: Limits | None = None,
        info: ModelInfo | None = None,
        label: str = "",
    ) -> None:
        self.name = name
        self._label = label or self.MANIFEST.name
        self.info = info or self.default_info()
        self._api_key = api_key
        self._api = ApiClient(self._label, limits or Limits(), self.DECODER)
        self._url = self.build_url(base_url or self.MANIFEST.base_url)
        self._headers = {
            **({self.KEY_HEADER[0]: self.KEY_HEADER[1]} if api_key is not None else {}),
            **self.HEADERS,
            "Content-Type": "application/json",
            "Accept": self.ACCEPT,
            "Accept-Encoding": "identity",
            "User-Agent": "mainstay",
        }
        self.cached_system = IdentityCache(self.encode_system)
        self.cached_tools = IdentityCache(self.encode_tools)
        self.prepare()

    @abstractmethod
    def prepare(self) -> None:
        """Compute what all requests share. The constructor calls it, once."""

    @classmethod
    def from_context(cls, model: str, context: ProviderFactoryContext) -> Self:
        """Build the provider that a factory was asked for. Raises ConfigError if the API key is missing."""
        context.check_api_key()
        provider = cls(
            model,
            base_url=context.base_url,
            api_key=context.api_key,
            limits=context.limits,
            info=context.info,
            label=context.component.name,
        )
        provider._api.key_places = context.component.key_places
        return provider

    def model(self) -> ModelInfo:
        return self.info

    def stream(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        request = ApiRequest(self._url, self._headers, self.build_body(context, options))
        return self._api.stream_pieces(request, self._api_key, self.PARSER(self._label), options.on_rate_limits)

    async def close(self) -> None:
        await self._api.close()

    def default_info(self) -> ModelInfo:
        return ModelInfo(name=self.name)

    @abstractmethod
    def build_body(self, context: Context, options: Options) -> bytes:
        """Return the request body."""

    @abstractmethod
    def build_url(self, base_url: str) -> str:
        """Return the URL that requests are sent to."""

    @staticmethod
    @abstractmethod
    def encode_system(*sections: str) -> bytes:
        """Encode the fixed section and the profile; the result is cached."""

    @staticmethod
    @abstractmethod
    def encode_tools(tools: tuple[Tool, ...]) -> bytes:
        """Encode the tools; the result is cached."""
