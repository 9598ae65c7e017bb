"""Streamable HTTP transport to a remote MCP server: one origin, checked addresses, bounded answers. Imports the SDK."""

from __future__ import annotations

import asyncio
import ssl
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache

import httpx2
import msgspec
from mcp.client.streamable_http import streamable_http_client

from mainstay.io.fetch import ADDRESSES_MAX, CONNECT_TIMEOUT_S, HostResolver, resolve_host
from mainstay.io.http_response import FetchFailed
from mainstay.io.urls import AddressRefused, ParsedUrl, is_public, parse_url
from mainstay.plugins.mcp.flood_guard import FloodGuard
from mainstay.plugins.mcp.message_filter import MessageFilter, build_error_response
from mainstay.plugins.mcp.pending_requests import PendingRequests, RequestId
from mainstay.plugins.mcp.server_config import McpLimits, McpServerConfig
from mainstay.plugins.mcp.sse_filter import (
    CALLER_GONE,
    BoundedBodyStream,
    FilteredEventStream,
    SingleEventStream,
    run_until,
)
from mainstay.plugins.mcp.streams import HttpReceiveStream, HttpSendStream, ReceiveStream, SendStream

EVENT_STREAM_TYPE = "text/event-stream"
JSON_TYPE = "application/json"
_LOCALHOST_NAMES = ("localhost", ".localhost")


class _OutgoingRequest(msgspec.Struct):
    """The part of an outgoing message that is needed here. A notification has no id, and gets no answer."""

    id: int | str | None = None
    method: str | None = None


@asynccontextmanager
async def open_http(
    server: McpServerConfig, limits: McpLimits, flood_guard: FloodGuard
) -> AsyncIterator[tuple[ReceiveStream, SendStream]]:
    """Connect until the context exits; yield the receive and send streams. The SDK follows redirects within the origin
    only."""
    # A stream may be idle for long; a call has its own deadline.
    timeout = httpx2.Timeout(CONNECT_TIMEOUT_S * 2, read=limits.idle_s + 60.0)
    headers = {"User-Agent": "mainstay", **server.headers, "Accept-Encoding": "identity"}
    pending = PendingRequests()
    transport = CheckedHttpTransport(
        parse_url(server.url), server.permissions.network, MessageFilter(limits, flood_guard, pending)
    )
    async with (
        httpx2.AsyncClient(transport=transport, headers=headers, timeout=timeout, trust_env=False) as client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=limits.message_bytes_max) as (
            read,
            write,
        ),
    ):
        yield (
            HttpReceiveStream(read, flood_guard, pending, lambda: describe_status(transport.status)),
            HttpSendStream(write, pending),
        )


class CheckedHttpTransport(httpx2.AsyncBaseTransport):
    """HTTP transport that connects to checked addresses of the configured origin only. Responses are filtered
    (sse_filter.py) and must not be compressed: a small one could expand without bound. A response whose caller has
    stopped waiting is closed: the SDK would go on reading it for as long as the server sends."""

    def __init__(
        self,
        origin: ParsedUrl,
        private_hosts: tuple[str, ...],
        message_filter: MessageFilter,
        *,
        resolve: HostResolver = resolve_host,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.status = 0  # HTTP status of the last response
        self._origin = origin
        self._resolve = resolve
        self._is_private_allowed = (
            _is_private_by_name(origin)
            or origin.host in private_hosts
            or f"{origin.host}:{origin.port}" in private_hosts
        )
        self._message_filter = message_filter
        self._request_ids: weakref.WeakKeyDictionary[asyncio.Task[object], RequestId] = weakref.WeakKeyDictionary()
        self._inner = httpx2.AsyncHTTPTransport(verify=tls or default_tls_context(), trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request_id, is_notification = self._identify_request(request)
        loop = asyncio.get_running_loop()
        finished = (
            self._message_filter.pending.completion(request_id) if request_id is not None else loop.create_future()
        )
        if is_notification:  # it gets only a 202, and later messages wait for that
            loop.call_later(self._message_filter.limits.write_s, _finish, finished)
        response = await run_until(finished, self._send(request))
        if response is None and request_id is None:
            return httpx2.Response(202)
        if response is None:
            return httpx2.Response(
                200,
                headers={"content-type": EVENT_STREAM_TYPE},
                stream=SingleEventStream(build_error_response(request_id, CALLER_GONE)),
            )
        return self._filter_response(response, finished, request_id)

    def _identify_request(self, request: httpx2.Request) -> tuple[RequestId | None, bool]:
        """Return the id of the JSON-RPC request that this HTTP request is for, and whether it is a notification. When
        an answer breaks off, the SDK resumes it with a GET in the task that sent the request."""
        task = asyncio.current_task()
        assert task is not None, "this runs on a loop"
        if request.method != "POST":
            return self._request_ids.get(task), False
        message = msgspec.json.decode(request.content, type=_OutgoingRequest)
        if message.id is None or message.method is None:
            return None, True
        self._request_ids[task] = message.id
        return message.id, False

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        destination = parse_url(str(request.url))
        if (destination.host, destination.port) != (self._origin.host, self._origin.port):
            raise AddressRefused(
                f"It redirects to another server ({destination.host}:{destination.port}), which is not followed."
            )
        last_error: httpx2.ConnectError | httpx2.ConnectTimeout | None = None
        for address in await self._resolve_addresses():
            attempt = httpx2.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": destination.host},
            )
            try:
                return await self._inner.handle_async_request(attempt)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:  # nothing was sent: try the next address
                last_error = error
        assert last_error is not None, "there is at least one address"
        raise last_error

    async def _resolve_addresses(self) -> list[str]:
        host = self._origin.host
        if self._origin.is_ip_address:
            addresses = [host]
        else:
            try:
                addresses = list(await self._resolve(host, self._origin.port))
            except (OSError, UnicodeError):
                addresses = []
        if not addresses:
            raise FetchFailed(f"There is no host {host}, or its address cannot be found.")
        if not self._is_private_allowed and (private := [address for address in addresses if not is_public(address)]):
            raise AddressRefused(
                f"{host} is {private[0]}, an address of a private or special network: "
                "if this is intended, name the host in the server's `network`."
            )
        return addresses[:ADDRESSES_MAX]

    def _filter_response(
        self, response: httpx2.Response, finished: asyncio.Future[None], request_id: RequestId | None
    ) -> httpx2.Response:
        self.status = response.status_code
        stream, bytes_max = response.stream, self._message_filter.limits.message_bytes_max
        assert isinstance(stream, httpx2.AsyncByteStream)
        content_type = response.headers.get("content-type", "").lower()
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            response.stream = BoundedBodyStream(
                stream, finished, 0, "it compresses its answers, although it was asked not to"
            )
        elif content_type.startswith(EVENT_STREAM_TYPE):
            response.headers["content-type"] = EVENT_STREAM_TYPE  # without a charset: the filter has read it as UTF-8
            response.stream = FilteredEventStream(stream, self._message_filter, finished, request_id)
        else:
            sieve = self._message_filter if content_type.startswith(JSON_TYPE) else None
            response.stream = BoundedBodyStream(stream, finished, bytes_max, "its answer is too long", sieve)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def _finish(finished: asyncio.Future[None]) -> None:
    if not finished.done():
        finished.set_result(None)


def _is_private_by_name(origin: ParsedUrl) -> bool:
    """True if the configured address is visibly of a private network or this machine, and so intended."""
    if origin.is_ip_address:
        return not is_public(origin.host)
    return origin.host == _LOCALHOST_NAMES[0] or origin.host.endswith(_LOCALHOST_NAMES[1])


def describe_status(status: int) -> str:
    """Return what the user can do about an HTTP status; empty if it is no error."""
    match status:
        case 401 | 403:
            return f"it answers with HTTP {status}: check the server's `headers`"
        case 404 | 405:
            return f"it answers with HTTP {status}: check the `url`; the older SSE transport is not supported"
        case _:
            return f"it answers with HTTP {status}" if status >= 300 else ""


@cache
def default_tls_context() -> ssl.SSLContext:
    return ssl.create_default_context()
