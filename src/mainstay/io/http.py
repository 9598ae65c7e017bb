"""Requests to a server that the owner named: any method, with headers and a body, by the same guarded way as `fetch`.

What is sent goes to the origin it was meant for and to no other: a redirect is followed for what only reads, and only
to the same scheme, host and port. The headers go along and so must not be seen by anyone else.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable

import msgspec

from mainstay.core.errors import MainstayError
from mainstay.io.addresses import AddressRefused, Place, follow, place_of
from mainstay.io.fetch import Fetched, FetchRules, Resolve, Sent, exchange, fetched, resolve_name
from mainstay.io.response import FetchFailed

HEADERS_BYTES_MAX = 16 * 1024
BODY_BYTES_MAX = 4 * 1024 * 1024

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
READING = ("GET", "HEAD")

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
_VALUE = re.compile(r"[\x20-\x7e\xa0-\xff]*")  # one line, and nothing that would need to be guessed at
# Where it goes, how long it is and how it is framed is for us to say, and nobody says it twice.
_OURS = frozenset(
    (
        *("host", "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "te", "trailer"),
        *("expect", "accept-encoding", "proxy-authorization", "proxy-connection"),
    )
)
# Asks a server to do something else than the method and the address say.
OVERRIDES = frozenset(
    ("x-http-method-override", "x-http-method", "x-method-override", "x-original-url", "x-rewrite-url")
)


class HeaderRefused(MainstayError):
    """This is no header that can be sent; nothing was."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of an address. A body has its content type among the headers."""

    url: str
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    admits: Callable[[str], bool] = lambda target: True  # where a redirect may lead, within the origin


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """As `fetch` tells it, and the headers, names in lower case."""

    fetched: Fetched
    headers: dict[str, str] = {}


async def send(
    request: Request,
    *,
    rules: FetchRules | None = None,
    resolve: Resolve | None = None,
    tls: ssl.SSLContext | None = None,
) -> Response:
    """Raises HeaderRefused or AddressRefused before anything is sent, else FetchFailed. Any status is an answer."""
    rules = rules or FetchRules()
    place = place_of(request.url)
    sent = _sent(request)
    passed: list[str] = []
    try:
        async with asyncio.timeout(rules.time_s):
            while True:
                head, body = await exchange(place, sent, rules, resolve or resolve_name, tls)
                location = head.headers.get("location")
                if head.status not in (301, 302, 303, 307, 308) or not location or request.method not in READING:
                    return Response(fetched=fetched(place, head, body, passed), headers=head.headers)
                if len(passed) >= rules.redirects_max:
                    raise FetchFailed(f"It redirects more than {rules.redirects_max} times.")
                passed.append(place.url)
                place = _within(place, location.encode("latin-1").decode("utf-8", "replace"))
                if not request.admits(place.target):
                    raise AddressRefused("It redirects to where nothing may be asked, which is not followed.")
    except TimeoutError:
        raise FetchFailed(f"{place.host} did not answer within {rules.time_s:g} s.") from None


def _within(place: Place, location: str) -> Place:
    target = follow(place, location)
    if not same_origin(place, target):
        raise AddressRefused(f"It redirects to another server ({target.host}:{target.port}), which is not followed.")
    return target


def same_origin(one: Place, other: Place) -> bool:
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)


def _sent(request: Request) -> Sent:
    if request.method not in METHODS:
        raise HeaderRefused(f"{request.method[:20]!r} is none of {', '.join(METHODS)}.")
    if request.body is not None and len(request.body) > BODY_BYTES_MAX:
        raise HeaderRefused(f"The body has {len(request.body)} bytes: more than the {BODY_BYTES_MAX} that are sent.")
    checked = check_headers(request.headers)
    if "accept" not in (name.lower() for name, _ in checked):
        checked = (("Accept", "application/json, text/*;q=0.8, */*;q=0.5"), *checked)
    body = request.body if request.body is not None or request.method in (*READING, "DELETE") else b""
    return Sent(method=request.method, headers=checked, body=body)


def check_headers(headers: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """The same ones, each of them once and on one line. A sentence about one never holds its value."""
    seen: set[str] = set()
    for name, value in headers:
        key = name.lower()
        if not _NAME.fullmatch(name):
            raise HeaderRefused(f"{name[:60]!r} is no name of a header.")
        if not _VALUE.fullmatch(value) or value != value.strip(" "):
            raise HeaderRefused(f"The value of the header {name} holds line breaks or characters that cannot be sent.")
        if key in _OURS or key in OVERRIDES:
            raise HeaderRefused(f"The header {name} cannot be set.")
        if key in seen:
            raise HeaderRefused(f"The header {name} is given twice.")
        seen.add(key)
    if sum(len(name) + len(value) + 4 for name, value in headers) > HEADERS_BYTES_MAX:
        raise HeaderRefused(f"The headers have more than {HEADERS_BYTES_MAX} bytes.")
    return headers
