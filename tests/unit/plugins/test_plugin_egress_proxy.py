"""The proxy that confined programs reach the network by, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mainstay.core.errors import ConfigError
from mainstay.io.urls import AddressRefused
from mainstay.plugins import egress_proxy
from mainstay.plugins.egress_proxy import EgressProxy, HostGrant, parse_host_grant, parse_proxy_request


@asynccontextmanager
async def web(seen: list[bytes]) -> AsyncIterator[int]:
    """A server that answers with what it was asked."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            seen.append(head)
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + head)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


class Proxy:
    """One under test; `said` is what it noted."""

    def __init__(self, where: Path, granted: Sequence[str], names: dict[str, Sequence[str]] | None = None) -> None:
        self.path = str(where / "out")
        self.said: list[str] = []
        self._names = names or {}
        self.egress = EgressProxy(granted, self.said.append, self._resolve)

    async def _resolve(self, host: str, port: int) -> Sequence[str]:
        if host not in self._names:
            raise OSError("no such host")
        return self._names[host]

    async def __aenter__(self) -> Proxy:
        await self.egress.serve(self.path)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.egress.close()

    async def ask(self, data: bytes) -> bytes:
        reader, writer = await asyncio.open_unix_connection(self.path)
        try:
            writer.write(data)
            await writer.drain()
            return await asyncio.wait_for(reader.read(), 120)
        except ConnectionResetError:
            return b""
        finally:
            writer.close()

    async def status(self, data: bytes) -> bytes:
        return (await self.ask(data)).split(b"\r\n")[0]


async def test_a_granted_host_is_reached_by_both_ways(tmp_path: Path) -> None:
    seen: list[bytes] = []
    async with web(seen) as port, Proxy(tmp_path, [f"127.0.0.1:{port}"]) as proxy:
        head = (
            f"GET http://127.0.0.1:{port}/a?b HTTP/1.1\r\nHost: evil.example\r\nProxy-Authorization: x\r\nX: 1\r\n\r\n"
        )
        answer = await proxy.ask(head.encode())
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert seen[0] == f"GET /a?b HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX: 1\r\nConnection: close\r\n\r\n".encode()
        tunnel = f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\nGET /through HTTP/1.1\r\n\r\n".encode()
        answer = await proxy.ask(tunnel)
        assert answer.startswith(b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK")
        assert seen[1] == b"GET /through HTTP/1.1\r\n\r\n"


@pytest.mark.parametrize(
    "target",
    ["127.0.0.1:1", "169.254.169.254:80", "sub.api.example.com:443", "api.example.com:22", "evil.com:443", "[::1]:443"],
    ids=["port", "metadata", "below", "odd-port", "other", "six"],
)
async def test_a_host_that_was_not_granted_is_refused_and_logged(target: str, tmp_path: Path) -> None:
    async with Proxy(tmp_path, ["api.example.com", "127.0.0.1:2"]) as proxy:
        answer = await proxy.ask(f"CONNECT {target} HTTP/1.1\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 403 Forbidden")
        assert b"is not among the hosts that were granted" in answer
        assert len(proxy.said) == 1


@pytest.mark.parametrize("address", ["10.0.0.1", "127.0.0.1", "169.254.169.254", "::1", "fd00::1", "::ffff:10.0.0.1"])
async def test_a_granted_name_that_leads_to_a_private_address_does_not_lead_there(address: str, tmp_path: Path) -> None:
    names = {"api.example.com": ["93.184.216.34", address]}
    for granted in (["api.example.com"], ["*.example.com"], ["*"], ["api.example.com:443"]):
        async with Proxy(tmp_path, granted, names) as proxy:
            answer = await proxy.ask(b"CONNECT api.example.com:443 HTTP/1.1\r\n\r\n")
            assert b"403 Forbidden" in answer
            assert b"of a private network" in answer


async def test_a_private_address_is_reached_if_that_very_one_was_granted(tmp_path: Path) -> None:
    seen: list[bytes] = []
    async with web(seen) as port:
        names = {"intranet.example": ["127.0.0.1"], "localhost": ["127.0.0.1"]}
        ask = b"GET http://%s:%d/ HTTP/1.1\r\n\r\n"
        async with Proxy(tmp_path, [f"intranet.example:{port}"], names) as proxy:
            assert b"403" in await proxy.status(ask % (b"intranet.example", port))
        async with Proxy(tmp_path, [f"intranet.example:{port}", f"127.0.0.1:{port}"], names) as proxy:
            assert b"200" in await proxy.status(ask % (b"intranet.example", port))
        async with Proxy(tmp_path, [f"localhost:{port}"], names) as proxy:
            assert b"200" in await proxy.status(ask % (b"localhost", port))
        async with Proxy(tmp_path, ["127.0.0.1", "*"], names) as proxy:  # without a port it is no such grant
            assert b"403" in await proxy.status(ask % (b"127.0.0.1", port))
    assert len(seen) == 2


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET https://api.example.com/ HTTP/1.1\r\n\r\n",
        b"CONNECT api.example.com HTTP/1.1\r\n\r\n",
        b"CONNECT user@api.example.com:443 HTTP/1.1\r\n\r\n",
        b"CONNECT 0x7f.1:443 HTTP/1.1\r\n\r\n",
        b"CONNECT api.example.com:99999 HTTP/1.1\r\n\r\n",
        b"GET ftp://api.example.com/ HTTP/1.1\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x00\r\n\r\n",
    ],
    ids=["origin-form", "https", "no-port", "user", "odd-number", "port", "ftp", "nonsense", "tls"],
)
async def test_an_invalid_proxy_request_is_refused(data: bytes, tmp_path: Path) -> None:
    async with Proxy(tmp_path, ["*"]) as proxy:
        assert await proxy.status(data) == b"HTTP/1.1 403 Forbidden"


async def test_a_head_without_end_is_not_waited_for(tmp_path: Path) -> None:
    async with Proxy(tmp_path, ["*"]) as proxy:
        assert await proxy.ask(b"GET http://x/" + b"a" * 200_000) == b""


async def test_an_unreachable_host_is_reported(tmp_path: Path) -> None:
    async with web([]) as port:
        gone = port
    async with Proxy(tmp_path, [f"127.0.0.1:{gone}", "nobody.example"]) as proxy:
        assert b"502" in await proxy.status(f"CONNECT 127.0.0.1:{gone} HTTP/1.1\r\n\r\n".encode())
        answer = await proxy.ask(b"CONNECT nobody.example:443 HTTP/1.1\r\n\r\n")
        assert b"there is no host nobody.example" in answer
        assert proxy.said == []


async def test_closing_ends_the_ways_that_are_open(tmp_path: Path) -> None:
    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with Proxy(tmp_path, [f"127.0.0.1:{port}"]) as proxy:
        reader, writer = await asyncio.open_unix_connection(proxy.path)
        writer.write(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
        await asyncio.wait_for(reader.readexactly(1), 120)
    writer.close()
    server.close()


async def test_an_idle_tunnel_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(egress_proxy, "IDLE_TIMEOUT_S", 0.2)
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with Proxy(tmp_path, [f"127.0.0.1:{port}"]) as proxy:
        answer = await proxy.ask(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())
        assert answer == b"HTTP/1.1 200 Connection established\r\n\r\n"
    server.close()


# --- grants --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "grant"),
    [
        ("api.example.com", HostGrant("api.example.com")),
        ("API.Example.com.", HostGrant("api.example.com")),
        ("*.example.com:8443", HostGrant("example.com", 8443, subdomains_only=True)),
        ("127.0.0.1:8080", HostGrant("127.0.0.1", 8080)),
        ("[::1]:8080", HostGrant("::1", 8080)),
        ("[::1]", HostGrant("::1")),
        ("*", HostGrant("")),
        ("*:8443", HostGrant("", 8443)),
    ],
)
def test_a_grant_is_read(text: str, grant: HostGrant) -> None:
    assert parse_host_grant(text) == grant


@pytest.mark.parametrize(
    "text", ["", "http://x", "a b", "x:0", "x:70000", "x:y", "*.127.0.0.1", "a/b", "a*.example.com", "user@x", "::1"]
)
def test_an_invalid_host_cannot_be_granted(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a host that can be granted"):
        parse_host_grant(text)


def test_a_grant_of_hosts_below_another_is_not_one_of_its_look_alikes() -> None:
    grant = parse_host_grant("*.example.com")
    assert grant.covers("a.example.com", 443)
    assert grant.covers("a.b.example.com", 80)
    for host in ("example.com", "evilexample.com", "a.example.com.evil.com"):
        assert not grant.covers(host, 443)
    assert not grant.covers("a.example.com", 22)
    assert parse_host_grant("*").covers("anything.example", 8443)
    assert not parse_host_grant("*").covers("anything.example", 22)


@pytest.mark.parametrize("inner", [b"\n", b"\r", b"\n\r"], ids=["lf", "cr", "lfcr"])
def test_a_line_that_ends_in_another_way_is_refused(inner: bytes) -> None:
    """The server behind us might take it for a field that we did not see."""
    for head in (
        b"GET http://a.com/ HTTP/1.1\r\nX: y" + inner + b"Host: b.com\r\n\r\n",
        b"CONNECT a.com:443 HTTP/1.1" + inner + b"\r\n\r\n",
    ):
        with pytest.raises(AddressRefused, match="does not end with CR and LF"):
            parse_proxy_request(head)


def test_a_request_names_its_place() -> None:
    assert parse_proxy_request(b"CONNECT [2606:2800::1]:443 HTTP/1.1\r\n\r\n").destination.host == "2606:2800::1"
    with pytest.raises(AddressRefused):
        parse_proxy_request(b"CONNECT a:b:443 HTTP/1.1\r\n\r\n")
