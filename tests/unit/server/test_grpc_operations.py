"""`mainstay.v1.Operations` with a client that the usual compiler made of the published file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import msgspec
import pytest
from google.protobuf.json_format import ParseDict
from support.grpc_world import World, compiled_operations, served

from mainstay.core.client_tools import ClientTool
from mainstay.core.messages import FinishReason
from mainstay.core.ports import StreamFinished, TextPiece
from mainstay.operations.input_submission import offer_client_tools
from mainstay.providers.scripted import Call, Pieces, Stall
from mainstay.server.grpc.operations_schema import list_entries, message_fields, request_name

HOLDS_S = 120.0
UNKNOWN = b"\xf8\x07\x01"  # field 127 is 1
MESSAGES, STUBS = compiled_operations()


@asynccontextmanager
async def client(here: World) -> AsyncIterator[Any]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{here.port}") as channel:
        yield STUBS.OperationsStub(channel)


def requests() -> list[Any]:
    return [pytest.param(entry, id=entry.name) for entry in list_entries()]


@pytest.mark.parametrize("entry", requests())
def test_the_zero_of_a_field_is_distinguished_from_a_missing_field(entry: Any) -> None:
    """Protobuf sends no zeros of fields without presence: then the default must be the zero."""
    descriptor = getattr(MESSAGES, request_name(entry)).DESCRIPTOR
    for field, kind in message_fields(entry.request):
        published = descriptor.fields_by_name[field.encode_name]
        if published.has_presence or published.is_repeated or field.required:
            continue
        assert not field.default, f"{entry.name}.{field.encode_name} cannot be {published.default_value!r}"
        assert not kind.optional


@pytest.mark.parametrize(
    ("name", "field", "default"),
    [
        ("PinMemory", "pinned", True),
        ("SubmitToolResult", "wait", True),
        ("ListSessions", "limit", 100),
        ("AddTrigger", "timezone", "UTC"),
    ],
)
def test_fields_with_a_default_have_presence(name: str, field: str, default: Any) -> None:
    entry = next(entry for entry in list_entries() if entry.name == name)
    assert next(info.default for info in msgspec.structs.fields(entry.request) if info.name == field) == default
    message = getattr(MESSAGES, f"{name}Request")()
    assert not message.HasField(field)
    setattr(message, field, type(default)())
    assert message.HasField(field)
    assert getattr(MESSAGES, f"{name}Request").FromString(message.SerializeToString()).HasField(field)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(UNKNOWN, id="in the request"),
        pytest.param(b"\x12\x03" + UNKNOWN, id="in a value inside of it"),
        pytest.param(b"\x1a\x03" + UNKNOWN, id="in an entry of a map"),
        pytest.param(UNKNOWN * 100_000, id="very often"),
    ],
)
async def test_unknown_fields_are_refused_at_any_depth(data: bytes) -> None:
    async with served({"main": []}) as here, grpc.aio.insecure_channel(f"127.0.0.1:{here.port}") as channel:
        with pytest.raises(grpc.aio.AioRpcError, match="a field that is not in the contract") as refused:
            await channel.unary_unary("/mainstay.v1.Operations/ImportHistory")(b"\x0a\x01s" + data, timeout=HOLDS_S)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_a_memory_is_unpinned_and_pinned_where_nothing_is_said() -> None:
    async with served({"main": []}) as here, client(here) as stub:
        memory = await stub.Remember(MESSAGES.RememberRequest(text="call me Ana", pin=True), timeout=HOLDS_S)
        assert memory.pinned
        for request, pinned in ((MESSAGES.PinMemoryRequest(id=memory.id, pinned=False), False),
                                (MESSAGES.PinMemoryRequest(id=memory.id), True)):  # fmt: skip
            assert (await stub.PinMemory(request, timeout=HOLDS_S)).pinned == pinned
            listed = await stub.ListMemories(MESSAGES.ListMemoriesRequest(pinned=True), timeout=HOLDS_S)
            assert [one.id for one in listed.memories] == ([memory.id] if pinned else [])


async def test_a_page_without_entries_is_refused_and_the_default_page_is_not() -> None:
    async with served({"main": lambda context, options: "hello"}) as here, client(here) as stub:
        await here.agents["main"].run("s", "hi")
        assert len((await stub.ListSessions(MESSAGES.ListSessionsRequest(), timeout=HOLDS_S)).sessions) == 1
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.ListSessions(MESSAGES.ListSessionsRequest(limit=0), timeout=HOLDS_S)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert "limit" in (refused.value.details() or "")


async def test_a_profile_without_fields_changes_nothing() -> None:
    """An empty map is not sent either."""
    async with served({"main": lambda context, options: "hello"}) as here, client(here) as stub:
        await stub.SetProfile(MESSAGES.SetProfileRequest(session="s", fields={"name": "Ana"}), timeout=HOLDS_S)
        profile = await stub.SetProfile(MESSAGES.SetProfileRequest(session="s"), timeout=HOLDS_S)
        assert dict(profile.fields) == {"name": "Ana"}


async def test_a_client_offers_a_tool_runs_its_call_and_gets_the_whole_reply() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 40}}}
    script = [
        [Call("weather", {"city": "Lisbon"})],
        Pieces([TextPiece("22 degr"), StreamFinished(FinishReason.LENGTH)]),
    ]
    async with served({"main": script}) as here, client(here) as stub:
        tool = MESSAGES.ClientTool(name="weather", description="The weather.")
        ParseDict(schema, tool.schema)
        request = MESSAGES.PromptRequest(session="s", text="warm?", tools=[tool])
        reply = await stub.Prompt(request, timeout=HOLDS_S)
        assert reply.outcome.struct_value["type"] == "Paused"
        session = await (await here.agents["main"].runtime()).lanes.get("s").load_session()
        assert session.client_tools == (ClientTool("weather", "The weather.", schema),)
        (pending,) = (await stub.ListApprovals(MESSAGES.ListApprovalsRequest(), timeout=HOLDS_S)).approvals
        assert (pending.asked.name, pending.asked.client) == ("weather", True)
        result = MESSAGES.SubmitToolResultRequest(session="s", call_id=pending.asked.call_id, content="22 C")
        reply = await stub.SubmitToolResult(result, timeout=HOLDS_S)
        assert (reply.text, reply.cut, reply.turn) == ("22 degr", True, 1)
        assert [one.call_id for one in reply.results] == [pending.asked.call_id]
        assert not reply.HasField("sequence")


async def test_a_prompt_with_a_file_that_is_not_waited_for_is_streamed_from_its_sequence() -> None:
    stall = Stall("seen")
    async with served({"main": [stall, Stall("late")]}) as here, client(here) as stub:
        request = MESSAGES.PromptRequest(session="s", wait=False)
        for part in ({"type": "text", "text": "look"}, {"type": "binary", "mime": "text/plain", "data": "aGk="}):
            ParseDict(part, request.parts.add())
        accepted = await stub.Prompt(request, timeout=HOLDS_S)
        assert (accepted.session, accepted.sequence) == ("s", 1)
        assert not accepted.HasField("outcome")
        await asyncio.wait_for(stall.reached.wait(), HOLDS_S)
        steered = await stub.Steer(MESSAGES.SteerOperationRequest(session="s", text="in French"), timeout=HOLDS_S)
        assert steered.sequence > 1
        stream = stub.StreamReadEvents(MESSAGES.ReadEventsRequest(session="s"), timeout=HOLDS_S)
        received = await stream.read()
        assert (received.type, received.sequence) == ("Received", accepted.sequence)
        assert (await stub.Abort(MESSAGES.AbortOperationRequest(session="s"), timeout=HOLDS_S)).aborted
        while (await stream.read()).type != "TurnEnded":
            pass
        stream.cancel()
        parts = (await here.agents["main"].sessions.records("s", limit=1))[0].event.parts
        assert [type(part).__name__ for part in parts] == ["Text", "Binary"]


@pytest.mark.parametrize("wait", [True, False])
async def test_a_tool_result_is_waited_for_or_not(wait: bool) -> None:
    stall = Stall("22 degrees")
    async with served({"main": [[Call("weather", {})], stall]}) as here, client(here) as stub:
        agent = here.agents["main"]
        await offer_client_tools(await agent.runtime(), "s", [ClientTool("weather")])
        await agent.run("s", "warm?")
        (pending,) = await agent.approvals.list()
        if wait:
            stall.release()
        request = MESSAGES.SubmitToolResultRequest(
            session="s", call_id=pending.asked.call_id, content="22 C", wait=None if wait else False
        )
        reply = await stub.SubmitToolResult(request, timeout=HOLDS_S)
        assert (reply.session, reply.turn) == ("s", 1)
        assert reply.HasField("outcome") == wait
        assert reply.HasField("sequence") != wait
        assert reply.text == ("22 degrees" if wait else "")
        stall.release()
        await agent.settled()


async def test_events_are_streamed_live_after_the_turn_has_ended() -> None:
    async with served({"main": lambda context, options: "hello"}) as here, client(here) as stub:
        agent = here.agents["main"]
        await agent.run("s", "one")
        stream = stub.StreamReadEvents(MESSAGES.ReadEventsRequest(session="s"), timeout=HOLDS_S)
        for turn in (1, 2):
            while (event := await stream.read()).type != "TurnEnded":
                pass
            assert event.turn == turn
            if turn == 1:
                await agent.run("s", "two")
        stream.cancel()


async def test_events_of_all_sessions_name_their_session() -> None:
    async with served({"main": lambda context, options: "hello"}) as here, client(here) as stub:
        agent = here.agents["main"]
        hub = (await agent.runtime()).services.hub
        watching = hub.watcher_count
        stream = stub.StreamWatchEvents(MESSAGES.WatchEventsRequest(), timeout=HOLDS_S)
        reading = asyncio.ensure_future(stream.read())
        while hub.watcher_count == watching:
            await asyncio.sleep(0.005)
        for session in ("one", "two"):
            await agent.run(session, "hi")
            kinds = set()
            while "TurnEnded" not in kinds:
                event = await reading
                reading = asyncio.ensure_future(stream.read())
                kinds.add(event.type)
                assert msgspec.json.decode(event.data)["session"] == session
            assert "TextDelta" in kinds
        stream.cancel()
        await asyncio.gather(reading, return_exceptions=True)
