"""`mainstay.v1.Operations` with a client that the usual compiler made of the published file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import msgspec
import pytest
from support.grpc_world import World, compiled_operations, served

from mainstay.core.client_tools import ClientTool
from mainstay.operations.inputs import offer_client_tools
from mainstay.providers.scripted import Call, Stall
from mainstay.server.grpc.operations_schema import list_entries, message_fields

HOLDS_S = 30.0
MESSAGES, STUBS = compiled_operations()


@asynccontextmanager
async def client(here: World) -> AsyncIterator[Any]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{here.port}") as channel:
        yield STUBS.OperationsStub(channel)


def requests() -> list[Any]:
    return [pytest.param(entry, id=entry.name) for entry in list_entries()]


@pytest.mark.parametrize("entry", requests())
def test_the_zero_of_a_field_can_be_told_from_a_field_that_is_not_sent(entry: Any) -> None:
    """Protobuf sends no zeros of fields without presence: then the default must be the zero."""
    descriptor = getattr(MESSAGES, f"{entry.name}Request").DESCRIPTOR
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
