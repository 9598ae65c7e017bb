"""An error of a turn has the same session, turn, step and trace over every interface, in the journal and in the log;
and a person cannot see errors of another."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import openai
import pytest
from support import grpc_world, http_world, openai_rig
from support.http_world import ALL, HOLDS_S, MAIN

from mainstay import Agent
from mainstay.cli.log_setup import JsonLogFormatter
from mainstay.core.errors import MainstayError, RequestRefused, SessionUnknown, StoreFailed
from mainstay.core.events import TurnEnded
from mainstay.core.outcome import Failed
from mainstay.core.turn_location import TurnLocation
from mainstay.guards.log_filters import RedactingLogFilter, SessionLogFilter
from mainstay.guards.redaction import Redactor
from mainstay.providers.scripted import Call, Raise, ScriptedProvider

MODEL = RequestRefused("the model said no")
BUG = RuntimeError("nobody thought of this")
STORE = StoreFailed("the disk broke")  # as if a write of the turn's had failed
TURNS = [pytest.param(MODEL, id="model"), pytest.param(BUG, id="bug")]


@pytest.fixture
def lines() -> Iterator[list[dict[str, Any]]]:
    """The program's log, as `mainstay serve` writes it with `server.logs: json`."""
    found: list[dict[str, Any]] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(json.loads(self.format(record)))

    handler = Kept()
    handler.setFormatter(JsonLogFormatter())
    handler.filters[:] = [SessionLogFilter(), RedactingLogFilter(Redactor())]
    logging.getLogger("mainstay").addHandler(handler)
    yield found
    logging.getLogger("mainstay").removeHandler(handler)


def failing(error: Exception) -> Any:
    """A tool first, so that the failure is in the second step."""

    def script(context: Any, options: Any) -> Any:
        return Call("look", {}) if context.messages[-1].role == "user" else Raise(error)  # type: ignore[arg-type]

    return script


def look() -> str:
    """Look around."""
    return "nothing"


async def journaled(agent: Agent, key: str) -> TurnLocation:
    for record in await agent.sessions.records(key):
        if isinstance(record.event, TurnEnded) and isinstance(failed := record.event.outcome, Failed):
            assert not failed.session, "in a journal that goes without saying"
            return TurnLocation(key, failed.turn, failed.step, failed.trace)
    raise AssertionError("no turn failed")


def logged(lines: list[dict[str, Any]]) -> list[TurnLocation]:
    names = TurnLocation.__struct_fields__
    return [
        TurnLocation(**{name: one[name] for name in names if name in one}) for one in lines if one["level"] != "info"
    ]


def named(where: TurnLocation, session: str) -> TurnLocation:
    return msgspec.structs.replace(where, session=session)


def of(details: dict[str, Any]) -> TurnLocation:
    return msgspec.convert(details, TurnLocation, strict=True)


@pytest.mark.parametrize("error", TURNS)
async def test_a_failed_turn_says_where_to_the_library(error: Exception, lines: list[dict[str, Any]]) -> None:
    """LOOM-117"""
    async with Agent(ScriptedProvider(failing(error)), tools=[look], home=":memory:") as agent:
        reply = await agent.run("s", "go")
        [failed] = [one async for one in agent.stream("t", "go") if isinstance(one, Failed)]
        kept = await journaled(agent, "s")
        assert failed.trace == (await journaled(agent, "t")).trace != kept.trace
    assert isinstance(reply.outcome, Failed)
    assert (
        TurnLocation(reply.outcome.session, reply.turn, reply.outcome.step, reply.trace)
        == kept
        == TurnLocation("s", 1, 2, kept.trace)
    )
    assert len(kept.trace) == 32
    assert kept in logged(lines)


async def test_a_store_that_fails_says_where_to_the_library(lines: list[dict[str, Any]]) -> None:
    async with Agent(ScriptedProvider(failing(STORE)), tools=[look], home=":memory:") as agent:
        with pytest.raises(StoreFailed) as raised:
            await agent.run("s", "go")
    where = raised.value.location
    assert where is not None
    assert (where.session, where.turn, where.step, len(where.trace)) == ("s", 1, 2, 32)
    assert where.trace in {one.trace for one in logged(lines)}


@pytest.mark.parametrize("error", TURNS)
async def test_a_failed_turn_says_where_over_http(error: Exception, lines: list[dict[str, Any]]) -> None:
    """LOOM-117"""
    async with http_world.world(failing(error), tools=[look]) as here:
        key = await here.key("ann")
        answer = await here.say("s", "go", key)
        kept = await journaled(here.agents[MAIN], "web:ann:s")
        told = answer.json
        assert of({name: told["outcome"][name] for name in TurnLocation.__struct_fields__}) == named(kept, "s")
        assert told["trace"] == answer.headers["x-trace-id"] == kept.trace
        async with here.hear("/api/sessions/t/prompt", {"text": "go"}, key=key) as events:
            heard = [one async for one in events]
        there = await journaled(here.agents[MAIN], "web:ann:t")
        assert heard[-1].data["outcome"]["trace"] == there.trace
        [failed] = [one.data for one in heard if one.event == "Failed"]
        assert of({name: failed[name] for name in TurnLocation.__struct_fields__}) == named(there, "t")
        async with here.browser.ws_connect(here.url("/api/ws"), protocols=("x", f"bearer.{key}")) as socket:
            await socket.send_json({"do": "prompt", "session": "u", "text": "go"})
            while (ended := await socket.receive_json(timeout=HOLDS_S))["type"] != "TurnEnded":
                pass
        assert ended["outcome"]["trace"] == (await journaled(here.agents[MAIN], "web:ann:u")).trace
    assert {kept, there} <= set(logged(lines))


async def test_a_store_that_fails_says_where_over_http(lines: list[dict[str, Any]]) -> None:
    async with http_world.world(failing(STORE), tools=[look]) as here:
        key = await here.key("ann")
        answer = await here.say("s", "go", key)
        assert (answer.status, answer.error) == (503, "unavailable")
        where = of(answer.json["error"]["details"])
        assert (where.session, where.turn, where.step) == ("s", 1, 2)
        assert answer.headers["x-trace-id"] == where.trace
        async with here.hear("/api/sessions/t/prompt", {"text": "go"}, key=key) as events:
            [*_, problem] = [one async for one in events]
        assert problem.event == "problem"
        streamed = of(problem.data["error"]["details"])
        assert (streamed.session, streamed.turn, streamed.step) == ("t", 1, 2)
    assert {named(where, "web:ann:s"), named(streamed, "web:ann:t")} <= set(logged(lines))


async def test_a_turn_that_went_well_has_its_trace_in_a_header() -> None:
    async with http_world.world(lambda context, options: "fine") as here:
        answer = await here.say("s", "go")
        taken = await here.say("s", "go", wait=False)
        assert answer.headers["x-trace-id"] == answer.json["trace"]
        assert len({answer.json["trace"], taken.headers["x-trace-id"]}) == 2
        request = here.browser.post(here.url("/api/sessions/s/prompt"), json={"text": "go"}, headers={"Accept": SSE})
        async with request as streamed:
            assert len(streamed.headers["x-trace-id"]) == 32
            await streamed.read()


SSE = "text/event-stream"


@pytest.mark.parametrize("error", TURNS)
async def test_a_failed_turn_says_where_to_the_official_client(error: Exception, lines: list[dict[str, Any]]) -> None:
    """LOOM-117"""
    model: Any = {"model": "mainstay", "messages": [{"role": "user", "content": "go"}]}
    async with openai_rig.served(failing(error), tools=[look]) as there:  # type: ignore[list-item]
        key = await there.key("ann")
        async with there.client(key) as client:
            with pytest.raises(openai.APIStatusError) as raised:
                await client.chat.completions.create(**model, extra_headers={"X-Session": "s"})
            kept = await journaled(there.agents["default"], "web:ann:s")
            body: Any = raised.value.body
            assert of(body["details"]) == named(kept, "s")
            assert raised.value.response.headers["x-trace-id"] == kept.trace
            streaming: Any = await client.chat.completions.create(
                **model, stream=True, extra_headers={"X-Session": "t"}
            )
            assert len(streaming.response.headers["x-trace-id"]) == 32
            with pytest.raises(openai.APIError) as broken:
                [_ async for _ in streaming]
            there_too = await journaled(there.agents["default"], "web:ann:t")
            body = broken.value.body
            assert of(body["details"]) == named(there_too, "t")
            assert streaming.response.headers["x-trace-id"] == there_too.trace
            response = client.responses.create(
                model="mainstay", input="go", stream=True, extra_headers={"X-Session": "u"}
            )
            [*_, last] = [event async for event in await response]
            assert last.type == "response.failed"
            told = last.response.error.model_dump()["details"]  # type: ignore[union-attr]
            assert of(told) == named(await journaled(there.agents["default"], "web:ann:u"), "u")
    assert {kept, there_too} <= set(logged(lines))


@pytest.mark.parametrize("streamed", [False, True], ids=["weave", "stream"])
@pytest.mark.parametrize("error", [*TURNS, pytest.param(STORE, id="store")])
async def test_a_failed_turn_says_where_over_grpc(
    error: Exception, streamed: bool, lines: list[dict[str, Any]]
) -> None:
    """LOOM-117"""
    async with grpc_world.served({"main": failing(error)}, tools=[look]) as there:  # type: ignore[list-item]
        key = await there.key("ann", "main")
        async with there.client(key) as client:
            call = client.stream("s", "go") if streamed else client.weave("s", "go")
            trouble = await grpc_world.trouble(call)
    info, _ = grpc_world.details(trouble)
    told = TurnLocation(
        info.metadata["session"], int(info.metadata["turn"]), int(info.metadata["step"]), info.metadata["trace"]
    )
    assert (told.session, told.turn, told.step) == ("s", 1, 2)
    assert named(told, "web:ann:s") in logged(lines)
    assert grpc_world.trailing(trouble)["mainstay-trace"] == told.trace


async def test_a_tool_that_fails_has_the_trace_of_its_turn_over_grpc() -> None:
    def broken() -> str:
        """It breaks."""
        raise ValueError("seven")

    script: Any = [Call("broken", {}), "well"]
    async with grpc_world.served({"main": script}, tools=[broken]) as there, there.client() as client:  # type: ignore[list-item]
        reply = await client.weave("s", "go")
    assert [(one.type, one.turn, one.step, one.trace) for one in reply.errors] == [("tool_failed", 1, 1, reply.trace)]
    assert len(reply.trace) == 32


# --- the wall ------------------------------------------------------------------------------------


async def test_a_person_cannot_see_where_another_persons_error_arose() -> None:
    """An error of another person's session, by any route to this person."""
    async with http_world.world(lambda context, options: "fine") as here:
        runtime = (await here.app.state.gateway.open_workspace(MAIN)).current
        key = await here.key("bob")
        of_another = SessionUnknown("there is no such session")
        of_another.location = TurnLocation("web:ann:secret", 3, 1, "a" * 32)

        def get(key: str) -> Any:
            raise of_another

        runtime.lanes.get = get  # type: ignore[method-assign]
        refused = await here.say("mine", "go", key)
        assert refused.status == 404
        assert "details" not in refused.json["error"]
        assert "x-trace-id" not in refused.headers
        theirs = MainstayError("broken inside")
        theirs.location = of_another.location
        of_another = theirs  # type: ignore[assignment]
        broken = await here.say("mine", "go", key)
        assert broken.status == 500
        assert set(broken.json["error"]["details"]) == {"trace"}
        assert broken.headers["x-trace-id"] != "a" * 32, "one of its own, which the log has"


async def test_the_error_list_is_for_workspace_admins_and_shows_their_workspace(tmp_path: Path) -> None:
    """LOOM-030"""
    homes = {MAIN: tmp_path / "one", "other": tmp_path / "two"}
    async with http_world.world(failing(MODEL), tools=[look], homes=homes) as here:
        member, admin = await here.key("ann"), await here.key("eve", "other", "admin", ALL)
        failed = (await here.say("s", "go", member)).json["trace"]
        theirs = (await here.say("s", "go", admin)).json["trace"]
        assert (await here.ask("GET", "/api/errors", key=member)).status == 403

        async def listed(key: str = "", query: str = "") -> list[Any]:
            found: list[Any] = (await here.ask("GET", f"/api/errors{query}", key=key)).json["errors"]
            return found

        async with asyncio.timeout(HOLDS_S):
            while not (mine := await listed()):
                pass
            while not (others := await listed(admin)):
                pass
        assert [(one["trace"], one["session"], one["turn"], one["step"]) for one in mine] == [
            (failed, "web:ann:s", 1, 2)
        ]
        assert [(one["trace"], one["session"]) for one in others] == [(theirs, "s")]
        assert (await here.ask("GET", f"/api/errors?workspace={MAIN}", key=admin)).status == 403
        assert (await here.ask("GET", f"/api/errors/{mine[0]['id']}", key=admin)).status == 404
        assert (await here.ask("GET", f"/api/errors/{others[0]['id']}", key=admin)).json["trace"] == theirs
        [group] = (await here.ask("GET", "/api/errors/groups", key=admin)).json["groups"]
        assert (group["count"], group["example"]["trace"]) == (1, theirs)
