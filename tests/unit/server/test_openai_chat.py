"""Chat completions: what goes over the wire, and which conversation a request belongs to."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uvloop
from support.openai_rig import World, said, served, until

from mainstay import Config
from mainstay.core.errors import RequestRefused
from mainstay.core.events import Received, TurnEnded
from mainstay.core.messages import Binary, FinishReason, Text, Usage
from mainstay.core.ports import StreamFinished, TextPiece
from mainstay.core.tools import tool
from mainstay.providers.scripted import Call, Pieces, Raise, Say, Stall
from mainstay.server.http_state import HttpSettings
from mainstay.server.openai import turn_follower

CHAT = "/chat/completions"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}


def ask(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "mainstay", "messages": list(messages), **more}


def pieces(*texts: str | Stall) -> Pieces:
    made = [TextPiece(one) if isinstance(one, str) else one for one in texts]
    return Pieces([*made, StreamFinished(FinishReason.END, Usage(prompt=7, completion=3))])


def events(lines: list[str]) -> list[Any]:
    """The data of each event; the last is [DONE]."""
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    assert data[-1] == "[DONE]"
    return [msgspec.json.decode(one) for one in data[:-1]]


async def answer(world: World, body: dict[str, Any], **more: Any) -> dict[str, Any]:
    status, told, _ = await world.post(CHAT, body, **more)
    assert status == 200, told
    return told["choices"][0]["message"]


async def received(world: World, session: str) -> list[Received]:
    records = await world.agents["default"].sessions.records(session)
    return [record.event for record in records if isinstance(record.event, Received)]


# --- the wire ------------------------------------------------------------------------------------


async def test_a_stream_has_a_role_then_text_then_how_it_ended_then_the_usage_and_done() -> None:
    async with served([pieces("Hel", "lo")]) as world:
        told = events(await world.lines(CHAT, ask(said("hi"), stream=True, stream_options={"include_usage": True})))
    assert {one["object"] for one in told} == {"chat.completion.chunk"}
    assert len({(one["id"], one["created"], one["model"]) for one in told}) == 1
    deltas = [one["choices"][0]["delta"] for one in told[:-1]]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert "".join(one["content"] for one in deltas[1:-1]) == "Hello"
    assert [one["choices"][0]["finish_reason"] for one in told[:-1]][-2:] == [None, "stop"]
    assert all(one["usage"] is None for one in told[:-1])
    assert told[-1]["choices"] == []
    assert told[-1]["usage"]["total_tokens"] == 10


def test_a_stream_is_the_same_on_the_loop_of_production() -> None:
    async def work() -> list[str]:
        stall = Stall()
        async with served([pieces("Hel", stall, "lo")]) as world:
            reading = asyncio.create_task(world.lines(CHAT, ask(said("hi"), stream=True)))
            await asyncio.wait_for(stall.reached.wait(), 120)
            stall.release()
            return await reading

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        told = events(runner.run(work()))
    assert "".join(one["choices"][0]["delta"].get("content", "") for one in told) == "Hello"


async def test_text_is_streamed_as_it_comes() -> None:
    stall = Stall()
    async with served([pieces("first", stall, " last")]) as world:
        assert world.http is not None
        async with world.http.post(f"{world.url}{CHAT}", json=ask(said("hi"), stream=True)) as got:
            seen = b""
            while b"first" not in seen:
                seen += await asyncio.wait_for(got.content.readany(), 120)
            stall.release()
            assert b" last" in await got.content.read()


async def test_an_answer_without_a_stream_has_all_of_it_and_what_the_turn_used() -> None:
    @tool(effect="pure", untrusted=False, sink=False)
    def look() -> str:
        """Look."""
        return "seen"

    script = [Pieces([TextPiece("Let me see."), *_calls("look")]), "It is there."]
    async with served(script, tools=[look]) as world:
        _, told, headers = await world.post(CHAT, ask(said("where?")))
    assert told["object"] == "chat.completion"
    # tools of the agent are its own business: their calls are not the client's
    assert told["choices"][0]["message"] == {
        "role": "assistant", "content": "Let me see.\n\nIt is there.", "refusal": None
    }  # fmt: skip
    assert told["choices"][0]["finish_reason"] == "stop"
    assert told["usage"]["prompt_tokens"] == 20
    assert headers["x-session"].startswith("chat-")


def _calls(name: str) -> list[Any]:
    from mainstay.core.ports import ToolCallPiece

    return [ToolCallPiece(0, name, "{}"), StreamFinished(FinishReason.TOOL_CALLS, Usage(prompt=10, completion=5))]


async def test_the_limit_that_cut_an_answer_is_its_finish_reason() -> None:
    steps = [Say("too lo", reason=FinishReason.LENGTH), Say("hm", reason=FinishReason.FILTERED)]
    async with served(lambda context, options: steps[len(context.messages) // 2]) as world:
        _, cut, _ = await world.post(CHAT, ask(said("a")), headers={"x-session": "s"})
        _, kept, _ = await world.post(CHAT, ask(said("b")), headers={"x-session": "s"})
    reasons = {one["choices"][0]["finish_reason"] for one in (cut, kept)}
    assert "content_filter" in reasons


async def test_a_failing_model_is_an_error_that_clients_do_not_retry() -> None:
    async with served(lambda context, options: Raise(RequestRefused("the model said no"))) as world:
        status, told, headers = await world.post(CHAT, ask(said("hi")))
        streamed = events(await world.lines(CHAT, ask(said("hi"), stream=True)))
    assert (status, told["error"]["type"], headers["x-should-retry"]) == (502, "server_error", "false")
    assert "the model said no" in told["error"]["message"]
    assert {**streamed[-1]["error"], "details": 0} == {**told["error"], "details": 0}


async def test_half_a_character_does_not_break_an_answer() -> None:
    async with served([pieces("a\ud83d", "b"), pieces("a\ud83d")]) as world:
        told = events(await world.lines(CHAT, ask(said("hi"), stream=True)))
        whole = await answer(world, ask(said("ho")))
    assert "".join(one["choices"][0]["delta"].get("content", "") for one in told) == "a\\ud83db"
    assert whole["content"] == "a\\ud83d"


async def test_a_client_without_events_for_long_gets_keepalives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turn_follower, "KEEP_ALIVE_S", 0.02)
    stall = Stall()
    async with served([pieces("well", stall)]) as world:
        assert world.http is not None
        async with world.http.post(f"{world.url}{CHAT}", json=ask(said("hi"), stream=True)) as got:
            seen = b""
            while b"\n:\n\n" not in seen and not seen.endswith(b":\n\n"):
                seen += await asyncio.wait_for(got.content.readany(), 120)
            stall.release()
            assert (await got.content.read()).endswith(b"data: [DONE]\n\n")


async def test_an_image_comes_along_as_a_data_url_and_nothing_is_fetched() -> None:
    async with served(["A pixel."]) as world:
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
        body = ask({"role": "user", "content": [{"type": "text", "text": "what is this?"}, image]})
        assert (await answer(world, body, headers={"x-session": "s"}))["content"] == "A pixel."
        [prompt] = await received(world, "s")
        kinds = [type(part) for part in prompt.parts]
        assert kinds == [Text, Binary]
        assert isinstance(prompt.parts[1], Binary)
        image["image_url"]["url"] = "http://169.254.169.254/latest/meta-data"  # type: ignore[index]
        status, told, _ = await world.post(CHAT, body)
    assert (status, told["error"]["param"]) == (400, "messages[0].content[1].image_url.url")
    assert "other URLs are not fetched" in told["error"]["message"]


REFUSED: dict[str, tuple[dict[str, Any], str | None]] = {
    "n": ({"n": 2}, "n"),
    "logprobs": ({"logprobs": True}, "logprobs"),
    "audio": ({"modalities": ["text", "audio"]}, "modalities"),
    "a schema": ({"response_format": {"type": "json_schema"}}, "response_format"),
    "functions": ({"functions": [{"name": "f"}]}, "functions"),
    "a choice": ({"tool_choice": "required"}, "tool_choice"),
    "custom tools": ({"tools": [{"type": "custom"}]}, "tools[0].type"),
    "a tool's name": ({"tools": [{"function": {"name": "a b"}}]}, "tools[0].function.name"),
    "nothing said": ({"messages": []}, "messages"),
    "a role": ({"messages": [{"role": "owner", "content": "x"}]}, "messages[0].role"),
    "content": ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
    "nothing new": ({"messages": [said("x"), said("y", "assistant")]}, "messages"),
    "whose result": ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
    "sound": ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "messages[0].content[0]"),
    "an image as a result": (
        {"messages": [{"role": "tool", "tool_call_id": "c", "content": [IMAGE]}]},
        "messages[0].content",
    ),
    "an empty prompt": ({"messages": [said(" ")]}, None),
    "a session's name": ({"metadata": {"session": " x"}}, None),
}


async def test_unsupported_options_are_refused_in_one_sentence_and_nothing_happens() -> None:
    async with served([]) as world:
        for name, (change, param) in REFUSED.items():
            status, told, _ = await world.post(CHAT, ask(said("hi")) | change)
            assert (status, told["error"]["type"]) == (400, "invalid_request_error"), name
            assert told["error"]["param"] == param, name
        assert await world.agents["default"].sessions.list() == []


@pytest.mark.parametrize("path", [CHAT, "/responses"])
async def test_a_lone_surrogate_is_named_in_the_refusal(path: str) -> None:
    async with served([]) as world:
        body = b'{"model":"mainstay","input":"a \\ud83d","messages":[{"role":"user","content":"a \\ud83d"}]}'
        status, told, _ = await world.post(path, body)
        assert status == 400
        assert told["error"]["message"] == (
            "the request is not valid JSON: the escape \\ud83d is a lone surrogate, which is half of a character"
        )


async def test_an_invalid_request_is_refused() -> None:
    async with served([]) as world:
        for body in (b"", b"{", b'{"model": "\xff"}', b"[" * 5000, b"[]", b'{"messages": []}'):
            status, told, _ = await world.post(CHAT, body)
            assert (status, set(told["error"])) == (400, {"message", "type", "param", "code"}), body
        status, told, _ = await world.post(CHAT, b"x", headers={"content-type": "text/plain"})
        assert (status, told["error"]["type"]) == (415, "invalid_request_error")
        status, told, _ = await world.post(CHAT, ask(said("hi")), headers={"idempotency-key": "k" * 300})
        assert status == 400


async def test_sampling_options_are_taken_and_ignored() -> None:
    async with served(["fine"]) as world:
        body = ask(said("hi"), temperature=0.2, top_p=1, max_tokens=5, seed=1, stop=["x"], presence_penalty=0, n=1)
        assert (await answer(world, body | {"user": None, "tools": None, "store": False}))["content"] == "fine"


# --- which conversation --------------------------------------------------------------------------


async def test_a_client_that_sends_its_history_stays_in_one_session() -> None:
    async with served(["one", "two", "three"]) as world:
        talk = [said("a")]
        for _ in range(3):
            told = await answer(world, ask(*talk))
            talk += [told, said(f"and then {len(talk)}")]
        assert len(await world.agents["default"].sessions.list()) == 1
        assert len(world.asked()[-1]) == 5
        assert world.asked()[-1][-1] == ("user", "and then 3")


async def test_an_unknown_history_is_imported_into_a_new_session() -> None:
    calls = [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]
    before = [
        said("hi"), {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "rain"}, said("Rain.", "assistant"),
    ]  # fmt: skip
    async with served(["Still."]) as world:
        assert (await answer(world, ask(*before, said("and now?"))))["content"] == "Still."
        assert world.asked() == [
            [
                ("user", "hi"),
                ("assistant", "weather({})"),
                ("tool", "rain"),
                ("assistant", "Rain."),
                ("user", "and now?"),
            ]
        ]


async def test_the_result_of_a_forgotten_call_is_imported_as_history() -> None:
    calls = [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]
    before = [said("hi"), {"role": "assistant", "content": None, "tool_calls": calls}]
    async with served(["Rain."]) as world:
        await answer(world, ask(*before, {"role": "tool", "tool_call_id": "c1", "content": "rain"}))
        assert [role for role, _ in world.asked()[0]] == ["user", "assistant", "tool", "user"]


async def test_a_client_that_sends_the_same_history_twice_gets_a_branch_of_its_own() -> None:
    async with served(lambda context, options: f"{len(context.messages)}") as world:
        first = await answer(world, ask(said("a")))
        left = await answer(world, ask(said("a"), first, said("left")))
        right = await answer(world, ask(said("a"), first, said("right")))
        assert (left["content"], right["content"]) == ("3", "3")
        assert len(await world.agents["default"].sessions.list()) == 2
        await answer(world, ask(said("a"), first, said("left"), left, said("on")))
        assert "right" not in str(world.asked()[-1])


NAMED: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "by-header": ({}, {"x-session": "by-header"}),
    "by-metadata": ({"metadata": {"session": "by-metadata"}}, {}),
    "by-id": ({"session_id": "by-id"}, {}),
    "user-u1": ({"user": "u1"}, {}),
    "first": ({"user": "u1", "session_id": "by-id"}, {"x-session": "first"}),
}


async def test_in_a_named_session_only_what_is_new_counts() -> None:
    async with served(lambda context, options: "one") as world:
        for session, (named, headers) in NAMED.items():
            await answer(world, ask(said("a"), **named), headers=headers)
            invented = (said("never said"), said("nor this", "assistant"))
            await answer(world, ask(*invented, said("b"), **named), headers=headers)
            assert world.asked()[-1] == [("user", "a"), ("assistant", "one"), ("user", "b")], session
        assert {one.key for one in await world.agents["default"].sessions.list()} == set(NAMED)


async def test_the_system_message_of_the_client_is_recorded_once_and_again_when_it_changes() -> None:
    async with served(["one", "two", "three"]) as world:
        for system, text in (("Be kind.", "a"), ("Be kind.", "b"), ("Be brief.", "c")):
            await answer(world, ask(said(system, "system"), said(text)), headers={"x-session": "s"})
        prompts = [[(part.origin, part.text) for part in one.parts] for one in await received(world, "s")]  # type: ignore[union-attr]
        assert [[origin for origin, _ in one] for one in prompts] == [["client", ""], [""], ["client", ""]]
        assert prompts[2][0][1].endswith("Be brief.")
        assert not any("Be kind" in one.system for one in world.providers["default"].asked)


# --- tools of the client -------------------------------------------------------------------------


async def test_a_call_of_a_clients_tool_is_handed_back_and_its_result_goes_on_with_the_turn() -> None:
    async with served([Pieces([TextPiece("Let me see."), *_calls("weather")]), "Rain."]) as world:
        handed = await answer(world, ask(said("weather?"), tools=[WEATHER]))
        [call] = handed["tool_calls"]
        assert call["function"] == {"name": "weather", "arguments": "{}"}
        result = {"role": "tool", "tool_call_id": call["id"], "content": "rain"}
        # clients often drop the text beside a call
        final = await answer(world, ask(said("weather?"), handed | {"content": None}, result, tools=[WEATHER]))
        assert final["content"] == "Rain."
        assert [role for role, _ in world.asked()[1]] == ["user", "assistant", "tool"]
        assert len(await world.agents["default"].sessions.list()) == 1


async def test_a_handed_back_call_in_a_stream() -> None:
    async with served([Call("weather", {"city": "Oslo"}), "Cold."]) as world:
        told = events(await world.lines(CHAT, ask(said("weather?"), tools=[WEATHER], stream=True, session_id="s")))
        [call] = told[1]["choices"][0]["delta"]["tool_calls"]
        assert (call["index"], call["type"], call["function"]["arguments"]) == (0, "function", '{"city":"Oslo"}')
        assert told[-1]["choices"][0]["finish_reason"] == "tool_calls"
        result = {"role": "tool", "tool_call_id": call["id"], "content": "-3"}
        told = events(await world.lines(CHAT, ask(result, tools=[WEATHER], stream=True, session_id="s")))
        assert "".join(one["choices"][0]["delta"].get("content") or "" for one in told) == "Cold."


async def test_two_conversations_that_look_alike_get_each_its_own_result() -> None:
    async with served(lambda context, options: _by_result(context)) as world:
        talks = [await answer(world, ask(said("w?"), tools=[WEATHER])) for _ in range(2)]
        finals = []
        for number, handed in enumerate(talks):
            result = {"role": "tool", "tool_call_id": handed["tool_calls"][0]["id"], "content": f"r{number}"}
            finals.append((await answer(world, ask(said("w?"), handed, result, tools=[WEATHER])))["content"])
        assert finals == ["r0", "r1"]
        assert len(await world.agents["default"].sessions.list()) == 2


def _by_result(context: Any) -> Any:
    last = context.messages[-1]
    return last.parts[0].content if last.role == "tool" else Call("weather")


async def test_several_calls_are_handed_back_one_at_a_time_and_results_may_come_together() -> None:
    async with served([[Call("weather", {"at": 1}), Call("weather", {"at": 2})], "Both."]) as world:
        handed = await answer(world, ask(said("w?"), tools=[WEATHER], session_id="s"))
        [first] = handed["tool_calls"]
        second = first["id"].replace("_1_0_", "_1_1_")
        results = [{"role": "tool", "tool_call_id": id, "content": f"r-{id[:10]}"} for id in (first["id"], second)]
        final = await answer(world, ask(*results, tools=[WEATHER], session_id="s"))
        assert final["content"] == "Both."
        assert "r-call_1_1_0\nr-call_1_1_1" in world.asked()[-1][-1][1]


async def test_tool_choice_none_offers_no_tools() -> None:
    async with served(["ok", "ok"]) as world:
        await answer(world, ask(said("a"), tools=[WEATHER], session_id="s"))
        await answer(world, ask(said("b"), tools=[WEATHER], tool_choice="none", session_id="s"))
        offered = [one.tools for one in world.providers["default"].asked]
        assert "weather" in offered[0]
        assert "weather" not in offered[1]


async def test_a_call_without_a_result_blocks_nothing() -> None:
    async with served([Call("weather"), "Never mind."]) as world:
        await answer(world, ask(said("w?"), tools=[WEATHER], session_id="s"))
        told = await answer(world, ask(said("forget it"), tools=[WEATHER], session_id="s"))
        assert told["content"] == "Never mind."


async def test_a_result_that_nothing_waits_for_is_refused() -> None:
    async with served(["ok"]) as world:
        await answer(world, ask(said("a"), session_id="s"))
        status, told, _ = await world.post(
            CHAT, ask({"role": "tool", "tool_call_id": "nope", "content": "x"}, session_id="s")
        )
        assert (status, told["error"]["type"]) == (404, "invalid_request_error")


async def test_a_pending_approval_is_described_in_words() -> None:
    @tool(effect="unsafe", untrusted=False, sink=False)
    def wipe() -> str:
        """Wipe it."""
        return "gone"

    policy = Config().policy
    config = {"policy": msgspec.structs.replace(policy, ask=("wipe",))}
    async with served([Call("wipe"), "Then not."], tools=[wipe], config=config) as world:
        told = await answer(world, ask(said("wipe it"), session_id="s"))
        [pending] = await world.agents["default"].approvals.list()
        assert f"mainstay approval approve {pending.asked.id}" in told["content"]
        assert "wipe" in told["content"]
        assert (await answer(world, ask(said("no"), session_id="s")))["content"] == "Then not."


# --- clients that go, come back, or try again ----------------------------------------------------


async def test_a_client_that_disconnects_does_not_stop_the_turn() -> None:
    stall = Stall()
    async with served([pieces("well", stall, " done")]) as world:
        assert world.http is not None
        got = await world.http.post(f"{world.url}{CHAT}", json=ask(said("hi"), stream=True, session_id="s"))
        await asyncio.wait_for(stall.reached.wait(), 120)
        got.close()
        await until(lambda: not world.app.state.open_streams and not _watchers(world))
        stall.release()
        await asyncio.wait_for(world.agents["default"].settled(), 120)
        records = await world.agents["default"].sessions.records("s")
        assert isinstance(records[-1].event, TurnEnded)


async def test_a_client_that_retries_gets_the_same_turn() -> None:
    """The official clients do so by themselves, and say it."""
    stall = Stall()
    async with served([pieces("on", stall, "ce")]) as world:
        first = asyncio.create_task(world.post(CHAT, ask(said("hi")), headers={"x-stainless-retry-count": "0"}))
        await asyncio.wait_for(stall.reached.wait(), 120)
        again = asyncio.create_task(world.post(CHAT, ask(said("hi")), headers={"x-stainless-retry-count": "1"}))
        await until(lambda: len(_watchers(world)) == 2)
        stall.release()
        assert [(await one)[1]["choices"][0]["message"]["content"] for one in (first, again)] == ["once", "once"]
        assert len(await world.agents["default"].sessions.list()) == 1


def _watchers(world: World) -> list[Any]:
    opened = world.agents["default"]._open_agent
    assert opened is not None
    return [one for watchers in opened.services.hub._session_watchers.values() for one in watchers]


async def test_an_idempotency_key_is_one_prompt_even_if_the_server_died_in_between(tmp_path: Path) -> None:
    body = ask(said("Be kind.", "system"), said("hi"))
    headers = {"idempotency-key": "k1"}
    async with served(["once"], home=tmp_path) as world:
        assert (await answer(world, body, headers=headers))["content"] == "once"
        assert (await answer(world, body, headers=headers))["content"] == "once"
    async with served([], home=tmp_path) as world:
        assert (await answer(world, body, headers=headers))["content"] == "once"
        status, told, _ = await world.post(CHAT, ask(said("something else")), headers=headers)
        assert (status, told["error"]["type"]) == (400, "invalid_request_error")


async def test_a_server_that_stops_says_so_in_the_stream() -> None:
    stall = Stall()
    world_lines: list[str] = []
    async with served([pieces("well", stall)]) as world:
        reading = asyncio.create_task(world.lines(CHAT, ask(said("hi"), stream=True)))
        await asyncio.wait_for(stall.reached.wait(), 120)
        world.app.close()
        world_lines = await asyncio.wait_for(reading, 120)
        stall.release()
    last = events(world_lines)[-1]
    assert last["error"]["type"] == "server_error"
    assert "continues when the server is back" in last["error"]["message"]


async def test_a_waiting_client_is_told_when_the_agent_is_closed_and_not_to_retry() -> None:
    stall = Stall()
    async with served([pieces("well", stall)]) as world:
        waits = asyncio.create_task(world.post(CHAT, ask(said("hi"))))
        await asyncio.wait_for(stall.reached.wait(), 120)
        await world.agents["default"].aclose()
        status, told, headers = await asyncio.wait_for(waits, 120)
    assert (status, headers["x-should-retry"]) == (503, "false")
    assert "was accepted" in told["error"]["message"]


async def test_a_refused_conversation_is_found_by_a_retry() -> None:
    async with served(lambda context, options: f"{len(context.messages)}") as world:
        first = await answer(world, ask(said("a")))
        status, _, _ = await world.post(CHAT, ask(said("a"), first, said("b"), tools=[WEATHER, WEATHER]))
        assert status == 400
        assert (await answer(world, ask(said("a"), first, said("b"))))["content"] == "3"
        assert len(await world.agents["default"].sessions.list()) == 1


async def test_too_many_requests_and_too_many_streams_get_a_retry_time() -> None:
    stall = Stall()
    async with served([pieces("well", stall)], web=HttpSettings(streams_max=1, rate_per_min=3)) as world:
        key = await world.key("ann")
        waits = asyncio.create_task(world.post(CHAT, ask(said("hi")), key=key))
        await asyncio.wait_for(stall.reached.wait(), 120)
        for _ in range(3):  # the first for its stream, the others for the rate
            status, told, headers = await world.post(CHAT, ask(said("hi")), key=key)
            assert (status, told["error"]["type"], told["error"]["code"]) == (
                429, "rate_limit_error", "rate_limit_exceeded"
            )  # fmt: skip
            assert int(headers["retry-after"]) >= 1
        stall.release()
        assert (await waits)[0] == 200


@pytest.mark.parametrize(
    "empty",
    [
        {"role": "assistant"},
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": [], "tool_calls": []},
    ],
)
async def test_an_assistant_message_without_content_is_left_out_of_the_history(empty: dict[str, Any]) -> None:
    async with served(lambda context, options: "fine") as world:
        key = await world.key("ann")
        for before in ((), ({"role": "user", "content": "hi"},)):
            body = ask(*before, empty, {"role": "user", "content": "and now?"})
            assert (await answer(world, body, key=key))["content"] == "fine"
            assert (await answer(world, body, key=key))["content"] == "fine"
        assert [text for _, text in world.asked()[-1] if text][-1] == "and now?"
