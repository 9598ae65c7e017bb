"""Opens connections to HTTP servers, directly or through a proxy, and builds the bytes of requests."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Mapping
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from mainstay.providers.wire.http1 import ConnectionBroken, HttpConnection

CONNECT_TIMEOUT_S = 30.0


class HttpRoute:
    """A server, the proxy to reach it through (None: directly), and the first lines of every request to it."""

    __slots__ = ("host", "is_tls", "port", "proxy", "request_head")

    def __init__(self, url: str, proxy: str | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not an http(s) address")
        self.is_tls = parts.scheme == "https"
        self.host = parts.hostname
        self.port = parts.port or (443 if self.is_tls else 80)
        self.proxy = urlsplit(proxy) if proxy else None
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        host = parts.netloc.rpartition("@")[2]
        if self.proxy is not None and not self.is_tls:
            target = f"http://{host}{target}"
        self.request_head = f"POST {target} HTTP/1.1\r\nHost: {host}\r\n"
        if self.proxy is not None and not self.is_tls:
            self.request_head += _proxy_authorization(self.proxy)

    def build_request(self, headers: Mapping[str, str], body: bytes) -> bytes:
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        return f"{self.request_head}{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Connector:
    """Opens connections. The CA certificates are loaded once, for the first TLS connection."""

    def __init__(self) -> None:
        self._tls_context: ssl.SSLContext | None = None

    def find_route(self, url: str) -> HttpRoute:
        parts = urlsplit(url)
        proxy = getproxies().get(parts.scheme)
        if proxy is not None and parts.hostname is not None and proxy_bypass(parts.hostname):
            proxy = None
        if proxy is not None and "://" not in proxy:
            proxy = f"http://{proxy}"
        return HttpRoute(url, proxy)

    async def connect(self, route: HttpRoute) -> HttpConnection:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            if route.proxy is not None:
                return await self._connect_through_proxy(route, route.proxy)
            tls = self._load_tls_context() if route.is_tls else None
            return await self._open_connection(route.host, route.port, tls)

    async def _connect_through_proxy(self, route: HttpRoute, proxy: SplitResult) -> HttpConnection:
        assert proxy.hostname is not None
        connection = await self._open_connection(proxy.hostname, proxy.port or 80, None)
        if not route.is_tls:
            return connection
        target = f"{route.host}:{route.port}"
        connection.send(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{_proxy_authorization(proxy)}\r\n".encode())
        head = await connection.read_head()
        if head.status != 200:
            connection.close()
            raise ConnectionBroken(f"the proxy {proxy.hostname} answered with status {head.status}")
        loop = asyncio.get_running_loop()
        transport = await loop.start_tls(
            connection.transport, connection, self._load_tls_context(), server_hostname=route.host
        )
        assert transport is not None
        connection.connection_made(transport)
        return connection

    async def _open_connection(self, host: str, port: int, tls: ssl.SSLContext | None) -> HttpConnection:
        _, connection = await asyncio.get_running_loop().create_connection(HttpConnection, host, port, ssl=tls)
        return connection

    def _load_tls_context(self) -> ssl.SSLContext:
        if self._tls_context is None:
            self._tls_context = ssl.create_default_context()
        return self._tls_context


def _proxy_authorization(proxy: SplitResult) -> str:
    if proxy.username is None:
        return ""
    credentials = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return f"Proxy-Authorization: Basic {base64.b64encode(credentials).decode()}\r\n"
