"""Responses: items and numbered events, and what a response goes on from."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from support.openai_rig import World, said, served, until

from mainstay.core.errors import RequestRefused
from mainstay.core.messages import FinishReason, Usage
from mainstay.core.ports import StreamFinished, TextPiece, ToolCallPiece
from mainstay.providers.scripted import Call, Pieces, Raise, Say, Stall

RESPONSES = "/responses"
WEATHER = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}}
USED = Usage(prompt=7, completion=3, cached=2, reasoning=1)


def ask(given: Any, **more: Any) -> dict[str, Any]:
    return {"model": "mainstay", "input": given, **more}


async def answer(world: World, body: dict[str, Any], **more: Any) -> dict[str, Any]:
    status, told, _ = await world.post(RESPONSES, body, **more)
    assert status == 200, told
    return told


def text(response: dict[str, Any]) -> str:
    return "".join(part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"])


def events(lines: list[str]) -> list[dict[str, Any]]:
    """The data of each event; its name says the same as its type."""
    names = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    assert data.pop() == "[DONE]"
    told = [msgspec.json.decode(one) for one in data]
    assert [one["type"] for one in told] == names
    assert [one["sequence_number"] for one in told] == list(range(len(told)))
    return told


async def test_a_stream_names_every_item_and_part_and_ends_with_the_whole_response() -> None:
    step = Pieces(
        [TextPiece("Let me see."), ToolCallPiece(0, "weather", "{}"), StreamFinished(FinishReason.TOOL_CALLS, USED)]
    )
    async with served([step]) as world:
        told = events(await world.lines(RESPONSES, ask("weather?", tools=[WEATHER], stream=True)))
    assert [one["type"].removeprefix("response.") for one in told] == [
        "created", "in_progress",
        "output_item.added", "content_part.added", "output_text.delta",
        "output_text.done", "content_part.done", "output_item.done",
        "output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done",
        "completed",
    ]  # fmt: skip
    whole = told[-1]["response"]
    message, call = whole["output"]
    assert told[4]["delta"] == told[5]["text"] == message["content"][0]["text"] == "Let me see."
    assert {one["item_id"] for one in told[3:7]} == {message["id"]}
    assert (told[8]["item"]["arguments"], told[9]["delta"], told[10]["arguments"]) == ("", "{}", "{}")
    assert told[11]["item"] == call
    assert (call["type"], call["name"], call["status"]) == ("function_call", "weather", "completed")
    assert whole["status"] == "completed"
    assert {one["response"]["id"] for one in (told[0], told[1], told[-1])} == {whole["id"]}
    assert whole["usage"] == {
        "input_tokens": 7, "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 0},
        "output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 1}, "total_tokens": 10,
    }  # fmt: skip


async def test_a_response_goes_on_from_another_and_can_be_had_again() -> None:
    async with served(["one", Call("weather"), "Rain."]) as world:
        first = await answer(world, ask("a", instructions="Be kind."))
        second = await answer(world, ask("b", previous_response_id=first["id"], tools=[WEATHER]))
        [call] = second["output"]
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "rain"}
        third = await answer(world, ask([result], previous_response_id=second["id"], tools=[WEATHER]))
        assert text(third) == "Rain."
        assert third["previous_response_id"] == second["id"]
        assert len({first["id"], second["id"], third["id"]}) == 3
        assert len(await world.agents["default"].sessions.list()) == 1
        for one in (first, second, third):
            status, again = await world.get(f"{RESPONSES}/{one['id']}")
            assert (status, again["output"], again["usage"]) == (200, one["output"], one["usage"])
            assert again["created_at"] == one["created_at"]


async def test_going_on_from_an_older_response_leaves_what_came_after_it_out() -> None:
    async with served(["one", "two", "three"]) as world:
        first = await answer(world, ask("a"))
        await answer(world, ask("b", previous_response_id=first["id"]))
        await answer(world, ask("c", previous_response_id=first["id"]))
        assert world.asked()[-1] == [("user", "a"), ("assistant", "one"), ("user", "c")]


async def test_a_client_that_sends_all_items_every_time_stays_in_one_session() -> None:
    async with served([Call("weather"), "Rain.", "No."]) as world:
        items: list[Any] = [said("weather?")]
        first = await answer(world, ask(items, tools=[WEATHER], store=False))
        items += [*first["output"], _result(first, "rain")]
        second = await answer(world, ask(items, tools=[WEATHER], store=False))
        items += [{"type": "reasoning", "summary": []}, *second["output"], said("sun tomorrow?")]
        assert text(await answer(world, ask(items, tools=[WEATHER], store=False))) == "No."
        assert len(await world.agents["default"].sessions.list()) == 1


def _result(response: dict[str, Any], content: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": response["output"][-1]["call_id"], "output": content}


async def test_a_conversation_is_a_session() -> None:
    async with served(["one", "two"]) as world:
        first = await answer(world, ask("a", conversation="desk"))
        await answer(world, ask([said("b")], conversation={"id": "desk"}))
        assert first["conversation"] == {"id": "desk"}
        assert world.asked()[-1] == [("user", "a"), ("assistant", "one"), ("user", "b")]


async def test_a_response_in_the_background_is_looked_for_later() -> None:
    stall = Stall("done")
    async with served([stall]) as world:
        begun = await answer(world, ask("a", background=True))
        assert (begun["status"], begun["output"]) == ("in_progress", [])
        assert (await world.get(f"{RESPONSES}/{begun['id']}"))[1]["status"] == "in_progress"
        stall.release()
        await asyncio.wait_for(world.agents["default"].settled(), 120)
        _, told = await world.get(f"{RESPONSES}/{begun['id']}")
        assert (told["status"], text(told)) == ("completed", "done")


async def test_how_a_response_ended_is_its_status() -> None:
    stall = Stall()
    steps = [Say("too lo", reason=FinishReason.FILTERED), Raise(RequestRefused("the model said no")), stall]
    async with served(lambda context, options: steps[options.turn - 1]) as world:
        cut = await answer(world, ask("a", conversation="s"))
        assert (cut["status"], cut["incomplete_details"]) == ("incomplete", {"reason": "content_filter"})
        failed = events(await world.lines(RESPONSES, ask("b", conversation="s", stream=True)))[-1]
        assert failed["type"] == "response.failed"
        assert failed["response"]["error"]["code"] == "server_error"
        assert "the model said no" in failed["response"]["error"]["message"]
        assert (await world.get(f"{RESPONSES}/{failed['response']['id']}"))[1]["status"] == "failed"
        stopping = asyncio.create_task(answer(world, ask("c", conversation="s")))
        await asyncio.wait_for(stall.reached.wait(), 120)
        await world.agents["default"].abort("s")
        assert (await stopping)["status"] == "cancelled"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "both": ({"conversation": "a", "previous_response_id": "b"}, "conversation"),
    "a schema": ({"text": {"format": {"type": "json_schema"}}}, "text.format"),
    "a prompt": ({"prompt": {"id": "p"}}, "prompt"),
    "logprobs": ({"top_logprobs": 2}, "top_logprobs"),
    "tools of theirs": ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
    "a choice": ({"tool_choice": {"type": "function", "name": "x"}}, "tool_choice"),
    "an item": ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
    "an image from elsewhere": (
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "https://example.org/a.png"}]}]},
        "input[0].content[0].image_url",
    ),
    "a file": ({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}, "input[0].content[0]"),
    "a call": ({"input": [{"type": "function_call_output", "output": "x"}]}, "input[0].call_id"),
    "a role": ({"input": [{"role": "owner", "content": "x"}]}, "input[0].role"),
    "nothing": ({"input": []}, "input"),
}


async def test_unsupported_options_are_refused_in_one_sentence_and_nothing_happens() -> None:
    async with served([]) as world:
        for name, (change, param) in REFUSED.items():
            status, told, _ = await world.post(RESPONSES, ask("hi") | change)
            assert (status, told["error"]["type"]) == (400, "invalid_request_error"), name
            assert told["error"]["param"] == param, name
        for id in ("resp_x", "..", "x" * 900, "%00"):
            status, told = await world.get(f"{RESPONSES}/{id}")
            assert status in (400, 404), id
        assert await world.agents["default"].sessions.list() == []


async def test_requests_side_by_side_in_one_session_are_answered_each_with_its_own() -> None:
    stall = Stall("first")
    async with served([stall, "second"]) as world:
        one = asyncio.create_task(answer(world, ask("a", conversation="s")))
        await asyncio.wait_for(stall.reached.wait(), 120)
        two = asyncio.create_task(world.lines(RESPONSES, ask("b", conversation="s", stream=True)))
        await until(lambda: len(world.app.state.open_streams) == 2)
        stall.release()
        assert text(await one) == "first"
        assert text(events(await two)[-1]["response"]) == "second"
