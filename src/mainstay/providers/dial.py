"""Reaching a server: where it is, through which proxy, and the bytes that every request to it begins with."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Mapping
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from mainstay.providers.http1 import Broken, Connection

CONNECT_S = 30.0


class Route:
    """A server, and how to get there."""

    __slots__ = ("head", "host", "port", "proxy", "secure")

    def __init__(self, url: str, proxy: str | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not an http(s) address")
        self.secure = parts.scheme == "https"
        self.host = parts.hostname
        self.port = parts.port or (443 if self.secure else 80)
        self.proxy = urlsplit(proxy) if proxy else None
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        place = parts.netloc.rpartition("@")[2]
        if self.proxy is not None and not self.secure:
            target = f"http://{place}{target}"
        self.head = f"POST {target} HTTP/1.1\r\nHost: {place}\r\n"
        if self.proxy is not None and not self.secure:
            self.head += _proxy_key(self.proxy)

    def request(self, headers: Mapping[str, str], body: bytes) -> bytes:
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        return f"{self.head}{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Dialler:
    """Makes connections. The keys of the world's servers are read once, when the first of them is called."""

    def __init__(self) -> None:
        self._tls: ssl.SSLContext | None = None

    def route(self, url: str) -> Route:
        parts = urlsplit(url)
        proxy = getproxies().get(parts.scheme)
        if proxy is not None and parts.hostname is not None and proxy_bypass(parts.hostname):
            proxy = None
        if proxy is not None and "://" not in proxy:
            proxy = f"http://{proxy}"
        return Route(url, proxy)

    async def connect(self, route: Route) -> Connection:
        async with asyncio.timeout(CONNECT_S):
            if route.proxy is not None:
                return await self._through(route, route.proxy)
            tls = self._context() if route.secure else None
            return await self._open(route.host, route.port, tls)

    async def _through(self, route: Route, proxy: SplitResult) -> Connection:
        assert proxy.hostname is not None
        connection = await self._open(proxy.hostname, proxy.port or 80, None)
        if not route.secure:
            return connection
        place = f"{route.host}:{route.port}"
        connection.send(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{_proxy_key(proxy)}\r\n".encode())
        head = await connection.head()
        if head.status != 200:
            connection.close()
            raise Broken(f"the proxy {proxy.hostname} answered {head.status}")
        loop = asyncio.get_running_loop()
        transport = await loop.start_tls(connection.transport, connection, self._context(), server_hostname=route.host)
        assert transport is not None
        connection.connection_made(transport)
        return connection

    async def _open(self, host: str, port: int, tls: ssl.SSLContext | None) -> Connection:
        _, connection = await asyncio.get_running_loop().create_connection(Connection, host, port, ssl=tls)
        return connection

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls


def _proxy_key(proxy: SplitResult) -> str:
    if proxy.username is None:
        return ""
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return f"Proxy-Authorization: Basic {base64.b64encode(pair).decode()}\r\n"
