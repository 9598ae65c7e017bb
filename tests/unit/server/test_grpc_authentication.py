"""Authentication over gRPC: a key for one workspace and nothing else; no key only on this machine."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from support.fixed_home import FixedHome
from support.grpc_world import (
    HOLDS_S,
    PROTO,
    World,
    details,
    everything,
    opened_workspaces,
    served,
    trailing,
    trouble,
    until,
)

from mainstay.core.errors import ConfigError
from mainstay.core.limits import Limits
from mainstay.gateway.operation_gateway import OperationGateway
from mainstay.server.grpc import health_reflection, open_calls
from mainstay.server.grpc.agent_schema import build_file_descriptor
from mainstay.server.grpc.authentication import GrpcSettings, is_local_address
from mainstay.server.grpc.server import serve_grpc
from mainstay.testing import Stall

CANARY = "canary-7f3a"


def keyed(world: Any, *metadata: tuple[str, str]) -> Any:
    return world.pb.WeaveRequest(session="s", text="hello"), metadata


async def test_no_key_is_needed_on_this_machine_unless_configured_or_forwarded_by_a_proxy() -> None:
    async with served({"main": ["hello"] * 9}) as world, world.client() as client:
        assert (await client.weave("s", "hello")).text == "hello"
        for name in ("x-forwarded-for", "forwarded", "via", "origin", "x-real-ip", "sec-fetch-site"):
            request, metadata = keyed(world, (name, "10.0.0.9"))
            error = await trouble(client.stub.Weave(request, metadata=metadata))
            assert error.code() is grpc.StatusCode.UNAUTHENTICATED
    async with served({"main": []}, settings=GrpcSettings(keys="required")) as world, world.client() as client:
        error = await trouble(client.weave("s", "hello"))
        assert error.code() is grpc.StatusCode.UNAUTHENTICATED
        assert trailing(error)["mainstay-error-type"] == "unauthorized"


async def test_f43_a_page_under_a_name_that_only_points_here_says_nothing_to_the_agent() -> None:
    """Without TLS a browser speaks HTTP/1.1, whatever the content type; it sends its origin with every POST."""
    async with served({"main": ["hello"]}) as world:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        body = world.pb.WeaveRequest(session="s", text="hello").SerializeToString()
        frame = b"\0" + len(body).to_bytes(4, "big") + body
        head = (
            "POST /mainstay.v1.Agent/Weave HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\n"
            f"Content-Type: application/grpc\r\nContent-Length: {len(frame)}\r\n\r\n"
        )
        writer.write(head.encode() + frame)
        async with asyncio.timeout(HOLDS_S):
            answer = await reader.read()
        writer.close()
        assert b"200 OK" not in answer
        assert await world.agents["main"].sessions.list() == []


@pytest.mark.parametrize(
    "metadata",
    [
        (("authorization", "Bearer ms_wrong"),),
        (("authorization", "Bearer "),),
        (("authorization", "Basic {key}"),),
        (("authorization", "{key}"),),
        (("x-api-key", "{key}x"),),
        (("authorization", "Bearer {key}"), ("x-api-key", "{key}")),
    ],
    ids=["wrong", "empty", "basic", "bare", "nearly", "two ways"],
)
async def test_a_malformed_key_is_refused_even_where_none_is_needed(metadata: Any) -> None:
    async with served({"main": []}) as world, world.client() as client:
        key = await world.key("ann", "main")
        request, _ = keyed(world)
        given = [(name, value.format(key=key)) for name, value in metadata]
        error = await trouble(client.stub.Weave(request, metadata=given))
        assert error.code() is grpc.StatusCode.UNAUTHENTICATED
        assert key not in str(error)


async def test_f41_two_workspaces_share_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """F41, U14"""
    async with served({"one": [f"the {CANARY}"], "two": ["nothing here"] * 9}) as world:
        ann, bob = await world.key("ann", "one"), await world.key("bob", "two", role="admin", scopes=("chat", "read"))
        async with world.client(ann) as client:
            assert CANARY in (await client.weave("secret", "tell me")).text
        async with world.client(bob) as client:
            for session in ("secret", "web:ann:secret", "web%3Aann%3Asecret", "../one/secret"):
                error = await trouble(client.stream(session, after=0))
                assert error.code() is grpc.StatusCode.NOT_FOUND
                assert error.details() == f"there is no session {session!r}"
                assert await client.abort(session) is False
            request, metadata = keyed(world, *client.metadata, ("x-workspace", "one"))
            there = await trouble(client.stub.Weave(request, metadata=metadata))
            request, metadata = keyed(world, *client.metadata, ("x-workspace", "nowhere"))
            nowhere = await trouble(client.stub.Weave(request, metadata=metadata))
            assert (there.code(), there.details().replace("one", "nowhere")) == (nowhere.code(), nowhere.details())
            reply = await client.weave("secret", "tell me")
            assert reply.text == "nothing here"
            told = await everything(client.stream("secret", after=0))
            assert CANARY not in str(told)


async def test_members_of_one_workspace_have_sessions_of_their_own() -> None:
    async with served({"main": [f"the {CANARY}", "hello bob"]}) as world:
        ann, bob = await world.key("ann", "main"), await world.key("bob", "main")
        async with world.client(ann) as one, world.client(bob) as other:
            await one.weave("s", "hello")
            assert (await trouble(other.stream("s", after=0))).code() is grpc.StatusCode.NOT_FOUND
            assert (await other.weave("s", "hello")).turn == 1
            assert CANARY in str(await everything(one.stream("s", after=0)))


async def test_a_key_may_do_what_it_is_for_until_it_is_revoked() -> None:
    async with served({"main": ["hello"] * 3}) as world:
        reads = await world.key("eve", "main", role="admin", scopes=("read",))
        chats = await world.key("ann", "main")
        async with world.client(reads) as client:
            error = await trouble(client.weave("s", "hello"))
            assert error.code() is grpc.StatusCode.PERMISSION_DENIED
        async with world.client(chats) as client:
            await client.weave("s", "hello")
            await world.people.revoke_key(chats.split("_")[1])
            assert (await trouble(client.weave("s", "hello"))).code() is grpc.StatusCode.UNAUTHENTICATED


async def test_f77_no_event_is_sent_after_the_key_was_revoked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also before the next check of the keys of open calls."""
    monkeypatch.setattr(open_calls, "KEY_CHECK_S", 3600.0)
    held = Stall(then=f"the {CANARY}")
    async with served({"main": lambda context, options: held}) as world:
        key = await world.key("ann", "main")
        async with world.client(key) as client:
            stream = client.stream("s", "hello")
            await held.reached.wait()
            await world.people.revoke_key(key.split("_")[1])
            held.release()
            error = await trouble(stream)
            assert error.code() is grpc.StatusCode.UNAUTHENTICATED
            assert error.details() == "this API key is not valid any more"


async def test_a_key_has_its_rate_and_its_streams() -> None:
    held = Stall(then="done")
    settings = GrpcSettings(workspace="main", rate_per_min=4, streams_max=2, drain_s=1.0)
    async with served({"main": lambda context, options: held}, settings=settings) as world, world.client() as client:
        streams = [client.stream(f"s{n}", "hello") for n in range(2)]
        for stream in streams:
            await anext(aiter(stream))
        error = await trouble(client.stream("s3", "hello"))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert trailing(error)["mainstay-error-type"] == "too_many_streams"
        assert details(error)[1].retry_delay.seconds > 0
        assert await client.abort("never") is False
        error = await trouble(client.abort("never"))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert trailing(error)["mainstay-error-type"] == "rate_limited"
        assert 0 < int(trailing(error)["retry-after"]) <= 15
        held.release()
        for stream in streams:
            await everything(stream)


@pytest.mark.parametrize(
    ("address", "private"),
    [
        ("127.0.0.1:7461", True), ("[::1]:7461", True), ("localhost:0", True), ("unix:/run/x.sock", True),
        ("0.0.0.0:7461", False), ("[::]:7461", False), ("192.168.0.7:7461", False), ("agent.lan:7461", False),
        ("127.0.0.1.evil.example:1", False),
    ],
)  # fmt: skip
async def test_another_address_than_this_machines_own_needs_a_key_to_exist(address: str, private: bool) -> None:
    assert is_local_address(address) is private
    if not private:
        async with opened_workspaces({"main": []}, (), None, {}) as (gateway, _):
            with pytest.raises(ConfigError, match="without an API key"):
                await serve_grpc(gateway, GrpcSettings(), address, asyncio.Event())


async def test_health_and_reflection_are_served_as_the_usual_tools_ask_for_them() -> None:
    async with served({"main": []}) as world:
        async with world.client() as client:
            health = health_pb2_grpc.HealthStub(client.channel)
            for name in ("", "mainstay.v1.Agent"):
                answer = await health.Check(health_pb2.HealthCheckRequest(service=name))
                assert answer.status == health_pb2.HealthCheckResponse.SERVING
            watching = health.Watch(health_pb2.HealthCheckRequest(service="mainstay.v1.Agent"))
            seen = aiter(watching)
            assert (await anext(seen)).status == health_pb2.HealthCheckResponse.SERVING

        def reflect() -> tuple[list[str], bytes]:
            with grpc.insecure_channel(f"127.0.0.1:{world.port}") as channel:
                database = ProtoReflectionDescriptorDatabase(channel)
                file = database.FindFileContainingSymbol("mainstay.v1.Agent")
                return list(database.get_services()), file.SerializeToString()

        services, file = await asyncio.to_thread(reflect)
        assert set(services) == {
            "mainstay.v1.Agent", "mainstay.v1.Operations",
            "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection",
        }  # fmt: skip
        assert descriptor_pb2.FileDescriptorProto.FromString(file) == build_file_descriptor()


async def test_health_over_grpc_is_not_serving_while_the_server_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_reflection, "REFRESH_S", 0.01)
    response = health_pb2.HealthCheckResponse
    reasons = {"workspace main": "its writer failed"}

    async def find_unready() -> dict[str, str]:
        return reasons

    settings = GrpcSettings(workspace="main", find_unready=find_unready, drain_s=1.0)
    async with served({"main": []}, settings=settings) as world, world.client() as client:
        health = health_pb2_grpc.HealthStub(client.channel)
        for name in ("", "mainstay.v1.Agent", "mainstay.v1.Operations"):
            watching = aiter(health.Watch(health_pb2.HealthCheckRequest(service=name)))
            async with asyncio.timeout(120):
                assert (await anext(watching)).status == response.NOT_SERVING
                for status in (response.SERVING, response.NOT_SERVING):
                    reasons = {} if status == response.SERVING else {"disk": "it is full"}
                    assert (await anext(watching)).status == status
                    assert (await health.Check(health_pb2.HealthCheckRequest(service=name))).status == status


async def test_unauthenticated_callers_may_check_health_and_hold_no_call_open() -> None:
    async with (
        served({"main": []}, settings=GrpcSettings(keys="required", drain_s=1.0)) as world,
        world.client() as client,
    ):
        health = health_pb2_grpc.HealthStub(client.channel)
        assert (await health.Check(health_pb2.HealthCheckRequest())).status == 1
        error = await trouble(health.Watch(health_pb2.HealthCheckRequest()))
        assert error.code() is grpc.StatusCode.UNAUTHENTICATED
        reflection = reflection_pb2_grpc.ServerReflectionStub(client.channel)
        call = reflection.ServerReflectionInfo()  # nothing is sent: a client that still writes may miss what it is told
        async with asyncio.timeout(120):
            assert await call.code() is grpc.StatusCode.UNAUTHENTICATED


def test_the_served_schema_is_the_published_one(tmp_path: Path) -> None:
    from grpc_tools import protoc

    made = tmp_path / "agent.bin"
    file = str(PROTO / "mainstay" / "v1" / "agent.proto")
    assert protoc.main(["protoc", f"-I{PROTO}", f"--descriptor_set_out={made}", file]) == 0
    (published,) = descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes()).file
    assert build_file_descriptor() == published


async def test_an_internal_error_is_logged_and_not_shown_to_the_caller(caplog: pytest.LogCaptureFixture) -> None:
    async with opened_workspaces({"main": []}, (), None, {}) as (good, _):

        async def find(workspace: str) -> Any:
            raise RuntimeError(f"the {CANARY} is broken")

        stop, port = asyncio.Event(), asyncio.get_running_loop().create_future()
        gateway, settings = OperationGateway(find, good.people, FixedHome(good.people)), GrpcSettings(drain_s=0.1)
        serving = asyncio.create_task(serve_grpc(gateway, settings, "127.0.0.1:0", stop, on_listening=port.set_result))
        async with World(good.people, {}, await port, stop).client() as client:
            error = await trouble(client.weave("s", "hello"))
        stop.set()
        await serving
    assert error.code() is grpc.StatusCode.INTERNAL
    assert CANARY not in str(error)
    (trace,) = re.findall(r"[0-9a-f]{32}", error.details() or "")
    assert CANARY in caplog.text
    assert trace in caplog.text
    assert trailing(error)["mainstay-trace"] == trace


async def test_a_stopping_server_lets_turns_end_and_tells_other_clients_to_retry() -> None:
    """F47"""
    quick, slow = Stall(then="in time"), Stall(then="too late")

    def model(context: Any, options: Any) -> Any:
        return quick if "quick" in context.messages[-1].text else slow

    settings = GrpcSettings(workspace="main", drain_s=0.7)
    async with served({"main": model}, settings=settings, limits=Limits()) as world, world.client() as client:
        health = health_pb2_grpc.HealthStub(client.channel)
        watching = aiter(health.Watch(health_pb2.HealthCheckRequest()))
        assert (await anext(watching)).status == health_pb2.HealthCheckResponse.SERVING
        one = asyncio.create_task(client.weave("a", "quick"))
        other = asyncio.create_task(trouble(client.stream("b", "slow")))
        await quick.reached.wait()
        await slow.reached.wait()
        world.stop.set()
        assert (await anext(watching)).status == health_pb2.HealthCheckResponse.NOT_SERVING
        quick.release()
        assert (await one).text == "in time"
        error = await other
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        assert "continues when it is back" in (error.details() or "")
        slow.release()
        await world.agents["main"].settled()
        records = await world.agents["main"].sessions.records("b")
        await until(lambda: "too late" in str(records[-2:]))
