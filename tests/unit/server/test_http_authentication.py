"""Authentication over HTTP (F43): a foreign page, host name or header is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from support.http_world import HOLDS_S, MAIN, World, world

from mainstay.providers.scripted import Step
from mainstay.server.http_app import HttpSettings

PAGE = "https://chat.example"


def echoing(context: Any, options: Any) -> Step:
    return "yes"


async def head(here: World, *lines: str, body: bytes = b"", method: str = "POST", path: str = "") -> tuple[int, bytes]:
    """A request with exactly these headers."""
    first = f"{method} {path or '/api/sessions/s/prompt'} HTTP/1.1"
    length = [f"Content-Length: {len(body)}", "Content-Type: application/json"] if body else []
    said = "\r\n".join([first, *lines, *length, "Connection: close", "", ""]).encode("latin-1") + body
    got = await here.raw(said)
    return int(got.split()[1]), got


SAY = b'{"text": "hi"}'


NOT_OURS = [
    "evil.example",
    "evil.example:{port}",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "127.0.0.1@evil",
    "",
]


async def test_f43_a_name_that_only_points_here_is_refused() -> None:
    """DNS rebinding: the browser believes that we are evil.example."""
    async with world(echoing) as here:
        for host in NOT_OURS:
            for more in ([], ["Origin: http://evil.example"]):
                status, got = await head(here, f"Host: {host.format(port=here.port)}", *more, body=SAY)
                assert status in (400, 403)
                assert b"yes" not in got
            assert (await here.ask("GET", "/api/sessions")).json == {"sessions": []}


OURS = ["127.0.0.1", "127.0.0.1:{port}", "localhost", "LOCALHOST:{port}", "[::1]:{port}"]


async def test_our_own_names_are_known() -> None:
    async with world(echoing) as here:
        for host in OURS:
            assert (await head(here, f"Host: {host.format(port=here.port)}", body=SAY))[0] == 200


async def test_names_are_configured_and_need_a_key() -> None:
    async with world(echoing, settings=HttpSettings(workspace=MAIN, hosts=("agent.lan",))) as here:
        key = await here.key("ann")
        assert (await head(here, "Host: agent.lan", body=SAY))[0] == 401
        assert (await head(here, "Host: agent.lan:8080", f"Authorization: bearer {key}", body=SAY))[0] == 200
        assert (await head(here, "Host: other.lan", f"Authorization: Bearer {key}", body=SAY))[0] == 403


ELSEWHERE = ["http://evil.example", "null", "http://127.0.0.1", "https://127.0.0.1:{port}", "x"]


async def test_f43_a_page_of_another_origin_is_refused() -> None:
    async with world(echoing) as here:
        for origin in ELSEWHERE:
            said = {"Origin": origin.format(port=here.port)}
            for method, path, body in (
                ("POST", "/api/sessions/s/prompt", {"text": "x"}),
                ("GET", "/api/sessions", None),
            ):
                got = await here.ask(method, path, body, headers=said)
                assert got.error == "wrong_origin"
                assert "access-control-allow-origin" not in got.headers
            key = await here.key("ann")
            assert (await here.ask("GET", "/api/me", key=key, headers=said)).error == "wrong_origin"
            asked = said | {"Access-Control-Request-Method": "POST"}
            preflight = await here.ask("OPTIONS", "/api/sessions/s/prompt", headers=asked)
            assert preflight.status == 405


async def test_our_own_page_may_ask_and_one_that_is_configured_with_a_key() -> None:
    async with world(echoing, settings=HttpSettings(workspace=MAIN, origins=(PAGE,))) as here:
        own = {"Origin": f"http://127.0.0.1:{here.port}"}
        assert (await here.ask("GET", "/api/me", headers=own)).status == 200
        asked = {"Origin": PAGE, "Access-Control-Request-Method": "POST"}
        preflight = await here.ask("OPTIONS", "/api/sessions/s/prompt", headers=asked)
        assert (preflight.status, preflight.headers["access-control-allow-origin"]) == (204, PAGE)
        assert "authorization" in preflight.headers["access-control-allow-headers"]
        without = await here.ask("GET", "/api/me", headers={"Origin": PAGE})
        assert (without.error, without.headers["access-control-allow-origin"]) == ("unauthorised", PAGE)
        key = await here.key("ann")
        allowed = await here.ask("GET", "/api/me", key=key, headers={"Origin": PAGE})
        assert (allowed.status, allowed.headers["vary"]) == (200, "origin")
        assert "access-control-allow-credentials" not in allowed.headers


FURTHER = [
    "X-Forwarded-For: 203.0.113.7",
    "Forwarded: for=203.0.113.7",
    "X-Real-IP: 203.0.113.7",
    "Via: 1.1 proxy",
    "Sec-Fetch-Site: cross-site",
    "Sec-Fetch-Site: same-site",
]


async def test_f43_a_request_from_another_machine_needs_a_key() -> None:
    async with world(echoing) as here:
        for line in FURTHER:
            assert (await head(here, "Host: localhost", line, method="GET", path="/api/me"))[0] == 401
            key = await here.key("ann")
            bearer = f"Authorization: Bearer {key}"
            assert (await head(here, "Host: localhost", line, bearer, method="GET", path="/api/me"))[0] == 200


@pytest.mark.parametrize(
    "settings", [HttpSettings(keys="required"), HttpSettings(host="0.0.0.0"), HttpSettings(host="192.0.2.1")]
)
async def test_f43_a_request_without_a_key_is_refused_where_keys_are_needed(settings: HttpSettings) -> None:
    async with world(echoing, settings=settings) as here:
        refused = await here.ask("GET", "/api/me")
        assert refused.error == "unauthorised"
        assert refused.headers["www-authenticate"].startswith("Bearer")
        assert (await here.ask("GET", "/healthz")).status == 200
        key = await here.key("ann")
        assert (await here.ask("GET", "/api/me", key=key)).json["person"] == "ann"
        assert (await here.ask("GET", "/api/me", headers={"X-API-Key": key})).json["person"] == "ann"


async def test_a_wrong_key_is_refused_where_no_key_is_accepted(caplog: pytest.LogCaptureFixture) -> None:
    async with world(echoing) as here:
        key = await here.key("ann")
        for line in (
            f"Authorization: Bearer {key}x",
            f"Authorization: Bearer {key[:-1]}",
            "Authorization: Bearer ",
            "Authorization: Basic YW5uOg==",
            f"Authorization: {key}",
            "X-API-Key: ms_x",
            "Authorization: Bearer \xff\xfe",
            f"Authorization: Bearer {key}\r\nX-API-Key: another",
        ):
            assert (await head(here, "Host: localhost", line, method="GET", path="/api/me"))[0] == 401
        assert key not in caplog.text


async def test_a_foreign_key_is_ignored_for_a_caller_that_needs_none() -> None:
    """Clients of other servers send some key, wanted or not."""
    async with world(echoing) as here:
        for line in ("Authorization: Bearer sk-anything", "X-API-Key: x"):
            assert (await head(here, "Host: localhost", line, method="GET", path="/api/me"))[0] == 200
            foreign = ("Host: localhost", "Origin: https://evil.example", line)
            assert (await head(here, *foreign, method="GET", path="/api/me"))[0] == 403
            passed_on = ("Host: localhost", "X-Forwarded-For: 192.0.2.7", line)
            assert (await head(here, *passed_on, method="GET", path="/api/me"))[0] == 401
    async with world(echoing, settings=HttpSettings(keys="required")) as here:
        for line in ("Authorization: Bearer sk-anything", "X-API-Key: x"):
            assert (await head(here, "Host: localhost", line, method="GET", path="/api/me"))[0] == 401


async def test_f43_a_key_in_an_address_is_refused_and_written_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    async with world(echoing) as here:
        key = await here.key("ann")
        for query in (f"key={key}", f"access_token={key}", f"anything={key}", "token=x", f"limit=1&api_key={key}"):
            got = await here.ask("GET", f"/api/sessions?{query}")
            assert got.error == "key_in_address"
            assert key not in got.body.decode()
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await here.browser.ws_connect(here.url(f"/api/ws?{query}"))
            assert refused.value.status == 400
    ours = [one.getMessage() for one in caplog.records if one.name.startswith(("mainstay", "uvicorn"))]
    assert ours
    assert not [line for line in ours if key in line]


async def test_f43_a_header_does_not_change_the_verb() -> None:
    async with world(echoing) as here:
        await here.say("s", "hi")
        for name in ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"):
            assert (await here.ask("GET", "/api/sessions/s", headers={name: "DELETE"})).status == 200
        assert (await here.ask("GET", "/api/sessions/s?_method=DELETE")).error == "invalid_request"
        assert (await here.ask("GET", "/api/sessions/s")).json["turns"] == 1


async def test_f43_a_websocket_is_refused_before_it_is_one() -> None:
    async with world(echoing) as here:
        for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": "evil.example"}):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await here.browser.ws_connect(here.url("/api/ws"), headers=headers)
            assert refused.value.status == 403
        for key in ("ms_wrong", ""):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await here.browser.ws_connect(here.url("/api/ws"), protocols=[f"bearer.{key}"])
            assert refused.value.status == 401
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await here.browser.ws_connect(here.url("/api/nothing"))
        assert refused.value.status == 404


async def test_a_revoked_key_closes_its_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainstay.server.websocket.KEY_CHECK_S", 0.05)
    monkeypatch.setattr("mainstay.server.server_sent_events.KEEP_ALIVE_S", 0.15)
    async with world(echoing) as here:
        key = await here.key("ann")
        await here.say("s", "hi", key=key)
        async with (
            here.hear("/api/sessions/s/events", key=key) as events,
            here.browser.ws_connect(here.url("/api/ws"), headers={"Authorization": f"Bearer {key}"}) as socket,
        ):
            assert (await anext(events)).event == "Received"
            (kept,) = here.people.list_keys()
            await here.people.revoke_key(kept.id)
            async with asyncio.timeout(HOLDS_S):
                assert [one.event async for one in events][-1] == "problem"
                message = await socket.receive()
            assert message.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
            assert socket.close_code == 1008
