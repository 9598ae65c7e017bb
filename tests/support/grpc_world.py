"""What the tests of gRPC share: a gateway with real agents and scripted models, on a real port, and a usual client."""

from __future__ import annotations

import asyncio
import atexit
import importlib.machinery
import importlib.util
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc
import grpc.aio
from google.rpc import error_details_pb2, status_pb2

from mainstay import Agent, Config
from mainstay.agent.system_clock import SystemClock
from mainstay.core.errors import WorkspaceUnknown
from mainstay.core.people import AccessScope, Person, PersonRole
from mainstay.core.ports import Tool
from mainstay.gateway.operation_gateway import OperationGateway
from mainstay.gateway.people import People
from mainstay.gateway.workspace import Workspace
from mainstay.providers.scripted import Script, ScriptedProvider
from mainstay.server.grpc.authentication import GrpcSettings
from mainstay.server.grpc.server import serve_grpc
from mainstay.store.memory.people_store import InMemoryPeopleStore
from support.fixed_home import FixedHome, opened_workspace

PROTO = Path(__file__).parents[2] / "proto"
HOLDS_S = 120.0


@cache
def _compiled_folder() -> Path:
    """What the usual compiler makes of the published files; each imports the others from `mainstay_v1`."""
    from grpc_tools import protoc

    folder = Path(tempfile.mkdtemp(prefix="mainstay-proto-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    files = [str(PROTO / "mainstay/v1" / name) for name in ("agent.proto", "operations.proto")]
    include = Path(protoc.__file__).parent / "_proto"
    arguments = [f"-I{PROTO}", f"-I{include}", f"--python_out={folder}", f"--grpc_python_out={folder}"]
    assert protoc.main(["protoc", *arguments, *files]) == 0
    for module in (folder / "mainstay" / "v1").glob("*.py"):
        module.write_text(module.read_text().replace("from mainstay.v1 import", "from mainstay_v1 import"))
    return folder / "mainstay" / "v1"


def _load(name: str) -> tuple[ModuleType, ModuleType]:
    if "mainstay_v1" not in sys.modules:  # a package of another name: `mainstay` is our own
        spec = importlib.machinery.ModuleSpec("mainstay_v1", None, is_package=True)
        spec.submodule_search_locations = [str(_compiled_folder())]
        sys.modules["mainstay_v1"] = importlib.util.module_from_spec(spec)
    messages = importlib.import_module(f"mainstay_v1.{name}_pb2")
    return messages, importlib.import_module(f"mainstay_v1.{name}_pb2_grpc")


@cache
def compiled() -> tuple[ModuleType, ModuleType]:
    """`mainstay.v1.Agent`: messages, and a client."""
    return _load("agent")


@cache
def compiled_operations() -> tuple[ModuleType, ModuleType]:
    """`mainstay.v1.Operations`: messages, and a client."""
    return _load("operations")


class World:
    def __init__(self, people: People, agents: dict[str, Agent], port: int, stop: asyncio.Event) -> None:
        self.people = people
        self.agents = agents
        self.port = port
        self.stop = stop
        self.pb, self._stubs = compiled()

    @asynccontextmanager
    async def client(self, key: str = "", options: Sequence[tuple[str, Any]] = ()) -> AsyncIterator[Caller]:
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{self.port}", options=list(options))
        async with channel:
            yield Caller(self._stubs.AgentStub(channel), channel, key)

    async def key(
        self, name: str, workspace: str, role: PersonRole = "member", scopes: tuple[AccessScope, ...] = ("chat",)
    ) -> str:
        if self.people.get_person(name) is None:
            await self.people.add_person(Person(name=name, roles={workspace: role}))
        return (await self.people.create_key(name, workspace, scopes=scopes))[0]


class Caller:
    """A usual client."""

    def __init__(self, stub: Any, channel: Any, key: str) -> None:
        self.stub = stub
        self.channel = channel
        self.metadata = (("authorization", f"Bearer {key}"),) if key else ()
        self.pb = compiled()[0]

    async def weave(self, session: str, text: str, **more: Any) -> Any:
        return await self.stub.Weave(self.pb.WeaveRequest(session=session, text=text, **more), metadata=self.metadata)

    def stream(self, session: str, text: str = "", **more: Any) -> Any:
        return self.stub.StreamWeave(
            self.pb.StreamWeaveRequest(session=session, text=text, **more), metadata=self.metadata
        )

    async def steer(self, session: str, text: str) -> int:
        answer = await self.stub.Steer(self.pb.SteerRequest(session=session, text=text), metadata=self.metadata)
        return int(answer.sequence)

    async def abort(self, session: str) -> bool:
        return bool((await self.stub.Abort(self.pb.AbortRequest(session=session), metadata=self.metadata)).aborted)


async def until(look: Callable[[], Any]) -> None:
    async with asyncio.timeout(HOLDS_S):
        while not look():
            await asyncio.sleep(0.01)


async def everything(stream: Any) -> list[Any]:
    async with asyncio.timeout(HOLDS_S):
        return [event async for event in stream]


async def trouble(call: Any) -> grpc.aio.AioRpcError:
    """The error that a call, or a stream, ends with."""
    try:
        async with asyncio.timeout(HOLDS_S):
            if hasattr(call, "__aiter__"):
                async for _ in call:
                    pass
            else:
                await call
    except grpc.aio.AioRpcError as error:
        return error
    raise AssertionError("it went well")


def trailing(error: grpc.aio.AioRpcError) -> dict[str, Any]:
    return dict(error.trailing_metadata())


def details(error: grpc.aio.AioRpcError) -> tuple[Any, Any]:
    """google.rpc.ErrorInfo and RetryInfo, as clients read them."""
    status = status_pb2.Status.FromString(trailing(error)["grpc-status-details-bin"])
    assert status.code == error.code().value[0]
    assert status.message == error.details()
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    found = None
    for one in status.details:
        one.Unpack(info)
        if one.Unpack(retry):
            found = retry
    return info, found


@asynccontextmanager
async def served(
    models: dict[str, Script],
    *,
    settings: GrpcSettings | None = None,
    tools: Sequence[Tool] = (),
    home: Path | None = None,
    **config: Any,
) -> AsyncIterator[World]:
    """A gateway with one agent for each of these workspaces, whose model says what is in its script."""
    async with opened_workspaces(models, tools, home, config) as (gateway, agents):
        stop = asyncio.Event()
        port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        settings = settings or GrpcSettings(drain_s=1.0, workspace=next(iter(models)))
        serving = asyncio.create_task(serve_grpc(gateway, settings, "127.0.0.1:0", stop, on_listening=port.set_result))
        try:
            await asyncio.wait((serving, port), return_when=asyncio.FIRST_COMPLETED, timeout=HOLDS_S)
            if serving.done():
                await serving
            yield World(gateway.people, agents, await port, stop)
        finally:
            stop.set()
            await serving


@asynccontextmanager
async def opened_workspaces(
    models: dict[str, Script], tools: Sequence[Tool], home: Path | None, config: dict[str, Any]
) -> AsyncIterator[tuple[OperationGateway, dict[str, Agent]]]:
    agents: dict[str, Agent] = {}
    workspaces: dict[str, Workspace] = {}
    people = People(InMemoryPeopleStore(), SystemClock())
    await people.open()
    try:
        for name, script in models.items():
            where = ":memory:" if home is None else home / name
            made = Config(workspace=name, **config)
            agent = agents[name] = Agent(ScriptedProvider(script), tools=list(tools), home=where, config=made)
            workspaces[name] = await opened_workspace(agent)

        async def find(workspace: str) -> Workspace:
            if workspace not in workspaces:
                raise WorkspaceUnknown(f"there is no workspace {workspace[:80]!r}")
            return workspaces[workspace]

        yield OperationGateway(find, people, FixedHome(people)), agents
    finally:
        for agent in agents.values():
            await agent.aclose()
        await people.close()
