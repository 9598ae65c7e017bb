"""A real server on a home, and one client of each interface that carries operations.

Each client runs a request and returns what came out as network clients see it, in plain JSON types, so that one check
fits all of them. `NO_BODY` is what a client gets whose interface answers only that it was done.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import aiohttp
import grpc
import grpc.aio
import msgspec
from google.protobuf import json_format, message_factory
from mcp import Client
from yarl import URL

from mainstay import Agent, Config, tool
from mainstay.config.loader import load_config
from mainstay.core import protobuf
from mainstay.core.errors import HomeTaken
from mainstay.core.people import Principal
from mainstay.gateway.home_socket import RemoteAgent
from mainstay.gateway.service import GatewayService
from mainstay.operations.caller import OWNER, Caller
from mainstay.operations.operation import Operation
from mainstay.operations.operation_entry import OperationEntry
from mainstay.operations.turns import Accepted
from mainstay.providers.scripted import Script, ScriptedProvider
from mainstay.server.grpc import message_types, operations_schema
from mainstay.server.grpc.agent_schema import create_descriptor_pool
from mainstay.server.http_operations import OperationCodec
from mainstay.server.mcp_server import McpServer
from mainstay.server.network_listeners import run_listeners
from support.serving import Operated
from support.skill_world import write_skill

HOLDS_S = 120.0
MAIN, SPARE, SKILL = "default", "spare", "greeting"
NO_BODY: Final = object()
YAML = f"""
workspace: {MAIN}
server: {{port: 0, grpc_port: 0, keys: auto, rate_per_min: 1000000, streams_max: 1000, drain_s: 1}}
tools: {{builtin: [read, write], roots: [WORK]}}
sandbox: {{kind: host}}
policy: {{ask: [send]}}
sessions: {{memory: {{embeddings: {{enabled: false}}}}}}
triggers: {{enabled: false}}
"""


class Bench:
    """A server with one agent whose model says what is in the script, and what a scenario made there."""

    def __init__(self, home: Path, script: Script) -> None:
        self.home = home
        self.work = home.parent / "work"
        self.script = script
        self.made: dict[str, Any] = {}
        self.sent: list[str] = []  # what the tool `send` did
        self.running: set[asyncio.Task[Any]] = set()
        self.service: GatewayService
        self.url = ""
        self.grpc = ""
        self.key = ""  # the API key that HTTP and gRPC clients send; without one they are the owner
        self.browser: aiohttp.ClientSession

    def make(self, config: Config) -> Agent:
        sent = self.sent

        @tool(untrusted=False, sink=False)
        def send(to: str) -> str:
            """Send it."""
            sent.append(to)
            return f"sent to {to}"

        return Agent(ScriptedProvider(self.script), home=self.home, config=config, tools=[send])

    @property
    def agent(self) -> Agent:
        return self.service.workspaces.open_workspaces[MAIN].agent

    @property
    def owner(self) -> Caller:
        return Caller(OWNER, self.service.workspaces.open_workspaces[MAIN], self.service)

    def start(self, work: Awaitable[Any]) -> None:
        """Something that goes on while the scenario runs."""
        self.running.add(asyncio.ensure_future(work))

    def shown(self, entry: OperationEntry, request: Operation[Any], result: Any) -> Any:
        value = entry.to_view(self.owner, request, result) if entry.to_view is not None else result
        return json.loads(msgspec.json.encode(value, enc_hook=str))


@asynccontextmanager
async def serving(folder: Path, script: Script, config: str = "") -> AsyncIterator[Bench]:
    """Serve a home; `config` is added to its mainstay.yaml."""
    bench = Bench(folder / "home", script)
    bench.home.mkdir(mode=0o700)
    bench.work.mkdir()
    write_skill(bench.home / "skills" / SKILL)
    (bench.home / "mainstay.yaml").write_text(YAML.replace("WORK", str(bench.work)) + config)
    (bench.home / "mainstay.yaml").chmod(0o600)
    bench.service = service = GatewayService(bench.home, load_config(bench.home, env={}), bench.make)
    stop, now = asyncio.Event(), asyncio.Event()
    listening: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()
    await service.open()
    server = asyncio.create_task(run_listeners(service, stop, now, lambda url, grpc: listening.set_result((url, grpc))))
    bench.browser = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=HOLDS_S))
    try:
        await asyncio.wait((server, listening), return_when=asyncio.FIRST_COMPLETED, timeout=HOLDS_S)
        if server.done():
            server.result()
        bench.url, bench.grpc = await listening
        yield bench
    finally:
        for task in bench.running:
            task.cancel()
        await asyncio.gather(*bench.running, return_exceptions=True)
        await bench.browser.close()
        stop.set()
        now.set()
        await server
        await service.close()


# --- library and socket --------------------------------------------------------------------------


async def run_in_library(bench: Bench, entry: OperationEntry, request: Operation[Any]) -> Any:
    """`Agent.execute`. An agent has no home around it: what is about the home goes through the gateway of the process
    that owns it, and an agent says so. With a key, the gateway runs it for the person of the key."""
    if bench.key:
        principal = bench.service.people.authenticate_key(bench.key)
        assert principal is not None
        return bench.shown(entry, request, await bench.service.gateway.execute(principal, request))
    if needs_home(entry):
        try:
            await bench.agent.execute(request)
        except HomeTaken:
            owner = Principal(person="", workspace=MAIN)
            return bench.shown(entry, request, await bench.service.gateway.execute(owner, request))
        raise AssertionError(f"{entry.name} is about the home, and an agent without one ran it")
    return bench.shown(entry, request, await bench.agent.execute(request))


def needs_home(entry: OperationEntry) -> bool:
    return entry.access == "home" or entry.name == "ListWorkspaces"


async def stream_in_library(bench: Bench, entry: OperationEntry, request: Operation[Any]) -> AsyncIterator[str]:
    async for event in bench.agent.open_stream(request):
        yield type(event).__name__


async def run_over_socket(bench: Bench, entry: OperationEntry, request: Operation[Any]) -> Any:
    return bench.shown(entry, request, await RemoteAgent(bench.home, MAIN).execute(request))


async def stream_over_socket(bench: Bench, entry: OperationEntry, request: Operation[Any]) -> AsyncIterator[str]:
    async for event in RemoteAgent(bench.home, MAIN).open_stream(request):
        yield type(event).__name__


# --- HTTP ----------------------------------------------------------------------------------------


async def run_over_http(bench: Bench, entry: OperationEntry, request: Operation[Any]) -> Any:
    codec = OperationCodec(entry)
    async with _ask(bench, codec, request, "application/json") as got:
        body = await got.read()
        wanted = codec.route.status
        if got.status == 202:
            wanted, _ = 202, msgspec.json.decode(body, type=Accepted)
        assert got.status == wanted, (got.status, body)
        if got.status == 204:
            assert body == b""
            return NO_BODY
        value = json.loads(body)
        msgspec.convert(value, entry.public_type)  # it is what the description says
        return value


async def stream_over_http(bench: Bench, entry: OperationEntry, request: Operation[Any]) -> AsyncIterator[str]:
    async with _ask(bench, OperationCodec(entry), request, "text/event-stream") as got:
        assert got.status == 200, await got.read()
        assert got.headers["content-type"].startswith("text/event-stream")
        async for line in got.content:
            if line.startswith(b"event: "):
                yield line.removeprefix(b"event: ").decode().strip()


def _ask(bench: Bench, codec: OperationCodec, request: Operation[Any], accept: str) -> Any:
    """Path parameters, and what differs from the defaults as a body or as a query."""
    path = codec.route.path
    for parameter, field in codec.path_fields.items():
        path = path.replace(f"{{{parameter}}}", quote(getattr(request, field), safe=""))
    given = {
        field.encode_name: msgspec.to_builtins(getattr(request, field.name))
        for field in msgspec.structs.fields(codec.rest_type)
        if field.required or getattr(request, field.name) != _default(field)
    }
    headers = {"Accept": accept} | ({"Authorization": f"Bearer {bench.key}"} if bench.key else {})
    if codec.has_body:
        url = URL(f"{bench.url}{path}", encoded=True)
        return bench.browser.request(codec.route.method, url, json=given, headers=headers)
    query = urlencode({name: str(value).lower() if isinstance(value, bool) else value for name, value in given.items()})
    url = URL(f"{bench.url}{path}{f'?{query}' if query else ''}", encoded=True)
    return bench.browser.request(codec.route.method, url, headers=headers)


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default is not msgspec.NODEFAULT else field.default_factory()


# --- gRPC ----------------------------------------------------------------------------------------


def grpc_message(name: str) -> Any:
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{message_types.PACKAGE}.{name}"))


def _pool() -> Any:
    global _known
    if _known is None:
        _known = create_descriptor_pool()
    return _known


_known: Any = None


async def run_over_grpc(bench: Bench, entry: OperationEntry, request: Operation[Any]) -> Any:
    async with grpc.aio.insecure_channel(bench.grpc) as channel:
        call = channel.unary_unary(f"/{operations_schema.SERVICE}/{entry.name}")
        metadata = (("authorization", f"Bearer {bench.key}"),) if bench.key else ()
        raw = await call(_encoded(entry, request), timeout=HOLDS_S, metadata=metadata)
        response = operations_schema.response_struct(entry)
        if response is None:
            assert raw == b""
            return NO_BODY
        found = grpc_message(operations_schema.message_name(response)).FromString(raw)
        fields = _with_zeros(json_format.MessageToDict(found, preserving_proto_field_name=True), response)
        return json.loads(msgspec.json.encode(msgspec.convert(fields, response, strict=False)))


async def stream_over_grpc(bench: Bench, entry: OperationEntry, request: Operation[Any]) -> AsyncIterator[str]:
    async with grpc.aio.insecure_channel(bench.grpc) as channel:
        method = f"/{operations_schema.SERVICE}/{operations_schema.STREAM_PREFIX}{entry.name}"
        metadata = (("authorization", f"Bearer {bench.key}"),) if bench.key else ()
        call = channel.unary_stream(method)(_encoded(entry, request), timeout=HOLDS_S, metadata=metadata)
        async for raw in call:
            yield protobuf.decode(raw, message_types.GrpcEvent).type


def _with_zeros(fields: dict[str, Any], struct: type[msgspec.Struct]) -> dict[str, Any]:
    """With the zeros that protobuf does not send, where the struct has no default of its own."""
    made = dict(fields)
    for field in msgspec.structs.fields(struct):
        kind, name = operations_schema.field_type(field.type), field.encode_name
        if name not in made and field.required:
            made[name] = [] if kind.repeated else {} if kind.is_map else _ZEROS.get(kind.base)
        elif name in made and kind.base not in _ZEROS and not isinstance(kind.base, str):
            inner = made[name]
            made[name] = (
                [_with_zeros(one, kind.base) for one in inner] if kind.repeated else _with_zeros(inner, kind.base)
            )
    return made


_ZEROS: dict[Any, Any] = {str: "", int: 0, float: 0.0, bool: False, bytes: ""}


def _encoded(entry: OperationEntry, request: Operation[Any]) -> bytes:
    fields = msgspec.to_builtins(request)
    del fields["operation"]
    given = {name: value for name, value in fields.items() if value is not None}
    encoded: bytes = json_format.ParseDict(
        given, grpc_message(operations_schema.request_name(entry))()
    ).SerializeToString()
    return encoded


# --- MCP -----------------------------------------------------------------------------------------


class Recording(Operated):
    """What the MCP server has done by its client, by the types of the operations."""

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent)
        self.ran: list[type[Operation[Any]]] = []

    async def execute(self, operation: Operation[Any]) -> Any:
        self.ran.append(type(operation))
        return await super().execute(operation)

    async def open_stream(self, operation: Operation[Any]) -> AsyncIterator[Any]:
        self.ran.append(type(operation))
        async for event in super().open_stream(operation):
            yield event


@asynccontextmanager
async def mcp_host(bench: Bench) -> AsyncIterator[tuple[Client, Recording]]:
    """A host that is connected to the MCP server, and which operations the server ran for it."""
    client = Recording(bench.agent)
    offered = McpServer(client)
    try:
        async with Client(offered.server) as host:
            yield host, client
    finally:
        await offered.turns.close()


async def run_over_mcp(bench: Bench, name: str, arguments: dict[str, Any]) -> tuple[Any, list[type[Operation[Any]]]]:
    """Call a tool; returns its structured result, and which operations that ran."""
    async with mcp_host(bench) as (host, client):
        result = await host.call_tool(name, arguments)
        assert not result.is_error, result.content
        return result.structured_content, client.ran


Run = Callable[[Bench, OperationEntry, Operation[Any]], Awaitable[Any]]
Stream = Callable[[Bench, OperationEntry, Operation[Any]], AsyncIterator[str]]
RUN: dict[str, Run] = {
    "library": run_in_library,
    "socket": run_over_socket,
    "http": run_over_http,
    "grpc": run_over_grpc,
}
STREAM: dict[str, Stream] = {
    "library": stream_in_library,
    "socket": stream_over_socket,
    "http": stream_over_http,
    "grpc": stream_over_grpc,
}
