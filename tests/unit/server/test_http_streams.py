"""Streams over real sockets: every durable event once and in order, after any disconnect."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support.http_world import HOLDS_S, MAIN, ServerSentEvent, World, until, world

from mainstay import Config, tool
from mainstay.config.schema import PolicySettings
from mainstay.core.messages import FinishReason, Usage
from mainstay.core.ports import StreamFinished, TextPiece
from mainstay.providers.scripted import Call, Pieces, Stall, Step
from mainstay.server.connection_limits import ConnectionLimits
from mainstay.server.uvicorn_server import UvicornOptions, bind_socket, serve_asgi

EVENTS = "/api/sessions/s/events"
PROMPT = "/api/sessions/s/prompt"


def echoing(context: Any, options: Any) -> Step:
    return "yes"


async def take(events: Any, count: int) -> list[ServerSentEvent]:
    async with asyncio.timeout(HOLDS_S):
        return [await anext(events) for _ in range(count)]


def spoken(*words: str | Stall) -> Pieces:
    pieces = [TextPiece(word) if isinstance(word, str) else word for word in words]
    return Pieces([*pieces, StreamFinished(FinishReason.END, Usage(1, 1))])


async def test_an_answer_is_streamed_while_it_is_generated() -> None:
    stall = Stall()
    async with world([spoken("one ", stall, "two")]) as here, here.hear(PROMPT, {"text": "count"}) as events:
        heard = await take(events, 3)
        assert [one.event for one in heard] == ["Received", "TurnStarted", "TextDelta"]
        assert heard[2].data["text"] == "one "
        stall.release()
        rest = [one async for one in events]
        assert rest[-1].event == "TurnEnded"
        assert "".join(one.data["text"] for one in rest if one.event == "TextDelta") == "two"
        durable = [one.id for one in heard + rest if one.id]
        assert durable == [1, 2, 3, 4]
        assert all(one.data["sequence"] == one.id for one in heard + rest if one.id)


async def test_a_client_that_comes_again_says_what_it_saw_last() -> None:
    async with world(echoing) as here:
        for word in ("a", "b", "c"):
            await here.say("s", word)
        async with here.hear(EVENTS) as events:
            assert [one.id for one in await take(events, 12)] == list(range(1, 13))
        async with here.hear(EVENTS, headers={"Last-Event-ID": "7"}) as events:
            assert [one.id for one in await take(events, 5)] == [8, 9, 10, 11, 12]
            await here.say("s", "d")
            assert [one.id for one in await take(events, 5) if one.id] == [13, 14, 15, 16]
        async with here.hear(f"{EVENTS}?after=11") as events:
            assert [one.id for one in await take(events, 1)] == [12]
        async with here.hear(PROMPT, {"text": "a", "id": "x"}) as events:
            first = [one.id async for one in events if one.id]
        async with here.hear(PROMPT, {"text": "a", "id": "x"}, headers={"Last-Event-ID": str(first[1])}) as events:
            assert [one.id async for one in events if one.id] == first[2:]
        for wrong in ("x", "-1", "1.5", "9" * 40):
            assert (await here.ask("GET", EVENTS, headers={"Last-Event-ID": wrong})).error == "invalid_request"
        pages = [(await page(here, after)) for after in (0, 7)]
        assert [len(one["events"]) for one in pages] == [7, 7]
        assert [one["next"] for one in pages] == [7, 14]


async def page(here: World, after: int) -> Any:
    got = await here.ask("GET", f"{EVENTS}?after={after}&limit=7", headers={"Accept": "application/json"})
    return got.json


async def test_a_stream_goes_on_after_the_server_was_started_again(tmp_path: Path) -> None:
    stall = Stall("late")
    seen: list[int] = []
    async with world(["early", stall], homes={MAIN: tmp_path}) as here:
        await here.say("s", "first")
        async with here.hear(EVENTS) as events:
            seen += [one.id for one in await take(events, 4) if one.id]
            assert (await here.say("s", "second", wait=False)).status == 202
            await stall.reached.wait()
            here.stop.set()
            rest = [one async for one in events]
            seen += [one.id for one in rest if one.id]
            assert rest[-1].event == "bye"
    async with world(["late after all"], homes={MAIN: tmp_path}) as here:
        async with here.hear(EVENTS, headers={"Last-Event-ID": str(seen[-1])}) as events:
            async with asyncio.timeout(HOLDS_S):
                async for one in events:
                    seen += [one.id] if one.id else []
                    if one.event == "TurnEnded":
                        break
        everything = await here.ask("GET", EVENTS, headers={"Accept": "application/json"})
        assert seen == [one["sequence"] for one in everything.json["events"]] == list(range(1, len(seen) + 1))


async def test_a_client_that_disconnects_is_forgotten_and_the_turn_goes_on() -> None:
    stall = Stall("done")
    async with world([stall]) as here:
        async with here.hear(PROMPT, {"text": "go"}) as events:
            await take(events, 2)
            await stall.reached.wait()
            assert len(here.app.state.open_streams) == 1
        await until(lambda: not here.app.state.open_streams)
        stall.release()
        await here.agents[MAIN].settled()
        assert (await here.ask("GET", "/api/sessions/s")).json["turns"] == 1


async def test_a_silent_stream_says_now_and_then_that_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainstay.server.server_sent_events.KEEP_ALIVE_S", 0.1)
    async with world(echoing) as here:
        await here.say("s", "hi")
        async with here.browser.get(here.url(f"{EVENTS}?after=4")) as got, asyncio.timeout(HOLDS_S):
            assert await got.content.readexactly(6) == b":\n\n:\n\n"


async def test_an_approval_ends_the_stream() -> None:
    @tool(untrusted=False, sink=False)
    def send(to: str) -> str:
        """Send."""
        return "sent"

    config = Config(policy=PolicySettings(ask=("send",)))
    async with world([[Call("send", {"to": "a"})], "done"], tools=[send], config=config) as here:
        async with here.hear(PROMPT, {"text": "go"}) as events:
            heard = [one async for one in events]
        assert heard[-1].event == "ApprovalAsked"


async def test_a_session_that_is_forgotten_ends_the_streams_of_its_turn() -> None:
    stall = Stall("never")
    async with world([stall]) as here, here.hear(PROMPT, {"text": "go"}) as events:
        await stall.reached.wait()
        assert (await here.ask("DELETE", "/api/sessions/s")).status == 204
        async with asyncio.timeout(HOLDS_S):
            assert [one.event async for one in events][-1] in ("problem", "TurnEnded")


async def test_when_the_server_stops_followers_end_at_once_and_turns_are_streamed_to_their_end() -> None:
    stall = Stall("the end")
    async with (
        world([stall]) as here,
        here.hear(PROMPT, {"text": "go"}) as turn,
        here.browser.ws_connect(here.url("/api/ws")) as socket,
    ):
        await stall.reached.wait()
        async with here.hear(EVENTS) as following:
            here.app.drain()
            async with asyncio.timeout(HOLDS_S):
                assert [one.event async for one in following][-1] == "bye"
                assert json.loads((await socket.receive()).data) == {"type": "Bye", "retry_ms": 1000}
                await socket.receive()
        assert socket.close_code == 1012
        refused = await here.say("other", "new")
        assert (refused.status, refused.error) == (503, "stopping")
        assert "retry-after" in refused.headers
        assert (await here.ask("GET", "/readyz")).error == "not_ready"
        assert (await here.ask("GET", "/healthz")).status == 200
        stall.release()
        assert [one.event async for one in turn][-1] == "TurnEnded"


async def test_when_the_server_closes_all_clients_are_told_and_nothing_is_lost() -> None:
    stall = Stall("the end")
    async with world([stall]) as here, here.hear(PROMPT, {"text": "go"}) as turn:
        await stall.reached.wait()
        waiting = asyncio.create_task(here.say("s", "and then", wait=True))
        await until(lambda: here.app.state.open_streams)
        here.app.close()
        assert [one.event async for one in turn][-1] == "bye"
        assert (await waiting).error == "stopping"


# --- the same over a WebSocket -------------------------------------------------------------------


async def send_command(socket: aiohttp.ClientWebSocketResponse, **wanted: Any) -> Any:
    await socket.send_json(wanted)
    return await socket.receive_json(timeout=HOLDS_S)


async def events_until(socket: aiohttp.ClientWebSocketResponse, kind: str) -> list[Any]:
    found: list[Any] = []
    while not found or found[-1]["type"] != kind:
        found.append(await socket.receive_json(timeout=HOLDS_S))
    return found


async def test_several_conversations_on_one_connection() -> None:
    stall = Stall("a is done")
    async with world([stall, "b is done"]) as here:
        key = await here.key("ann")
        async with here.browser.ws_connect(here.url("/api/ws"), protocols=("mainstay.v1", f"bearer.{key}")) as socket:
            assert socket.protocol == "mainstay.v1"
            assert (await send_command(socket, do="prompt", session="a", text="go", id="1"))["do"] == "prompt"
            await stall.reached.wait()
            await socket.send_json({"do": "prompt", "session": "b", "text": "go"})
            other = await events_until(socket, "TurnEnded")
            assert other[-1]["session"] == "b"
            await socket.send_json({"do": "abort", "session": "a"})
            rest = await events_until(socket, "TurnEnded")
            receipt = {"type": "Done", "do": "abort", "session": "a", "aborted": True}
            assert receipt in [*rest, await _last(socket, rest)]
            assert rest[-1]["outcome"] == {"type": "Aborted"}


async def _last(socket: aiohttp.ClientWebSocketResponse, rest: list[Any]) -> Any:
    """The receipt may come after what it is for."""
    done = any(one["type"] == "Done" for one in rest)
    return None if done else await socket.receive_json(timeout=HOLDS_S)


async def test_a_session_is_followed_from_where_one_was_and_left() -> None:
    async with world(echoing) as here:
        await here.say("s", "hi")
        async with here.browser.ws_connect(here.url("/api/ws")) as socket:
            assert (await send_command(socket, do="follow", session="s", after=2))["type"] == "Done"
            assert [one["sequence"] for one in await events_until(socket, "TurnEnded")] == [3, 4]
            assert (await send_command(socket, do="unfollow", session="s"))["type"] == "Done"
            await here.say("s", "unheard")
            assert (await send_command(socket, do="abort", session="s"))["type"] == "Done"  # and nothing before it


UNUSABLE = [
    ("{", "invalid_request"),
    ("[]", "invalid_request"),
    ('{"do": "dance", "session": "s"}', "invalid_request"),
    ('{"do": "prompt", "session": "s"}', "invalid_request"),
    ('{"do": "prompt", "text": "x"}', "invalid_request"),
    ('{"do": "prompt", "session": "", "text": "x"}', "invalid_request"),
    ('{"do": "prompt", "session": "a\\nb", "text": "x"}', "invalid_request"),
    ('{"do": "follow", "session": "never"}', "not_found"),
    ('{"do": "follow", "session": "s", "after": -1}', "invalid_request"),
    ('{"do": "abort", "session": "never"}', "not_found"),
    ('{"do": "abort", "session": "s", "key": "x"}', "invalid_request"),
]


async def test_an_invalid_message_is_refused_and_the_next_is_handled() -> None:
    async with world(echoing) as here, here.browser.ws_connect(here.url("/api/ws")) as socket:
        for said, kind in UNUSABLE:
            await socket.send_str(said)
            refused = await socket.receive_json(timeout=HOLDS_S)
            assert (refused["type"], refused["error"]["type"]) == ("Problem", kind), said
        await socket.send_bytes(b"\xff\xfe")
        assert (await socket.receive_json(timeout=HOLDS_S))["type"] == "Problem"
        await socket.send_json({"do": "prompt", "session": "s", "text": "x"})
        assert (await events_until(socket, "TurnEnded"))[0]["type"] == "Done"


async def test_one_connection_follows_a_limited_number_of_sessions() -> None:
    async with world(echoing) as here:
        async with here.browser.ws_connect(here.url("/api/ws")) as socket:
            for number in range(33):
                await here.say(f"s{number}", "x")
                got = await send_command(socket, do="follow", session=f"s{number}", after=1 << 40)
            assert got["error"]["type"] == "too_many_streams"
        await until(lambda: not here.app.state.open_streams)


async def test_a_stopping_server_refuses_connections_waits_for_turns_and_then_closes() -> None:
    stall, drained, order = Stall("never"), asyncio.Event(), list[str]()

    async def drain() -> None:
        order.append("drain")
        await drained.wait()

    async with world([stall]) as here:

        def last() -> None:
            order.append("last")
            here.app.close()

        stop = asyncio.Event()
        with bind_socket("127.0.0.1", 0) as at:
            port = at.getsockname()[1]
            how = UvicornOptions(limits=ConnectionLimits.for_connections(50, 1 << 20), drain=drain, on_stopped=last)
            serving = asyncio.create_task(serve_asgi(here.app, at, stop, here.app.drain, how))
            here.port = port
            async with here.hear(PROMPT, {"text": "go"}) as turn:
                await stall.reached.wait()
                stop.set()
                await until(lambda: order == ["drain"])
                with pytest.raises(OSError):
                    await asyncio.open_connection("127.0.0.1", port)
                assert not serving.done()
                drained.set()
                async with asyncio.timeout(HOLDS_S):
                    assert [one.event async for one in turn][-1] == "bye"
            await serving
        assert order == ["drain", "last"]
