"""F77: streams of other people are refused, and open ones end when their key or their holder's role is revoked.

Every request that stays open, over HTTP (server-sent events, JSON, the OpenAI APIs), WebSocket and gRPC, in turn with
every way to lose a right, every person and every credential; on real ports.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
import pytest
import pytest_asyncio
from support.open_streams import CLIENT_TOOL, HOLDS_S, KINDS, SECRET, OpenRequest, StreamWorld, stream_world

from mainstay.core.people import ROLE_SCOPES, ApiKey, Person, PersonRole
from mainstay.operations.table import entries_for
from mainstay.server import authentication, http_operations, server_sent_events, websocket
from mainstay.server.grpc import open_calls, operations_schema
from mainstay.server.grpc.message_types import METHODS
from mainstay.server.openai import turn_follower
from mainstay.testing.channel_rig import wait_until

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHECK_S = 0.1
REFUSED = ("401", "404", "NOT_FOUND", "UNAUTHENTICATED")
Revoke = Callable[[StreamWorld, ApiKey], Awaitable[object]]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[StreamWorld]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (http_operations, websocket, open_calls):
            assert module.KEY_CHECK_S <= 5, "within seconds"
            patch.setattr(module, "KEY_CHECK_S", CHECK_S)
        for other in (server_sent_events, turn_follower):
            assert other.KEEP_ALIVE_S / 3 <= 5, "streams are checked three times as often as they are kept alive"
            patch.setattr(other, "KEEP_ALIVE_S", 3 * CHECK_S)
        async with stream_world(tmp_path_factory.mktemp("home")) as made:
            yield made


async def add_person(
    world: StreamWorld, name: str, role: PersonRole = "member", workspace: str = "default"
) -> tuple[str, ApiKey]:
    people = world.service.people
    await people.add_person(Person(name=name, roles={workspace: role}))
    return await people.create_key(name, workspace, scopes=tuple(ROLE_SCOPES[role]))


async def prepare(world: StreamWorld, token: str, kind: str, who: str) -> OpenRequest:
    """Return the request, with the session that it needs."""
    request = OpenRequest(world, token, f"{who}-{kind.lower().replace(' ', '-')}", heard=[])
    path = f"/api/sessions/{request.session}/prompt"
    if "ToolResult" in kind:
        await world.ask(token, "POST", path, {"text": "use the tool", "tools": [CLIENT_TOOL]})
        pending = (await world.ask(token, "GET", "/api/approvals"))["approvals"]
        request.call_id = next(one["asked"]["call_id"] for one in pending if one["session"] == request.session)
    elif KINDS[kind].has_session and not KINDS[kind].waits:
        await world.ask(token, "POST", path, {"text": "hello"})
    return request


async def expire(world: StreamWorld, key: ApiKey) -> None:
    world.service.people._keys.put_key(msgspec.structs.replace(key, expires=1))


REVOCATIONS: dict[str, tuple[PersonRole, Revoke]] = {
    "key revoked": ("member", lambda world, key: world.service.people.revoke_key(key.id)),
    "key expired": ("guest", expire),
    "role withdrawn": ("member", lambda world, key: world.service.people.withdraw_role(key.person, "default")),
    "role lowered": ("admin", lambda world, key: world.service.people.grant_role(key.person, "default", "guest")),
    "person removed": ("admin", lambda world, key: world.service.people.remove_person(key.person)),
}


async def test_f77_every_stream_of_every_interface_is_tested_here() -> None:
    over_http = {f"HTTP {entry.name}" for entry in entries_for("http") if entry.stream is not None}
    methods = {f"gRPC {one.name}" for one in METHODS if one.is_stream or one.name == "Weave"}
    for entry in operations_schema.list_entries():
        if entry.stream is not None:
            methods |= {f"gRPC {operations_schema.STREAM_PREFIX}{entry.name}"}
            waits = "wait" in entry.request.__struct_fields__  # without a stream, for the reply
            methods |= {f"gRPC {entry.name}"} if waits else set()
    assert over_http | methods <= set(KINDS)


@pytest.mark.parametrize("way", REVOCATIONS)
async def test_f77_open_streams_end_when_a_right_is_lost(world: StreamWorld, way: str) -> None:
    role, revoke = REVOCATIONS[way]
    who = way.replace(" ", "-")
    token, key = await add_person(world, who, role)
    kept, _ = await add_person(world, f"{who}-kept", role)
    kinds = [kind for kind, one in KINDS.items() if role == "admin" or not one.is_admins]
    requests = {kind: await prepare(world, token, kind, who) for kind in kinds}
    others = {kind: await prepare(world, kept, kind, f"{who}-kept") for kind in kinds}
    before = len(world.stalled)
    tasks = {one: asyncio.ensure_future(KINDS[one].run(request)) for one, request in requests.items()}
    kept_tasks = [asyncio.ensure_future(KINDS[one].run(request)) for one, request in others.items()]
    waiting = sum(kind.waits for kind in KINDS.values())
    await wait_until(lambda: len(world.stalled) == before + 2 * waiting, "all turns run")
    following = [one for kind, one in requests.items() if not (KINDS[kind].waits or KINDS[kind].is_admins)]
    await wait_until(lambda: all(one.heard for one in following), "all that follow have events")
    assert [kind for kind, task in tasks.items() if task.done()] == []
    await revoke(world, key)
    async with asyncio.timeout(HOLDS_S):
        await asyncio.gather(*tasks.values())
    for kind, request in requests.items():
        told = request.heard[-1] if request.heard else ""
        if kind.startswith("WebSocket"):
            assert request.ended == "1008", kind
        elif kind.startswith("gRPC"):
            assert (request.ended, told) == ("UNAUTHENTICATED", "this API key is not valid any more"), kind
        else:
            assert "not valid any more" in told, (kind, request)
    assert not any(task.done() for task in kept_tasks), "streams of other people go on"
    for stall in world.stalled[before:]:
        stall.release()
    for task in kept_tasks:
        task.cancel()
    await asyncio.gather(*kept_tasks, return_exceptions=True)
    assert not any(SECRET in text for kind, one in requests.items() if KINDS[kind].waits for text in one.heard)


@pytest.mark.parametrize("credential", ["none", "garbage", "revoked", "expired", "withdrawn", "removed"])
async def test_f77_no_stream_opens_without_a_valid_key(world: StreamWorld, credential: str) -> None:
    token = {"none": "", "garbage": "ms_" + "a" * 12 + "_" + "A" * 40}.get(credential)
    if token is None:
        token, key = await add_person(world, f"no-{credential}", "admin")
        way = {"revoked": "key revoked", "expired": "key expired", "withdrawn": "role withdrawn"}
        await REVOCATIONS[way.get(credential, "person removed")][1](world, key)
    for kind, one in KINDS.items():
        request = OpenRequest(world, token, "ann-follow", call_id="call_1_1_0", heard=[])
        async with asyncio.timeout(HOLDS_S):
            await one.run(request)
        assert request.ended in ("401", "UNAUTHENTICATED"), (kind, request.ended)
        assert not any(SECRET in text for text in request.heard), kind


@pytest.mark.parametrize(
    ("who", "role", "workspace"),
    [("bob", "member", "default"), ("gus", "guest", "default"), ("bos", "admin", "other"), ("bea", "member", "other")],
)
async def test_f77_a_session_of_another_person_cannot_be_followed_by_any_of_its_names(
    world: StreamWorld, who: str, role: PersonRole, workspace: str
) -> None:
    owner = f"ann-of-{who}"
    ann, _ = await add_person(world, owner)
    token, _ = await add_person(world, who, role, workspace)
    await world.ask(ann, "POST", "/api/sessions/follow/prompt", {"text": "hello"})
    pending = await prepare(world, ann, "HTTP SubmitToolResult", owner)
    following = [kind for kind, one in KINDS.items() if one.has_session and (not one.waits or "ToolResult" in kind)]
    assert len(following) >= 7
    for kind in following:
        for name in ("follow", f"web:{owner}:follow", pending.session, f"web:{owner}:{pending.session}"):
            request = OpenRequest(world, token, name, call_id=pending.call_id, heard=[])
            async with asyncio.timeout(HOLDS_S):
                await KINDS[kind].run(request)
            text = "".join(request.heard)
            assert request.ended in REFUSED or "there is no session" in text, (kind, name, request)
            assert SECRET not in text, kind


async def test_f77_keys_are_checked_every_few_seconds() -> None:
    assert authentication.KEY_CHECK_S <= 5
