"""Requests with a method, headers and a body: what is sent, to whom, and what is never sent."""

from __future__ import annotations

import asyncio

import pytest
from support.site_double import Site, moved, ok

from mainstay.io.fetch import FetchRules
from mainstay.io.http_client import (
    BODY_BYTES_MAX,
    HEADERS_BYTES_MAX,
    METHODS,
    HttpRequest,
    HttpRequestRefused,
    check_headers,
    send_request,
)
from mainstay.io.http_response import FetchFailed
from mainstay.io.urls import AddressRefused

SECRET = ("Authorization", "Bearer sesame-opens-it")


def rules(*sites: Site, time_s: float = 10.0) -> FetchRules:
    return FetchRules(private_hosts=tuple(site.place for site in sites), timeout_s=time_s)


@pytest.mark.parametrize("method", METHODS)
async def test_each_method_is_sent_with_its_headers_and_its_body(method: str) -> None:
    async def take(head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(ok("done"))

    body = b'{"a":1}' if method not in ("GET", "HEAD", "DELETE") else None
    async with Site(take) as site:
        response = await send_request(
            HttpRequest(url=f"{site.url}a?b=c", method=method, headers=(SECRET, ("X-Kind", "x")), body=body),
            rules=rules(site),
        )
    head = site.heads[0]
    assert head.startswith(f"{method} /a?b=c HTTP/1.1\r\n")
    assert "\r\nAuthorization: Bearer sesame-opens-it\r\n" in head
    assert ("\r\nContent-Length: 7\r\n" in head) == (body is not None)
    assert response.result.status == 200
    assert response.headers["content-type"] == "text/plain"


async def test_a_method_that_has_a_body_says_that_it_is_empty() -> None:
    async with Site() as site:
        await send_request(HttpRequest(url=site.url, method="POST"), rules=rules(site))
        await send_request(HttpRequest(url=site.url, method="DELETE"), rules=rules(site))
    assert "Content-Length: 0\r\n" in site.heads[0]
    assert "Content-Length" not in site.heads[1]


@pytest.mark.parametrize("status", [200, 204, 400, 404, 409, 500])
async def test_every_status_is_an_answer(status: int) -> None:
    async with Site(f"HTTP/1.1 {status} X\r\nContent-Length: 2\r\nX-A: b\r\n\r\nhi".encode()) as site:
        response = await send_request(HttpRequest(url=site.url, method="POST", body=b""), rules=rules(site))
    assert (response.result.status, response.headers["x-a"]) == (status, "b")


async def test_a_redirect_within_the_same_server_is_followed_for_reading() -> None:
    async with Site(moved("/b"), ok("there")) as site:
        response = await send_request(HttpRequest(url=f"{site.url}a", headers=(SECRET,)), rules=rules(site))
    assert (response.result.body, response.result.url) == (b"there", f"{site.url}b")
    assert len(site.heads) == 2


async def test_a_redirect_to_another_host_is_not_followed_and_it_receives_no_headers() -> None:
    """Another port of the same machine is another server; what an owner sends to one is not for the other."""
    async with Site() as other, Site(moved(other.url)) as site:
        with pytest.raises(AddressRefused, match="another server"):
            await send_request(HttpRequest(url=site.url, headers=(SECRET,)), rules=rules(site, other))
        assert other.heads == []


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_changing_request_follows_no_redirect(method: str, status: int) -> None:
    async with Site(moved("/b", status), ok()) as site:
        response = await send_request(HttpRequest(url=f"{site.url}a", method=method, body=b"x"), rules=rules(site))
    assert (response.result.status, len(site.heads)) == (status, 1)


async def test_redirects_in_a_circle_end() -> None:
    async with Site(moved("/")) as site:
        with pytest.raises(FetchFailed, match="redirects more than"):
            await send_request(HttpRequest(url=site.url), rules=rules(site))


async def test_a_private_address_is_refused_before_anything_is_sent() -> None:
    async with Site() as site:
        with pytest.raises(AddressRefused):
            await send_request(HttpRequest(url=site.url, method="POST", headers=(SECRET,), body=b"x"))
        assert site.heads == []


async def test_a_silent_server_is_waited_for_no_longer_than_the_limit() -> None:
    async with Site(b"", hang=True) as site:
        with pytest.raises(FetchFailed, match="did not answer"):
            await send_request(HttpRequest(url=site.url), rules=rules(site, time_s=0.3))


BAD = {
    "line break in the value": ("X-A", "a\r\nX-B: c"),
    "line feed in the value": ("X-A", "a\nX-B: c"),
    "line break in the name": ("X-A: b\r\nX-B", "c"),
    "colon in the name": ("X:A", "b"),
    "empty name": ("", "b"),
    "NUL": ("X-A", "a\x00"),
    "half a character": ("X-A", "\udc80"),
    "beyond latin": ("X-A", "\u0100"),
    "space at the end": ("X-A", "a "),
    "host": ("Host", "elsewhere.test"),
    "length": ("content-length", "5"),
    "framing": ("Transfer-Encoding", "chunked"),
    "another method": ("X-HTTP-Method-Override", "DELETE"),
    "another path": ("x-original-url", "/admin"),
    "too long": ("X-A", "a" * HEADERS_BYTES_MAX),
}


@pytest.mark.parametrize("header", BAD.values(), ids=BAD.keys())
async def test_headers_that_would_be_more_than_a_header_are_refused(header: tuple[str, str]) -> None:
    async with Site() as site:
        with pytest.raises(HttpRequestRefused) as refused:
            await send_request(HttpRequest(url=site.url, headers=(header,)), rules=rules(site))
        assert site.heads == []
    assert "elsewhere.test" not in str(refused.value)


async def test_a_header_twice_an_unknown_method_and_a_huge_body_are_refused() -> None:
    with pytest.raises(HttpRequestRefused, match="twice"):
        check_headers((("X-A", "1"), ("x-a", "2")))
    with pytest.raises(HttpRequestRefused, match="not one of"):
        await send_request(HttpRequest(url="http://example.com/", method="CONNECT"))
    with pytest.raises(HttpRequestRefused, match="more than"):
        await send_request(HttpRequest(url="http://example.com/", method="POST", body=b"x" * (BODY_BYTES_MAX + 1)))
