"""A server elsewhere: streamable HTTP to one address, checked, bounded, and to no other. Imports the SDK."""

from __future__ import annotations

import asyncio
import ssl
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import httpx2
import msgspec
from mcp.client.streamable_http import streamable_http_client

from mainstay.io.addresses import AddressRefused, Place, is_public, place_of
from mainstay.io.fetch import ADDRESSES_MAX, CONNECT_S, Resolve, resolve_name
from mainstay.io.response import FetchFailed
from mainstay.plugins.mcp.asked import Asked, Id
from mainstay.plugins.mcp.events import NOBODY, Body, Events, Said, until
from mainstay.plugins.mcp.gate import Gate
from mainstay.plugins.mcp.server import McpLimits, McpServer
from mainstay.plugins.mcp.sieve import Sieve, refusal
from mainstay.plugins.mcp.streams import Heard, Sent, Sifted

EVENTS = "text/event-stream"
JSON = "application/json"
_LOCAL = ("localhost", ".localhost")


class _Request(msgspec.Struct):
    """Of what is sent: a notification has no id, and is not answered."""

    id: int | str | None = None
    method: str | None = None


@asynccontextmanager
async def reached(server: McpServer, limits: McpLimits, gate: Gate) -> AsyncIterator[tuple[Heard, Any]]:
    """Connected while this is held. Redirects are followed within the origin only, which is the SDK's own rule."""
    patience = httpx2.Timeout(
        CONNECT_S * 2, read=limits.idle_s + 60.0
    )  # a stream may be silent; a call has its deadline
    headers = {"User-Agent": "mainstay", **server.headers, "Accept-Encoding": "identity"}
    asked = Asked()
    way = Checked(place_of(server.url), server.needs.network, Sieve(limits, gate, asked))
    async with (
        httpx2.AsyncClient(transport=way, headers=headers, timeout=patience, trust_env=False) as client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=limits.message_bytes_max) as (
            read,
            write,
        ),
    ):
        yield Sifted(read, gate, asked, lambda: told(way.status)), Sent(write, asked)


class Checked(httpx2.AsyncBaseTransport):
    """Sends to addresses that were looked at, and to the origin that was configured. What comes back is looked through
    (events.py), and none is packed: what would unpack to more than can be held is never read. What nobody waits for
    any more is hung up on: the SDK would go on reading, for as long as the server likes."""

    def __init__(
        self,
        place: Place,
        private_ok: tuple[str, ...],
        sieve: Sieve,
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
        self._sieve = sieve
        self._answers: weakref.WeakKeyDictionary[asyncio.Task[Any], Id] = weakref.WeakKeyDictionary()
        self._inner = httpx2.AsyncHTTPTransport(verify=tls or trust(), trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        to, told = self._asks(request)
        over = self._sieve.asked.over(to) if to is not None else asyncio.get_running_loop().create_future()
        if told:  # it is owed nothing but a nod, and whatever else is to be told waits for that
            asyncio.get_running_loop().call_later(self._sieve.limits.write_s, _give_up, over)
        response = await until(over, self._send(request))
        if response is None and to is None:
            return httpx2.Response(202)
        if response is None:
            return httpx2.Response(200, headers={"content-type": EVENTS}, stream=Said(refusal(to, NOBODY)))
        return self._looked_through(response, over, to)

    def _asks(self, request: httpx2.Request) -> tuple[Id | None, bool]:
        """The request that this is about, for the SDK comes back for an answer that broke off, in the task that asked;
        and whether it is something that is only told."""
        task = asyncio.current_task()
        assert task is not None, "this runs on a loop"
        if request.method != "POST":
            return self._answers.get(task), False
        sent = msgspec.json.decode(request.content, type=_Request)
        if sent.id is None or sent.method is None:
            return None, True
        self._answers[task] = sent.id
        return sent.id, False

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
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
                return await self._inner.handle_async_request(sent)
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

    def _looked_through(self, response: httpx2.Response, over: asyncio.Future[None], to: Id | None) -> httpx2.Response:
        self.status = response.status_code
        inner, most = response.stream, self._sieve.limits.message_bytes_max
        assert isinstance(inner, httpx2.AsyncByteStream)
        kind = response.headers.get("content-type", "").lower()
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            response.stream = Body(inner, over, 0, "it packs its answers, though it was asked not to")
        elif kind.startswith(EVENTS):
            response.headers["content-type"] = EVENTS  # in no other encoding than the one that was looked at
            response.stream = Events(inner, self._sieve, over, to)
        else:
            sieve = self._sieve if kind.startswith(JSON) else None
            response.stream = Body(inner, over, most, "its answer is too long", sieve)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def _give_up(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)


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
