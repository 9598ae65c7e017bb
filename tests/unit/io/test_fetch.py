"""Fetching, against servers that are really there: what is let through, what is refused, and that it all ends."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import time
import zlib
from collections.abc import Sequence
from typing import Any

import pytest
from support.site_double import KEYS, Site, moved, ok

from mainstay.core.errors import ConfigError
from mainstay.core.http_response_parser import HEADERS_MAX
from mainstay.io.fetch import FetchResult, FetchRules, decode_body, fetch, parse_private_hosts, resolve_host
from mainstay.io.http_response import FetchFailed, ResponseTooLarge
from mainstay.io.urls import AddressRefused

SMALL = 64 * 1024


def rules(*places: str, time_s: float = 5.0, bytes_max: int = SMALL) -> FetchRules:
    return FetchRules(private_hosts=places, timeout_s=time_s, bytes_max=bytes_max)


class Names:
    """A resolver that says what it was told to say: of each name, one answer after another, the last again."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self._answers = {f"{name}.test": list(of) for name, of in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        if host not in self._answers:
            raise OSError("no such host")
        of = self._answers[host]
        return of.pop(0) if len(of) > 1 else of[0]


class World:
    """Replaces the network: every connection to a public address ends at a server of the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, port: int) -> None:
        self.reached: list[str] = []
        real = asyncio.open_connection

        async def connect(host: str, wanted: int, **more: Any) -> Any:
            self.reached.append(host)
            return await real("127.0.0.1", port, **more)

        monkeypatch.setattr(asyncio, "open_connection", connect)


# --- what comes back -----------------------------------------------------------------------------


async def test_a_page_is_fetched_with_only_our_user_agent() -> None:
    async with Site(ok("hello", "text/plain; charset=UTF-8")) as site:
        found = await fetch(f"{site.url}a?b=c#d", rules=rules(site.place))
    assert found == FetchResult(url=f"{site.url}a?b=c", status=200, mime="text/plain", charset="utf-8", body=b"hello")
    names = {line.partition(":")[0] for line in site.heads[0].splitlines()[1:] if line}
    assert site.heads[0].startswith("GET /a?b=c HTTP/1.1\r\n")
    assert names == {"Host", "User-Agent", "Accept", "Accept-Encoding", "Connection"}


async def test_the_real_resolver_finds_this_machine_and_that_is_refused() -> None:
    assert await resolve_host("localhost", 80)
    async with Site() as site:
        with pytest.raises(AddressRefused, match="private"):
            await fetch(f"http://localhost:{site.port}/")
        assert site.heads == []


async def test_a_head_request_brings_no_body() -> None:
    async with Site(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n") as site:
        found = await fetch(site.url, rules=rules(site.place), method="HEAD")
    assert (found.status, found.body, site.heads[0][:5]) == (200, b"", "HEAD ")


@pytest.mark.parametrize("status", [200, 204, 304, 403, 404, 500, 503])
async def test_every_status_is_reported(status: int) -> None:
    async with Site(f"HTTP/1.1 {status} X\r\nContent-Length: 2\r\n\r\nhi".encode()) as site:
        found = await fetch(site.url, rules=rules(site.place))
    assert (found.status, found.body) == (status, b"" if status in (204, 304) else b"hi")


BODIES = {
    "length": b"Content-Length: 5\r\n\r\nhello",
    "said twice": b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "more than the length": b"Content-Length: 5\r\n\r\nhello and more",
    "until the end": b"\r\nhello",
    "chunks": b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
    "chunks with a trailer": b"Transfer-Encoding: Chunked\r\n\r\n05\r\nhello\r\n0\r\nX: y\r\n\r\n",
    "line feeds": b"Transfer-Encoding: chunked\n\n5\r\nhello\r\n0\r\n\r\n",
    "gzip": b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"hello"),
    "x-gzip": b"Content-Encoding: x-gzip\r\n\r\n" + gzip.compress(b"hello"),
    "deflate": b"Content-Encoding: deflate\r\n\r\n" + zlib.compress(b"hello"),
    "raw deflate": b"Content-Encoding: deflate\r\n\r\n" + zlib.compress(b"hello", wbits=-15),
    "identity": b"Content-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello",
}


@pytest.mark.parametrize("rest", BODIES.values(), ids=BODIES.keys())
@pytest.mark.parametrize("dribble", [False, True], ids=["at once", "byte by byte"])
async def test_a_body_comes_in_every_proper_form(rest: bytes, dribble: bool) -> None:
    whole = b"HTTP/1.1 200 OK\r\n" + rest

    async def slowly(head: str, writer: asyncio.StreamWriter) -> None:
        for at in range(len(whole)):
            writer.write(whole[at : at + 1])
            await writer.drain()

    async with Site(slowly if dribble else whole) as site:
        assert (await fetch(site.url, rules=rules(site.place))).body == b"hello"


async def test_interim_responses_are_skipped() -> None:
    async with Site(b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + ok()) as site:
        assert (await fetch(site.url, rules=rules(site.place))).body == b"hello"
    async with Site(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000) as site:
        with pytest.raises(FetchFailed):
            await fetch(site.url, rules=rules(site.place))


# --- F39: where it may go ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1:{}/", "http://[::1]:{}/", "http://[::ffff:127.0.0.1]:{}/", "http://[::]:{}/"),
        *("http://0.0.0.0:{}/", "http://localhost:{}/", "http://LOCALHOST.:{}/", "http://127.1:{}/"),
        *("http://2130706433:{}/", "http://0x7f000001:{}/", "http://0177.0.0.1:{}/", "http://127.0.0.1.:{}/"),
        *("http://[64:ff9b::7f00:1]:{}/", "http://[2002:7f00:1::]:{}/", "http://x@127.0.0.1:{}/"),
        *("http://\uff11\uff12\uff17.0.0.1:{}/", "https://127.0.0.1:{}/", "ftp://127.0.0.1:{}/", "127.0.0.1:{}"),
    ],
)
async def test_f39_this_machine_cannot_be_reached_under_any_name(url: str) -> None:
    async with Site() as site:
        with pytest.raises(AddressRefused):
            await fetch(url.format(site.port))
        assert site.heads == []


@pytest.mark.parametrize(
    "addresses",
    [
        *(["127.0.0.1"], ["10.0.0.1"], ["169.254.169.254"], ["::1"], ["fe80::1%2"], ["::ffff:127.0.0.1"]),
        *(["93.184.216.34", "127.0.0.1"], ["2606:4700::1", "fd00::1"], ["64:ff9b::a9fe:a9fe"], ["garbage"]),
    ],
    ids=str,
)
async def test_f39_a_name_is_refused_if_one_of_its_addresses_is(
    addresses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Site() as site:
        world = World(monkeypatch, site.port)
        with pytest.raises(AddressRefused, match=r"x\.test"):
            await fetch(f"http://x.test:{site.port}/", resolve=Names(x=[addresses]))
        assert world.reached == site.heads == []


async def test_f39_a_name_that_changes_its_address_is_resolved_once_and_pinned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DNS rebinding: public when checked, this machine when connected to."""
    async with Site(ok("public")) as site:
        world = World(monkeypatch, site.port)
        names = Names(rebind=[["93.184.216.34"], ["127.0.0.1"]])
        assert (await fetch("http://rebind.test/", resolve=names)).body == b"public"
    assert world.reached == ["93.184.216.34"]
    assert names.asked == ["rebind.test"]
    assert "Host: rebind.test\r\n" in site.heads[0]


async def test_f39_a_redirect_to_the_same_name_is_resolved_and_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Site(moved("/again"), ok("private")) as site:
        world = World(monkeypatch, site.port)
        names = Names(rebind=[["93.184.216.34"], ["127.0.0.1"]])
        with pytest.raises(AddressRefused, match=r"127\.0\.0\.1"):
            await fetch("http://rebind.test/", resolve=names)
    assert world.reached == ["93.184.216.34"]
    assert len(site.heads) == 1


@pytest.mark.parametrize(
    "location",
    [
        *(
            "http://127.0.0.1:{}/",
            "//127.0.0.1:{}/",
            "http://[::1]:{}/",
            "http://2130706433:{}/",
            "http://inner.test:{}/",
        ),
        *("http://169.254.169.254/latest/meta-data/", "http://user:pw@outer.test/", "file:///etc/passwd"),
        *("gopher://127.0.0.1:{}/_x", "http://outer.test:22/", "http://metadata.test/", "http://[fe80::1%25lo]/"),
    ],
)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_f39_a_redirect_into_the_private_network_is_not_followed(
    location: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Site(ok("secret")) as private, Site(moved(location.format(private.port), status)) as site:
        World(monkeypatch, site.port)
        names = Names(outer=[["93.184.216.34"]], inner=[["127.0.0.1"]], metadata=[["169.254.169.254"]])
        with pytest.raises(AddressRefused):
            await fetch("http://outer.test/", resolve=names)
        assert private.heads == []
        assert len(site.heads) == 1


async def test_redirects_are_followed_to_the_end_and_counted() -> None:
    async with Site(moved("/b", 301), moved("c?d", 307), ok()) as site:
        found = await fetch(f"{site.url}a", rules=rules(site.place))
    assert found.url == f"{site.url}c?d"
    assert found.redirects == (f"{site.url}a", f"{site.url}b")
    async with Site(moved("/again")) as site:
        with pytest.raises(FetchFailed, match="more than 5 times"):
            await fetch(site.url, rules=rules(site.place))
        assert len(site.heads) == 6


async def test_an_allowed_host_is_one_host_with_one_port() -> None:
    async with Site() as site, Site() as other:
        allowed = rules(*parse_private_hosts([f"127.0.0.1:{site.port}"]))
        assert (await fetch(site.url, rules=allowed)).status == 200
        for url in (other.url, f"http://localhost:{site.port}/"):
            with pytest.raises(AddressRefused):
                await fetch(url, rules=allowed)
        assert other.heads == []


@pytest.mark.parametrize("text", ["127.0.0.1", "host", "http://x:80", "a:b", "x:80/path", "", "u@h:80", "0x7f.1:80"])
def test_an_ambiguous_allowed_host_is_refused_to_the_owner(text: str) -> None:
    with pytest.raises(ConfigError, match=r"tools\.fetch_private"):
        parse_private_hosts([text])


def test_an_owner_may_write_a_host_as_they_like() -> None:
    assert parse_private_hosts(["Wiki.Internal:8080", "[::1]:80", "10.0.0.5:443"]) == (
        *("wiki.internal:8080", "::1:80", "10.0.0.5:443"),
    )


async def test_policy_is_asked_about_every_step_before_it_is_taken() -> None:
    async with Site(ok()) as inner, Site(moved("http://127.0.0.1:1/")) as site:
        site._answers = [moved(inner.url)]
        asked: list[str] = []

        def allow(url: str) -> bool:
            asked.append(url)
            return url == site.url

        with pytest.raises(AddressRefused, match="policy"):
            await fetch(site.url, rules=rules(site.place, inner.place), allow=allow)
        assert asked == [site.url, inner.url]
        assert inner.heads == []


@pytest.mark.parametrize("port", [22, 25, 53, 110, 6379, 11211])
async def test_f39_other_services_are_not_talked_to(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 1)
    with pytest.raises(AddressRefused, match=f"Port {port}"):
        await fetch(f"http://x.test:{port}/", resolve=Names(x=[["93.184.216.34"]]))
    assert world.reached == []


async def test_f39_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Site(ok("proxied")) as proxy, Site(ok("direct")) as site:
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.setenv("NO_PROXY", "")
        assert (await fetch(site.url, rules=rules(site.place))).body == b"direct"
        assert proxy.heads == []


async def test_f39_cookies_and_credentials_are_never_sent() -> None:
    async with Site(moved("/b\r\nSet-Cookie: a=b; Path=/\r\nWWW-Authenticate: Basic"), ok()) as site:
        await fetch(site.url, rules=rules(site.place))
    assert len(site.heads) == 2
    assert not any(word in head.lower() for head in site.heads for word in ("cookie", "authorization", "referer"))


# --- TLS -----------------------------------------------------------------------------------------


def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(KEYS / "localhost.pem"))


async def test_an_encrypted_page_is_fetched_under_the_name_of_its_host() -> None:
    async with Site(tls=True) as site:
        place = f"localhost:{site.port}"
        names = Names()
        names._answers["localhost"] = [["127.0.0.1"]]
        found = await fetch(f"https://{place}/", rules=rules(place), resolve=names, tls=trusting())
    assert found.body == b"hello"
    assert f"Host: {place}\r\n" in site.heads[0]


@pytest.mark.parametrize("name", ["unknown to us", "another name"])
async def test_a_certificate_is_checked(name: str) -> None:
    async with Site(tls=True) as site:
        place = f"other.test:{site.port}"
        tls = trusting() if name == "another name" else None
        with pytest.raises(FetchFailed, match="certificate"):
            await fetch(f"https://{place}/", rules=rules(place), resolve=Names(other=[["127.0.0.1"]]), tls=tls)
        assert site.heads == []


async def test_a_server_that_does_not_encrypt_is_no_encrypted_server() -> None:
    async with Site() as site:
        with pytest.raises(FetchFailed):
            await fetch(f"https://{site.place}/", rules=rules(site.place, time_s=0.3))


async def test_f39_a_redirect_never_leads_out_of_encryption() -> None:
    async with Site() as plain, Site(moved(plain.url), tls=True) as site:
        place = f"localhost:{site.port}"
        names = Names()
        names._answers["localhost"] = [["127.0.0.1"]]
        with pytest.raises(AddressRefused, match="https to http"):
            await fetch(f"https://{place}/", rules=rules(place, plain.place), resolve=names, tls=trusting())
        assert plain.heads == []


# --- hostile servers -----------------------------------------------------------------------------

GARBAGE = {
    "nothing": b"",
    "no http": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "binary": bytes(range(256)) * 4,
    "http/2": b"HTTP/2 200 OK\r\n\r\n",
    "http/0.9": b"<html>hello</html>\r\n\r\n",
    "a status of letters": b"HTTP/1.1 abc\r\n\r\n",
    "a long status": b"HTTP/1.1 2000 OK\r\n\r\n",
    "a status of 600": b"HTTP/1.1 600 OK\r\n\r\n",
    "a space before the colon": b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
    "no colon": b"HTTP/1.1 200 OK\r\nhello\r\n\r\n",
    "a folded header": b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
    "a nameless header": b"HTTP/1.1 200 OK\r\n: b\r\n\r\n",
    "a NUL in a header": b"HTTP/1.1 200 OK\r\nA: \x00\r\n\r\n",
    "a carriage return in a header": b"HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n",
    "many headers": b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * (HEADERS_MAX + 1) + b"\r\n",
    "a header without end": b"HTTP/1.1 200 OK\r\nA: " + b"b" * 1_000_000,
    "headers without end": b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 100_000,
    "a short body": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "a negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
    "a length in words": b"HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\nhello",
    "a length with a sign": b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
    "an endless length": b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\nhello",
    "a chunk of no size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n",
    "a chunk of odd size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
    "a chunk of negative size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
    "a chunk of huge size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\nhello\r\n0\r\n\r\n",
    "a chunk too short": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
    "a chunk too long": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n0\r\n\r\n",
    "a chunk's line without end": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;" + b"x" * 100_000,
    "chunks with line feeds": b"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\nhello\n0\n\n",
    "a line feed in a size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a\nb\r\nhello\r\n0\r\n\r\n",
    "no line after the last chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
    "line ends of both kinds": b"HTTP/1.1 200 OK\r\nA: b\nC: d\r\nContent-Length: 5\r\n\r\nhello",
    "no last chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "an unknown transfer": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "an unknown packing": b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 5\r\n\r\nhello",
    "packed twice": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip, gzip\r\nContent-Length: 5\r\n\r\nhello",
    "not packed": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
    "packed in part": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"hello" * 99)[:-9],
}


@pytest.mark.parametrize("answer", GARBAGE.values(), ids=GARBAGE.keys())
async def test_garbage_is_one_sentence(answer: bytes) -> None:
    async with Site(answer) as site:
        with pytest.raises(FetchFailed) as failed:
            await fetch(site.url, rules=rules(site.place))
    assert str(failed.value).endswith(".")
    assert "\n" not in str(failed.value)


async def test_a_body_that_says_it_is_too_large_is_not_even_begun() -> None:
    async with Site(f"HTTP/1.1 200 OK\r\nContent-Length: {SMALL + 1}\r\n\r\n".encode(), hang=True) as site:
        with pytest.raises(ResponseTooLarge):
            await fetch(site.url, rules=rules(site.place))
        await asyncio.wait_for(site.gone.wait(), 120)


@pytest.mark.parametrize("chunked", [False, True], ids=["plain", "chunked"])
async def test_a_body_without_end_is_read_to_the_bound_and_no_further(chunked: bool) -> None:
    sent = 0

    async def flood(head: str, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\n" + (b"Transfer-Encoding: chunked\r\n" if chunked else b"") + b"\r\n")
        piece = b"400\r\n" + b"x" * 1024 + b"\r\n" if chunked else b"x" * 1024
        while True:
            writer.write(piece)
            sent += 1024
            await writer.drain()

    async with Site(flood) as site:
        with pytest.raises(ResponseTooLarge):
            await fetch(site.url, rules=rules(site.place))
        await asyncio.wait_for(site.gone.wait(), 120)
    assert sent < 64 * 1024 * 1024  # what the sockets' buffers hold on the way


async def test_chunks_of_a_byte_with_long_frames_end_too() -> None:
    frame = b"1;" + b"x" * 4000 + b"\r\na\r\n"
    async with Site(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + frame * 300) as site:
        with pytest.raises(FetchFailed, match="frames"):
            await fetch(site.url, rules=rules(site.place))


@pytest.mark.parametrize("kind", ["gzip", "deflate", "gzip in gzip"])
async def test_a_bomb_is_not_unpacked(kind: str) -> None:
    bomb = zlib.compress(b"\0" * 50_000_000) if kind == "deflate" else gzip.compress(b"\0" * 50_000_000)
    if kind == "gzip in gzip":
        bomb = gzip.compress(bomb + b"\0" * SMALL)
    assert len(bomb) < SMALL
    answer = ok(bomb, "text/plain", f"Content-Encoding: {'deflate' if kind == 'deflate' else 'gzip'}")
    before = time.process_time()
    async with Site(answer) as site:
        with pytest.raises(ResponseTooLarge):
            await fetch(site.url, rules=rules(site.place))
    assert time.process_time() - before < 1


HANGS = {
    "before anything": b"",
    "in the status": b"HTTP/1.1 20",
    "in the headers": b"HTTP/1.1 200 OK\r\nA: b\r\n",
    "before the body": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n",
    "in the body": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
    "in a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe",
    "between chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "in what is packed": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"hello")[:15],
}


@pytest.mark.parametrize("answer", HANGS.values(), ids=HANGS.keys())
async def test_a_server_that_stalls_is_given_up_after_a_while(answer: bytes) -> None:
    async with Site(answer, hang=True) as site:
        with pytest.raises(FetchFailed, match=r"did not answer within 0\.2 s"):
            await fetch(site.url, rules=rules(site.place, time_s=0.2))
        await asyncio.wait_for(site.gone.wait(), 120)


@pytest.mark.parametrize("answer", HANGS.values(), ids=HANGS.keys())
async def test_an_abort_closes_the_connection_at_every_stage(answer: bytes) -> None:
    async with Site(answer, hang=True) as site:
        task = asyncio.create_task(fetch(site.url, rules=rules(site.place)))
        await site.said.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(site.gone.wait(), 120)


async def test_a_slow_loris_server_has_the_same_timeout() -> None:
    async def drip(head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with Site(drip) as site:
        with pytest.raises(FetchFailed, match="did not answer"):
            await fetch(site.url, rules=rules(site.place, time_s=0.3))


async def test_a_chain_of_slow_redirects_has_no_more_time_than_one() -> None:
    async def slow(head: str, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.15)
        writer.write(moved("/next"))

    async with Site(slow) as site:
        with pytest.raises(FetchFailed, match="did not answer"):
            await fetch(site.url, rules=rules(site.place, time_s=0.4))
        assert len(site.heads) <= 3


async def test_a_resolver_that_hangs_is_not_waited_for() -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    with pytest.raises(FetchFailed, match="did not answer"):
        await fetch("http://x.test/", rules=rules(time_s=0.1), resolve=resolve)


async def test_an_unreachable_host_is_reported() -> None:
    with pytest.raises(FetchFailed, match="no host"):
        await fetch("http://nowhere.test/", resolve=Names())
    with pytest.raises(FetchFailed, match="no host"):
        await fetch("http://empty.test/", resolve=Names(empty=[[]]))
    async with Site() as site:
        port = site.port
    with pytest.raises(FetchFailed, match="nothing listens"):
        await fetch(f"http://127.0.0.1:{port}/", rules=rules(f"127.0.0.1:{port}"))


async def test_the_second_address_is_tried_if_the_first_does_not_answer() -> None:
    async with Site() as site:
        place = f"two.test:{site.port}"
        names = Names(two=[["127.0.0.9", "127.0.0.1"]])  # nothing listens at the first
        assert (await fetch(f"http://{place}/", rules=rules(place), resolve=names)).body == b"hello"


# --- text ----------------------------------------------------------------------------------------

CHARSETS = [
    ("utf-8", "", "grüße".encode(), "grüße"),
    ("latin-1 as said", "iso-8859-1", "grüße".encode("latin-1"), "grüße"),
    ("windows under latin-1's name", "iso-8859-1", b"\x93q\x94", "\u201cq\u201d"),
    ("utf-8 that says it is ascii", "us-ascii", "grüße".encode(), "grüße"),
    ("utf-8 that says it is japanese", "shift_jis", "grüße €".encode() + b"\xff", "gr"),
    ("japanese", "shift_jis", "日本".encode("shift_jis"), "日本"),
    ("utf-16 with a mark", "utf-8", "grüße".encode("utf-16"), "grüße"),
    ("utf-8 with a mark", "utf-16", b"\xef\xbb\xbfhi", "hi"),
    ("a charset that is a program", "zlib", b"hi", "hi"),
    ("rot13", "rot13", b"hi", "hi"),
    ("utf-7", "utf-7", b"+ADw-script+AD4-", "+ADw-script+AD4-"),
    ("escapes", "unicode_escape", rb"\x41", r"\x41"),
    ("punycode", "punycode", b"hi", "hi"),
    ("nonsense", "no-such-charset", b"hi", "hi"),
    ("said by the page", "", '<meta charset="iso-8859-2">ł'.encode("iso-8859-2"), "ł"),
    ("neither", "", b"caf\xe9 au lait, and much more text around it", "café"),
]


@pytest.mark.parametrize(("charset", "body", "holds"), [row[1:] for row in CHARSETS], ids=[row[0] for row in CHARSETS])
def test_text_is_decoded_with_any_declared_charset(charset: str, body: bytes, holds: str) -> None:
    assert holds in decode_body(FetchResult(url="http://x/", status=200, charset=charset, body=body))
