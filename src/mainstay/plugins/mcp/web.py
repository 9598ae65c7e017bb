"""A server elsewhere: streamable HTTP to one address, checked, bounded, and to no other. Imports the SDK."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from mainstay.edges.addresses import AddressRefused, Place, is_public, place_of
from mainstay.edges.fetch import ADDRESSES_MAX, CONNECT_S, Resolve, resolve_name
from mainstay.edges.response import FetchFailed
from mainstay.plugins.mcp.gate import Gate
from mainstay.plugins.mcp.server import McpLimits, McpServer
from mainstay.plugins.mcp.streams import Heard, Sifted

EVENTS = "text/event-stream"
_LOCAL = ("localhost", ".localhost")


@asynccontextmanager
async def reached(server: McpServer, limits: McpLimits, gate: Gate) -> AsyncIterator[tuple[Heard, Any]]:
    """Connected while this is held. Redirects are followed within the origin only, which is the SDK's own rule."""
    patience = httpx2.Timeout(
        CONNECT_S * 2, read=limits.idle_s + 60.0
    )  # a stream may be silent; a call has its deadline
    headers = {"User-Agent": "mainstay", **server.headers, "Accept-Encoding": "identity"}
    way = Checked(place_of(server.url), server.needs.network, limits.message_bytes_max)
    async with (
        httpx2.AsyncClient(transport=way, headers=headers, timeout=patience, trust_env=False) as client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=limits.message_bytes_max) as (
            read,
            write,
        ),
    ):
        yield Sifted(read, gate, lambda: told(way.status)), write


class Checked(httpx2.AsyncBaseTransport):
    """Sends to addresses that were looked at, and to the origin that was configured. An answer that is no stream of
    events has a bound, and none is packed: what would unpack to more than can be held is never read."""

    def __init__(
        self,
        place: Place,
        private_ok: tuple[str, ...],
        bytes_max: int,
        *,
        resolve: Resolve = resolve_name,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.status = 0  # of the last answer
        self._place = place
        self._resolve = resolve
        self._private_ok = (
            _names_private(place) or place.host in private_ok or f"{place.host}:{place.port}" in private_ok
        )
        self._bytes_max = bytes_max
        self._inner = httpx2.AsyncHTTPTransport(verify=tls or trust(), trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        asked = place_of(str(request.url))
        if (asked.host, asked.port) != (self._place.host, self._place.port):
            raise AddressRefused(f"It leads to another server ({asked.host}:{asked.port}), which is not followed.")
        trouble: httpx2.ConnectError | httpx2.ConnectTimeout | None = None
        for address in await self._addresses():
            sent = httpx2.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": asked.host},
            )
            try:
                return self._bounded(await self._inner.handle_async_request(sent))
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:  # nothing was sent: another may do
                trouble = error
        assert trouble is not None, "there is at least one address"
        raise trouble

    async def _addresses(self) -> list[str]:
        host = self._place.host
        if self._place.literal:
            found = [host]
        else:
            try:
                found = list(await self._resolve(host, self._place.port))
            except (OSError, UnicodeError):
                found = []
        if not found:
            raise FetchFailed(f"There is no host {host}, or its address cannot be found.")
        if not self._private_ok and (bad := [address for address in found if not is_public(address)]):
            raise AddressRefused(
                f"{host} is {bad[0]}, an address of a private or special network: "
                "if that is meant, name the host in the server's `network`."
            )
        return found[:ADDRESSES_MAX]

    def _bounded(self, response: httpx2.Response) -> httpx2.Response:
        self.status = response.status_code
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            response.stream = _Bounded(response.stream, 0, "it packs its answers, though it was asked not to")
        elif not response.headers.get("content-type", "").lower().startswith(EVENTS):
            response.stream = _Bounded(response.stream, self._bytes_max, "its answer is too long")
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, bytes_max: int, reason: str) -> None:
        self._inner = inner
        self._left = bytes_max
        self._reason = reason

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._inner:
            self._left -= len(part)
            if self._left < 0:
                raise httpx2.StreamError(self._reason)
            yield part

    async def aclose(self) -> None:
        await self._inner.aclose()


def _names_private(place: Place) -> bool:
    """The address itself says that it is of one's own network: whoever wrote it knows."""
    if place.literal:
        return not is_public(place.host)
    return place.host == _LOCAL[0] or place.host.endswith(_LOCAL[1])


def told(status: int) -> str:
    """What a person can do about it."""
    match status:
        case 401 | 403:
            return f"it answers with HTTP {status}: look at the server's `headers`"
        case 404 | 405:
            return f"it answers with HTTP {status}: look at the `url`; the older way, by SSE, is not supported"
        case _:
            return f"it answers with HTTP {status}" if status >= 300 else ""


@cache
def trust() -> ssl.SSLContext:
    return ssl.create_default_context()
