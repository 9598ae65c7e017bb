"""What the tests of HTTP share: a gateway with real agents and scripted models on a real port, and clients of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import aiohttp
import msgspec
from yarl import URL

from mainstay import Agent, Config
from mainstay.agent.system_clock import SystemClock
from mainstay.core.errors import WorkspaceUnknown
from mainstay.core.people import AccessScope, Person, PersonRole
from mainstay.core.ports import Tool
from mainstay.gateway.operation_gateway import OperationGateway
from mainstay.gateway.people import People
from mainstay.gateway.workspace import Workspace
from mainstay.providers.scripted import Script, ScriptedProvider
from mainstay.server.connection_limits import ConnectionLimits
from mainstay.server.http_app import HttpApp, HttpSettings, create_app
from mainstay.server.uvicorn_server import UvicornOptions, bind_socket, serve_asgi
from mainstay.store.memory.people_store import InMemoryPeopleStore
from support.fixed_home import FixedHome, opened_workspace

HOLDS_S = 120.0
MAIN = "default"
ALL: tuple[AccessScope, ...] = ("chat", "read", "approve", "admin")


class Answer(msgspec.Struct):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """Its kind. Every error has the one shape."""
        assert self.status >= 400
        told = self.json
        assert set(told) == {"error"}
        assert {"type", "message"} <= set(told["error"]) <= {"type", "message", "details"}
        assert told["error"]["message"]
        return str(told["error"]["type"])


class ServerSentEvent(msgspec.Struct):
    """A server-sent event."""

    event: str
    data: Any
    id: int = 0


class World:
    def __init__(self, people: People, agents: dict[str, Agent], app: HttpApp, port: int, stop: asyncio.Event) -> None:
        self.people = people
        self.agents = agents
        self.app = app
        self.port = port
        self.stop = stop
        self.serving: asyncio.Task[None] | None = None
        self.browser: aiohttp.ClientSession

    async def key(
        self, name: str, workspace: str = MAIN, role: PersonRole = "member", scopes: Iterable[AccessScope] = ("chat",)
    ) -> str:
        if self.people.get_person(name) is None:
            await self.people.add_person(Person(name=name, roles={workspace: role}))
        return (await self.people.create_key(name, workspace, scopes=tuple(scopes)))[0]

    def url(self, path: str) -> URL:
        return URL(f"http://127.0.0.1:{self.port}{path}", encoded=True)

    async def ask(
        self, method: str, path: str, body: Any = None, *, key: str = "", headers: Mapping[str, str] | None = None
    ) -> Answer:
        given = {**({"Authorization": f"Bearer {key}"} if key else {}), **(headers or {})}
        data = body
        if body is not None and not isinstance(body, bytes):
            data = json.dumps(body).encode()
            given.setdefault("Content-Type", "application/json")
        async with (
            asyncio.timeout(HOLDS_S),
            self.browser.request(method, self.url(path), data=data, headers=given) as got,
        ):
            return Answer(got.status, {name.lower(): value for name, value in got.headers.items()}, await got.read())

    async def say(self, session: str, text: str, key: str = "", **more: Any) -> Answer:
        return await self.ask(
            "POST", f"/api/sessions/{quote(session, safe='')}/prompt", {"text": text, **more}, key=key
        )

    @asynccontextmanager
    async def hear(
        self, path: str, body: Any = None, *, key: str = "", headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[AsyncIterator[ServerSentEvent]]:
        """Server-sent events, read as they come."""
        given = {
            "Accept": "text/event-stream",
            **({"Authorization": f"Bearer {key}"} if key else {}),
            **(headers or {}),
        }
        method = "GET" if body is None else "POST"
        async with self.browser.request(method, self.url(path), json=body, headers=given) as got:
            assert got.status == 200, await got.read()
            assert got.headers["content-type"].startswith("text/event-stream")
            yield _events(got.content)

    async def raw(self, said: bytes, *, close: bool = False) -> bytes:
        """What comes back, until the other side has no more to say."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(said)
            if close:
                writer.write_eof()
            async with asyncio.timeout(HOLDS_S):
                return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()


async def _lines(source: aiohttp.StreamReader) -> AsyncIterator[str]:
    """However long."""
    rest = b""
    async for piece in source.iter_any():
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line.decode()


async def _events(lines: aiohttp.StreamReader) -> AsyncIterator[ServerSentEvent]:
    fields: dict[str, str] = {}
    async for line in _lines(lines):
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
        elif "data" in fields:
            yield ServerSentEvent(fields["event"], json.loads(fields["data"]), int(fields.get("id", 0)))
            fields = {}


@asynccontextmanager
async def world(
    script: Script,
    *,
    tools: Sequence[Tool | Callable[..., Any]] = (),
    settings: HttpSettings | None = None,
    bounds: ConnectionLimits | None = None,
    homes: Mapping[str, Any] | None = None,
    config: Config | None = None,
    workspaces: Sequence[str] | None = None,
) -> AsyncIterator[World]:
    """`homes` by workspace; without, one that keeps nothing. `workspaces`: all that there are, if that is known."""
    people = People(InMemoryPeopleStore(), SystemClock())
    await people.open()
    async with contextlib.AsyncExitStack() as stack:
        agents: dict[str, Agent] = {}
        opened: dict[str, Workspace] = {}
        for workspace, home in (homes or {MAIN: ":memory:"}).items():
            given = config or Config()
            agents[workspace] = await stack.enter_async_context(
                Agent(
                    ScriptedProvider(script),
                    tools=list(tools),
                    home=home,
                    config=msgspec.structs.replace(given, workspace=workspace),
                )
            )
            opened[workspace] = await opened_workspace(agents[workspace])

        async def find(workspace: str) -> Workspace:
            if workspace not in opened:
                raise WorkspaceUnknown(f"there is no workspace {workspace!r}")
            return opened[workspace]

        web = settings or HttpSettings(workspace=MAIN)
        app = create_app(OperationGateway(find, people, FixedHome(people, web.workspace, workspaces)), web)
        made = await stack.enter_async_context(serving(app, people, agents, bounds))
        yield made


@asynccontextmanager
async def serving(
    app: HttpApp, people: People, agents: dict[str, Agent], bounds: ConnectionLimits | None = None, port: int = 0
) -> AsyncIterator[World]:
    stop = asyncio.Event()
    at = bind_socket("127.0.0.1", port)
    made = World(people, agents, app, at.getsockname()[1], stop)
    how = UvicornOptions(
        limits=bounds or ConnectionLimits.for_connections(200, app.state.settings.body_bytes_max), on_stopped=app.close
    )
    made.serving = asyncio.create_task(serve_asgi(app, at, stop, app.drain, how))
    made.browser = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=HOLDS_S * 2))
    try:
        yield made
    finally:
        await made.browser.close()
        stop.set()
        await made.serving


async def until(look: Callable[[], Any]) -> None:
    async with asyncio.timeout(HOLDS_S):
        while not look():
            await asyncio.sleep(0.01)
