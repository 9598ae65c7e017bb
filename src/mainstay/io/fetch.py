"""Fetching from the web without being led into the private network.

A name is resolved once, every address it has is checked, and the connection goes to one of those that were checked; a
redirect is a new address and is checked like the first. Nothing of the owner goes along: no credentials, no cookies, no
proxy from the environment. Everything is bounded: bytes (packed and unpacked), seconds, headers, redirects.
"""

from __future__ import annotations

import asyncio
import codecs
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.core.workers import in_thread
from mainstay.io.addresses import AddressRefused, Place, follow, is_public, is_web_port, place_of
from mainstay.io.response import FetchFailed, Head, NotReached, Wire, read_body, read_head

ADDRESSES_MAX = 4  # of a name, tried one after another
CONNECT_S = 6.0

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]  # host, port -> its addresses, as text
Allow = Callable[[str], bool]  # asked before every request, redirects too


class FetchRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds, and what of the private network may be reached all the same ("host:port")."""

    bytes_max: int = 5 * 1024 * 1024
    time_s: float = 20.0
    redirects_max: int = 5
    private_ok: tuple[str, ...] = ()


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """What a place is asked. Of a fetch that is as good as nothing; edges/http asks for more."""

    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = (("Accept", "text/html, text/plain, application/json, */*;q=0.5"),)
    body: bytes | None = None

    def head(self, place: Place) -> bytes:
        """Whoever gives headers has seen to it that each is one line."""
        own = [("Host", place.authority), ("User-Agent", "mainstay")]
        if self.body is not None:
            own.append(("Content-Length", str(len(self.body))))
        rest = (("Accept-Encoding", "gzip, deflate"), ("Connection", "close"))
        lines = [f"{name}: {value}\r\n" for name, value in (*own, *self.headers, *rest)]
        return f"{self.method} {place.target} HTTP/1.1\r\n{''.join(lines)}\r\n".encode("latin-1")


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """What came back, and from where in the end."""

    url: str
    status: int
    mime: str = ""
    charset: str = ""  # as the server says; it may be wrong
    body: bytes = b""
    redirects: tuple[str, ...] = ()  # the addresses on the way


async def fetch(
    url: str,
    *,
    rules: FetchRules | None = None,
    allow: Allow | None = None,
    resolve: Resolve | None = None,
    tls: ssl.SSLContext | None = None,
    method: Literal["GET", "HEAD"] = "GET",
) -> Fetched:
    """Raises AddressRefused before anything is sent to an address that is not allowed, else FetchFailed."""
    rules = rules or FetchRules()
    place = place_of(url)
    passed: list[str] = []
    try:
        async with asyncio.timeout(rules.time_s):
            while True:
                if allow is not None and not allow(place.url):
                    raise AddressRefused(f"The policy does not allow {_shown(place.url)}.")
                head, body = await exchange(place, Sent(method=method), rules, resolve or resolve_name, tls)
                location = head.headers.get("location")
                if head.status not in (301, 302, 303, 307, 308) or not location:
                    return fetched(place, head, body, passed)
                if len(passed) >= rules.redirects_max:
                    raise FetchFailed(f"It redirects more than {rules.redirects_max} times.")
                passed.append(place.url)
                place = follow(place, location.encode("latin-1").decode("utf-8", "replace"))
    except TimeoutError:
        raise FetchFailed(f"{_shown(place.host)} did not answer within {rules.time_s:g} s.") from None


def fetched(place: Place, head: Head, body: bytes, passed: Sequence[str] = ()) -> Fetched:
    mime, _, rest = head.headers.get("content-type", "").partition(";")
    named = re.search(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", rest[:500], re.IGNORECASE)
    return Fetched(
        url=place.url,
        status=head.status,
        mime=mime.strip().lower()[:100],
        charset=named[1].lower() if named else "",
        body=body,
        redirects=tuple(passed),
    )


# --- one request ---------------------------------------------------------------------------------


async def exchange(
    place: Place, sent: Sent, rules: FetchRules, resolve: Resolve, tls: ssl.SSLContext | None
) -> tuple[Head, bytes]:
    """One request to one of the addresses that were checked, and its answer. Takes as long as it takes."""
    addresses = await _checked(place, rules, resolve)
    reader, writer = await _connect(place, addresses, tls)
    try:
        writer.write(sent.head(place) + (sent.body or b""))
        await writer.drain()
        wire = Wire(reader)
        head = await read_head(wire)
        redirected = 300 <= head.status < 400 and "location" in head.headers
        if sent.method == "HEAD" or redirected:  # what a redirect says beside where to is not read
            return head, b""
        return head, await read_body(wire, head, rules.bytes_max)
    except (OSError, EOFError) as error:  # ssl.SSLError is one
        raise FetchFailed(f"The connection to {_shown(place.host)} was lost: {_reason(error)}.") from None
    finally:
        writer.transport.abort()  # it is never used again, whatever the other side still has to say


async def _checked(place: Place, rules: FetchRules, resolve: Resolve) -> list[str]:
    """The addresses of a place, all of them allowed. One that is not spoils the rest: an honest name has none."""
    private_ok = f"{place.host}:{place.port}" in rules.private_ok
    if not is_web_port(place.port) and not private_ok:
        raise AddressRefused(f"Port {place.port} is not one of web servers, and is not fetched from.")
    if place.literal:
        addresses: Sequence[str] = (place.host,)
    else:
        try:
            addresses = await resolve(place.host, place.port)
        except (OSError, UnicodeError):
            raise NotReached(f"There is no host {_shown(place.host)}, or its address cannot be found.") from None
    if not addresses:
        raise NotReached(f"There is no host {_shown(place.host)}.")
    if not private_ok and (bad := [address for address in addresses if not is_public(address)]):
        raise AddressRefused(
            f"{_shown(place.host)} is {_shown(bad[0])}, an address of a private or special network, "
            "and is not fetched from."
        )
    return list(addresses[:ADDRESSES_MAX])


async def resolve_name(host: str, port: int) -> Sequence[str]:
    """As the system does it, in a thread that may be left behind."""
    found = await in_thread(lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    addresses = [str(where[0]) + (f"%{where[3]}" if len(where) > 3 and where[3] else "") for *_, where in found]
    return list(dict.fromkeys(addresses))


async def _connect(
    place: Place, addresses: Sequence[str], tls: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    secure = (tls or _trust()) if place.scheme == "https" else None
    trouble: Exception | None = None
    for address in addresses:
        try:
            async with asyncio.timeout(CONNECT_S):
                return await asyncio.open_connection(
                    address, place.port, ssl=secure, server_hostname=place.host if secure else None
                )
        except ssl.SSLCertVerificationError as error:  # another address of the same host would be no better
            said = error.verify_message or "it is not valid"
            raise NotReached(f"The certificate of {_shown(place.host)} is not trusted: {said}.") from None
        except (OSError, TimeoutError) as error:
            trouble = error
    assert trouble is not None, "there is at least one address"
    raise NotReached(f"{_shown(place.host)} cannot be reached: {_reason(trouble)}.") from None


_trusted: ssl.SSLContext | None = None


def _trust() -> ssl.SSLContext:
    """The world's certificates, read once, when the first of them is needed."""
    global _trusted
    if _trusted is None:
        _trusted = ssl.create_default_context()
    return _trusted


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLError):
        return "no encrypted connection could be made"
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return "it was closed"


def _shown(text: str) -> str:
    """Whoever made a redirect has chosen this text."""
    return text if len(text) <= 200 else f"{text[:200]}…"


# --- what the owner allows -----------------------------------------------------------------------


_HOST_AND_PORT = re.compile(r"(\[[^\[\]]+\]|[^:/?#@\s]+):[0-9]+")


def private_places(named: Sequence[str]) -> tuple[str, ...]:
    """`tools.fetch_private` as FetchRules takes it: each is a host and its port."""
    places = []
    for one in named:
        try:
            if not _HOST_AND_PORT.fullmatch(one):
                raise AddressRefused("It is a host, a colon and a port.")
            place = place_of(f"http://{one}/")
        except AddressRefused as error:
            raise ConfigError(f"tools.fetch_private: {one!r} is not host:port. {error}") from None
        places.append(f"{place.host}:{place.port}")
    return tuple(places)


# --- text ----------------------------------------------------------------------------------------

_META = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_CHARSETS = frozenset(
    f"utf-8 utf-8-sig utf-16 utf-16-le utf-16-be ascii gb2312 gbk gb18030 big5 big5hkscs euc_jp shift_jis cp932 euc_kr "
    f"cp949 iso2022_jp koi8-r koi8-u mac-roman tis-620 cp866 cp874 "
    f"{' '.join(f'iso8859-{n}' for n in range(1, 17))} {' '.join(f'cp125{n}' for n in range(9))}".split()
)


def text_of(fetched: Fetched) -> str:
    """The body as text, whatever the server says of its charset: a mark in the text counts first, then its word if it
    is one we know and it fits, then what the page says of itself, then UTF-8."""
    body = fetched.body
    for mark, name in _BOMS:
        if body.startswith(mark):
            return body.decode(name, "replace")
    said = _META.search(body[:2048])
    for name in (fetched.charset, said[1].decode().lower() if said else "", "utf-8"):
        known = _known(name)
        if known:
            try:
                return body.decode(known)
            except UnicodeError:
                continue
    return body.decode("utf-8" if _mostly_utf8(body) else "cp1252", "replace")


def _known(name: str) -> str:
    """A charset that text comes in. Python knows more, and some of those are a program of their own."""
    try:
        found = codecs.lookup(name).name
    except (LookupError, ValueError):
        return ""
    if found == "iso8859-1":
        return "cp1252"  # as every browser reads it
    return found if found in _CHARSETS else ""


def _mostly_utf8(body: bytes) -> bool:
    """More of what is beyond ASCII makes sense as UTF-8 than does not."""
    beyond = re.sub(r"[\x00-\x7f]+", "", body[:65536].decode("utf-8", "replace"))
    return beyond.count("\ufffd") * 2 < len(beyond)
