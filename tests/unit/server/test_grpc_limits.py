"""Limits of a gRPC client, and the responses beyond them; other clients are not affected (F19, F20)."""

from __future__ import annotations

import asyncio
import resource
import socket
import subprocess
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from support.grpc_world import compiled, everything, opened_workspaces, served, trouble

from mainstay.config.schema import EmbeddingSettings, MemorySettings, SessionSettings
from mainstay.core.errors import ConfigError
from mainstay.core.ports import ToolContext
from mainstay.core.tools import tool
from mainstay.server.grpc.authentication import GrpcSettings
from mainstay.server.grpc.server import serve_grpc
from mainstay.testing import Call, Stall

MB = 1024 * 1024


async def still_served(world: Any) -> None:
    async with world.client() as client:
        assert (await client.weave("others", "hello")).text == "hello"


def hello(context: Any, options: Any) -> str:
    return "hello"


async def test_f20_a_message_over_the_bound_is_refused_and_one_at_it_is_not() -> None:
    """F20"""
    settings = GrpcSettings(workspace="main", message_bytes_max=100_000, drain_s=1.0)
    async with served({"main": hello}, settings=settings) as world, world.client() as client:
        room = 100_000 - len(client.pb.WeaveRequest(session="s", text="x" * 90_000).SerializeToString()) + 90_000
        assert (await client.weave("s", "x" * room)).text == "hello"
        error = await trouble(client.weave("t", "x" * (room + 1)))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert [one.key for one in await world.agents["main"].sessions.list()] == ["s"]


async def test_f20_a_compressed_message_is_refused() -> None:
    """F20: 64 MB of nothing are a few kilobytes on the wire."""
    async with served({"main": hello}) as world, world.client() as client:
        raw = client.channel.unary_unary("/mainstay.v1.Agent/Weave")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        bomb = client.pb.WeaveRequest(session="s", text="x" * (16 * MB)).SerializeToString()
        error = await trouble(raw(bomb, compression=grpc.Compression.Gzip))
        assert error.code() is grpc.StatusCode.UNIMPLEMENTED
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024, "KB, the client's included"
        await still_served(world)


async def test_f20_much_metadata_is_refused() -> None:
    """F20"""
    async with served({"main": hello}) as world, world.client() as client:
        request = client.pb.WeaveRequest(session="s", text="hello")
        error = await trouble(client.stub.Weave(request, metadata=[("x-much", "y" * 20_000)]))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        await still_served(world)


async def test_f19_a_client_that_does_not_read_is_dropped_and_the_turn_goes_on() -> None:
    """F19: an unread stream takes no memory, no slot and no time of the turn."""
    heard = asyncio.Event()

    @tool(effect="pure", timeout_s=60, untrusted=False, sink=False)
    async def talk(context: ToolContext) -> str:
        """Say 60 MB on the way."""
        context.progress("the first")
        await heard.wait()
        for _ in range(3000):
            context.progress("n" * 20_000)
            await asyncio.sleep(0)
        return "said"

    settings = GrpcSettings(workspace="main", read_timeout_s=0.3, streams_max=1, drain_s=1.0)
    script = [[Call("talk")], "done", "hello"]
    small = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65536))  # what the client takes in unread
    plain = SessionSettings(memory=MemorySettings(embeddings=EmbeddingSettings(enabled=False)))  # a model takes memory
    async with (
        served({"main": script}, settings=settings, tools=[talk], sessions=plain) as world,
        world.client(options=small) as client,
    ):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        stream = client.stream("s", "go on")
        while (await anext(aiter(stream))).type != "ToolProgress":
            pass
        heard.set()
        await world.agents["main"].settled()
        kept = await world.agents["main"].sessions.records("s")
        assert "done" in str(kept[-2].event), "the turn has waited for nobody"
        await once_free(world)  # its one place can be had again
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30 * 1024, "of 60 MB, in KB"
        assert (await trouble(stream)).code() is grpc.StatusCode.RESOURCE_EXHAUSTED, "what it had not read, and why"


async def once_free(world: Any) -> None:
    """As soon as another client is served."""
    async with asyncio.timeout(120):
        while True:
            async with world.client() as client:
                try:
                    assert (await client.weave("others", "hello")).text == "hello"
                    return
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(0.05)


async def test_f19_a_silent_or_malformed_connection_is_closed() -> None:
    """F19"""
    settings = GrpcSettings(workspace="main", handshake_timeout_s=0.3, drain_s=1.0)
    async with served({"main": hello}, settings=settings) as world:

        async def hangs_up(said: bytes) -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
            writer.write(said)
            async with asyncio.timeout(120):
                while await reader.read(4096):
                    pass
            writer.close()

        await asyncio.gather(
            *(hangs_up(said) for said in (b"", b"PRI * HT", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01"))
        )
        await still_served(world)


async def test_f19_many_silent_connections_do_not_keep_others_out() -> None:
    """F19"""
    settings = GrpcSettings(workspace="main", connections_max=4, handshake_timeout_s=0.3, drain_s=1.0)
    async with served({"main": hello}, settings=settings) as world:
        crowd = [socket.create_connection(("127.0.0.1", world.port)) for _ in range(40)]
        try:
            await once_free(world)  # those who say nothing do not stay
        finally:
            for one in crowd:
                one.close()


async def test_f19_there_are_so_many_connections_and_no_more() -> None:
    """F19"""
    settings = GrpcSettings(workspace="main", connections_max=4, drain_s=1.0)
    async with served({"main": hello}, settings=settings) as world, AsyncExitStack() as held:
        alone = (("grpc.use_local_subchannel_pool", 1),)
        clients = [await held.enter_async_context(world.client(options=alone)) for _ in range(5)]
        for client in clients[:4]:
            await client.weave("others", "hello")
        error = await trouble(clients[4].weave("others", "hello"))
        assert error.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_port_in_use_is_reported_in_a_sentence() -> None:
    async with served({"main": hello}) as world, opened_workspaces({"main": hello}, (), None, {}) as (gateway, _):
        with pytest.raises(ConfigError, match=f"cannot be served on 127.0.0.1:{world.port}"):
            await serve_grpc(gateway, GrpcSettings(), f"127.0.0.1:{world.port}", asyncio.Event())
        with pytest.raises(ConfigError, match="both a certificate and its key"):
            await serve_grpc(gateway, GrpcSettings(certificate="x"), "127.0.0.1:0", asyncio.Event())
        gone = GrpcSettings(certificate="/nowhere/x", private_key="/nowhere/y")
        with pytest.raises(ConfigError, match="cannot be read"):
            await serve_grpc(gateway, gone, "127.0.0.1:0", asyncio.Event())


async def test_it_is_served_over_tls_with_the_servers_certificate(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    files = f"-addext subjectAltName=DNS:localhost -keyout {key} -out {certificate}"
    made = subprocess.run(["openssl", *f"{request} {files}".split()], capture_output=True, check=False, timeout=120)
    if made.returncode:
        pytest.skip("openssl is not here")
    settings = GrpcSettings(workspace="main", certificate=str(certificate), private_key=str(key), drain_s=1.0)
    async with served({"main": hello}, settings=settings) as world:
        trusted = grpc.ssl_channel_credentials(certificate.read_bytes())
        pb, stubs = compiled()
        async with grpc.aio.secure_channel(f"localhost:{world.port}", trusted) as channel:
            reply = await stubs.AgentStub(channel).Weave(pb.WeaveRequest(session="s", text="hello"))
            assert reply.text == "hello"
        async with world.client() as client:  # without TLS
            assert (await trouble(client.weave("s", "hello"))).code() is grpc.StatusCode.UNAVAILABLE


def test_it_works_on_the_faster_loop_too() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def work() -> None:
        held = Stall(then="done")
        async with served({"main": [held]}) as world, world.client() as client:
            stream = client.stream("s", "hello")
            told = [await anext(aiter(stream))]
            await held.reached.wait()
            held.release()
            told += await everything(stream)
            assert told[-1].reply.text == "done"

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work())
