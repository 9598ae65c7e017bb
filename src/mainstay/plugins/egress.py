"""What a confined program may reach of the network: an HTTP proxy that opens ways to the granted hosts and to no other.

The program has no network of its own (see forwarder.py). Names are resolved here, every address of a name is checked,
and the connection goes to one of those that were checked. An address of a private network is reached only if that very
address and port were granted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import msgspec

from mainstay.core.errors import ConfigError, MainstayError
from mainstay.io.addresses import AddressRefused, Place, is_public, is_web_port, place_of
from mainstay.io.fetch import ADDRESSES_MAX, CONNECT_S, Resolve, resolve_name
from mainstay.plugins.ways import Ways

CONNECTIONS_MAX = 32
BACKLOG = 16  # that wait to be looked at
HEAD_BYTES_MAX = 32 * 1024
HEAD_S = 10.0
IDLE_S = 300.0
CHUNK = 64 * 1024

_HOP_BY_HOP = (b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive", b"host", b"upgrade")


class Grant(msgspec.Struct, frozen=True):
    """A host that may be reached. An empty one: every one that is public."""

    host: str
    port: int | None = None  # None: those of the web
    below: bool = False  # the hosts below it, and not itself

    def covers(self, host: str, port: int) -> bool:
        if not self.host:
            return port == self.port if self.port else is_web_port(port)
        named = host.endswith(f".{self.host}") if self.below else host == self.host
        return named and (port == self.port if self.port else port in (80, 443))


class Unreachable(MainstayError):
    """What was asked for is granted, and cannot be had."""


def read_grant(text: str) -> Grant:
    """`api.example.com`, `*.example.com:8443`, `127.0.0.1:8080`, `*`; raises ConfigError."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]") or (host.count(":") and not host.endswith("]")):
        host, port = text, ""
    if port and not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
        raise ConfigError(f"{text!r} is no host that could be granted: its port is no number from 1 to 65535")
    number = int(port) if port else None
    if host == "*":
        return Grant("", number)
    below = host.startswith("*.")
    try:
        place = place_of(f"http://{host.removeprefix('*.')}/")
    except AddressRefused as error:
        raise ConfigError(f"{text!r} is no host that could be granted: {error}") from None
    if place.target != "/" or (below and place.literal):
        raise ConfigError(f"{text!r} is no host that could be granted: write it as a name, with a port if need be")
    return Grant(place.host, number, below)


def has_loopback(named: Sequence[str]) -> bool:
    """Something of this very machine was granted, so what a program takes for its own must go outside too."""
    return any(grant.host in ("localhost", "127.0.0.1", "::1") for grant in map(read_grant, named))


class Egress(Ways):
    """The proxy of one program. `note` is told what was refused."""

    def __init__(
        self, granted: Sequence[str], note: Callable[[str], None] = lambda _: None, resolve: Resolve = resolve_name
    ) -> None:
        self._grants = tuple(map(read_grant, granted))
        self._note = note
        self._resolve = resolve
        super().__init__(CONNECTIONS_MAX, head_bytes=HEAD_BYTES_MAX, backlog=BACKLOG)

    async def serve(self, path: str) -> None:
        await self.listen(path)

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        outward: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(HEAD_S):
                head = await reader.readuntil(b"\r\n\r\n")
            asked = read_request(head)
            inward, outward = await self._connect(asked.place)
            if asked.head:
                outward.write(asked.head)
            else:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await _both((reader, outward), (inward, writer))
        except AddressRefused as error:
            self._note(f"network refused: {error}")
            await _answer(writer, b"403 Forbidden", str(error))
        except Unreachable as error:
            await _answer(writer, b"502 Bad Gateway", str(error))
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, OSError):
            pass  # it said nothing of use, or left
        finally:
            for one in (writer, outward):
                if one is not None:
                    one.transport.abort()

    async def _connect(self, place: Place) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        trouble = "nothing listens there"
        for address in await self._checked(place):
            try:
                async with asyncio.timeout(CONNECT_S):
                    return await asyncio.open_connection(address, place.port, limit=CHUNK)
            except (OSError, TimeoutError) as error:
                trouble = getattr(error, "strerror", None) or "no answer in time"
        raise Unreachable(f"{place.host}:{place.port} cannot be reached: {trouble}")

    async def _checked(self, place: Place) -> Sequence[str]:
        host, port = place.host, place.port
        if not self._granted(host, port):
            raise AddressRefused(f"{host}:{port} is not among the hosts that were granted")
        try:
            async with asyncio.timeout(CONNECT_S):
                found = [host] if place.literal else await self._resolve(host, port)
        except (OSError, UnicodeError, TimeoutError):
            raise Unreachable(f"there is no host {host}, or its address cannot be found") from None
        for address in found:  # one that is not allowed spoils the rest: an honest name has none
            if not is_public(address) and not self._own(host, address, port):
                raise AddressRefused(f"{host} is {address}, of a private network, and {address}:{port} was not granted")
        if not found:
            raise Unreachable(f"there is no host {host}")
        return found[:ADDRESSES_MAX]

    def _granted(self, host: str, port: int) -> bool:
        return any(grant.covers(host, port) for grant in self._grants)

    def _own(self, host: str, address: str, port: int) -> bool:
        """A private address counts as granted only by itself and with its port. `localhost` is one under a name."""
        names = (host, address) if host == "localhost" else (address,)
        return any(grant.host in names and grant.port == port and not grant.below for grant in self._grants)


# --- requests ------------------------------------------------------------------------------------


class Asked(msgspec.Struct, frozen=True):
    """Where to, and what to say there first; nothing, where the program speaks for itself."""

    place: Place
    head: bytes = b""


def read_request(head: bytes) -> Asked:
    """Raises AddressRefused."""
    if any(end in head.replace(b"\r\n", b"") for end in (b"\r", b"\n")):  # who takes it for a line sees other fields
        raise AddressRefused("a line ends with something else than CR and LF")
    line, _, rest = head.partition(b"\r\n")
    words = line.split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        raise AddressRefused("this is no request to a proxy")
    method, target = words[0], words[1].decode("latin-1")
    if method == b"CONNECT":
        if not target.rpartition(":")[2].isdecimal():
            raise AddressRefused("CONNECT wants a host and its port")
        return Asked(place_of(f"http://{target}/"))
    if not target.lower().startswith("http://"):
        raise AddressRefused("only http:// is asked for in this way; https goes by CONNECT")
    place = place_of(target)
    fields = [field for field in rest.split(b"\r\n") if field]
    passed = [field for field in fields if field.partition(b":")[0].strip().lower() not in _HOP_BY_HOP]
    made = [b"%s %s HTTP/1.1" % (method, place.target.encode()), b"Host: " + place.authority.encode()]
    return Asked(place, b"\r\n".join([*made, *passed, b"Connection: close", b"", b""]))


async def _answer(writer: asyncio.StreamWriter, status: bytes, sentence: str) -> None:
    body = f"{sentence}\n".encode(errors="replace")
    kind = b"Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
    writer.write(b"HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n%s" % (status, kind, len(body), body))
    try:
        async with asyncio.timeout(HEAD_S):
            await writer.drain()
            writer.close()
            await writer.wait_closed()
    except (OSError, TimeoutError):  # it does not want to know
        pass


class Heard:
    """When one of the two last said something."""

    def __init__(self) -> None:
        self.at = time.monotonic()


Way = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _both(there: Way, back: Way) -> None:
    """Until both have said all they have to say, or neither says anything for long."""
    heard = Heard()
    async with asyncio.TaskGroup() as group:
        for reader, writer in (there, back):
            group.create_task(_carry(reader, writer, heard))


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, heard: Heard) -> None:
    try:
        while data := await _next(reader, heard):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof() and not writer.is_closing():
            writer.write_eof()
    except (OSError, TimeoutError):
        writer.transport.abort()  # and so the other way has nothing to wait for


async def _next(reader: asyncio.StreamReader, heard: Heard) -> bytes:
    while True:
        try:
            async with asyncio.timeout(IDLE_S):
                data = await reader.read(CHUNK)
            heard.at = time.monotonic()
            return data
        except TimeoutError:
            if time.monotonic() - heard.at >= IDLE_S:  # the other way is silent too
                raise
