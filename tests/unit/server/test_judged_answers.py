"""Judged answers over every interface: an attempt that did not pass is not shown as an answer."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Literal
from urllib.parse import quote

import pytest
from support import grpc_world, http_world, judge_rules, openai_rig
from support.judge_rules import judges, spoken

from mainstay import Config
from mainstay.core.messages import FinishReason, Usage
from mainstay.core.ports import StreamFinished, TextPiece, ToolCallPiece
from mainstay.core.tools import tool
from mainstay.testing import Pieces

EVENTS = "/api/sessions/s/events"
PROMPT = "/api/sessions/s/prompt"
STREAMING = pytest.mark.parametrize("streaming", ["hold", "draft"])


def attempts() -> list[Any]:
    return [spoken("a ", "secret"), spoken("the ", "answer")]


# --- HTTP ----------------------------------------------------------------------------------------


async def test_events_of_a_held_failed_attempt_do_not_contain_its_text() -> None:
    async with http_world.world(attempts(), config=Config(judges=judges())) as here:
        async with here.hear(PROMPT, {"text": "go"}) as events:
            heard = [one async for one in events]
        assert "secret" not in json.dumps([one.data for one in heard]), "nor do its judges quote it"
        assert [one.id for one in heard if one.id] == list(range(1, heard[-1].id + 1)), "no sequence is missing"
        verdicts = [one.data for one in heard if one.event == "Judged"]
        assert [one["passed"] for one in verdicts] == [False, True]
        said = [one.data for one in heard if one.event == "MessageAdded" and one.data["role"] == "assistant"]
        assert [[part.get("text") for part in one["parts"] if part["type"] == "text"] for one in said] == [
            [], ["the answer"],
        ]  # fmt: skip
        assert heard[-1].data["outcome"] == {"type": "Answered", "score": 1.0}
        again = []
        async with here.hear(f"{EVENTS}?after=0") as events:
            async with asyncio.timeout(http_world.HOLDS_S):
                while not again or again[-1].event != "TurnEnded":
                    again.append(await anext(events))
        assert [one.id for one in again] == [one.id for one in heard if one.id]
        assert "secret" not in json.dumps([one.data for one in again])


async def test_a_client_that_connects_during_judging_gets_the_answer_when_it_has_passed() -> None:
    gate = asyncio.Event()
    judge_rules.GATE[:] = [gate]
    async with http_world.world([spoken("the answer")], config=Config(judges=judges())) as here:
        asked = asyncio.create_task(here.say("s", "go", wait=True))
        await http_world.until(lambda: not judge_rules.GATE)
        heard = []
        async with here.hear(f"{EVENTS}?after=0") as events:
            async with asyncio.timeout(http_world.HOLDS_S):
                heard += [await anext(events) for _ in range(2)]
                assert [one.event for one in heard] == ["Received", "TurnStarted"]
                gate.set()
                while heard[-1].event != "TurnEnded":
                    heard.append(await anext(events))
        assert [one.event for one in heard[2:]] == ["MessageAdded", "Judged", "TurnEnded"]
        await asked


async def test_the_journal_over_http_is_whole_for_admins_and_discreet_for_members() -> None:
    async with http_world.world(attempts(), config=Config(judges=judges())) as here:
        ann, bob = await here.key("ann", role="admin", scopes=http_world.ALL), await here.key("bob")
        await here.say("s", "go", key=bob, wait=True)
        plain = {"Accept": "application/json"}
        own = (await here.ask("GET", EVENTS, key=bob, headers=plain)).body.decode()
        assert "the answer" in own
        assert "a secret" not in own
        [session] = [one["id"] for one in (await here.ask("GET", "/api/sessions", key=ann)).json["sessions"]]
        path = f"/api/sessions/{quote(session, safe='')}/events"
        assert b"a secret" in (await here.ask("GET", path, key=ann, headers=plain)).body


async def test_a_client_that_pages_during_judging_gets_the_answer_with_the_next_page() -> None:
    gate = asyncio.Event()
    judge_rules.GATE[:] = [gate]
    plain = {"Accept": "application/json"}
    async with http_world.world([spoken("the answer")], config=Config(judges=judges())) as here:
        bob = await here.key("bob")
        asked = asyncio.create_task(here.say("s", "go", key=bob, wait=True))
        await http_world.until(lambda: not judge_rules.GATE)
        for limit in (1, 2, 3, 100):
            page = (await here.ask("GET", f"{EVENTS}?limit={limit}", key=bob, headers=plain)).json
            read = [one["sequence"] for one in page["events"]]
            assert read == [1, 2][:limit], "it ends before what is not decided"
            assert page["next"] in (None, read[-1])
        assert (await here.ask("GET", f"{EVENTS}?after=2", key=bob, headers=plain)).json["events"] == []
        gate.set()
        await asked
        rest = (await here.ask("GET", f"{EVENTS}?after=2", key=bob, headers=plain)).json["events"]
        assert [one["sequence"] for one in rest] == [3, 4, 5]
        assert "the answer" in json.dumps(rest[0])


async def test_a_failed_attempt_is_found_by_no_search() -> None:
    async with http_world.world(attempts(), config=Config(judges=judges())) as here:
        bob = await here.key("bob")
        await here.say("s", "go", key=bob, wait=True)
        async with asyncio.timeout(http_world.HOLDS_S):
            while b"the answer" not in (found := await here.ask("GET", "/api/memory/search?q=answer", key=bob)).body:
                await asyncio.sleep(0.01)
        assert b"secret" not in found.body
        assert b"secret" not in (await here.ask("GET", "/api/memory/search?q=secret", key=bob)).body


async def test_events_of_a_draft_say_that_it_is_one() -> None:
    async with http_world.world(attempts(), config=Config(judges=judges("draft"))) as here:
        async with here.hear(PROMPT, {"text": "go"}) as events:
            heard = [one async for one in events]
        deltas = [one.data for one in heard if one.event == "TextDelta"]
        assert [one["text"] for one in deltas] == ["a ", "secret", "the ", "answer"]
        assert {one["provisional"] for one in deltas} == {"shown"}
        said = [one.data for one in heard if one.event == "MessageAdded" and one.data["role"] == "assistant"]
        assert [one["provisional"] for one in said] == ["shown", "shown"]


# --- the compatible API --------------------------------------------------------------------------


def body(**more: Any) -> dict[str, Any]:
    return {"model": "mainstay", "messages": [openai_rig.said("go")], **more}


@STREAMING
async def test_an_openai_client_never_gets_a_failed_attempt(streaming: Literal["hold", "draft"]) -> None:
    """There is no way to take something back there."""
    async with openai_rig.served(attempts(), config={"judges": judges(streaming)}) as world:
        lines = await world.lines("/chat/completions", body(stream=True, stream_options={"include_usage": True}))
        assert lines[-2] == "data: [DONE]"
        chunks = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
        text = "".join(one["choices"][0]["delta"].get("content") or "" for one in chunks if one["choices"])
        assert text == "the answer"
        assert chunks[-1]["usage"]["total_tokens"] == 30, "of both attempts"


@STREAMING
async def test_an_openai_client_that_does_not_stream_gets_the_answer_alone(streaming: Literal["hold", "draft"]) -> None:
    async with openai_rig.served(attempts(), config={"judges": judges(streaming)}) as world:
        status, told, _ = await world.post("/chat/completions", body())
        assert status == 200
        assert told["choices"][0]["message"]["content"] == "the answer"


@pytest.mark.parametrize("passes", [True, False], ids=["passed", "failed"])
async def test_an_openai_client_can_tell_what_was_judged_and_whether_that_was_enough(passes: bool) -> None:
    """Beside all that its clients know: they hand on what they do not."""
    script = [spoken("the answer") if passes else spoken("a secret") for _ in range(8)]
    async with openai_rig.served(script, config={"judges": judges(corrections=1)}) as world:
        _, told, _ = await world.post("/chat/completions", body())
        verdict = {"score": 1.0 if passes else 0.0, "passed": passes}
        assert told["mainstay"] == verdict
        lines = await world.lines("/chat/completions", body(stream=True))
        chunks = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
        assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
        assert [one["mainstay"] for one in chunks if "mainstay" in one] == [chunks[-1]["mainstay"]] == [verdict]
        _, response, _ = await world.post("/responses", {"model": "mainstay", "input": "go"})
        assert (response["status"], response["mainstay"]) == ("completed", verdict)
        seen = await world.client(await world.key("ann")).chat.completions.create(**body())
        assert seen.model_extra is not None
        assert seen.model_extra["mainstay"]["passed"] is passes


async def test_an_answer_without_judges_has_no_verdict() -> None:
    async with openai_rig.served(["fine"]) as world:
        _, told, _ = await world.post("/chat/completions", body())
        assert "mainstay" not in told


@STREAMING
async def test_an_openai_client_gets_text_before_a_tool_runs(streaming: Literal["hold", "draft"]) -> None:
    @tool(untrusted=False, sink=False)
    def look() -> str:
        """Look."""
        return "seen"

    looking = Pieces(
        [TextPiece("let me look"), ToolCallPiece(0, "look", "{}"), StreamFinished(FinishReason.TOOL_CALLS, Usage(1, 1))]
    )  # type: ignore[arg-type]
    script = [looking, *attempts()]
    async with openai_rig.served(script, tools=[look], config={"judges": judges(streaming)}) as world:
        _, told, _ = await world.post("/chat/completions", body())
        assert told["choices"][0]["message"]["content"] == "let me look\n\nthe answer"


async def test_a_response_read_during_judging_is_empty() -> None:
    gate = asyncio.Event()
    judge_rules.GATE[:] = [gate]
    async with openai_rig.served([spoken("the answer")], config={"judges": judges()}) as world:
        key = await world.key("ann")
        _, begun, _ = await world.post("/responses", {"model": "mainstay", "input": "go", "background": True}, key=key)
        await openai_rig.until(lambda: not judge_rules.GATE)
        _, now = await world.get(f"/responses/{begun['id']}", key=key)
        assert "the answer" not in json.dumps(now)
        gate.set()
        async with asyncio.timeout(openai_rig.HOLDS_S):
            while "the answer" not in json.dumps((await world.get(f"/responses/{begun['id']}", key=key))[1]):
                await asyncio.sleep(0.01)


# --- gRPC ----------------------------------------------------------------------------------------


async def test_over_grpc_a_held_attempt_is_not_sent_and_a_failed_draft_is_marked() -> None:
    script = [*attempts(), spoken("secret 1"), spoken("secret 2")]
    async with grpc_world.served({"main": script}, judges=judges(corrections=1)) as world, world.client() as client:
        events = await grpc_world.everything(client.stream("s", "go"))
        assert "secret" not in "".join(one.text + one.data for one in events)
        assert "the answer" in "".join(one.data for one in events)
        reply = await client.weave("s", "again")
        assert reply.text == "secret 2"
        assert reply.detail == "score 0.00, too low"
