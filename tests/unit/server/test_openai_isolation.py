"""F41: data of another person does not exist for a client of this API, by any name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.openai_rig import World, said, served

from mainstay.providers.scripted import Call

CANARY = "canary-7f3a"
WEATHER = {"type": "function", "name": "weather", "parameters": {"type": "object"}}


def _speak(context: Any, options: Any) -> Any:
    return Call("weather") if "weather" in [tool.name for tool in context.tools] else f"{len(context.messages)} heard"


@pytest.fixture
async def two() -> AsyncIterator[tuple[World, str, str]]:
    """A key of ann's in one workspace, and of bob's in another."""
    async with served({"red": _speak, "blue": _speak}) as world:
        yield world, await world.key("ann", "red"), await world.key("bob", "blue")


async def chat(world: World, key: str, model: str = "mainstay", **more: Any) -> tuple[int, Any]:
    body = {"model": model, "messages": [said("what do you know?")]}
    status, told, _ = await world.post("/chat/completions", body, key=key, headers=more)
    return status, told


def text(answer: tuple[int, Any]) -> Any:
    assert answer[0] == 200
    return answer[1]["choices"][0]["message"]["content"]


async def test_only_the_callers_own_workspace_is_listed_and_can_be_named(two: tuple[World, str, str]) -> None:
    world, ann, bob = two
    for key, own, other in ((ann, "red", "blue"), (bob, "blue", "red")):
        _, told = await world.get("/models", key=key)
        assert [one["id"] for one in told["data"]] == ["mainstay", f"mainstay/{own}", own]
        for name in ("mainstay", f"mainstay/{own}", own):
            assert (await world.get(f"/models/{name}", key=key))[0] == 200
            assert (await chat(world, key, name))[0] == 200
        for pattern in ("{}", "mainstay/{}"):
            theirs, never = pattern.format(other), pattern.format("nope")
            for look in (lambda name: world.get(f"/models/{name}", key=key), lambda name: chat(world, key, name)):  # noqa: B023
                (status, told), (also, same) = await look(theirs), await look(never)
                assert status == also == 404
                assert str(told).replace(theirs, "") == str(same).replace(never, "")
                assert told["error"]["code"] == "model_not_found"
    assert (await chat(world, ann, **{"x-workspace": "blue"}))[0] == 403


async def test_a_wrong_key_opens_nothing(two: tuple[World, str, str]) -> None:
    world, ann, _ = two
    for key in ("ms_wrong", ann[:-1] + ("a" if ann[-1] != "a" else "b")):
        for status, told in (await chat(world, key), await world.get("/models", key=key)):
            assert (status, told["error"]["code"]) == (401, "invalid_api_key")


async def test_nothing_of_another_workspace_can_be_continued(two: tuple[World, str, str]) -> None:
    world, ann, bob = two
    body = {"model": "mainstay", "input": CANARY, "conversation": "desk", "tools": [WEATHER]}
    _, hers, _ = await world.post("/responses", body, key=ann)
    [call] = hers["output"]
    # a response: as unknown as one that never was
    for id in (hers["id"], hers["id"][:-4] + "AAAA"):
        status, told = await world.get(f"/responses/{id}", key=bob)
        assert (status, told["error"]["code"]) == (404, "response_not_found")
        status, told, _ = await world.post(
            "/responses", {"model": "mainstay", "input": "hi", "previous_response_id": id}, key=bob
        )
        assert (status, told["error"]["code"]) == (404, "response_not_found")
        assert told["error"]["message"].startswith("there is no response")
    # a session: of the same name it is another
    assert text(await chat(world, bob, **{"x-session": "desk"})) == "1 heard"
    assert (await chat(world, bob, **{"x-session": "web:ann:desk"}))[0] == 200
    # a call that waits
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "x"}
    for session in ("desk", "web:ann:desk"):
        status, _, _ = await world.post(
            "/responses", {"model": "mainstay", "input": [result], "conversation": session}, key=bob
        )
        assert status == 404
    # and a history that only she told
    history = [said(CANARY), said("1 heard", "assistant"), said("and?")]
    await world.post("/chat/completions", {"model": "mainstay", "messages": history[:1]}, key=ann)
    await world.post("/chat/completions", {"model": "mainstay", "messages": history}, key=bob)
    assert len(await world.agents["red"].sessions.list()) == 2
    seen = str([one for one in world.asked("blue") if one[-1][1] != "and?"])
    assert CANARY not in seen


async def test_two_people_of_one_workspace_share_no_conversation() -> None:
    async with served({"red": _speak}) as world:
        ann, bob = await world.key("ann", "red"), await world.key("bob", "red")
        _, hers, _ = await world.post(
            "/responses", {"model": "mainstay", "input": CANARY, "conversation": "desk"}, key=ann
        )
        status, _ = await world.get(f"/responses/{hers['id']}", key=bob)
        assert status == 404
        body = {"model": "mainstay", "input": "hi", "previous_response_id": hers["id"]}
        assert (await world.post("/responses", body, key=bob))[0] == 404
        for session in ("desk", "web:ann:desk"):
            assert (await chat(world, bob, **{"x-session": session}))[1]["choices"][0]["message"][
                "content"
            ] == "1 heard"
        assert (await chat(world, ann, **{"x-session": "desk"}))[1]["choices"][0]["message"]["content"] == "3 heard"


async def test_a_key_that_may_not_chat_may_not() -> None:
    async with served({"red": _speak}) as world:
        key = await world.key("eve", "red", role="admin", scopes=("read",))
        status, told = await chat(world, key)
        assert (status, told["error"]["type"]) == (403, "permission_error")
