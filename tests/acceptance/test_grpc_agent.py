"""gRPC against a real process that is killed during a turn: a client that reconnects with its last sequence sees
every event of the journal once and in order."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from support.cli_support import Command, FakeModel
from support.grpc_world import Caller, compiled, everything, trouble, until
from support.paths import PYTHONPATH, SUPPORT

HOLDS_S = 120.0


@asynccontextmanager
async def process(home: Path, port: int = 0) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    made = await asyncio.create_subprocess_exec(
        sys.executable,
        str(SUPPORT / "grpc_server.py"),
        str(home),
        str(port),
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": PYTHONPATH},
    )
    try:
        assert made.stdout is not None
        async with asyncio.timeout(HOLDS_S):
            yield made, int(await made.stdout.readline())
    finally:
        if made.returncode is None:
            made.kill()
        await made.wait()


@asynccontextmanager
async def caller(port: int) -> AsyncIterator[Caller]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield Caller(compiled()[1].AgentStub(channel), channel, "")


async def gathered(stream: Any, told: list[Any]) -> grpc.StatusCode:
    try:
        async for event in stream:
            told.append(event)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
async def test_a_client_that_reconnects_after_the_process_died_sees_every_event_once(
    tmp_path: Path, ending: signal.Signals
) -> None:
    """LOOM-010, F47"""
    told: list[Any] = []
    async with process(tmp_path) as (server, port), caller(port) as client:
        stream = asyncio.create_task(gathered(client.stream("s", "do it", id="mine"), told))
        await until(lambda: (tmp_path / "waiting").exists() and told)
        server.send_signal(ending)
        assert await stream is grpc.StatusCode.UNAVAILABLE
        assert await server.wait() == (0 if ending is signal.SIGTERM else -signal.SIGKILL)
    kept = [event.sequence for event in told if event.sequence]
    async with process(tmp_path) as (server, port), caller(port) as client:
        (tmp_path / "go-on").touch()
        told += await everything(client.stream("s", "do it", id="mine", after=max(kept)))
        assert told[-1].reply.text == "It is done."
        sequences = [event.sequence for event in told if event.sequence]
        assert sequences == list(range(1, len(sequences) + 1))
        whole = await everything(client.stream("s", after=0))
        assert [(one.sequence, one.type, one.data) for one in whole] == [
            (one.sequence, one.type, one.data) for one in told if one.sequence
        ]
        assert sum(one.type == "TurnEnded" for one in whole) == 1


async def test_the_real_command_serves_only_people_with_a_key(tmp_path: Path) -> None:
    """LOOM-010"""
    model = FakeModel()
    command = Command(tmp_path, model.url)
    try:
        assert command("user", "add", "ann").returncode == 0
        key = json.loads(command("user", "key", "ann", "--json").stdout)["token"]
        command.env |= {"MAINSTAY__SERVER__KEYS": "required"}
        serving = await asyncio.create_subprocess_exec(
            *command.argv("serve", "--port", "0", "--grpc-port", "0"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=command.env,
            cwd=tmp_path,
        )
        try:
            port = await asyncio.wait_for(_read_port(serving), HOLDS_S)
            async with caller(port) as client:
                assert (await trouble(client.weave("s", "hello"))).code() is grpc.StatusCode.UNAUTHENTICATED
                client.metadata = (("authorization", f"Bearer {key}"),)
                told = await everything(client.stream("s", "hello"))
                assert told[-1].reply.text == "You said **hello**."
            serving.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(serving.wait(), HOLDS_S) == 0
        finally:
            if serving.returncode is None:
                serving.kill()
            await serving.wait()
    finally:
        model.close()


async def _read_port(serving: asyncio.subprocess.Process) -> int:
    assert serving.stdout is not None
    said = b""
    while line := await serving.stdout.readline():
        said += line
        if found := re.search(rb"gRPC at 127\.0\.0\.1:([0-9]+)", line):
            return int(found[1])
    raise AssertionError(said.decode())
