"""The OpenAPI description is valid, and no request generated from it breaks the server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support.fixed_home import FixedHome, opened_workspace

from mainstay import Agent, Config
from mainstay.agent.system_clock import SystemClock
from mainstay.core.errors import WorkspaceUnknown
from mainstay.core.people import Person
from mainstay.gateway.operation_gateway import OperationGateway
from mainstay.gateway.people import People
from mainstay.gateway.workspace import Workspace
from mainstay.operations.table import entries_for
from mainstay.providers.scripted import ScriptedProvider, Step
from mainstay.server.connection_limits import ConnectionLimits
from mainstay.server.http_app import HttpSettings, create_app
from mainstay.server.openapi import build_openapi
from mainstay.server.uvicorn_server import UvicornOptions, bind_socket, serve_asgi
from mainstay.store.memory.people_store import InMemoryPeopleStore

EXAMPLES = 300 if os.environ.get("MAINSTAY_TEST_ALL") else 3
MAIN = "default"


def echoing(context: Any, options: Any) -> Step:
    return "yes"


class Server:
    """In a thread of its own, as its client runs in another."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._up = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve()))
        self.port = 0
        self.key = ""
        self.trouble: list[str] = []

    async def _serve(self) -> None:
        people = People(InMemoryPeopleStore(), SystemClock())
        await people.open()
        await people.add_person(Person(name="ann", roles={MAIN: "admin"}))
        self.key, _ = await people.create_key("ann", MAIN, scopes=("chat", "read", "approve", "admin"))
        agent = Agent(ScriptedProvider(echoing), home=self._home, config=Config(workspace=MAIN))
        opened = await opened_workspace(agent)

        async def find_workspace(workspace: str) -> Workspace:
            if workspace != MAIN:
                raise WorkspaceUnknown(f"there is no workspace {workspace!r}")
            return opened

        app = create_app(
            OperationGateway(find_workspace, people, FixedHome(people)),
            HttpSettings(workspace=MAIN, rate_per_min=1_000_000),
        )
        with bind_socket("127.0.0.1", 0) as at:
            self.port = at.getsockname()[1]
            self._up.set()
            how = UvicornOptions(limits=ConnectionLimits.for_connections(100, 1 << 20), on_stopped=app.close)
            await serve_asgi(app, at, self._stop, app.drain, how)
        await agent.aclose()
        await people.close()

    def __enter__(self) -> Server:
        self._thread.start()
        assert self._up.wait(120)
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(120)
        self._loop.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path) as made:
        yield made


def test_the_description_is_a_valid_one_and_complete() -> None:
    jsonschema_rs = pytest.importorskip("jsonschema_rs")
    described = build_openapi("1.2.3")
    assert described["info"]["version"] == "1.2.3"
    wanted = {(one.http.path, one.http.method.lower()) for one in entries_for("http") if one.http is not None}
    there = {(path, method) for path, found in described["paths"].items() for method in found}
    assert there == wanted | {("/healthz", "get"), ("/readyz", "get")}
    ids = [one["operationId"] for found in described["paths"].values() for one in found.values()]
    assert len(set(ids)) == len(ids)
    components = described["components"]["schemas"]
    for name in components:  # each is a schema, and every reference resolves
        jsonschema_rs.validator_for({"$ref": f"#/components/schemas/{name}", "components": described["components"]})
    refs = set(_refs(described))
    assert refs
    assert refs <= {f"#/components/schemas/{name}" for name in components}


def _refs(value: Any) -> Iterator[str]:
    match value:
        case dict():
            if isinstance(ref := value.get("$ref"), str):
                yield ref
            for one in value.values():
                yield from _refs(one)
        case list():
            for one in value:
                yield from _refs(one)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::UserWarning")
def test_nothing_that_is_made_up_from_the_description_breaks_the_server(server: Server) -> None:
    schemathesis = pytest.importorskip("schemathesis", reason="pip install schemathesis")
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

    base = f"http://127.0.0.1:{server.port}"
    schema = schemathesis.openapi.from_url(f"{base}/openapi.json")
    headers = {"Accept": "application/json", "Authorization": f"Bearer {server.key}"}
    checks = [not_a_server_error, content_type_conformance, response_schema_conformance]
    tried = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        modes = [operation.as_strategy(generation_mode=mode) for mode in schemathesis.GenerationMode]

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=st.one_of(*modes))
        def attempt(case: Any) -> None:
            nonlocal tried
            tried += 1
            with contextlib.suppress(UnicodeError):  # what no client could send
                response = case.call(base_url=base, headers=headers, timeout=120)
                case.validate_response(response, checks=checks)

        attempt()
    assert tried >= len(list(entries_for("http")))
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    connection.request("GET", "/readyz")
    assert json.loads(connection.getresponse().read()) == {"status": "ready"}
    connection.close()
