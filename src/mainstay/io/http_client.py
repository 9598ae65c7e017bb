"""HTTP client for configured servers: any method, with headers and a body, with the same SSRF protection as `fetch`.

A request goes to its own origin only: redirects are followed for GET and HEAD, and only to the same scheme, host and
port, because the headers (credentials) go along.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable

import msgspec

from mainstay.core.errors import MainstayError
from mainstay.io.fetch import (
    FetchResult,
    FetchRules,
    HostResolver,
    HttpRequestWithoutUrl,
    build_fetch_result,
    exchange,
    resolve_host,
)
from mainstay.io.http_response import FetchFailed
from mainstay.io.urls import AddressRefused, ParsedUrl, parse_url, resolve_redirect

HEADERS_BYTES_MAX = 16 * 1024
BODY_BYTES_MAX = 4 * 1024 * 1024

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
SAFE_METHODS = ("GET", "HEAD")

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
_HEADER_VALUE = re.compile(r"[\x20-\x7e\xa0-\xff]*")  # one line of Latin-1
# Set by this client: destination, length and framing. A second value would allow request smuggling.
_RESERVED_HEADERS = frozenset(
    (
        *("host", "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "te", "trailer"),
        *("expect", "accept-encoding", "proxy-authorization", "proxy-connection"),
    )
)
# Ask a server to use another method or path than the request line says.
OVERRIDE_HEADERS = frozenset(
    ("x-http-method-override", "x-http-method", "x-method-override", "x-original-url", "x-rewrite-url")
)


class HttpRequestRefused(MainstayError):
    """The method, a header or the body cannot be sent. Nothing was sent."""


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to a URL. The content type of a body is among the headers."""

    url: str
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    is_redirect_allowed: Callable[[str], bool] = lambda target: True  # whether a redirect to this target is allowed


class HttpResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The result as `fetch` returns it, and the headers with lower-case names."""

    result: FetchResult
    headers: dict[str, str] = {}


async def send_request(
    request: HttpRequest,
    *,
    rules: FetchRules | None = None,
    resolve: HostResolver | None = None,
    tls: ssl.SSLContext | None = None,
) -> HttpResponse:
    """Send a request. Raises HttpRequestRefused or AddressRefused before sending, else FetchFailed."""
    rules = rules or FetchRules()
    parsed = parse_url(request.url)
    wire_request = _build_wire_request(request)
    visited: list[str] = []
    try:
        async with asyncio.timeout(rules.timeout_s):
            while True:
                head, body = await exchange(parsed, wire_request, rules, resolve or resolve_host, tls)
                location = head.headers.get("location")
                if head.status not in (301, 302, 303, 307, 308) or not location or request.method not in SAFE_METHODS:
                    return HttpResponse(result=build_fetch_result(parsed, head, body, visited), headers=head.headers)
                if len(visited) >= rules.redirects_max:
                    raise FetchFailed(f"It redirects more than {rules.redirects_max} times.")
                visited.append(parsed.url)
                parsed = _resolve_same_origin(parsed, location.encode("latin-1").decode("utf-8", "replace"))
                if not request.is_redirect_allowed(parsed.target):
                    raise AddressRefused("It redirects to an address that is not in scope, which is not followed.")
    except TimeoutError:
        raise FetchFailed(f"{parsed.host} did not answer within {rules.timeout_s:g} s.") from None


def _resolve_same_origin(url: ParsedUrl, location: str) -> ParsedUrl:
    target = resolve_redirect(url, location)
    if not has_same_origin(url, target):
        raise AddressRefused(f"It redirects to another server ({target.host}:{target.port}), which is not followed.")
    return target


def has_same_origin(first: ParsedUrl, second: ParsedUrl) -> bool:
    return (first.scheme, first.host, first.port) == (second.scheme, second.host, second.port)


def _build_wire_request(request: HttpRequest) -> HttpRequestWithoutUrl:
    if request.method not in METHODS:
        raise HttpRequestRefused(f"{request.method[:20]!r} is not one of {', '.join(METHODS)}.")
    if request.body is not None and len(request.body) > BODY_BYTES_MAX:
        raise HttpRequestRefused(
            f"The body has {len(request.body)} bytes: more than the {BODY_BYTES_MAX} that are sent."
        )
    checked = check_headers(request.headers)
    if "accept" not in (name.lower() for name, _ in checked):
        checked = (("Accept", "application/json, text/*;q=0.8, */*;q=0.5"), *checked)
    body = request.body if request.body is not None or request.method in (*SAFE_METHODS, "DELETE") else b""
    return HttpRequestWithoutUrl(method=request.method, headers=checked, body=body)


def check_headers(headers: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return the headers, checked: valid names, one line each, no duplicates. Error messages never contain a value."""
    seen: set[str] = set()
    for name, value in headers:
        key = name.lower()
        if not _HEADER_NAME.fullmatch(name):
            raise HttpRequestRefused(f"{name[:60]!r} is not a valid header name.")
        if not _HEADER_VALUE.fullmatch(value) or value != value.strip(" "):
            raise HttpRequestRefused(
                f"The value of the header {name} contains line breaks or characters that cannot be sent."
            )
        if key in _RESERVED_HEADERS or key in OVERRIDE_HEADERS:
            raise HttpRequestRefused(f"The header {name} cannot be set.")
        if key in seen:
            raise HttpRequestRefused(f"The header {name} is given twice.")
        seen.add(key)
    if sum(len(name) + len(value) + 4 for name, value in headers) > HEADERS_BYTES_MAX:
        raise HttpRequestRefused(f"The headers have more than {HEADERS_BYTES_MAX} bytes.")
    return headers
