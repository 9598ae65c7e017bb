"""F41, F43: no other person reaches data of the workspace red through any interface of the gateway.

The interfaces are read from their tables (routes, operations, methods, commands, tools): a new entry is
tested automatically, or a test here fails because it has no entry. The caller is a person of
another workspace in every role, another person of the same one, or unauthenticated, with names and ids of red, guessed
or known, and with everything that might pass for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import count, product
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote

import aiohttp
import grpc
import grpc.aio
import msgspec
import pytest
import pytest_asyncio
from google.protobuf import json_format
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from mcp import Client
from starlette.routing import Mount, Route, WebSocketRoute
from support.operations_world import grpc_message
from support.two_workspaces import (
    ALL,
    HOLDS_S,
    RED,
    WHOLE,
    Answer,
    LeakedIds,
    WorkspacesRig,
    calling,
    fill_workspaces,
    leaks,
    on_disk,
    people,
    serving_workspaces,
)

from mainstay.agent.home_paths import connectable_path
from mainstay.core import protobuf
from mainstay.gateway.home_socket import SOCKET_NAME, RemoteAgent
from mainstay.operations import people as people_operations
from mainstay.operations import sessions, triggers, turns
from mainstay.operations.operation import Operation
from mainstay.operations.operation_entry import OperationEntry
from mainstay.operations.table import entries_for
from mainstay.server import websocket
from mainstay.server.grpc import operations_schema
from mainstay.server.grpc.message_types import METHODS, SERVICE, AgentMethod
from mainstay.server.health import PublicJsonEndpoint
from mainstay.server.http_operations import OperationCodec, OperationRoutes
from mainstay.server.mcp_server import McpServer
from mainstay.server.mcp_tools import MCP_TOOLS
from mainstay.server.network_listeners import _create_http_app
from mainstay.testing.channel_rig import wait_until

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMES_TRIED = 1_000 if WHOLE else 4
NOBODY = ("nobody", "revoked", "removed", "withdrawn", "expired", "garbage")
OTHERS = ("bos", "bea", "gil", "chatty", "reader", "del")  # of other workspaces
INSIDERS = ("bob", "gus")  # of red, but not Ann
OPERATIONS = [  # what one of them pauses, the last activates again: prompts would wait for that
    OperationCodec(entry)
    for entry in sorted(entries_for("http"), key=lambda entry: entry.request is sessions.ActivateSession)
]


class Scene(msgspec.Struct):
    rig: WorkspacesRig
    known: LeakedIds


@asynccontextmanager
async def serving_scene(home: Path) -> AsyncIterator[Scene]:
    async with serving_workspaces(home) as rig:
        await people(rig)
        known = await fill_workspaces(rig)
        await keys(rig)
        yield Scene(rig, known)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    async with serving_scene(tmp_path_factory.mktemp("houses")) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def compared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """One in which other tests have made no sessions with names of red's: they would tell a name from its twin."""
    async with serving_scene(tmp_path_factory.mktemp("compared")) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def claimed(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """One in which people say themselves what red's agent has answered: it is in their own sessions then."""
    async with serving_scene(tmp_path_factory.mktemp("claimed")) as made:
        yield made


async def keys(rig: WorkspacesRig) -> None:
    """Some that may less than their holders, and some that may nothing any more."""
    known = rig.service.people
    await rig.key("bos", "blue", ("chat",), "chatty")
    await rig.key("bos", "blue", ("read",), "reader")
    for name in ("revoked", "removed", "withdrawn", "expired"):
        await rig.person(f"{name}.p", "admin", "red")
        await rig.key(f"{name}.p", "red", ALL, name)
    token, kept = await known.create_key("expired.p", "red", scopes=ALL, expires=known._clock.now_ms() + 50)
    rig.keys["expired"] = token
    await known.revoke_key(rig.keys["revoked"].split("_")[1])
    await known.remove_person("removed.p")
    await known.withdraw_role("withdrawn.p", "red")
    rig.keys |= {"nobody": "", "garbage": "ms_" + "a" * 12 + "_" + "A" * 40}
    async with asyncio.timeout(HOLDS_S):
        while known.is_usable(kept):
            await asyncio.sleep(0.01)


def unknown_name(name: str) -> str:
    """Of the same shape, and unknown."""
    return "".join(chr((ord(c) - 97 + 13) % 26 + 97) if "a" <= c <= "z" else c for c in name)


def names(known: LeakedIds) -> list[str]:
    """Everything one could send instead of a name to reach red's."""
    session_key = next(one for one in known.sessions if one.endswith(RED["session"]))
    tricks = [
        *(
            f"red:{session_key}",
            f"red/{session_key}",
            f"../red/{session_key}",
            f"..\\red\\{session_key}",
            f"workspaces/red/{session_key}",
        ),
        *(
            session_key.upper(),
            session_key.replace("ann", "\u0430nn"),
            session_key.replace(":", "\uff1a"),
            f"{session_key} ",
            f"{session_key}\u200b",
        ),
        *(
            quote(session_key, safe=""),
            quote(quote(session_key, safe=""), safe=""),
            f"{session_key}#1",
            f"{session_key}/call_2_1_0",
            f"{session_key}/1",
        ),
        *(
            "user:ann",
            "main",
            "agent:web:ann:fire",
            f"{session_key}' OR 1=1 --",
            "%",
            "*",
            "x" * 600,
            f"{session_key}\0",
        ),
    ]
    return [*known.ids, *tricks]


def sampled(given: Sequence[str], seed: str, count: int) -> list[str]:
    return list(given) if len(given) <= count else random.Random(seed).sample(list(given), count)


def tried(known: LeakedIds, operation: OperationCodec, who: str) -> list[str]:
    """The real name of what this operation is about, and some others."""
    path = operation.route.path.replace("/pause", "/activate")
    real = getattr(known, path.split("/")[2], ())[-1:]
    return list(dict.fromkeys([*real, *sampled(names(known), f"{who} {path}", NAMES_TRIED)]))


# --- HTTP: every operation -----------------------------------------------------------------------

BODIES: dict[type[Operation[Any]], list[dict[str, Any]]] = {
    turns.Prompt: [{"text": "what do you know?"}],
    turns.Steer: [{"text": "what do you know?"}],
    turns.Abort: [{}, {"sender": "ann"}],
    turns.ImportHistory: [{"messages": [{"role": "user", "content": "NAME"}]}],
    sessions.ForkSession: [{"to": "FRESH"}, {"to": "NAME"}],
    triggers.AddTrigger: [
        {"name": "NAME", "kind": "periodic", "schedule": "0 9 1 1 *", "text": "hi", "session": "NAME", "replace": True},
        {"name": "FRESH", "kind": "immediate", "text": "hi", "channel": "chat", "room": "C-red"},
    ],
    people_operations.CreateKey: [
        {"person": "ann", "workspace": "red", "scopes": ["admin"]},
        {"person": "bos", "workspace": "red"},
        {"person": "bea", "workspace": "blue", "scopes": ["admin"]},
    ],
    people_operations.AddPerson: [{"name": "eve", "roles": {"red": "admin"}}, {"name": "NAME"}],
}


def bodies(operation: OperationCodec) -> list[Any]:
    """What an operation can be asked with. Those without an entry here are called with names in every place."""
    if not operation.has_body:
        return [None]
    fields = msgspec.structs.fields(operation.rest_type)
    return BODIES.get(operation.entry.request) or [
        {field.encode_name: made for field in fields if (made := value(field.type)) is not None}
    ]


def value(kind: Any) -> Any:
    info = msgspec.inspect.type_info(kind)
    match info:
        case msgspec.inspect.StrType():
            return "NAME"
        case msgspec.inspect.IntType():
            return 1
        case msgspec.inspect.BoolType():
            return True
        case msgspec.inspect.LiteralType(values=values):
            return values[0]
        case msgspec.inspect.DictType():
            return {"name": "NAME"}
    return None


_fresh = count(10_000)


def filled(body: Any, name: str) -> Any:
    return json.loads(json.dumps(body).replace('"NAME"', json.dumps(name)).replace("FRESH", f"copy-{next(_fresh)}"))


def paths(operation: OperationCodec, name: str) -> str:
    escaped = quote(name, safe="")
    path = re.sub(r"\{\w+\}", lambda _: escaped, operation.route.path)
    if operation.has_body:
        return path
    words = {field.encode_name: value(field.type) for field in msgspec.structs.fields(operation.rest_type)}
    asked = [f"{key}={escaped if one == 'NAME' else one}" for key, one in words.items() if one is not None]
    return path + (f"?{'&'.join(asked)}" if asked else "")


def requests(operation: OperationCodec, name: str) -> Iterator[tuple[str, str, Any, dict[str, str]]]:
    streams = (False, True) if operation.entry.stream is not None else (False,)
    for body, stream in product(bodies(operation), streams):
        headers = {"Accept": "text/event-stream"} if stream else {"Accept": "application/json"}
        if stream:
            headers["Last-Event-ID"] = "999999999"
        yield operation.route.method, paths(operation, name), filled(body, name), headers


def same_answer(one: Answer, other: Answer, name: str, instead: str) -> bool:
    """The same words, whichever name they are about."""
    return _plain(one, name) == _plain(other, instead)


def _plain(answer: Answer, name: str) -> str:
    streamed = answer.headers.get("content-type", "").startswith("text/event-stream")
    told = Answer(answer.status, answer.headers, b"" if streamed else answer.body).told  # how far it came varies
    for short in (name, name.strip(" \0"), name[:80], name[:40]):
        for written in (short, repr(short)[1:-1], quote(short, safe="")):
            for one in (json.dumps(written)[1:-1], written):
                told = re.sub(rf"(?<![A-Za-z]){re.escape(one)}(?![A-Za-z])", "NAME", told)
    told = re.sub(r"\b[0-9a-f]{32}\b", "TRACE", told)  # a digest of the name, among others
    told = re.sub(r"\bm[0-9a-f]{10}\b", "MEMORY", told)
    told = re.sub(r"\b[0-9a-f]{16}\b", "SPAN", told)
    told = re.sub(r"\b1[0-9]{18}\b", "NOW", told)  # ns
    told = re.sub(r"\b20[0-9-]{8}T[0-9:.]{12}\b", "NOW", told)  # a line of an export
    return re.sub(r"copy-[0-9]+", "COPY", re.sub(r"\b1[0-9]{12}\b", "NOW", told))  # ms


@pytest.mark.parametrize("who", [*OTHERS, *INSIDERS])
async def test_f41_a_request_that_names_nothing_of_red_returns_nothing_of_red(scene: Scene, who: str) -> None:
    """Lists, searches and streams, and all answers to a person who only uses their own agent."""
    rig, key = scene.rig, scene.rig.keys[who]
    for operation in OPERATIONS:
        for method, path, body, headers in requests(operation, "mine"):
            got = await rig.ask(method, path, body, key=key, headers=headers)
            assert leaks(got.told) <= common(who), (method, path, got.told)
    for query in ("keeps bees", "the word is", "a line of it", "so it is", "by the way", "between us", "burn"):
        got = await rig.ask("GET", f"/api/memory/search?k=100&q={quote(query)}", key=key)
        assert leaks(got.told) <= common(who), got.told


def common(who: str) -> set[str]:
    """What every person in red reads: their agent tells them, and knows the workspace's skills."""
    return {"answer", "skill"} if who in INSIDERS else set()


@pytest.mark.parametrize("who", [*OTHERS, *INSIDERS])
async def test_f41_another_persons_data_is_answered_like_data_that_does_not_exist(compared: Scene, who: str) -> None:
    rig, key = compared.rig, compared.rig.keys[who]
    own = (f"web:{who}:",)
    before = await rig.journal(but=own)
    said = leaks(*names(compared.known)) | common(who)
    for operation in OPERATIONS:
        for name in tried(compared.known, operation, who):
            for (method, path, body, headers), (_, never, instead, _) in zip(
                requests(operation, name), requests(operation, unknown_name(name)), strict=True
            ):
                got = await rig.ask(method, path, body, key=key, headers=headers)
                assert got.status < 500, (method, path, got.body)
                assert leaks(got.told) <= said, (method, path, got.told)
                if (path, body) != (never, instead):
                    same = await rig.ask(method, never, instead, key=key, headers=headers)
                    if name == who:  # a session of one's own with one's own name, which is also its person
                        same = Answer(same.status, same.headers, same.body.replace(f'"{who}"'.encode(), b'"NAME"'))
                    assert same_answer(got, same, name, unknown_name(name)), (method, path, got.told, same.told)
    await rig.settled()
    assert await rig.journal(but=own) == before
    assert not rig.burnt


# --- HTTP: every route, and those who may nowhere --------------------------------------------------


def v1(known: LeakedIds) -> Iterator[tuple[str, str, Any]]:
    """What can be said to the other API, with everything of Ann's in every place for it."""
    session_key, said = (
        next(one for one in known.sessions if one.endswith(RED["session"])),
        {"role": "user", "content": "hi"},
    )
    told = [said, {"role": "assistant", "content": f"So it is: {RED['answer']}."}, said]
    for model in ("mainstay", "mainstay/red", "red", RED["room"]):
        yield "POST", "/v1/chat/completions", {"model": model, "messages": [said]}
        yield "GET", f"/v1/models/{model}", None
    for session in (session_key, session_key.rpartition(":")[2], "client"):
        call = {"type": "function_call_output", "call_id": "call_1_1_0", "output": "x"}
        yield "POST", "/v1/chat/completions", {"model": "mainstay", "messages": told, "session_id": session}
        yield "POST", "/v1/chat/completions", {"model": "mainstay", "messages": [said], "user": session}
        named = {"metadata": {"session": session}}
        yield "POST", "/v1/chat/completions", {"model": "mainstay", "messages": [said], **named}
        yield "POST", "/v1/responses", {"model": "mainstay", "input": "hi", "conversation": session}
        yield "POST", "/v1/responses", {"model": "mainstay", "input": [call], "conversation": {"id": session}}
    for id in known.responses:
        yield "GET", f"/v1/responses/{id}", None
        yield "POST", "/v1/responses", {"model": "mainstay", "input": "hi", "previous_response_id": id}
        yield "POST", "/v1/responses", {"model": "mainstay", "input": "hi", "previous_response_id": id, "stream": True}
    yield "GET", "/v1/models", None
    yield "GET", "/metrics", None


V1_ROUTES = {
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/responses/{id}",
    "/v1/models",
    "/v1/models/{model:path}",
    "/metrics",
}
OPEN = {"/healthz", "/readyz", "/openapi.json"}  # public: it holds no data of a person
SIGNED = {"/hooks", "/channels"}  # every caller there has signed the request


async def test_f41_every_route_of_the_server_is_tested_here(scene: Scene) -> None:
    """A route that is not in one of these tables is not tested for isolation."""
    service = scene.rig.service
    with socket.socket() as at:
        at.bind(("127.0.0.1", 0))
        app = _create_http_app(service, service.config.server, at)
    found: dict[str, set[str]] = {"operations": set(), "open": set(), "v1": set(), "sockets": set(), "mounts": set()}
    for route in app._router.routes:
        match route:
            case Route(app=OperationRoutes() as operations, path=path):
                found["operations"] |= {f"{method} {path}" for method in operations._codecs}
            case Route(app=PublicJsonEndpoint(), path=path):
                found["open"].add(path)
            case Route(path=path):
                found["v1"].add(path)
            case WebSocketRoute(path=path):
                found["sockets"].add(path)
            case Mount(path=path):
                found["mounts"].add(path)
    assert found["operations"] == {f"{one.route.method} {one.route.path}" for one in OPERATIONS}
    assert (found["open"], found["v1"]) == (OPEN, V1_ROUTES)
    assert (found["sockets"], found["mounts"]) == ({"/api/ws"}, SIGNED)
    patterns = [re.sub(r"\{[^}]*\}", ".+", route) for route in V1_ROUTES]
    tried = [path for _, path, _ in v1(scene.known)]
    assert all(any(re.fullmatch(one, path) for path in tried) for one in patterns)
    described = (await scene.rig.ask("GET", "/openapi.json")).json["paths"]
    assert {f"{method.upper()} {path}" for path, methods in described.items() for method in methods} == (
        found["operations"] | {"GET /healthz", "GET /readyz"}
    )


@pytest.mark.parametrize("who", NOBODY)
async def test_f41_f43_a_caller_without_a_valid_key_is_told_so_and_nothing_else(scene: Scene, who: str) -> None:
    rig = scene.rig
    before = await rig.journal()
    told: set[str] = set()
    for operation in OPERATIONS:
        name = tried(scene.known, operation, who)[0]
        for method, path, body, headers in requests(operation, name):
            for more in ({}, {"X-Workspace": "red"}):
                got = await rig.ask(method, path, body, key=rig.keys[who], headers={**headers, **more})
                told.add(f"{got.status} {got.body.decode()}")
    for method, path, body in v1(scene.known):
        got = await rig.ask(method, path, body, key=rig.keys[who])
        assert got.status == 401, (method, path, got.body)
        assert not leaks(got.told)
    assert len(told) == 1, told
    assert next(iter(told)).startswith("401 ")
    for path in OPEN:
        assert not leaks((await rig.ask("GET", path, key=rig.keys[who])).told)
    with pytest.raises(aiohttp.WSServerHandshakeError, match="401"):
        await rig.browser.ws_connect(f"{rig.url}/api/ws", protocols=[f"bearer.{rig.keys[who] or 'x'}"])
    assert await rig.journal() == before


@pytest.mark.parametrize("who", ["bos", "bea", "bob"])
async def test_f41_nothing_of_anns_is_continued_by_the_other_api(claimed: Scene, who: str) -> None:
    rig, key = claimed.rig, claimed.rig.keys[who]
    own = (f"web:{who}:",)
    before = await rig.journal(but=own)
    said = leaks(*claimed.known.ids) | common(who)
    for method, path, body in v1(claimed.known):
        got = await rig.ask(method, path, body, key=key)
        assert got.status < 500
        assert leaks(got.told) <= said, (method, path, got.told)
        if body and "previous_response_id" in body:
            assert (got.status, got.json["error"]["code"]) == (404, "response_not_found")
    for header in ("web:ann:client", "../red/client", "client"):
        body = {"model": "mainstay", "messages": [{"role": "user", "content": "what did I say?"}]}
        got = await rig.ask("POST", "/v1/chat/completions", body, key=key, headers={"X-Session": header})
        assert leaks(got.told) <= said
    for name in ("red", "RED", "red ", "../red", "default", "nowhere"):
        for path in ("/api/me", "/v1/models"):
            got = await rig.ask("GET", path, key=key, headers={"X-Workspace": name})
            assert got.status == (200 if name.strip() == "red" and who == "bob" else 403), (name, got.told)
            assert "is for another workspace" in got.told or got.status == 200
    await rig.settled()
    assert await rig.journal(but=own) == before


# --- WebSocket -----------------------------------------------------------------------------------


def websocket_commands(name: str) -> Iterator[dict[str, Any]]:
    """One of each kind that the socket understands, with a name wherever a session is meant."""
    for kind in get_args(websocket.WebSocketCommand):
        made: dict[str, Any] = {"do": kind.__struct_config__.tag, "session": name}
        fields = {field.encode_name for field in msgspec.structs.fields(kind)}
        yield made | ({"text": "what do you know?"} if "text" in fields else {})
        if "after" in fields:
            yield made | {"after": 999_999_999}


@pytest.mark.parametrize("who", ["bos", "bea", "gil", "bob"])
async def test_f41_a_websocket_reveals_nothing_of_another_persons_sessions(scene: Scene, who: str) -> None:
    rig = scene.rig
    own = (f"web:{who}:",)
    before = await rig.journal(but=own)
    said = leaks(*names(scene.known)) | common(who)
    kinds = {one["do"] for one in websocket_commands("x")}
    assert kinds == {kind.__struct_config__.tag for kind in get_args(websocket.WebSocketCommand)}
    async with rig.browser.ws_connect(f"{rig.url}/api/ws", protocols=[f"bearer.{rig.keys[who]}"]) as ws:
        for name in [scene.known.sessions[-1], *sampled(names(scene.known), who, NAMES_TRIED)]:
            for wish in websocket_commands(name):
                await ws.send_json(wish)
        await ws.send_json({"do": "approve", "id": scene.known.approvals[0]})
        await ws.send_json({"do": "follow", "session": 7})
        heard = await everything(ws, lambda heard: len(heard) > 3)
    assert len(heard) > 3
    assert leaks(*heard) <= said, heard
    await rig.settled()
    assert await rig.journal(but=own) == before


async def everything(ws: aiohttp.ClientWebSocketResponse, is_enough: Callable[[list[str]], bool]) -> list[str]:
    """Until it is enough and there is no more for a moment."""
    heard: list[str] = []
    while True:
        try:
            message = await ws.receive(timeout=0.3 if is_enough(heard) else HOLDS_S)
        except TimeoutError:
            return heard
        if message.type is not aiohttp.WSMsgType.TEXT:
            return heard
        heard.append(message.data)


# --- gRPC ----------------------------------------------------------------------------------------


def calls(method: AgentMethod, name: str) -> Iterator[msgspec.Struct]:
    """Requests of a method, with a name in every place for one; those of streams also from a later event on."""
    fields = set(method.request.__struct_fields__)
    given = {"session": name} | ({"text": "what do you know?"} if "text" in fields else {})
    assert set(given) <= fields, f"{method.name} is asked in a way that nobody has tried to cross by"
    yield method.request(**given)
    if "after" in fields:
        yield method.request(session=name, after=0)
        yield method.request(session=name, after=999_999_999)


async def called(channel: grpc.aio.Channel, method: AgentMethod, request: msgspec.Struct, metadata: Any) -> str:
    """Everything that the caller gets of it."""
    kind = channel.unary_stream if method.is_stream else channel.unary_unary
    call = kind(f"/{SERVICE}/{method.name}")(protobuf.encode(request), metadata=metadata, timeout=HOLDS_S)
    try:
        got = [one async for one in call] if method.is_stream else [await call]
        return repr([protobuf.decode(one, method.response) for one in got])
    except grpc.aio.AioRpcError as error:
        return f"{error.code()} {error.details()} {error.trailing_metadata()}"


@pytest.mark.parametrize("who", ["bos", "bea", "gil", "bob", *NOBODY])
async def test_f41_no_grpc_method_reveals_or_changes_anything_of_another_person(scene: Scene, who: str) -> None:
    rig = scene.rig
    own = (f"web:{who}:",)
    before = await rig.journal(but=own)
    said = leaks(*names(scene.known)) | common(who)
    metadata = (("authorization", f"Bearer {rig.keys[who]}"),) if rig.keys[who] else ()
    async with grpc.aio.insecure_channel(rig.grpc) as channel:
        for method in METHODS:
            for name in [scene.known.sessions[-1], *sampled(names(scene.known), who + method.name, 2)]:
                for request in calls(method, name):
                    told = await called(channel, method, request, metadata)
                    assert leaks(told) <= said, told
                    assert ("UNAUTHENTICATED" in told) == (who in NOBODY), told
                    if who in OTHERS:
                        told = await called(channel, method, request, (*metadata, ("x-workspace", "red")))
                        assert "there is no workspace 'red'" in told
                        assert "NOT_FOUND" in told
        reflected = await called_reflection(channel, metadata)
        assert not leaks(reflected)
        assert ("UNAUTHENTICATED" in reflected) == (who in NOBODY)
    await rig.settled()
    assert await rig.journal(but=own) == before


def asked_over_grpc(operation: OperationCodec, name: str) -> Iterator[bytes]:
    """Requests of an operation as messages, with a name in every place for one."""
    named_fields = dict.fromkeys(operation.path_fields.values(), name)
    fields = msgspec.structs.fields(operation.rest_type)
    query = {field.encode_name: made for field in fields if (made := value(field.type)) is not None}
    for body in bodies(operation) if operation.has_body else [query]:
        message = grpc_message(operations_schema.request_name(operation.entry))()
        given = {**named_fields, **filled(body, name)}
        yield json_format.ParseDict(given, message, ignore_unknown_fields=False).SerializeToString()


async def called_operation(
    channel: grpc.aio.Channel, method: str, request: bytes, metadata: Any, *, streams: bool
) -> str:
    kind = channel.unary_stream if streams else channel.unary_unary
    call = kind(f"/{operations_schema.SERVICE}/{method}")(request, metadata=metadata, timeout=HOLDS_S)
    try:
        if not streams:
            return repr(await call)
        found: list[bytes] = []
        with contextlib.suppress(TimeoutError):  # it may be a stream without an end
            async with asyncio.timeout(0.15):
                async for one in call:
                    found.append(one)
        call.cancel()
        return repr(found)
    except grpc.aio.AioRpcError as error:
        return f"{error.code()} {error.details()} {error.trailing_metadata()}"


@pytest.mark.parametrize("who", ["bos", "bea", "gil", "bob", *NOBODY])
async def test_f41_no_operation_over_grpc_reveals_or_changes_anything_of_another_person(scene: Scene, who: str) -> None:
    rig = scene.rig
    own = (f"web:{who}:",)
    before = await rig.journal(but=own)
    said = leaks(*names(scene.known)) | common(who)
    metadata = (("authorization", f"Bearer {rig.keys[who]}"),) if rig.keys[who] else ()
    over_grpc = {entry.request for entry in operations_schema.list_entries()}
    async with grpc.aio.insecure_channel(rig.grpc) as channel:
        for operation in (one for one in OPERATIONS if one.entry.request in over_grpc):
            for name in tried(scene.known, operation, who):
                if not 0 < len(name) <= 512:
                    continue
                for request in asked_over_grpc(operation, name):
                    methods = [(operation.entry.name, False)] if not operation.entry.is_stream_only else []
                    if operation.entry.stream is not None:
                        methods.append((f"{operations_schema.STREAM_PREFIX}{operation.entry.name}", True))
                    for method, streams in methods:
                        told = await called_operation(channel, method, request, metadata, streams=streams)
                        assert leaks(told) <= said, (method, told)
                        assert ("UNAUTHENTICATED" in told) == (who in NOBODY), (method, told)
                        assert "INTERNAL" not in told, (method, told)
    await rig.settled()
    assert await rig.journal(but=own) == before


async def called_reflection(channel: grpc.aio.Channel, metadata: Any) -> str:
    asked = reflection_pb2.ServerReflectionRequest(list_services="")
    call = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(
        iter([asked]), metadata=metadata, timeout=HOLDS_S
    )
    try:
        return repr([one async for one in call])
    except grpc.aio.AioRpcError as error:
        return f"{error.code()} {error.details()}"


# --- the home's socket, and MCP ------------------------------------------------------------------


def socket_requests(entry: OperationEntry, name: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Requests of an operation as the socket reads them, with a name in every place for one."""
    fields = msgspec.structs.fields(entry.request)
    named = {field.encode_name: made for field in fields if (made := value(field.type)) is not None}
    if "folder" in named:
        named["folder"] = str(folder)
    required = {field.encode_name for field in fields if field.required}
    for body in BODIES.get(entry.request) or [named]:
        missing = {key: one for key, one in named.items() if key in required and key not in body}
        yield {"operation": entry.name, **filled({**missing, **body}, name)}


async def asked_on_socket(rig: WorkspacesRig, request: dict[str, Any], *, stream: bool) -> str:
    """All that the owner gets who works in the main workspace, where no other person has such sessions."""
    reader, writer = await asyncio.open_unix_connection(connectable_path(rig.home / SOCKET_NAME))
    received = b""
    try:
        writer.write(json.dumps({"request": request, "workspace": "default", "stream": stream}).encode() + b"\n")
        with contextlib.suppress(*((TimeoutError,) if stream else ())):  # it may be a stream without an end
            async with asyncio.timeout(0.15 if stream else HOLDS_S):
                while piece := await reader.read(1 << 16):
                    received += piece
    finally:
        writer.close()
    return received.decode()


async def test_f41_no_operation_on_the_socket_tells_or_changes_anything_of_another_workspace(
    scene: Scene, tmp_path: Path
) -> None:
    """The owner works in the main workspace. People and triggers are the whole home's: the owner sees all of them."""
    rig, known = scene.rig, scene.known
    before, said = await rig.journal(), leaks(*names(known))
    entries = [entry for entry in entries_for("socket") if entry.access != "home" and entry not in triggers.ENTRIES]
    entries.sort(key=lambda entry: entry.request is sessions.ActivateSession)  # what was paused goes on
    assert {entry.request for entry in entries_for("library")} == {entry.request for entry in entries_for("socket")}
    real = [group[-1] for group in (known.sessions, known.approvals, known.memories, known.calls)]
    for entry in entries:
        for request in socket_requests(entry, "mine", tmp_path):
            got = await asked_on_socket(rig, request, stream=False)
            assert not leaks(got), (request, got)
            assert "the request cannot be read" not in got, (request, got)
    for entry in entries:
        for name in dict.fromkeys([*real, *sampled(names(known), entry.name, NAMES_TRIED)]):
            for stream in (False, True) if entry.stream is not None else (False,):
                both = (socket_requests(entry, one, tmp_path) for one in (name, unknown_name(name)))
                for request, instead in zip(*both, strict=True):
                    got = await asked_on_socket(rig, request, stream=stream)
                    assert leaks(got) <= said, (request, got)
                    if request != instead:
                        same = await asked_on_socket(rig, instead, stream=stream)
                        one, other = (Answer(200, {}, b"" if stream else text.encode()) for text in (got, same))
                        assert same_answer(one, other, name, unknown_name(name)), (request, got, same)
    await rig.settled()
    assert await rig.journal() == before
    assert not rig.burnt


async def test_f41_no_tool_over_mcp_tells_or_changes_anything_of_another_workspace(scene: Scene) -> None:
    rig, known = scene.rig, scene.known
    before, said = await rig.journal(), leaks(*names(known))
    offered = McpServer(RemoteAgent(rig.home, "green"))  # no other person works there: it holds what this says
    try:
        async with Client(offered.server) as host:
            tools = (await host.list_tools()).tools
            assert {tool.name for tool in tools} == set(MCP_TOOLS)
            assert len(tools) == len(list(entries_for("mcp")))
            for tool in tools:
                for name in [known.sessions[-1], *sampled(names(known), tool.name, NAMES_TRIED)]:
                    got = repr(await host.call_tool(tool.name, tool_arguments(tool.input_schema, name)))
                    assert leaks(got) <= said, (tool.name, got)
            for query in ("keeps bees", "the word is", "so it is", "between us"):
                got = repr(await host.call_tool("memory_search", {"query": query, "k": 50}))
                assert not leaks(got), got
    finally:
        await offered.turns.close()
    await rig.settled()
    assert await rig.journal() == before


# --- what may be done within one's own -----------------------------------------------------------


async def test_f41_ann_reads_all_of_it_so_that_a_leak_would_be_noticed(scene: Scene) -> None:
    rig, key, admin = scene.rig, scene.rig.keys["ann"], scene.rig.keys["adm"]
    name = RED["session"]
    listed = await rig.ask("GET", "/api/sessions", key=key)
    events = await rig.ask("GET", f"/api/sessions/{name}/events", key=key, headers={"Accept": "application/json"})
    found = await rig.ask("GET", "/api/memory/search?q=the+word+is", key=key)
    waits = await rig.ask("GET", "/api/approvals", key=key)
    assert leaks(listed.told, events.told, found.told, waits.told) >= {
        *("session", "title", "message", "answer", "summary", "memory", "file", "approval", "steered"),
    }
    assert leaks((await rig.ask("GET", "/api/triggers", key=admin)).told) >= {"trigger", "triggername"}
    assert leaks((await rig.ask("GET", "/api/sessions?limit=1000", key=admin)).told) >= {"session", "room"}
    assert leaks(*rig.shown("C-red"), *rig.shown("D-red")) >= {"delivery", "answer"}
    assert leaks(*rig.models["red"].shown) >= {"rules", "skill", "pinned", "direct"}
    assert on_disk(rig.home) >= set(RED) - {"room"}


async def test_f41_a_role_is_what_the_key_may_at_most_and_no_more_once_it_is_less(scene: Scene) -> None:
    """Also for clients that are connected already."""
    rig, known = scene.rig, scene.rig.service.people
    await rig.person("max", "admin", "red")
    await rig.key("max", "red", ALL)
    session_key = f"web:ann:{RED['session']}"
    async with rig.browser.ws_connect(f"{rig.url}/api/ws", protocols=[f"bearer.{rig.keys['max']}"]) as ws:
        await ws.send_json({"do": "follow", "session": session_key})
        assert "message" in leaks(*await everything(ws, lambda heard: "message" in leaks(*heard)))
        await known.grant_role("max", "red", "member")
        await ws.send_json({"do": "follow", "session": session_key, "after": 1})
        assert not leaks(*await everything(ws, lambda heard: False)), "until it is closed"
        assert ws.closed
        assert ws.close_code == 1008
    got = await rig.ask("GET", f"/api/sessions/{quote(session_key, safe='')}", key=rig.keys["max"])
    assert got.status == 404
    for method, path, body in (
        ("GET", "/api/triggers", None),
        ("GET", "/api/people", None),
        ("GET", "/api/audit", None),
        ("GET", "/api/errors", None),
        ("GET", "/metrics", None),
        ("POST", "/api/keys", {"person": "max", "workspace": "red", "scopes": ["admin"]}),
        ("POST", "/api/people", {"name": "max2", "roles": {"red": "admin"}}),
    ):
        assert (await rig.ask(method, path, body, key=rig.keys["max"])).status == 403, path


async def test_f41_which_person_may_approve_which_call(scene: Scene) -> None:
    """A guest to nothing, a member in their own sessions, an admin anywhere in the workspace and for good."""
    rig = scene.rig
    (id,) = scene.known.approvals

    async def answered(who: str, id: str, verb: str = "approve", **body: Any) -> int:
        got = await rig.ask("POST", f"/api/approvals/{id}/{verb}", body, key=rig.keys[who])
        return got.status

    for verb in ("approve", "deny"):
        assert [await answered(who, id, verb) for who in ("gus", "bob", "bea", "bos", "del")] == [
            403,
            404,
            404,
            404,
            404,
        ]
    assert await answered("ann", id, always=True) == 403
    assert not rig.burnt
    assert await answered("ann", id) == 200
    await rig.settled()
    assert rig.burnt == [RED["approval"]]
    assert await answered("ann", id) == 404, "once"
    asked = await rig.prompt("gus", "mine", calling(("burn", {"what": "x"})))
    assert asked["outcome"]["type"] == "Answered", "nobody is asked: a guest has nothing changed"
    for name, arguments in (
        *(("write", {"path": "x", "content": "x"}), ("bash", {"command": "ls"}), ("remember", {"text": "x"})),
        *(
            ("message", {"text": "x", "to": "chat:C-red"}),
            ("schedule", {"action": "add", "when": "0 9 1 1 *", "text": "x"}),
        ),
    ):
        assert (await rig.prompt("gus", "mine", calling((name, arguments))))["outcome"]["type"] == "Answered"
    json_only = {"Accept": "application/json"}
    told = (await rig.ask("GET", "/api/sessions/mine/events", key=rig.keys["gus"], headers=json_only)).json["events"]
    results = [one["event"]["result"]["content"] for one in told if one["event"]["type"] == "ToolFinished"]
    assert len(results) == 6
    assert all("Only reading is allowed here" in one for one in results)
    assert rig.burnt == [RED["approval"]]
    rig.burnt.clear()


async def test_f41_only_an_admin_reads_anything_of_other_people_through_the_agent(scene: Scene) -> None:
    rig = scene.rig
    calls = [
        ("memory_search", {"query": "the word is"}),
        ("memory_search", {"query": "keeps bees", "k": 50}),
        ("memory_recall", {"topic": "bees"}),
        ("memory_summary", {}),
        ("search_channel", {"query": "the"}),
        *(("memory_get", {"id": id}) for id in scene.known.ids[:40]),
        *(("result", {"ref": id}) for id in scene.known.ids[:10]),
    ]

    async def read(who: str) -> list[str]:
        asked = [await rig.prompt(who, "reading", calling(*calls[at : at + 10])) for at in range(0, len(calls), 10)]
        return [result["content"] for reply in asked for result in reply["results"]]

    assert leaks(*await read("ann")) >= {"message", "summary"}, "the calls find what a person may read"
    echoed = leaks(*scene.known.ids[:40])
    assert leaks(*await read("gus")) <= echoed
    assert leaks(*await read("bob")) <= echoed, "a member reads what they may read over the API"
    assert leaks(*await read("adm")) >= {"message", "memory", "summary"}


# --- the agent of another workspace, which obeys -------------------------------------------------


def tool_arguments(schema: dict[str, Any], way: str) -> dict[str, Any]:
    """Arguments of a tool, with this in every place for words."""
    made: dict[str, Any] = {}
    for name, field in schema.get("properties", {}).items():
        kinds = [field, *field.get("anyOf", ())]
        if any("enum" in one for one in kinds):
            made[name] = next(one["enum"][0] for one in kinds if "enum" in one)
        elif any(one.get("type") == "string" for one in kinds):
            made[name] = way
        elif name in schema.get("required", ()):
            made[name] = {"integer": 1, "boolean": True, "array": [way], "object": {}}.get(field.get("type", ""), way)
    return made


def ways(scene: Scene) -> list[str]:
    red, home = scene.rig.home / "workspaces" / "red", scene.rig.home
    files = [path for path in red.rglob("*") if path.is_file()]
    return [
        *(str(path) for path in sampled(sorted(map(str, files)), "files", 1_000 if WHOLE else 3)),
        *(str(home / "gateway.db"), str(home / "mainstay.yaml"), str(home), str(red), f"{red}/../red/workspace.db"),
        *(
            "../../../../red",
            "../../../../../gateway.db",
            f"/proc/self/root{home}/gateway.db",
            f"file://{red}/workspace.db",
        ),
        *(f"{scene.rig.url}/api/sessions", "http://[::ffff:127.0.0.1]/", "http://169.254.169.254/"),
        *scene.known.rooms,
        *(f"chat:{twisted}" for twisted in ("c-red", "C-red ", "\uff23-red", "C-red:m2")),
        *(f"agent:{one}" for one in scene.known.sessions[:2]),
        *sampled(scene.known.ids, "ids", 1_000 if WHOLE else 4),
        *("keeps bees", "the word is"),
    ]


@pytest.mark.parametrize("who", ["bos", "gil"])
async def test_f41_no_tool_reaches_into_another_workspace(scene: Scene, who: str) -> None:
    """Every call of blue's agent, with any arguments, from any person."""
    rig, model = scene.rig, scene.rig.models["blue"]
    before, shown = await rig.journal(), len(model.shown)
    posted = [rig.shown(room) for room in ("C-red", "D-red")]
    await rig.prompt(who, "tools", "hello")
    assert {"read", "bash", "message", "upload", "search_channel", "memory_search", "result", "spawn"} <= set(
        model.tools
    )
    for name, schema in model.tools.items():
        tries = [(name, tool_arguments(schema, way)) for way in ways(scene)]
        for number in range(0, len(tries), 10):
            await rig.prompt(who, f"{name}-{number}", calling(*tries[number : number + 10]))
    await rig.settled()
    echoed = leaks(*ways(scene))
    assert leaks(*model.shown[shown:]) <= echoed, "nothing that it did not say itself"
    assert [rig.shown(room) for room in ("C-red", "D-red")] == posted
    assert not any(RED["room"] in json.dumps(one) and "blue" in json.dumps(one) for one in rig.posted)
    assert await rig.journal() == before


async def test_f41_a_command_on_the_machine_itself_is_approved_by_the_user_who_runs_it(scene: Scene) -> None:
    """Without a sandbox it could read what every workspace has."""
    rig, shown = scene.rig, len(scene.rig.models["blue"].shown)
    look = calling(("bash", {"command": f"cat {rig.home}/gateway.db {rig.home}/workspaces/red/workspace.db"}))
    for who, others in (("bea", ("bea", "bos")), ("bos", ("bos",))):
        session = f"host-{who}"
        asked = await rig.prompt(who, session, look)
        assert asked["outcome"]["type"] == "Paused"
        id = asked["outcome"]["approval"]
        for one in others:
            for body in ({}, {"always": True}, {"input": json.dumps({"command": "id"})}):
                got = await rig.ask("POST", f"/api/approvals/{id}/approve", body, key=rig.keys[one])
                assert got.status == 403, got.body
        got = await rig.ask("POST", f"/api/approvals/{id}/deny", {}, key=rig.keys[who])
        assert got.status == 200
    await rig.say("D-blue", look, "bos")
    await wait_until(lambda: any("May this be done" in one for one in rig.shown("D-blue")), "it is asked about")
    await rig.say("D-blue", "/approve", "bos")
    sentence = "only the owner may approve this (`mainstay approval`); it can be denied here"
    await wait_until(lambda: any(sentence in one for one in rig.shown("D-blue")), "the same sentence as over HTTP")
    await rig.say("D-blue", "/deny", "bos")
    await rig.settled()
    said = leaks(*names(scene.known))  # bos knows them, and other tests had bos write them into blue's memory
    assert leaks(*rig.models["blue"].shown[shown:]) <= said


# --- authentication -------------------------------------------------------------------------------


async def test_f43_without_a_key_only_a_caller_on_this_machine_is_the_owner(tmp_path: Path) -> None:
    near = {"Host": "localhost"}
    far: list[dict[str, str]] = [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "169.254.169.254"},
        {"Host": "localhost@evil.example"},
        {**near, "Origin": "http://evil.example"},
        {**near, "Origin": "null"},
        {**near, "Origin": "http://localhost:1"},
        {**near, "Origin": "https://localhost"},
        {**near, "Sec-Fetch-Site": "cross-site"},
        {**near, "Sec-Fetch-Site": "same-site"},
        *({**near, name: "127.0.0.1"} for name in ("X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded", "X-Real-IP")),
        *({**near, name: "127.0.0.1"} for name in ("Forwarded", "Via", "CF-Connecting-IP", "X-Forwarded-Server")),
        {**near, "Authorization": "Basic b3duZXI6"},
        {**near, "X-API-Key": ""},
    ]
    async with serving_workspaces(tmp_path, keys="auto") as rig:
        for headers in ({}, near, {"Host": "127.0.0.1:1"}, {"Host": "[::1]"}, {**near, "Origin": "http://localhost"}):
            got = await rig.ask("GET", "/api/me", headers={**headers, "X-Workspace": "red"})
            assert (got.status, got.json["person"], got.json["workspace"]) == (200, "", "red"), headers
        for headers in far:
            for method, path, body in (("GET", "/api/sessions", None), ("POST", "/api/people", {"name": "eve"})):
                got = await rig.ask(method, path, body, headers={**headers, "X-Workspace": "red"})
                assert got.status in (401, 403), (headers, got.told)
        assert not rig.service.people.list_people()
        got = await rig.ask("POST", "/api/people?key=ms_x", {"name": "eve"})
        assert got.status == 400


async def test_f43_commands_that_reach_the_network_do_not_make_an_agent_the_owner(tmp_path: Path) -> None:
    """They come from this very machine, and so a key is needed on it, of whichever workspace they are."""
    async with serving_workspaces(tmp_path, keys="auto", blue="{sandbox: {network: true}}") as rig:
        assert (await rig.ask("GET", "/api/me")).status == 401
        assert (await rig.ask("GET", "/api/sessions", headers={"X-Workspace": "red"})).status == 401


async def test_f41_only_the_owner_is_told_the_workspaces_and_their_errors(
    tmp_path: Path,
) -> None:
    broken = tmp_path / "workspaces" / RED["session"]
    broken.mkdir(parents=True)
    (broken / "workspace.db").write_bytes(b"no database at all" * 100)
    async with serving_workspaces(tmp_path, keys="auto") as rig:
        await rig.person("bea", "member", "blue")
        key = await rig.key("bea", "blue", ("chat",))
        told = await rig.ask("GET", "/readyz")
        assert (told.status, leaks(told.told)) == (503, {"session"})
        for path, headers in product(
            ("/readyz", "/healthz", "/openapi.json"),
            ({"Via": "x"}, {"Host": "evil.example"}, {"Origin": "http://x.example"}),
        ):
            assert not leaks((await rig.ask("GET", path, headers=headers)).told), headers
        for path in ("/api/workspaces", "/api/me", "/v1/models", "/readyz?x=1"):
            got = await rig.ask("GET", path, key=key, headers={"Via": "x"})
            assert not leaks(got.told), path
        assert (await rig.ask("GET", "/api/workspaces", key=key)).json == {"workspaces": ["blue"]}
