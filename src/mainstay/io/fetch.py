"""HTTP fetch of untrusted URLs, protected against SSRF and DNS rebinding.

A host is resolved once, every address it has is checked, and the connection goes to one of the checked addresses; a
redirect is checked like the first URL. Requests carry no credentials and no cookies, and use no proxy from the
environment. Everything is bounded: bytes (compressed and decompressed), seconds, headers, redirects.
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
from mainstay.core.http_response_parser import ConnectionBroken, ResponseHead
from mainstay.core.tls_context import load_tls_context
from mainstay.core.worker_threads import run_in_thread
from mainstay.io.http_response import FetchFailed, HostUnreachable, HttpResponseReader
from mainstay.io.urls import AddressRefused, ParsedUrl, is_public, is_web_port, parse_url, resolve_redirect

ADDRESSES_MAX = 4  # of a host, tried one after another
CONNECT_TIMEOUT_S = 6.0

HostResolver = Callable[[str, int], Awaitable[Sequence[str]]]  # host, port -> IP addresses as text
UrlFilter = Callable[[str], bool]  # URL -> allowed; called before every request, redirects included


class FetchRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of a fetch, and private hosts that may be reached all the same ("host:port")."""

    bytes_max: int = 5 * 1024 * 1024
    timeout_s: float = 20.0
    redirects_max: int = 5
    private_hosts: tuple[str, ...] = ()


class HttpRequestWithoutUrl(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP/1.1 request without its URL. `fetch` sends the defaults; `http_client` adds headers and a body."""

    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = (("Accept", "text/html, text/plain, application/json, */*;q=0.5"),)
    body: bytes | None = None

    def encode_head(self, url: ParsedUrl) -> bytes:
        """Encode the request line and headers. The caller has checked that each header is one line."""
        first = [("Host", url.authority), ("User-Agent", "mainstay")]
        if self.body is not None:
            first.append(("Content-Length", str(len(self.body))))
        last = (("Accept-Encoding", "gzip, deflate"), ("Connection", "close"))
        lines = [f"{name}: {value}\r\n" for name, value in (*first, *self.headers, *last)]
        return f"{self.method} {url.target} HTTP/1.1\r\n{''.join(lines)}\r\n".encode("latin-1")


class FetchResult(msgspec.Struct, frozen=True, kw_only=True):
    """The response, and the final URL."""

    url: str
    status: int
    mime: str = ""
    charset: str = ""  # from Content-Type; may be wrong
    body: bytes = b""
    redirects: tuple[str, ...] = ()  # URLs visited before the final one


async def fetch(
    url: str,
    *,
    rules: FetchRules | None = None,
    allow: UrlFilter | None = None,
    resolve: HostResolver | None = None,
    tls: ssl.SSLContext | None = None,
    method: Literal["GET", "HEAD"] = "GET",
) -> FetchResult:
    """Fetch a URL. Raises AddressRefused before anything is sent to a forbidden address, FetchFailed for the rest."""
    rules = rules or FetchRules()
    parsed = parse_url(url)
    visited: list[str] = []
    try:
        async with asyncio.timeout(rules.timeout_s):
            while True:
                if allow is not None and not allow(parsed.url):
                    raise AddressRefused(f"The policy does not allow {_shorten(parsed.url)}.")
                head, body = await exchange(
                    parsed, HttpRequestWithoutUrl(method=method), rules, resolve or resolve_host, tls
                )
                location = head.headers.get("location")
                if head.status not in (301, 302, 303, 307, 308) or not location:
                    return build_fetch_result(parsed, head, body, visited)
                if len(visited) >= rules.redirects_max:
                    raise FetchFailed(f"It redirects more than {rules.redirects_max} times.")
                visited.append(parsed.url)
                parsed = resolve_redirect(parsed, location.encode("latin-1").decode("utf-8", "replace"))
    except TimeoutError:
        raise FetchFailed(f"{_shorten(parsed.host)} did not answer within {rules.timeout_s:g} s.") from None


def build_fetch_result(url: ParsedUrl, head: ResponseHead, body: bytes, redirects: Sequence[str] = ()) -> FetchResult:
    mime, _, rest = head.headers.get("content-type", "").partition(";")
    charset = re.search(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", rest[:500], re.IGNORECASE)
    return FetchResult(
        url=url.url,
        status=head.status,
        mime=mime.strip().lower()[:100],
        charset=charset[1].lower() if charset else "",
        body=body,
        redirects=tuple(redirects),
    )


# --- one request ---------------------------------------------------------------------------------


async def exchange(
    url: ParsedUrl, request: HttpRequestWithoutUrl, rules: FetchRules, resolve: HostResolver, tls: ssl.SSLContext | None
) -> tuple[ResponseHead, bytes]:
    """Send one request to one of the checked addresses and read the response. Has no timeout of its own."""
    addresses = await _resolve_checked(url, rules, resolve)
    reader, writer = await _connect(url, addresses, tls)
    try:
        writer.write(request.encode_head(url) + (request.body or b""))
        await writer.drain()
        response = HttpResponseReader(reader)
        head = await response.read_head()
        redirected = 300 <= head.status < 400 and "location" in head.headers
        if request.method == "HEAD" or redirected:  # the body of a redirect is not read
            return head, b""
        return head, await response.read_body(head, rules.bytes_max)
    except ConnectionBroken as error:
        reason = str(error)
        raise FetchFailed(f"{reason[0].upper()}{reason[1:]}.") from None
    except (OSError, EOFError) as error:  # ssl.SSLError is an OSError
        raise FetchFailed(f"The connection to {_shorten(url.host)} was lost: {_describe_error(error)}.") from None
    finally:
        writer.transport.abort()  # the connection is not reused; drop unread data


async def _resolve_checked(url: ParsedUrl, rules: FetchRules, resolve: HostResolver) -> list[str]:
    """Resolve the host and check all its addresses. One forbidden address refuses the host: an honest host has none."""
    is_private_allowed = f"{url.host}:{url.port}" in rules.private_hosts
    if not is_web_port(url.port) and not is_private_allowed:
        raise AddressRefused(f"Port {url.port} is not a port of web servers, so nothing is fetched from it.")
    if url.is_ip_address:
        addresses: Sequence[str] = (url.host,)
    else:
        try:
            addresses = await resolve(url.host, url.port)
        except (OSError, UnicodeError):
            raise HostUnreachable(f"There is no host {_shorten(url.host)}, or its address cannot be found.") from None
    if not addresses:
        raise HostUnreachable(f"There is no host {_shorten(url.host)}.")
    if not is_private_allowed and (forbidden := [address for address in addresses if not is_public(address)]):
        raise AddressRefused(
            f"{_shorten(url.host)} is {_shorten(forbidden[0])}, an address of a private or special network, "
            "so nothing is fetched from it."
        )
    return list(addresses[:ADDRESSES_MAX])


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Resolve with getaddrinfo, in a thread that may outlive a cancelled caller."""
    results = await run_in_thread(lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    addresses = [
        str(sockaddr[0]) + (f"%{sockaddr[3]}" if len(sockaddr) > 3 and sockaddr[3] else "") for *_, sockaddr in results
    ]
    return list(dict.fromkeys(addresses))


async def _connect(
    url: ParsedUrl, addresses: Sequence[str], tls: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    context = (tls or load_tls_context()) if url.scheme == "https" else None
    last_error: Exception | None = None
    for address in addresses:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                return await asyncio.open_connection(
                    address, url.port, ssl=context, server_hostname=url.host if context else None
                )
        except ssl.SSLCertVerificationError as error:  # other addresses of the host have the same certificate
            reason = error.verify_message or "it is not valid"
            raise HostUnreachable(f"The certificate of {_shorten(url.host)} is not trusted: {reason}.") from None
        except (OSError, TimeoutError) as error:
            last_error = error
    assert last_error is not None, "there is at least one address"
    raise HostUnreachable(f"{_shorten(url.host)} cannot be reached: {_describe_error(last_error)}.") from None


def _describe_error(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLError):
        return "no encrypted connection could be made"
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return "it was closed"


def _shorten(text: str) -> str:
    """Cut a text that a redirect may have chosen."""
    return text if len(text) <= 200 else f"{text[:200]}…"


# --- private hosts -------------------------------------------------------------------------------


_HOST_AND_PORT = re.compile(r"(\[[^\[\]]+\]|[^:/?#@\s]+):[0-9]+")


def parse_private_hosts(entries: Sequence[str]) -> tuple[str, ...]:
    """Parse `tools.fetch_private` (each "host:port") for FetchRules. Raises ConfigError."""
    hosts = []
    for entry in entries:
        try:
            if not _HOST_AND_PORT.fullmatch(entry):
                raise AddressRefused("Write it as host:port, such as intranet.example:8080.")
            parsed = parse_url(f"http://{entry}/")
        except AddressRefused as error:
            raise ConfigError(f"tools.fetch_private: {entry!r} is not host:port. {error}") from None
        hosts.append(f"{parsed.host}:{parsed.port}")
    return tuple(hosts)


# --- text ----------------------------------------------------------------------------------------

_META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_CHARSETS = frozenset(
    f"utf-8 utf-8-sig utf-16 utf-16-le utf-16-be ascii gb2312 gbk gb18030 big5 big5hkscs euc_jp shift_jis cp932 euc_kr "
    f"cp949 iso2022_jp koi8-r koi8-u mac-roman tis-620 cp866 cp874 "
    f"{' '.join(f'iso8859-{n}' for n in range(1, 17))} {' '.join(f'cp125{n}' for n in range(9))}".split()
)


def decode_body(result: FetchResult) -> str:
    """Decode the body as text: by its byte-order mark, else by the first of these charsets that is known and fits: the
    server's, the one in the page's <meta>, UTF-8."""
    body = result.body
    for mark, name in _BOMS:
        if body.startswith(mark):
            return body.decode(name, "replace")
    declared = _META_CHARSET.search(body[:2048])
    for name in (result.charset, declared[1].decode().lower() if declared else "", "utf-8"):
        charset = _find_text_codec(name)
        if charset:
            try:
                return body.decode(charset)
            except UnicodeError:
                continue
    return body.decode("utf-8" if _is_mostly_utf8(body) else "cp1252", "replace")


def _find_text_codec(name: str) -> str:
    """Return the codec name of a text charset, or "". Some of the other codecs in Python decompress, for example."""
    try:
        codec = codecs.lookup(name).name
    except (LookupError, ValueError):
        return ""
    if codec == "iso8859-1":
        return "cp1252"  # as every browser reads it
    return codec if codec in _CHARSETS else ""


def _is_mostly_utf8(body: bytes) -> bool:
    """Return whether most of the non-ASCII content is valid UTF-8."""
    non_ascii = re.sub(r"[\x00-\x7f]+", "", body[:65536].decode("utf-8", "replace"))
    return non_ascii.count("\ufffd") * 2 < len(non_ascii)
