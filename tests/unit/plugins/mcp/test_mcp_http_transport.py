"""Remote MCP servers: one address and no other, bounded answers, and sessions that may end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from pathlib import Path

import httpx2
import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as some
from support.mcp_world import Call, World, call, tool, until
from support.paths import KEYS
from support.scripted_mcp_http import Site

from mainstay.core.errors import MainstayError
from mainstay.io.http_response import FetchFailed
from mainstay.io.urls import AddressRefused, parse_url
from mainstay.plugins.mcp.errors import CallFailed, ServerUnavailable, ToolChanged
from mainstay.plugins.mcp.flood_guard import FloodGuard
from mainstay.plugins.mcp.http_transport import CheckedHttpTransport
from mainstay.plugins.mcp.message_filter import MessageFilter
from mainstay.plugins.mcp.pending_requests import PendingRequests
from mainstay.plugins.mcp.server_config import McpLimits, McpServerConfig
from mainstay.plugins.mcp.sse_filter import FilteredEventStream


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def site() -> Iterator[Site]:
    with Site().served() as served:
        yield served


def at(site: Site, **more: object) -> McpServerConfig:
    return McpServerConfig(name="web", url=site.url, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("modern", [False, True], ids=["handshake", "stateless"])
async def test_a_remote_server_is_called_with_the_owners_headers_and_from_its_pins(
    world: World, site: Site, modern: bool
) -> None:
    site.modern = modern
    async with world.servers(at(site, headers={"Authorization": "Bearer secret"})) as made:
        await made.discover()
        assert made.problems == {}
        assert await call(made, "web__echo", text="hello") == "hello"
        assert all(headers["Authorization"] == "Bearer secret" for _, headers in site.asked)
    if not modern:
        assert site.count("DELETE") == 1, "the session is ended"
    before = len(site.asked)
    async with world.servers(at(site, headers={"Authorization": "Bearer another"})) as made:
        await made.discover()
        assert [one.name for one in made.tools] == ["web__echo"]
        assert len(site.asked) == before, "nobody is asked before something is wanted"
        site.tools = [tool("echo", "Changed.")]
        with pytest.raises(ToolChanged):
            await call(made, "web__echo")


async def test_answers_may_be_streams_of_events_with_progress(world: World, site: Site) -> None:
    async with world.servers(at(site)) as made:
        await made.discover()
        site.does = "events"
        calling = Call(made, "web__echo")
        assert await calling.run() == "streamed"
        assert calling.progress == ["1: half"], "so often as somebody can read it"


async def test_a_session_that_the_server_forgot_is_begun_anew_and_the_call_made_once(world: World, site: Site) -> None:
    async with world.servers(at(site)) as made:
        await made.discover()
        assert await call(made, "web__echo", text="1") == "1"
        site.session = "restarted"
        assert await call(made, "web__echo", text="2") == "2"
        assert site.sessions == 2


async def test_an_unreachable_server_is_an_error_at_once_and_found_again_when_it_is_back(world: World) -> None:
    site = Site()
    with site.served():
        made = world.made(at(site, timeout_s=600.0), backoff_s=(0.01,), start_s=600.0)
        await made.discover()
    try:
        for _ in range(2):
            began = time.monotonic()
            with pytest.raises(ServerUnavailable, match=r"cannot be reached|connection was lost"):
                await call(made, "web__echo")
            assert time.monotonic() - began < 120, "and not at a deadline"
        with site.served(site.port):
            assert await call(made, "web__echo", text="back") == "back"
    finally:
        await made.close()
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize("does", ["broken", "rude", "hang"])
async def test_a_call_that_goes_wrong_is_one_sentence(world: World, site: Site, does: str) -> None:
    async with world.servers(at(site, timeout_s=3.0 if does == "hang" else 120.0), backoff_s=(0.01,)) as made:
        await made.discover()
        site.does = does
        with pytest.raises((CallFailed, ServerUnavailable)) as failed:
            await asyncio.wait_for(call(made, "web__echo"), 120)
        assert "\n" not in str(failed.value)
        assert str(failed.value).startswith("The MCP server web ")
        site.does = ""
        assert await call(made, "web__echo", text="fine") == "fine"


@pytest.mark.parametrize("does", ["huge", "packed", "endless"])
async def test_an_answer_that_is_too_long_is_not_held(world: World, site: Site, does: str) -> None:
    async with world.servers(at(site, timeout_s=120.0), backoff_s=(0.01,)) as made:
        await made.discover()
        site.does = does
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises((CallFailed, ServerUnavailable)):
            await asyncio.wait_for(call(made, "web__echo"), 120)
        if does == "endless":  # what the others weigh, they weigh in this very process
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
        site.does = ""
        assert await call(made, "web__echo", text="fine") == "fine"


async def test_f50_a_flood_of_events_is_dropped(world: World, site: Site) -> None:
    async with world.servers(at(site)) as made:
        await made.discover()
        site.does = "flood"
        assert await asyncio.wait_for(call(made, "web__echo"), 120) == "flooded"
        assert site.count("tools/list") <= 3


async def test_f50_a_flood_of_events_that_are_no_messages_is_the_end(world: World, site: Site) -> None:
    async with world.servers(at(site), backoff_s=(0.01,)) as made:
        await made.discover()
        site.does = "chatter"
        with pytest.raises(ServerUnavailable, match=r"it sent too many messages: \d+ were dropped"):
            await asyncio.wait_for(call(made, "web__echo"), 120)
        site.does = ""
        assert await call(made, "web__echo", text="fine") == "fine"


UNASKED = {
    "answers": b'data: {"jsonrpc": "2.0", "id": "nobody", "result": {}}\n\n' * 500,
    "large": b'data: {"jsonrpc": "2.0", "id": 1, "result": [' + b"{}," * 1_000_000 + b"{}]}\n\n",
    "comments": b":" + b"x" * 60_000 + b"\n\n",
    "crumbs": b"\n",
}


@pytest.mark.parametrize("kind", UNASKED)
async def test_f50_a_flood_where_servers_may_say_something_unasked_is_the_end(
    world: World, site: Site, kind: str
) -> None:
    site.unasked = UNASKED[kind]
    async with world.servers(at(site), dropped_max=5000, dropped_bytes_max=16 * 1024 * 1024) as made:
        with contextlib.suppress(MainstayError):  # it may be over before it is asked
            await made.refresh("web")
        await until(lambda: not made.is_running("web"), "it is ended")
        await until(lambda: len(asyncio.all_tasks()) == 1, "all its tasks end")


@pytest.mark.parametrize("does", ["hang", "silent"])
async def test_cancelled_calls_leave_no_socket_and_no_task(world: World, site: Site, does: str) -> None:
    async with world.servers(at(site, timeout_s=3)) as made:
        await made.discover()
        assert await call(made, "web__echo", text="fine") == "fine"
        before = len(os.listdir("/dev/fd")), len(asyncio.all_tasks())
        site.does = does
        for _ in range(2):
            failed = await asyncio.gather(*(call(made, "web__echo") for _ in range(20)), return_exceptions=True)
            # on a slow machine the server's own answer to the cancellations may come late: then it counts as lost
            assert all(isinstance(one, MainstayError) for one in failed), failed
        slack = 4  # connections of both ends that are kept for what comes next
        await until(lambda: len(os.listdir("/dev/fd")) <= before[0] + slack, "the sockets are closed")
        await until(lambda: len(asyncio.all_tasks()) <= before[1], "the tasks end")


async def test_a_server_that_ignores_notifications_is_still_called(world: World, site: Site) -> None:
    async with world.servers(at(site, timeout_s=2.0), write_s=0.2) as made:
        await made.discover()
        site.does, site.nods = "hang", False
        with pytest.raises(CallFailed, match="did not answer"):
            await call(made, "web__echo")
        await until(lambda: site.count("notifications/cancelled") == 1, "it is told")
        site.does = ""
        end = time.monotonic() + 120
        while True:
            try:
                assert await call(made, "web__echo", text="fine") == "fine"
                break
            except CallFailed:
                assert time.monotonic() < end


class Parts(httpx2.AsyncByteStream):
    def __init__(self, parts: list[bytes]) -> None:
        self._parts = parts

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._parts:
            yield part


@given(some.lists(some.integers(0, 400), max_size=12), some.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_events_are_the_same_at_any_cut_and_with_any_line_ends(cuts: list[int], end: bytes) -> None:
    lines = [
        *(b": hello", b"", b"", b"event: ping", b"data: x", b""),
        *(b"id: 1", b"retry: 99999999999", b"data:", b""),
        *(b"event: message", b'data:{"jsonrpc": "2.0",', b'data: "id": 7, "result": {}}', b"id: 2", b"junk", b""),
        *(b'data: {"jsonrpc": "2.0", "id": 8, "result": {}}', b"", b"data: what", b""),
        *(b'data: {"jsonrpc": "2.0", "method": "a"}', b"", b"data: unfinished"),
    ]
    data = end.join(lines)
    at = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})

    async def main() -> tuple[bytes, int]:
        asked = PendingRequests()
        asked.add(7)
        asked.add(8)
        gate = FloodGuard(McpLimits(), lambda: 0.0)
        pieces = Parts([data[start:stop] for start, stop in pairwise(at)])
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        events = FilteredEventStream(pieces, MessageFilter(McpLimits(), gate, asked), over, 7)
        return b"".join([part async for part in events]), gate.dropped

    passed, dropped = asyncio.run(main())
    assert passed == (
        b"id: 1\nretry: 10000\ndata:\n\n"
        b'id: 2\nevent: message\ndata: {"jsonrpc": "2.0", "id": 7, "result": {}}\n\n'
        b'event: message\ndata: {"jsonrpc": "2.0", "method": "a"}\n\n'
    )
    assert dropped == 2


async def test_redirects_to_other_hosts_are_not_followed(world: World, site: Site) -> None:
    with Site().served() as other:
        site.location = other.url
        async with world.servers(at(site, headers={"Authorization": "Bearer secret"})) as made:
            await made.discover()
            assert made.tools == ()
            assert "web" in made.problems
            assert "secret" not in made.problems["web"]
        assert other.asked == []


HOSTS = {
    "localhost": ["127.0.0.1"],
    "mixed.example.com": ["127.0.0.1", "93.184.216.34"],
    "inside.example.com": ["127.0.0.1"],
    "gone.example.com": [],
}


async def resolved(host: str, port: int) -> list[str]:
    return HOSTS[host]


def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(KEYS / "localhost.pem"))


async def asked(url: str, private_ok: tuple[str, ...], target: str = "") -> httpx2.Response:
    limits = McpLimits()
    sieve = MessageFilter(limits, FloodGuard(limits, time.monotonic), PendingRequests())
    way = CheckedHttpTransport(parse_url(url), private_ok, sieve, resolve=resolved, tls=trusting())
    try:
        return await way.handle_async_request(httpx2.Request("GET", target or url))
    finally:
        await way.aclose()


@pytest.mark.parametrize("host", ["inside.example.com", "mixed.example.com"])
async def test_a_name_with_a_private_address_is_not_reached(site: Site, host: str) -> None:
    with pytest.raises(AddressRefused, match=r"is 127\.0\.0\.1, an address of a private or special network"):
        await asked(f"http://{host}:{site.port}/mcp", ())
    assert site.asked == []


async def test_a_private_address_is_reached_if_the_owner_names_the_host_or_the_address_itself(site: Site) -> None:
    url = f"http://inside.example.com:{site.port}/mcp"
    for granted in ("inside.example.com", f"inside.example.com:{site.port}"):
        assert (await asked(url, (granted,))).status_code == 405
        assert site.asked[-1][1]["Host"] == f"inside.example.com:{site.port}"
    assert (await asked(site.url, ())).status_code == 405
    with pytest.raises(AddressRefused):
        await asked(url, (f"inside.example.com:{site.port + 1}",))


@pytest.mark.parametrize("target", ["http://169.254.169.254/latest", "http://127.0.0.1:1/mcp", "http://localhost/mcp"])
async def test_nothing_is_sent_to_another_origin(site: Site, target: str) -> None:
    with pytest.raises(AddressRefused, match="redirects to another server"):
        await asked(site.url, (), target)


async def test_a_certificate_must_be_that_of_the_host_and_not_of_the_address(site: Site) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(KEYS / "localhost.pem", KEYS / "localhost.key")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    async with server:
        assert (await asked(f"https://localhost:{port}/mcp", ())).status_code == 204
        with pytest.raises(httpx2.ConnectError, match="certificate"):
            await asked(f"https://inside.example.com:{port}/mcp", ("inside.example.com",))


@pytest.mark.parametrize(
    ("status", "sentence"),
    [(401, "HTTP 401: check the server's `headers`"), (405, "older SSE transport is not supported"), (500, "HTTP 500")],
    ids=[401, 405, 500],
)
async def test_a_server_that_requires_something_else_says_what(
    world: World, site: Site, status: int, sentence: str
) -> None:
    site.status = status
    async with world.servers(at(site)) as made:
        await made.discover()
        assert sentence in made.problems["web"]


async def test_an_unreachable_host_is_reported(site: Site) -> None:
    with pytest.raises(FetchFailed, match=r"There is no host gone\.example\.com"):
        await asked("http://gone.example.com/mcp", ())


async def test_cancelling_a_remote_call_leaves_nothing_and_others_go_on(world: World, site: Site) -> None:
    async with world.servers(at(site)) as made:
        await made.discover()
        site.does = "hang"
        waiting = asyncio.create_task(call(made, "web__echo"))
        await until(lambda: site.count("tools/call") == 1, "it is called")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(waiting, 120)
        await until(lambda: site.count("notifications/cancelled") == 1, "it is told")
        site.does = ""
        assert await call(made, "web__echo", text="fine") == "fine"


def test_a_remote_server_works_on_uvloop_and_leaves_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        with Site().served() as site:
            world = World(tmp_path)
            async with world.servers(at(site)) as made:
                await made.discover()
                for number in range(20):
                    assert await call(made, "web__echo", text=str(number)) == str(number)
            assert len(asyncio.all_tasks()) == 1

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
