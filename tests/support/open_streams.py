"""Every request of every interface that stays open, as a client sends it: what it gets, and how it ends.

`KINDS` has the requests by name; each has a session in which it is sent, and runs until the server ends it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import grpc.aio
import msgspec
from google.protobuf import json_format
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from mainstay import Agent
from mainstay.config.loader import load_config
from mainstay.core import protobuf
from mainstay.core.ports import Context, Options
from mainstay.gateway.service import GatewayService
from mainstay.server.grpc import operations_schema
from mainstay.server.grpc.message_types import METHODS, SERVICE
from mainstay.server.network_listeners import run_listeners
from mainstay.testing import Call, ScriptedProvider, Stall
from support.operations_world import grpc_message

HOLDS_S = 120.0
SECRET = "zanzibar-4711"  # in every answer
YAML = """
workspace: default
server: {port: 0, grpc_port: 0, keys: required, rate_per_min: 1000000, streams_max: 1000, drain_s: 1}
sandbox: {kind: host}
sessions: {memory: {embeddings: {enabled: false}}}
triggers: {enabled: false}
workspaces: {other: {}}
"""
CLIENT_TOOL = {"name": "weather", "description": "The weather.", "schema": {"type": "object"}}


class StreamWorld:
    """A server, and a model that answers at once, never (`wait`), or with a call of a client's tool (`tool`)."""

    def __init__(self, service: GatewayService, stalled: list[Stall]) -> None:
        self.service = service
        self.stalled = stalled  # turns that run
        self.url = self.grpc = ""
        self.browser: aiohttp.ClientSession
        self.channel: grpc.aio.Channel

    async def ask(self, token: str, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        async with self.browser.request(method, self.url + path, json=body, headers=headers) as got:
            assert got.status in (200, 202), await got.text()
            return await got.json()


@asynccontextmanager
async def stream_world(home: Path) -> AsyncIterator[StreamWorld]:
    (home / "mainstay.yaml").write_text(YAML)
    (home / "mainstay.yaml").chmod(0o600)
    stalled: list[Stall] = []

    def answer(context: Context, options: Options) -> Any:
        last = context.messages[-1]
        if last.role == "user" and "tool" in last.text:
            return [Call("weather", {})]
        if last.role == "tool" or "wait" in last.text:
            stalled.append(Stall(then=SECRET))
            return stalled[-1]
        return SECRET

    make = lambda config: Agent(ScriptedProvider(answer), home=home, config=config)  # noqa: E731
    world = StreamWorld(GatewayService(home, load_config(home, env={}), make), stalled)
    stop, now = asyncio.Event(), asyncio.Event()
    told: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()
    await world.service.open()
    serving = asyncio.create_task(run_listeners(world.service, stop, now, lambda *at: told.set_result(at)))
    try:
        await asyncio.wait((serving, told), return_when=asyncio.FIRST_COMPLETED, timeout=HOLDS_S)
        if serving.done():
            serving.result()
        world.url, world.grpc = await told
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as browser, grpc.aio.insecure_channel(world.grpc) as at:
            world.browser, world.channel = browser, at
            yield world
    finally:
        stop.set()
        now.set()
        await serving
        await world.service.close()


# --- one request ---------------------------------------------------------------------------------


class OpenRequest(msgspec.Struct):
    """A request that was sent: everything that came, and how it ended."""

    world: StreamWorld
    token: str
    session: str
    call_id: str = ""  # of a client's tool, whose result is waited for
    heard: list[str] = []
    ended: str = ""  # status or close code


Run = Callable[[OpenRequest], Awaitable[None]]


class Kind(msgspec.Struct, frozen=True):
    """`waits`: its turn runs until the model answers; otherwise events come that were there before."""

    run: Run
    waits: bool
    has_session: bool = True  # False: it follows no session of a name
    is_admins: bool = False  # only for admins of the workspace


def http(method: str, path: str, body: Any = None, accept: str = "text/event-stream") -> Run:
    async def run(request: OpenRequest) -> None:
        world = request.world
        headers = {"Accept": accept} | ({"Authorization": f"Bearer {request.token}"} if request.token else {})
        filled = json.loads(json.dumps(body).replace("SESSION", request.session).replace("CALL", request.call_id))
        url = world.url + path.replace("SESSION", request.session)
        async with world.browser.request(method, url, json=filled, headers=headers) as got:
            try:
                async for chunk in got.content.iter_any():
                    request.heard.append(chunk.decode())
            finally:
                request.ended = str(got.status)

    return run


def websocket(command: dict[str, Any]) -> Run:
    async def run(request: OpenRequest) -> None:
        world = request.world
        protocols = [f"bearer.{request.token}"] if request.token else []
        try:
            async with world.browser.ws_connect(f"{world.url}/api/ws", protocols=protocols) as socket:
                await socket.send_json(command | {"session": request.session})
                async for message in socket:
                    request.heard.append(message.data)
                    if json.loads(message.data)["type"] == "Problem":
                        break
            request.ended = str(socket.close_code)
        except aiohttp.WSServerHandshakeError as error:
            request.ended = str(error.status)

    return run


def over_grpc(method: str, build: Callable[[OpenRequest], bytes], *, is_stream: bool) -> Run:
    async def run(request: OpenRequest) -> None:
        metadata = (("authorization", f"Bearer {request.token}"),) if request.token else ()
        kind = request.world.channel.unary_stream if is_stream else request.world.channel.unary_unary
        call = kind(method)(build(request), metadata=metadata, timeout=HOLDS_S)
        await _collect(request, call, is_stream=is_stream)

    return run


async def _collect(request: OpenRequest, call: Any, *, is_stream: bool = True) -> None:
    try:
        if is_stream:
            async for one in call:
                request.heard.append(repr(one))
        else:
            request.heard.append(repr(await call))
        request.ended = "OK"
    except grpc.aio.AioRpcError as error:
        request.ended = error.code().name
        request.heard.append(error.details() or "")


async def watch_health(request: OpenRequest) -> None:
    metadata = (("authorization", f"Bearer {request.token}"),) if request.token else ()
    stub = health_pb2_grpc.HealthStub(request.world.channel)
    await _collect(request, stub.Watch(health_pb2.HealthCheckRequest(), metadata=metadata, timeout=HOLDS_S))


async def reflect(request: OpenRequest) -> None:
    metadata = (("authorization", f"Bearer {request.token}"),) if request.token else ()

    async def ask() -> AsyncIterator[Any]:
        yield reflection_pb2.ServerReflectionRequest(list_services="")
        await asyncio.sleep(HOLDS_S)

    stub = reflection_pb2_grpc.ServerReflectionStub(request.world.channel)
    await _collect(request, stub.ServerReflectionInfo(ask(), metadata=metadata, timeout=HOLDS_S))


def agent_call(name: str, **fields: Any) -> Run:
    method = next(one for one in METHODS if one.name == name)

    def build(request: OpenRequest) -> bytes:
        return protobuf.encode(method.request(session=request.session, **fields))

    return over_grpc(f"/{SERVICE}/{name}", build, is_stream=method.is_stream)


def operation_call(name: str, *, is_stream: bool, has_session: bool = True, **fields: Any) -> Run:
    def build(request: OpenRequest) -> bytes:
        given = fields | ({"session": request.session} if has_session else {})
        given |= {"call_id": request.call_id} if name == "SubmitToolResult" else {}
        return bytes(json_format.ParseDict(given, grpc_message(f"{name}Request")()).SerializeToString())

    method = f"{operations_schema.STREAM_PREFIX if is_stream else ''}{name}"
    return over_grpc(f"/{operations_schema.SERVICE}/{method}", build, is_stream=is_stream)


SAID = {"role": "user", "content": "wait"}
JSON = "application/json"
RESULT = {"call_id": "CALL", "content": "22 C"}
KINDS: dict[str, Kind] = {
    "HTTP ReadEvents": Kind(http("GET", "/api/sessions/SESSION/events"), waits=False),
    "HTTP WatchEvents": Kind(http("GET", "/api/events"), waits=False, has_session=False, is_admins=True),
    "HTTP Prompt": Kind(http("POST", "/api/sessions/SESSION/prompt", {"text": "wait"}), waits=True),
    "HTTP Prompt as JSON": Kind(http("POST", "/api/sessions/SESSION/prompt", {"text": "wait"}, JSON), waits=True),
    "HTTP SubmitToolResult": Kind(http("POST", "/api/sessions/SESSION/tool-results", RESULT), waits=True),
    "HTTP SubmitToolResult as JSON": Kind(http("POST", "/api/sessions/SESSION/tool-results", RESULT, JSON), waits=True),
    "HTTP chat completion": Kind(
        http(
            "POST",
            "/v1/chat/completions",
            {"model": "mainstay", "messages": [SAID], "session_id": "SESSION", "stream": True},
        ),
        waits=True,
    ),
    "HTTP chat completion as JSON": Kind(
        http("POST", "/v1/chat/completions", {"model": "mainstay", "messages": [SAID], "session_id": "SESSION"}, JSON),
        waits=True,
    ),
    "HTTP response": Kind(
        http("POST", "/v1/responses", {"model": "mainstay", "input": "wait", "stream": True}),
        waits=True,
        has_session=False,
    ),
    "HTTP response as JSON": Kind(
        http("POST", "/v1/responses", {"model": "mainstay", "input": "wait"}, JSON), waits=True, has_session=False
    ),
    "WebSocket follow": Kind(websocket({"do": "follow"}), waits=False),
    "WebSocket prompt": Kind(websocket({"do": "prompt", "text": "wait"}), waits=True),
    "gRPC Weave": Kind(agent_call("Weave", text="wait"), waits=True),
    "gRPC StreamWeave": Kind(agent_call("StreamWeave", text="wait"), waits=True),
    "gRPC StreamPrompt": Kind(operation_call("Prompt", is_stream=True, text="wait"), waits=True),
    "gRPC Prompt": Kind(operation_call("Prompt", is_stream=False, text="wait"), waits=True),
    "gRPC StreamSubmitToolResult": Kind(operation_call("SubmitToolResult", is_stream=True, content="22 C"), waits=True),
    "gRPC SubmitToolResult": Kind(operation_call("SubmitToolResult", is_stream=False, content="22 C"), waits=True),
    "gRPC StreamReadEvents": Kind(operation_call("ReadEvents", is_stream=True), waits=False),
    "gRPC StreamWatchEvents": Kind(
        operation_call("WatchEvents", is_stream=True, has_session=False),
        waits=False,
        has_session=False,
        is_admins=True,
    ),
    "gRPC health": Kind(watch_health, waits=False, has_session=False),
    "gRPC reflection": Kind(reflect, waits=False, has_session=False),
}
