"""Egress proxy of a sandboxed program: an HTTP proxy that connects to the hosts on its allowlist only.

The program has no network of its own (see forwarder.py). Names are resolved here, every address of a name is checked,
and the connection goes to a checked address. An address of a private network is reached only if exactly that address
and port were granted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import msgspec

from mainstay.core.errors import ConfigError, MainstayError
from mainstay.io.fetch import ADDRESSES_MAX, CONNECT_TIMEOUT_S, HostResolver, resolve_host
from mainstay.io.urls import AddressRefused, ParsedUrl, is_public, is_web_port, parse_url
from mainstay.plugins.socket_server import BoundedSocketServer

CONNECTIONS_MAX = 32
BACKLOG = 16  # connections not yet accepted
HEAD_BYTES_MAX = 32 * 1024
HEAD_TIMEOUT_S = 10.0
IDLE_TIMEOUT_S = 300.0
CHUNK_BYTES = 64 * 1024

_HOP_BY_HOP = (b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive", b"host", b"upgrade")


class HostGrant(msgspec.Struct, frozen=True):
    """An allowlist entry: a host that may be reached."""

    host: str  # empty: every public host
    port: int | None = None  # None: the web's ports
    subdomains_only: bool = False  # its subdomains, and not itself

    def covers(self, host: str, port: int) -> bool:
        if not self.host:
            return port == self.port if self.port else is_web_port(port)
        named = host.endswith(f".{self.host}") if self.subdomains_only else host == self.host
        return named and (port == self.port if self.port else port in (80, 443))


class GrantedHostUnreachable(MainstayError):
    """The host is granted, but no connection to it could be made."""


def parse_host_grant(text: str) -> HostGrant:
    """Parse `api.example.com`, `*.example.com:8443`, `127.0.0.1:8080` or `*`. Raises ConfigError."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]") or (host.count(":") and not host.endswith("]")):
        host, port = text, ""
    if port and not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
        raise ConfigError(f"{text!r} is not a host that can be granted: its port is not a number from 1 to 65535")
    number = int(port) if port else None
    if host == "*":
        return HostGrant("", number)
    below = host.startswith("*.")
    try:
        destination = parse_url(f"http://{host.removeprefix('*.')}/")
    except AddressRefused as error:
        raise ConfigError(f"{text!r} is not a host that can be granted: {error}") from None
    if destination.target != "/" or (below and destination.is_ip_address):
        raise ConfigError(f"{text!r} is not a host that can be granted: write it as a name, with a port if needed")
    return HostGrant(destination.host, number, below)


def grants_loopback(hosts: Sequence[str]) -> bool:
    """True if a port of this machine was granted: then requests to localhost have to go through the proxy too."""
    return any(grant.host in ("localhost", "127.0.0.1", "::1") for grant in map(parse_host_grant, hosts))


class EgressProxy(BoundedSocketServer):
    """The proxy of one program. `on_refused` is called with a sentence about each refused request."""

    def __init__(
        self,
        hosts: Sequence[str],
        on_refused: Callable[[str], None] = lambda _: None,
        resolve: HostResolver = resolve_host,
    ) -> None:
        self._grants = tuple(map(parse_host_grant, hosts))
        self._on_refused = on_refused
        self._resolve = resolve
        super().__init__(CONNECTIONS_MAX, read_limit_bytes=HEAD_BYTES_MAX, backlog=BACKLOG)

    async def serve(self, socket_path: str) -> None:
        await self.listen(socket_path)

    async def _handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_host: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(HEAD_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
            request = parse_proxy_request(head)
            from_host, to_host = await self._connect(request.destination)
            if request.head:
                to_host.write(request.head)
            else:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await _copy_both_ways((reader, to_host), (from_host, writer))
        except AddressRefused as error:
            self._on_refused(f"network refused: {error}")
            await _send_error(writer, b"403 Forbidden", str(error))
        except GrantedHostUnreachable as error:
            await _send_error(writer, b"502 Bad Gateway", str(error))
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, OSError):
            pass  # no valid request, or the client has closed
        finally:
            for side in (writer, to_host):
                if side is not None:
                    side.transport.abort()

    async def _connect(self, destination: ParsedUrl) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reason = "nothing listens there"
        for address in await self._resolve_checked(destination):
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    return await asyncio.open_connection(address, destination.port, limit=CHUNK_BYTES)
            except (OSError, TimeoutError) as error:
                reason = getattr(error, "strerror", None) or "no answer in time"
        raise GrantedHostUnreachable(f"{destination.host}:{destination.port} cannot be reached: {reason}")

    async def _resolve_checked(self, destination: ParsedUrl) -> Sequence[str]:
        """Resolve a granted host to addresses that may be connected to. Raises AddressRefused and
        GrantedHostUnreachable."""
        host, port = destination.host, destination.port
        if not self._is_granted(host, port):
            raise AddressRefused(f"{host}:{port} is not among the hosts that were granted")
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                addresses = [host] if destination.is_ip_address else await self._resolve(host, port)
        except (OSError, UnicodeError, TimeoutError):
            raise GrantedHostUnreachable(f"there is no host {host}, or its address cannot be found") from None
        for address in addresses:  # one private address refuses the name: an honest public name has none
            if not is_public(address) and not self._is_private_granted(host, address, port):
                raise AddressRefused(f"{host} is {address}, of a private network, and {address}:{port} was not granted")
        if not addresses:
            raise GrantedHostUnreachable(f"there is no host {host}")
        return addresses[:ADDRESSES_MAX]

    def _is_granted(self, host: str, port: int) -> bool:
        return any(grant.covers(host, port) for grant in self._grants)

    def _is_private_granted(self, host: str, address: str, port: int) -> bool:
        """True if this private address was granted: by the address itself, or `localhost`, with the port."""
        names = (host, address) if host == "localhost" else (address,)
        return any(grant.host in names and grant.port == port and not grant.subdomains_only for grant in self._grants)


# --- requests ------------------------------------------------------------------------------------


class ProxyRequest(msgspec.Struct, frozen=True):
    """A parsed proxy request: the destination, and the request head to send there. Empty for CONNECT."""

    destination: ParsedUrl
    head: bytes = b""


def parse_proxy_request(head: bytes) -> ProxyRequest:
    """Parse the head of a proxy request. Raises AddressRefused."""
    if any(end in head.replace(b"\r\n", b"") for end in (b"\r", b"\n")):  # another parser would see other header fields
        raise AddressRefused("a line does not end with CR and LF")
    line, _, rest = head.partition(b"\r\n")
    tokens = line.split(b" ")
    if len(tokens) != 3 or not tokens[2].startswith(b"HTTP/1."):
        raise AddressRefused("this is not a proxy request")
    method, target = tokens[0], tokens[1].decode("latin-1")
    if method == b"CONNECT":
        if not target.rpartition(":")[2].isdecimal():
            raise AddressRefused("CONNECT needs a host and a port")
        return ProxyRequest(parse_url(f"http://{target}/"))
    if not target.lower().startswith("http://"):
        raise AddressRefused("only http:// addresses are accepted in this form; use CONNECT for https")
    destination = parse_url(target)
    fields = [field for field in rest.split(b"\r\n") if field]
    passed = [field for field in fields if field.partition(b":")[0].strip().lower() not in _HOP_BY_HOP]
    first = [b"%s %s HTTP/1.1" % (method, destination.target.encode()), b"Host: " + destination.authority.encode()]
    return ProxyRequest(destination, b"\r\n".join([*first, *passed, b"Connection: close", b"", b""]))


async def _send_error(writer: asyncio.StreamWriter, status: bytes, sentence: str) -> None:
    body = f"{sentence}\n".encode(errors="replace")
    kind = b"Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
    writer.write(b"HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n%s" % (status, kind, len(body), body))
    try:
        async with asyncio.timeout(HEAD_TIMEOUT_S):
            await writer.drain()
            writer.close()
            await writer.wait_closed()
    except (OSError, TimeoutError):  # the client does not read the answer
        pass


class LastActivity:
    """Time of the last data in either direction."""

    def __init__(self) -> None:
        self.at = time.monotonic()


StreamPair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _copy_both_ways(outbound: StreamPair, inbound: StreamPair) -> None:
    """Copy both directions until both have ended, or neither had data for the idle timeout."""
    last_activity = LastActivity()
    async with asyncio.TaskGroup() as group:
        for reader, writer in (outbound, inbound):
            group.create_task(_copy_stream(reader, writer, last_activity))


async def _copy_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, last_activity: LastActivity) -> None:
    try:
        while data := await _read_chunk(reader, last_activity):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof() and not writer.is_closing():
            writer.write_eof()
    except (OSError, TimeoutError):
        writer.transport.abort()  # ends the other direction too


async def _read_chunk(reader: asyncio.StreamReader, last_activity: LastActivity) -> bytes:
    while True:
        try:
            async with asyncio.timeout(IDLE_TIMEOUT_S):
                data = await reader.read(CHUNK_BYTES)
            last_activity.at = time.monotonic()
            return data
        except TimeoutError:
            if time.monotonic() - last_activity.at >= IDLE_TIMEOUT_S:  # the other direction is idle too
                raise
