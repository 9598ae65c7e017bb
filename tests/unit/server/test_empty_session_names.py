"""LOOM-084: an empty name of a session is refused on every interface, for the owner and for people with a key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from mcp import Client
from support import grpc_world, http_world, openai_rig
from support.serving import operated

from mainstay import Agent
from mainstay.core.errors import InputRefused
from mainstay.core.people import PersonRole
from mainstay.testing import ScriptedProvider

BLANK = ["", " ", "\t"]


@pytest.mark.parametrize("name", BLANK)
async def test_the_library_refuses_it(name: str) -> None:
    calls: list[Callable[[Agent], Awaitable[Any]]] = [
        lambda agent: agent.run(name, "hi"),
        lambda agent: anext(aiter(agent.stream(name, "hi"))),
        lambda agent: agent.steer(name, "hi"),
        lambda agent: agent.abort(name),
        lambda agent: agent.import_history(name, [{"role": "user", "content": "hi"}]),
        lambda agent: agent.profile(name).set(name="Ann"),
        lambda agent: agent.sessions.set_model(name, ""),
        lambda agent: agent.sessions.get(name),
        lambda agent: agent.skills(name),
    ]
    async with Agent(ScriptedProvider(["hello"] * 9)) as agent:
        for call in calls:
            with pytest.raises(InputRefused, match="name must not be empty"):
                await call(agent)
        assert await agent.sessions.list() == []


@pytest.mark.parametrize("role", ["owner", "admin", "member", "guest"])
async def test_grpc_refuses_it_for_every_role(role: PersonRole) -> None:
    async with grpc_world.served({"main": ["hello"] * 9}) as world:
        key = await world.key("ann", "main", role=role) if role != "owner" else ""
        async with world.client(key) if key else world.client() as client:
            metadata = (("authorization", f"Bearer {key}"),) if key else ()
            pb = client.pb
            calls = [
                lambda: client.stub.Weave(pb.WeaveRequest(text="hi"), metadata=metadata),
                lambda: client.stub.StreamWeave(pb.StreamWeaveRequest(text="hi"), metadata=metadata),
                lambda: client.stub.Steer(pb.SteerRequest(text="hi"), metadata=metadata),
                lambda: client.stub.Abort(pb.AbortRequest(), metadata=metadata),
            ]
            for call in calls:
                error = await grpc_world.trouble(call())
                assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
                assert "name must not be empty" in (error.details() or "")
        assert await world.agents["main"].sessions.list() == []


@pytest.mark.parametrize("role", ["admin", "member"])
async def test_http_and_the_websocket_refuse_it(role: PersonRole) -> None:
    async with http_world.world(["hello"] * 9) as here:
        key = await here.key("ann", role=role, scopes=http_world.ALL if role == "admin" else ("chat",))
        for name in ("", "%20", "%20x"):
            answer = await here.ask("POST", f"/api/sessions/{name}/prompt", {"text": "hi"}, key=key)
            assert answer.error == "invalid_request", name
        async with here.browser.ws_connect(here.url("/api/ws"), protocols=("mainstay.v1", f"bearer.{key}")) as socket:
            for command in ("prompt", "steer"):
                await socket.send_json({"do": command, "session": "", "text": "hi"})
                assert (await socket.receive_json(timeout=http_world.HOLDS_S))["type"] == "Problem", command
        assert await here.agents[http_world.MAIN].sessions.list() == []


async def test_the_openai_api_refuses_it_and_takes_only_a_missing_name_for_a_new_session() -> None:
    async with openai_rig.served({"default": ["hello"] * 9}) as world:
        key = await world.key("ann")
        assert world.http is not None
        chat = {"model": "default", "messages": [{"role": "user", "content": "hi"}]}
        responses = {"model": "default", "input": "hi"}
        named: list[tuple[str, dict[str, Any], dict[str, str]]] = [
            ("chat/completions", chat, {"X-Session": " "}),
            ("chat/completions", chat | {"metadata": {"session": ""}}, {}),
            ("chat/completions", chat | {"session_id": ""}, {}),
            ("responses", responses | {"metadata": {"session": ""}}, {}),
            ("responses", responses | {"session_id": ""}, {}),
            ("responses", responses | {"conversation": ""}, {}),
        ]
        head = {"Authorization": f"Bearer {key}"}
        for path, body, headers in named:
            async with world.http.post(f"{world.url}/{path}", json=body, headers=head | headers) as answer:
                assert answer.status == 400, (path, body, headers)
                assert "name must not be empty" in (await answer.json())["error"]["message"]
        assert await world.agents["default"].sessions.list() == []
        async with world.http.post(f"{world.url}/chat/completions", json=chat, headers=head) as answer:
            assert answer.status == 200


async def test_mcp_refuses_it() -> None:
    async with operated(["hello"] * 9) as (_, offered), Client(offered.server, mode="2026-07-28") as client:
        for name, arguments in (("run", {"prompt": "hi"}), ("steer", {"text": "hi"}), ("abort", {})):
            result = await client.call_tool(name, {**arguments, "session": ""})
            assert result.is_error, name
        listed = await client.call_tool("sessions", {})
        assert listed.structured_content == {"sessions": []}
