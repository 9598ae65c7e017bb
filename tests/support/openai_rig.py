"""What the tests of the OpenAI-compatible API share: real agents with scripted models behind a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import openai

from mainstay import Agent, Config
from mainstay.agent.system_clock import SystemClock
from mainstay.core.errors import WorkspaceUnknown
from mainstay.core.people import AccessScope, Person, PersonRole
from mainstay.core.ports import Tool
from mainstay.gateway.operation_gateway import OperationGateway
from mainstay.gateway.people import People
from mainstay.gateway.workspace import Workspace
from mainstay.providers.scripted import Script, ScriptedProvider
from mainstay.server.http_app import HttpSettings, create_app
from mainstay.server.openai.routes import create_openai_routes
from mainstay.server.uvicorn_server import bind_socket, serve_asgi
from mainstay.store.memory.people_store import InMemoryPeopleStore
from support.fixed_home import FixedHome, opened_workspace

HOLDS_S = 120.0


class World:
    """A server that runs, and ways to ask it."""

    def __init__(
        self, gateway: OperationGateway, agents: dict[str, Agent], providers: dict[str, ScriptedProvider]
    ) -> None:
        self.gateway = gateway
        self.agents = agents
        self.providers = providers
        self.port = 0
        self.http: aiohttp.ClientSession | None = None
        self.app: Any = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def asked(self, workspace: str = "default") -> list[list[tuple[str, str]]]:
        """What the model was shown, each time."""
        return [one.messages for one in self.providers[workspace].asked]

    async def key(
        self,
        name: str,
        workspace: str = "default",
        role: PersonRole = "member",
        scopes: tuple[AccessScope, ...] = ("chat",),
    ) -> str:
        people = self.gateway.people
        if people.get_person(name) is None:
            await people.add_person(Person(name=name, roles={workspace: role}))
        return (await people.create_key(name, workspace, scopes=scopes))[0]

    def client(self, key: str, *, retries: int = 0) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=self.url, api_key=key, max_retries=retries, timeout=HOLDS_S)

    def sync_client(self, key: str) -> openai.OpenAI:
        return openai.OpenAI(base_url=self.url, api_key=key, max_retries=0, timeout=HOLDS_S)

    async def post(
        self, path: str, body: Any, *, key: str = "", headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any, Mapping[str, str]]:
        """Status, JSON and headers."""
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        sent = {"content-type": "application/json", **({"authorization": f"Bearer {key}"} if key else {})}
        assert self.http is not None
        async with self.http.post(f"{self.url}{path}", data=data, headers={**sent, **(headers or {})}) as answer:
            return answer.status, msgspec.json.decode(await answer.read()), answer.headers

    async def get(self, path: str, *, key: str = "") -> tuple[int, Any]:
        assert self.http is not None
        headers = {"authorization": f"Bearer {key}"} if key else {}
        async with self.http.get(f"{self.url}{path}", headers=headers) as answer:
            return answer.status, msgspec.json.decode(await answer.read())

    async def lines(self, path: str, body: Any, *, key: str = "") -> list[str]:
        """A whole event stream, by its lines."""
        assert self.http is not None
        headers = {"authorization": f"Bearer {key}"} if key else {}
        async with self.http.post(f"{self.url}{path}", json=body, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            assert answer.content_type == "text/event-stream"
            return (await answer.text()).splitlines()


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": text}


async def until(look: Callable[[], Any]) -> None:
    async with asyncio.timeout(HOLDS_S):
        while not look():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def served(
    script: Script | dict[str, Script],
    *,
    tools: Sequence[Tool] = (),
    home: Path | None = None,
    web: HttpSettings | None = None,
    config: Mapping[str, Any] | None = None,
) -> AsyncIterator[World]:
    """One agent for each of these workspaces, whose model says what is in its script."""
    scripts: dict[str, Script] = script if isinstance(script, dict) else {"default": script}
    workspaces: dict[str, Workspace] = {}
    people = People(InMemoryPeopleStore(), SystemClock())

    async def find(workspace: str) -> Workspace:
        if workspace not in workspaces:
            raise WorkspaceUnknown(f"there is no workspace {workspace[:80]!r}")
        return workspaces[workspace]

    world = World(OperationGateway(find, people, FixedHome(people)), {}, {})
    await people.open()
    try:
        for name, told in scripts.items():
            provider = world.providers[name] = ScriptedProvider(told)
            where = ":memory:" if home is None else home / name
            made = Config(workspace=name, **(config or {}))
            agent = world.agents[name] = Agent(provider, tools=list(tools), home=where, config=made)
            workspaces[name] = await opened_workspace(agent)
        world.app = create_app(
            world.gateway, web or HttpSettings(workspace=next(iter(scripts))), routes=create_openai_routes()
        )
        connector = aiohttp.TCPConnector(force_close=True)  # no caller is waited for in the end
        async with listening(world.app) as world.port, aiohttp.ClientSession(connector=connector) as world.http:
            yield world
    finally:
        for agent in world.agents.values():
            await agent.aclose()
        await people.close()


@asynccontextmanager
async def listening(app: Any) -> AsyncIterator[int]:
    stop = asyncio.Event()
    with bind_socket("127.0.0.1", 0) as at:
        serving = asyncio.create_task(serve_asgi(app, at, stop))
        try:
            yield at.getsockname()[1]
        finally:
            app.close()
            stop.set()
            await serving
