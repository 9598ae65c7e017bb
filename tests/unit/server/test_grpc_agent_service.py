"""A turn over gRPC with the usual client: the same with and without its progress, and it can be resumed."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import msgspec
import pytest
from support.grpc_world import World, details, everything, served, trailing, trouble

from mainstay.core.errors import Unreachable
from mainstay.core.limits import Limits
from mainstay.core.messages import FinishReason, Usage
from mainstay.core.ports import StreamFinished, TextPiece
from mainstay.core.tools import tool
from mainstay.server.grpc import turn_stream
from mainstay.testing import Call, Pieces, Raise, Stall

PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)
END = StreamFinished(FinishReason.END, Usage(prompt=10, completion=5))


@tool(effect="pure", untrusted=False, sink=False)
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


@tool(effect="pure", untrusted=False, sink=False)
def look_up() -> str:
    """Ask a backend that fails."""
    raise ValueError("the backend said no")


def sum_in_pieces() -> tuple[list[Any], Stall]:
    """A call, and an answer that is held in its middle."""
    held = Stall(then=None)
    return [[Call("add", {"a": 2, "b": 3})], Pieces([TextPiece("It is "), _Held(held), TextPiece("5."), END])], held


class _Held(Stall):
    """The same stall, without an answer of its own."""

    def __init__(self, inner: Stall) -> None:
        super().__init__()
        self.reached, self.released = inner.reached, inner.released


async def next_of(stream: Any, kind: str) -> Any:
    async with asyncio.timeout(120):
        async for event in stream:
            if event.type == kind:
                return event
    raise AssertionError(f"there was no {kind}")


async def test_weave_and_stream_weave_are_one_path() -> None:
    """LOOM-010, LOOM-011"""
    script, held = sum_in_pieces()
    async with served({"main": script * 2}, tools=[add]) as world, world.client() as client:
        waiting = asyncio.create_task(client.weave("one", "what is 2 + 3?"))
        await held.reached.wait()
        held.released.set()
        reply = await waiting
        held.reached.clear()
        held.released.clear()
        stream = client.stream("two", "what is 2 + 3?")
        told = []
        while not told or told[-1].type != "TextDelta":
            told.append(await anext(aiter(stream)))
        held.released.set()
        told += await everything(stream)
        last = told[-1]
        assert (last.type, last.reply.text, last.reply.session) == ("Reply", "It is 5.", "two")
        last.reply.session = "one"
        last.reply.trace = reply.trace
        assert last.reply == reply
        assert [(one.name, one.content, one.is_error) for one in reply.results] == [("add", "5", False)]
        assert (reply.outcome, reply.turn, reply.usage.prompt, reply.usage.completion) == ("answered", 1, 20, 10)
        kinds = [event.type for event in told]
        order = ["Received", "TurnStarted", "ToolFinished", "TextDelta", "TurnEnded", "Reply"]
        assert list(dict.fromkeys(kind for kind in kinds if kind in order)) == order
        assert "".join(event.text for event in told if event.type == "TextDelta") == "It is 5."
        finished = next(event for event in told if event.type == "ToolFinished")
        assert msgspec.json.decode(finished.data)["result"]["content"] == "5"
        kept = [event.sequence for event in told if event.sequence]
        assert kept == sorted(set(kept))


async def test_a_stream_that_was_cut_goes_on_after_the_last_sequence() -> None:
    script, held = sum_in_pieces()
    async with served({"main": script}, tools=[add]) as world:
        async with world.client() as client:
            stream = client.stream("s", "what is 2 + 3?", id="mine")
            before = [await next_of(stream, "ToolFinished")]
            stream.cancel()
        after = before[0].sequence
        await held.reached.wait()
        async with world.client() as client:
            by_id = client.stream("s", "what is 2 + 3?", id="mine", after=after)
            by_session = client.stream("s", after=after)
            tasks = [asyncio.create_task(everything(one)) for one in (by_id, by_session)]
            held.released.set()
            one, other = await asyncio.gather(*tasks)
            again = await everything(client.stream("s", after=0))
            nothing = await everything(client.stream("s", after=again[-1].sequence))
        kept = [[event.sequence for event in told if event.sequence] for told in (one, other)]
        assert kept[0] == kept[1] == list(range(after + 1, kept[0][-1] + 1)), "each once, and in order"
        assert [told[-1].type for told in (one, other)] == ["Reply", "TurnEnded"]
        assert one[-1].reply.text == "It is 5."
        assert [event.sequence for event in again] == list(range(1, kept[0][-1] + 1))
        assert nothing == []


async def test_a_client_that_disconnects_leaves_the_turn_running() -> None:
    held = Stall(then="done all the same")
    async with served({"main": [held]}) as world:
        async with world.client() as client:
            stream = client.stream("s", "take your time")
            await next_of(stream, "TurnStarted")
            stream.cancel()
        async with world.client() as client:
            call = asyncio.create_task(client.weave("s", "take your time", id="other"))
            await held.reached.wait()
            call.cancel()
        held.release()
        await world.agents["main"].settled()
        records = await world.agents["main"].sessions.records("s")
        assert "done all the same" in str([record.event for record in records])


async def test_the_same_id_is_one_turn_and_one_reply() -> None:
    async with served({"main": ["only once"]}) as world, world.client() as client:
        replies = await asyncio.gather(*(client.weave("s", "hello", id="mine") for _ in range(5)))
        assert {reply.text for reply in replies} == {"only once"}
        assert {reply.turn for reply in replies} == {1}
        error = await trouble(client.weave("s", "something else", id="mine"))
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_abort_ends_the_running_turn_and_notifies_the_waiting_caller() -> None:
    held = Stall(then="never said")
    async with served({"main": [held, "the next one"]}) as world, world.client() as client:
        assert await client.abort("s") is False
        waiting = asyncio.create_task(client.weave("s", "write a novel"))
        await held.reached.wait()
        stream = client.stream("s", "and then?")
        told = [await anext(aiter(stream))]
        assert await client.abort("s") is True
        assert (await waiting).outcome == "aborted"
        told += await everything(stream)
        assert told[-1].reply.text == "the next one"
        assert {event.turn for event in told if event.turn} == {2}, "nothing of the turn before it"


async def test_steer_reaches_the_running_turn() -> None:
    held = Stall(then="Bonjour.")

    def model(context: Any, options: Any) -> Any:
        said = " ".join(message.text for message in context.messages)
        return "Bonjour." if "in French" in said else held

    async with served({"main": model}) as world, world.client() as client:
        waiting = asyncio.create_task(client.weave("s", "greet me"))
        await held.reached.wait()
        assert await client.steer("s", "in French") > 0
        assert (await waiting).text == "Bonjour."


async def test_files_are_sent_and_their_bytes_are_not_returned() -> None:
    async with served({"main": ["a picture"]}) as world, world.client() as client:
        part = client.pb.Part(mime="image/png", data=PNG)
        told = await everything(client.stream("s", "what is this?", parts=[part]))
        received = msgspec.json.decode(told[0].data)
        assert [one["type"] for one in received["parts"]] == ["text", "binary"]
        assert "data" not in received["parts"][1]
        assert "session" not in received
        records = await world.agents["main"].sessions.records("s")
        assert records[0].event.parts[1].data == PNG


# --- what goes wrong -----------------------------------------------------------------------------


async def test_a_failing_tool_is_an_event_and_reaches_the_caller() -> None:
    """LOOM-118"""
    script = [[Call("look_up")], "It failed."] * 2
    async with served({"main": script}, tools=[look_up]) as world, world.client() as client:
        reply = await client.weave("s", "look it up")
        assert reply.outcome == "answered"
        (error,) = reply.errors
        assert (error.type, error.code, error.turn, error.step) == ("tool_failed", 13, 1, 1)
        assert "the backend said no" in error.message
        told = await everything(client.stream("s", "again"))
        assert [event.error.type for event in told if event.HasField("error")] == ["tool_failed"]


@pytest.mark.parametrize("streamed", [False, True], ids=["weave", "stream"])
async def test_a_model_that_fails_is_an_error_with_a_code_a_sentence_and_a_place(streamed: bool) -> None:
    """LOOM-118"""
    dead = Raise(Unreachable("the model is not there", details="10.0.0.1 refused"))
    model = {"main": lambda context, options: dead}
    async with served(model, limits=Limits(retries_max=0)) as world, world.client() as client:
        call = client.stream("a b/ü", "hello") if streamed else client.weave("a b/ü", "hello")
        error = await trouble(call)
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert "the model is not there" in (error.details() or "")
    assert "10.0.0.1" not in f"{error.details()}{error.trailing_metadata()}", "that is for the operator"
    assert trailing(error)["mainstay-error-type"] == "model_failed"
    assert trailing(error)["mainstay-turn"] == "1"
    info, _ = details(error)
    assert (info.reason, info.domain) == ("MODEL_FAILED", "mainstay")
    trace = trailing(error)["mainstay-trace"]
    assert dict(info.metadata) == {"session": "a b/ü", "turn": "1", "step": "1", "trace": trace}


async def test_a_full_lane_reports_a_retry_time() -> None:
    held = Stall(then="done")
    async with served({"main": lambda context, options: held}) as world, world.client() as client:
        first = asyncio.create_task(client.weave("s", "one"))
        await held.reached.wait()
        waiting = [asyncio.create_task(client.weave("s", f"number {n}")) for n in range(5)]
        await until_waiting(world, 5)
        error = await trouble(client.weave("s", "one too many"))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert trailing(error)["mainstay-error-type"] == "busy"
        _, retry = details(error)
        assert retry.retry_delay.seconds == int(trailing(error)["retry-after"]) > 0
        held.release()
        await asyncio.gather(first, *waiting)


async def until_waiting(world: World, count: int) -> None:
    async with asyncio.timeout(120):
        while True:
            records = await world.agents["main"].sessions.records("s")
            if sum(type(one.event).__name__ == "Received" for one in records) > count:
                return
            await asyncio.sleep(0.01)


async def test_loom_050_the_reply_has_the_results_of_the_turns_calls_in_their_order() -> None:
    calls = [Call("add", {"a": 2, "b": 3}), Call("look_up", {}), Call("add", {"a": 1, "b": 1})]
    script = [calls, [Call("add", {"a": 4, "b": 4})], "done", "no calls"]
    async with served({"main": script}, tools=[add, look_up]) as world, world.client() as client:
        reply = await client.weave("s", "work")
        assert [(one.name, one.is_error) for one in reply.results] == [
            *(("add", False), ("look_up", True), ("add", False), ("add", False))
        ]
        assert [one.content for one in reply.results if one.name == "add"] == ["5", "2", "8"]
        assert "the backend said no" in reply.results[1].content
        assert len({one.call_id for one in reply.results}) == 4
        assert not (await client.weave("s", "again")).results


async def test_results_that_are_too_large_for_one_message_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    @tool(effect="pure", untrusted=False, sink=False)
    def page(number: int) -> str:
        return f"{number}: " + "x" * 40_000

    monkeypatch.setattr(turn_stream, "RESULTS_BYTES_MAX", 100_000)
    script = [[Call("page", {"number": number}) for number in range(4)], "done"]
    async with served({"main": script}, tools=[page]) as world, world.client() as client:
        whole, _, cut, least = (await client.weave("s", "read")).results
        assert whole.content == "0: " + "x" * 40_000
        assert 19_000 < len(cut.content) < 21_000
        assert cut.content.startswith("2: x")
        assert cut.content.endswith("[cut: 40003 bytes in all]")
        assert 1_000 < len(least.content) < 1_100, "each has a beginning"


async def test_a_session_that_is_archived_or_unknown_says_so() -> None:
    async with served({"main": ["hello"]}) as world, world.client() as client:
        await client.weave("s", "hello")
        await world.agents["main"].sessions.archive("s")
        error = await trouble(client.weave("s", "again"))
        assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
        error = await trouble(client.stream("never", after=0))
        assert error.code() is grpc.StatusCode.NOT_FOUND
        assert trailing(error)["mainstay-session"] == "never"


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        pytest.param({"session": "s"}, "empty", id="nothing"),
        pytest.param({"session": "", "text": "hello"}, "name", id="no session"),
        pytest.param({"session": "s", "text": "hi", "after": 3}, "give the id of the prompt", id="after without id"),
        pytest.param({"session": "s", "parts": [{"mime": "image/png"}]}, "must be text, or data", id="half a part"),
        pytest.param({"session": "s", "parts": [{"text": "a"}] * 101}, "at most 100", id="many parts"),
    ],
)
async def test_an_invalid_request_changes_nothing(request_: dict[str, Any], why: str) -> None:
    async with served({"main": []}) as world, world.client() as client:
        error = await trouble(client.stream(**request_))
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert why in (error.details() or "")
        assert not await world.agents["main"].sessions.list()


async def test_a_message_outside_the_protocol_is_refused() -> None:
    async with served({"main": []}) as world, world.client() as client:
        raw = client.channel.unary_unary("/mainstay.v1.Agent/Weave")
        good = client.pb.WeaveRequest(session="s", text="hello").SerializeToString()
        for bad in (good + good, good + b"\x3a\x01x", good[:-1], b"\x0a\x02\xff\xfe", b"\xff" * 20):
            error = await trouble(raw(bad))
            assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert "WeaveRequest" in (error.details() or "")
        error = await trouble(raw(b"\x0a\x01s\x12\x03\xed\xa0\x80"))  # a lone surrogate
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "UTF-8" in (error.details() or "")
        error = await trouble(client.channel.unary_unary("/mainstay.v1.Agent/Unravel")(good))
        assert error.code() is grpc.StatusCode.UNIMPLEMENTED
        assert not await world.agents["main"].sessions.list()


async def test_a_turn_that_waits_for_approval_says_for_which() -> None:
    from mainstay.config.schema import PolicySettings

    policy = PolicySettings(ask=("add",))
    async with served({"main": SUM}, tools=[add], policy=policy) as world, world.client() as client:
        told = await everything(client.stream("s", "what is 2 + 3?"))
        assert [event.type for event in told[-2:]] == ["ApprovalAsked", "Reply"]
        reply = told[-1].reply
        assert reply.outcome == "paused"
        assert reply.detail == msgspec.json.decode(told[-2].data)["id"]
        going_on = asyncio.create_task(everything(client.stream("s", after=told[-2].sequence)))
        assert await going_on == [], "it waits, and there is nothing new"
        await world.agents["main"].approvals.approve(reply.detail)
        later = await everything(client.stream("s", after=told[-2].sequence))
        assert later[-1].type == "TurnEnded"
        (finished,) = (event for event in later if event.type == "ToolFinished")
        assert msgspec.json.decode(finished.data)["result"]["content"] == "5"


SUM = [[Call("add", {"a": 2, "b": 3})], "It is 5."]
