"""Opens connections to HTTP servers, directly or through a proxy, and builds the bytes of requests."""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import sys
from collections.abc import Mapping
from urllib.parse import SplitResult, unquote, urlsplit

from mainstay.core.http_response_parser import ConnectionBroken
from mainstay.core.tls_context import load_tls_context
from mainstay.providers.wire.http1 import HttpConnection

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


def _may_have_proxy() -> bool:
    """Return False if there is certainly no proxy: elsewhere than on Linux, the system has settings of its own."""
    return sys.platform != "linux" or any(name.lower().endswith("_proxy") for name in os.environ)


def _find_proxy(url: str) -> str | None:
    from urllib.request import getproxies, proxy_bypass  # slow to import, and most machines have no proxy

    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme)
    if proxy is None or (parts.hostname is not None and proxy_bypass(parts.hostname)):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


class Connector:
    """Opens connections."""

    def find_route(self, url: str) -> HttpRoute:
        return HttpRoute(url, _find_proxy(url) if _may_have_proxy() else None)

    async def connect(self, route: HttpRoute) -> HttpConnection:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            if route.proxy is not None:
                return await self._connect_through_proxy(route, route.proxy)
            tls = load_tls_context() if route.is_tls else None
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
            connection.transport, connection, load_tls_context(), server_hostname=route.host
        )
        assert transport is not None
        connection.connection_made(transport)
        return connection

    async def _open_connection(self, host: str, port: int, tls: ssl.SSLContext | None) -> HttpConnection:
        _, connection = await asyncio.get_running_loop().create_connection(HttpConnection, host, port, ssl=tls)
        return connection


def _proxy_authorization(proxy: SplitResult) -> str:
    if proxy.username is None:
        return ""
    credentials = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return f"Proxy-Authorization: Basic {base64.b64encode(credentials).decode()}\r\n"
