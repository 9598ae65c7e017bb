"""The native API over a real socket, with a real agent: what each route does, and what it says to misuse."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from support.http_world import ALL, MAIN, until, world
from yarl import URL

from mainstay import Config, Limits, tool
from mainstay.config.schema import PolicySettings
from mainstay.providers.scripted import Call, ScriptEnded, Stall, Step
from mainstay.server.http_app import HttpSettings, create_app
from mainstay.server.uvicorn_server import bind_socket, serve_asgi

ODD = "slack:C1/2:é 100%"  # a name with all that a path could trip over


def echoing(context: Any, options: Any) -> Step:
    return f"you said {context.messages[-1].text}"


async def test_a_prompt_is_answered_and_its_session_is_found_under_any_name() -> None:
    async with world(echoing) as here:
        got = await here.say(ODD, "hello")
        assert got.status == 200
        assert (got.json["text"], got.json["turn"], got.json["session"]) == ("you said hello", 1, ODD)
        assert got.json["outcome"] == {"type": "Answered"}
        assert got.json["usage"] == {"prompt": 10, "completion": 5}
        assert got.headers["cache-control"] == "no-store"
        assert [one["id"] for one in (await here.ask("GET", "/api/sessions")).json["sessions"]] == [ODD]
        found = (await here.ask("GET", f"/api/sessions/{quote(ODD, safe='')}")).json
        assert (found["id"], found["turns"], found["head"]) == (ODD, 1, 4)


async def test_a_prompt_need_not_be_waited_for_and_is_taken_once_under_its_id() -> None:
    async with world(echoing) as here:
        first = await here.say("s", "hello", wait=False, id="one")
        assert first.status == 202
        assert first.json["sequence"] == 1
        again = await here.say("s", "hello", id="one")
        assert again.json["text"] == "you said hello"
        by_header = await here.ask(
            "POST", "/api/sessions/s/prompt", {"text": "hello"}, headers={"Idempotency-Key": "one"}
        )
        assert by_header.json["turn"] == 1
        assert (await here.ask("GET", "/api/sessions/s")).json["turns"] == 1
        assert (await here.say("s", "other words", id="one")).status == 400


async def test_parts_may_be_files_but_never_ones_of_the_server() -> None:
    async with world(echoing) as here:
        parts = [{"type": "text", "text": "look"}, {"type": "binary", "mime": "image/png", "data": "iVBORw0KGgo="}]
        assert (await here.ask("POST", "/api/sessions/s/prompt", {"parts": parts})).status == 200
        page = await here.ask("GET", "/api/sessions/s/events?limit=1", headers={"Accept": "application/json"})
        kept = page.json["events"][0]["event"]["parts"][1]
        assert base64.b64decode(kept["data"]) == b"\x89PNG\r\n\x1a\n"
        assert kept["origin"].startswith("untrusted")
        for stolen in ({"path": "/etc/passwd"}, {"data": "", "path": "/etc/passwd"}, {"data": "", "origin": "x"}):
            bad = {"parts": [{"type": "binary", "mime": "text/plain", **stolen}]}
            assert (await here.ask("POST", "/api/sessions/s/prompt", bad)).error == "invalid_request"


async def test_a_running_turn_is_steered_and_stopped() -> None:
    stall = Stall("never")
    async with world([stall, "in French"]) as here:
        waiting = asyncio.create_task(here.say("s", "go"))
        await stall.reached.wait()
        assert (await here.ask("POST", "/api/sessions/s/steer", {"text": "in French"})).status == 200
        assert (await waiting).json["text"] == "in French"
        assert (await here.ask("POST", "/api/sessions/s/abort")).json == {"aborted": False}
    stall = Stall("never")
    async with world([stall]) as here:
        waiting = asyncio.create_task(here.say("s", "go"))
        await stall.reached.wait()
        assert (await here.ask("POST", "/api/sessions/s/abort")).json == {"aborted": True}
        assert (await waiting).json["outcome"] == {"type": "Aborted"}


async def test_a_session_is_renamed_archived_activated_forked_compacted_and_forgotten() -> None:
    async with world(echoing) as here:
        await here.say("s", "hello")
        assert (await here.ask("POST", "/api/sessions/s/rename", {"title": "Greeting"})).json["title"] == "Greeting"
        assert (await here.ask("POST", "/api/sessions/s/archive")).json["status"] == "archived"
        assert (await here.say("s", "more")).error == "archived"
        assert (await here.ask("POST", "/api/sessions/s/activate")).json["status"] == "active"
        forked = await here.ask("POST", "/api/sessions/s/fork", {"to": "t", "upto": 4})
        assert (forked.status, forked.json["id"], forked.json["turns"]) == (201, "t", 1)
        assert (await here.ask("POST", "/api/sessions/s/fork", {"to": "t"})).error == "invalid_request"
        assert (await here.ask("POST", "/api/sessions/s/compact")).json == {"summary": None}
        gone = await here.ask("DELETE", "/api/sessions/s")
        assert (gone.status, gone.body) == (204, b"")
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/abort"), ("POST", "/archive"), ("GET", "/events")):
            assert (await here.ask(method, f"/api/sessions/s{path}")).error == "not_found"


async def test_approvals_are_listed_approved_and_denied() -> None:
    ran: list[str] = []

    @tool(untrusted=False, sink=False)
    def send(to: str) -> str:
        """Send."""
        ran.append(to)
        return "sent"

    config = Config(policy=PolicySettings(ask=("send",)))
    script = [[Call("send", {"to": "a"})], "done", [Call("send", {"to": "b"})], "not done"]
    async with world(script, tools=[send], config=config) as here:
        first = await here.say("s", "send it")
        assert first.json["outcome"]["type"] == "Paused"
        (waits,) = (await here.ask("GET", "/api/approvals")).json["approvals"]
        assert (waits["session"], waits["asked"]["name"]) == ("s", "send")
        approved = await here.ask("POST", f"/api/approvals/{waits['asked']['id']}/approve")
        assert approved.json["verdict"] == "approved"
        await until(lambda: ran == ["a"])
        assert (await here.say("s", "and b")).json["outcome"]["type"] == "Paused"
        (waits,) = (await here.ask("GET", "/api/approvals")).json["approvals"]
        where = f"/api/approvals/{waits['asked']['id']}"
        assert (await here.ask("POST", f"{where}/deny", {"reason": "no"})).json["verdict"] == "denied"
        assert (await here.ask("POST", f"{where}/deny")).error == "not_found"
        assert ran == ["a"]


async def test_messages_are_found_by_search() -> None:
    async with world(echoing) as here:
        await here.say("s", "the flat in Lisbon has a blue door")
        hits = (await here.ask("GET", "/api/memory/search?q=Lisbon+door&k=3")).json["hits"]
        assert hits
        assert hits[0]["session"] == "s"
        for bad in ("", "?q=", "?q=x&k=0", "?q=x&k=101", "?q=x&k=a", "?q=x&q=y", "?q=x&unknown=1"):
            assert (await here.ask("GET", f"/api/memory/search{bad}")).error == "invalid_request"


async def test_triggers_are_scheduled_run_and_removed(tmp_path: Path) -> None:
    async with world(echoing, homes={MAIN: tmp_path}) as here:
        made = {"name": "daily", "kind": "periodic", "text": "report", "session": "r", "schedule": "0 9 * * *"}
        assert (await here.ask("POST", "/api/triggers", made)).status == 201
        (shown,) = (await here.ask("GET", "/api/triggers")).json["triggers"]
        assert (shown["name"], shown["text"], shown["schedule"]) == ("daily", "report", "0 9 * * *")
        run = await here.ask("POST", "/api/triggers/daily/run")
        assert (run.status, run.json["trigger"]) == (200, "daily")
        assert (await here.ask("DELETE", "/api/triggers/daily")).status == 204
        assert (await here.ask("DELETE", "/api/triggers/daily")).error == "not_found"
        for wrong in ({"schedule": "every day"}, {"name": "../up"}, {"kind": "sometimes"}, {"text": ""}):
            assert (await here.ask("POST", "/api/triggers", made | wrong)).error == "invalid_request"
        key = await here.key("ann", role="admin", scopes=ALL)
        assert (await here.ask("POST", "/api/triggers", made | {"check": "id"}, key=key)).error == "forbidden"


async def test_admins_of_the_home_add_and_remove_people() -> None:
    async with world(echoing, workspaces=("other",)) as here:
        made = await here.ask("POST", "/api/people", {"name": "ann", "roles": {MAIN: "member"}})
        assert (made.status, made.json["roles"]) == (201, {MAIN: "member"})
        told = await here.ask("POST", "/api/keys", {"person": "ann", "note": "laptop"})
        key = told.json["key"]
        assert (told.status, told.json["kept"]["person"]) == (201, "ann")
        assert (await here.ask("GET", "/api/me", key=key)).json["person"] == "ann"
        listed = await here.ask("GET", "/api/keys")
        assert key not in listed.body.decode()
        assert "digest" not in listed.body.decode()
        assert (await here.ask("GET", "/api/workspaces")).json == {"workspaces": [MAIN, "other"]}
        assert (await here.ask("GET", "/api/workspaces", key=key)).json == {"workspaces": [MAIN]}
        id = told.json["kept"]["id"]
        assert (await here.ask("DELETE", f"/api/keys/{id}")).status == 204
        assert (await here.ask("DELETE", f"/api/keys/{id}")).error == "not_found"
        assert (await here.ask("GET", "/api/me", key=key)).error == "unauthorised"
        assert (await here.ask("DELETE", "/api/people/ann")).status == 204
        assert (await here.ask("DELETE", "/api/people/ann")).error == "not_found"
        assert (await here.ask("POST", "/api/people", {"name": "No Name"})).error == "invalid_request"
        assert (await here.ask("POST", "/api/keys", {"person": "nobody"})).error == "invalid_request"


async def test_a_person_cannot_be_added_to_an_unknown_workspace() -> None:
    async with world(echoing, workspaces=("other",)) as here:
        for roles in ({"nowhere": "member"}, {MAIN: "member", "nowhere": "admin"}):
            refused = await here.ask("POST", "/api/people", {"name": "ann", "roles": roles})
            assert (refused.status, refused.error) == (400, "invalid_request")
            assert (
                "there is no workspace 'nowhere'; `mainstay workspace create nowhere` makes it"
                in refused.json["error"]["message"]
            )
        assert (await here.ask("GET", "/api/people")).json == {"people": []}
        assert (await here.ask("POST", "/api/people", {"name": "ann", "roles": {"other": "member"}})).status == 201
        refused = await here.ask("POST", "/api/keys", {"person": "ann", "workspace": "nowhere"})
        assert "there is no workspace 'nowhere'" in refused.json["error"]["message"]
        assert (await here.ask("GET", "/api/keys")).json == {"keys": []}


async def test_only_admins_see_or_change_the_people() -> None:
    async with world(echoing, homes={MAIN: ":memory:", "other": ":memory:"}) as here:
        keys = [
            await here.key("ann", role="member"),
            await here.key("bob", "other", role="admin", scopes=ALL),
            await here.key("cid", role="admin", scopes=("chat", "read")),
        ]
        for key in keys:
            for method, path, body in (
                ("GET", "/api/people", None),
                ("GET", "/api/keys", None),
                ("POST", "/api/people", {"name": "eve", "roles": {MAIN: "admin"}}),
                ("POST", "/api/keys", {"person": "ann"}),
                ("DELETE", "/api/people/ann", None),
                ("DELETE", "/api/keys/x", None),
            ):
                assert (await here.ask(method, path, body, key=key)).error == "forbidden"
        chief = await here.key("dan", role="admin", scopes=ALL)
        assert (await here.ask("GET", "/api/people", key=chief)).status == 200


async def test_a_person_has_sessions_of_their_own_and_there_are_no_others() -> None:
    async with world(echoing, homes={MAIN: ":memory:", "other": ":memory:"}) as here:
        ann, bob = await here.key("ann"), await here.key("bob")
        eve = await here.key("eve", "other", role="admin", scopes=ALL)
        await here.say("plan", "the canary sings at dawn", key=ann)
        unknown = (await here.ask("GET", "/api/sessions/plan", key=bob)).body
        never = (await here.ask("GET", "/api/sessions/nope", key=bob)).body
        assert unknown.replace(b"plan", b"nope") == never
        for key in (bob, eve):
            for name in ("plan", "web:ann:plan", "web%3Aann%3Aplan"):
                where = f"/api/sessions/{quote(name, safe='')}"
                for method, path in (("GET", ""), ("GET", "/events"), ("POST", "/abort"), ("DELETE", "")):
                    assert (await here.ask(method, where + path, key=key)).error == "not_found"
            found = await here.ask("GET", "/api/memory/search?q=canary", key=key)
            assert found.json["hits"] == []
            assert (await here.ask("GET", "/api/sessions", key=key)).json == {"sessions": []}
        assert (await here.ask("GET", "/api/me", key=eve, headers={"X-Workspace": MAIN})).error == "forbidden"
        gone = await here.ask("GET", "/api/me", key=eve, headers={"X-Workspace": "never-was"})
        assert gone.error == "forbidden"
        mine = await here.ask("GET", "/api/sessions", key=ann)
        assert [one["id"] for one in mine.json["sessions"]] == ["plan"]
        everything = await here.ask("GET", "/api/sessions")
        assert [one["id"] for one in everything.json["sessions"]] == ["web:ann:plan"]


async def test_the_owner_chooses_the_workspace() -> None:
    async with world(echoing, homes={MAIN: ":memory:", "other": ":memory:"}) as here:
        there = {"X-Workspace": "other"}
        assert (await here.ask("GET", "/api/me", headers=there)).json["workspace"] == "other"
        assert (await here.ask("GET", "/api/me", headers={"X-Workspace": "no"})).error == "not_found"


async def test_too_many_requests_and_streams_get_a_retry_time() -> None:
    async with world(echoing, settings=HttpSettings(workspace=MAIN, rate_per_min=3, streams_max=1)) as here:
        key = await here.key("ann")
        await here.say("s", "hi", key=key)
        async with here.hear("/api/sessions/s/events", key=key):
            more = await here.ask("GET", "/api/sessions/s/events", key=key)
            assert (more.error, more.status) == ("too_many_streams", 429)
            assert int(more.headers["retry-after"]) >= 1
        over = await here.ask("GET", "/api/me", key=key)
        assert (over.error, over.status) == ("too_many_requests", 429)
        assert 1 <= int(over.headers["retry-after"]) <= 60
        assert (await here.ask("GET", "/api/me")).status == 200  # the owner


async def test_a_full_lane_is_reported() -> None:
    stall = Stall("late")
    async with world([stall, *["x"] * 9]) as here:
        waiting = [await here.say("s", str(number), wait=False) for number in range(6)]
        assert {one.status for one in waiting} == {202}
        await stall.reached.wait()
        full = await here.say("s", "one more", wait=False)
        assert (full.status, full.error, full.headers["retry-after"]) == (429, "busy", "5")
        stall.release()
        await here.agents[MAIN].settled()


ABSENT = [
    (404, "GET", "/", "not_found"),
    (404, "GET", "/api", "not_found"),
    (404, "GET", "/api/sessions/", "not_found"),
    (404, "GET", "/api/sessions/s/other", "not_found"),
    (405, "PUT", "/api/sessions/s", "wrong_method"),
    (405, "GET", "/api/sessions/s/prompt", "wrong_method"),
    (405, "POST", "/healthz", "wrong_method"),
    (405, "HEAD", "/api/sessions", ""),
    (405, "OPTIONS", "/api/sessions", "wrong_method"),
    (405, "TRACE", "/api/me", "wrong_method"),
]


async def test_unknown_resources_have_one_error_format() -> None:
    async with world(echoing) as here:
        for status, method, path, kind in ABSENT:
            got = await here.ask(method, path)
            assert got.status == status, path
            assert not kind or got.error == kind
            assert ("allow" in got.headers) == (status == 405)


async def test_an_internal_error_is_reported_by_its_number_alone(caplog: pytest.LogCaptureFixture) -> None:
    async with world(echoing) as here:
        secret = "the inner workings"

        async def broken() -> dict[str, str]:
            raise RuntimeError(secret)

        async def migrating() -> dict[str, str]:
            return {"store": "it is being migrated"}

        here.app.configure(HttpSettings(workspace=MAIN, find_unready=broken))
        got = await here.ask("GET", "/readyz")
        assert (got.status, got.error) == (500, "internal")
        assert secret not in got.body.decode()
        number = got.json["error"]["message"].rsplit(" ", 1)[1]
        assert any(number in one.getMessage() and one.exc_info for one in caplog.records)
        here.app.configure(HttpSettings(workspace=MAIN, find_unready=migrating))
        waits = await here.ask("GET", "/readyz")
        assert (waits.status, waits.error) == (503, "not_ready")
        assert "migrated" in waits.json["error"]["message"]
        assert (await here.ask("GET", "/healthz")).status == 200


async def test_the_model_is_set_while_a_turn_runs_and_while_others_change_the_session(tmp_path: Path) -> None:
    """In any race it is stored or refused, and never an error of the server."""
    stall = Stall("done")
    script: list[Any] = [stall]
    limits = Limits(lane_idle_s=0.001)  # lanes are unloaded all the time

    def step(context: Any, options: Any) -> Any:
        return script.pop() if script else "fine"

    async with world(step, homes={MAIN: tmp_path}, config=Config(limits=limits)) as here:
        running = asyncio.ensure_future(here.say("s", "go"))
        await stall.reached.wait()
        assert (await here.ask("PUT", "/api/sessions/s/model", {"model": "scripted"})).status == 204
        stall.release()
        assert (await running).status == 200
        assert (await here.ask("GET", "/api/sessions/s")).json["model"] == "scripted"
        for number in range(12):
            requests = [
                *(here.ask("PUT", "/api/sessions/s/model", {"model": ""}) for _ in range(4)),
                *(here.say("s", f"again {number}") for _ in range(2)),
                here.ask("POST", "/api/sessions/s/fork", {"to": f"copy {number}"}),
                here.ask("PUT", f"/api/sessions/copy%20{number}/model", {"model": ""}),
                *([here.ask("DELETE", "/api/sessions/s")] if number % 4 == 3 else []),
            ]
            answers = await asyncio.gather(*requests)
            assert {answer.status for answer in answers} <= {200, 201, 204, 400, 404}
            await asyncio.sleep(0.01)


async def test_a_failing_model_is_an_outcome_with_details_only_for_admins() -> None:
    def failing(context: Any, options: Any) -> Step:
        raise ScriptEnded("private words")

    async with world(failing) as here:
        ann = await here.key("ann")
        told = await here.say("s", "hi", key=ann)
        assert told.json["outcome"]["type"] == "Failed"
        assert not told.json["outcome"].get("details")
        assert "private words" not in told.body.decode()
        page = await here.ask("GET", "/api/sessions/s/events", key=ann, headers={"Accept": "application/json"})
        assert "private words" not in page.body.decode()
        assert b"TurnEnded" in page.body


async def test_it_can_be_mounted_in_another_application_and_others_in_it() -> None:
    async def hooks(scope: Any, receive: Any, send: Any) -> None:
        """Another application, at /hooks."""
        body = f"{scope['root_path']} {scope['path']}".encode()
        await send({"type": "http.response.start", "status": 202, "headers": []})
        await send({"type": "http.response.body", "body": body})

    async with world(echoing) as here:
        app = create_app(here.app.state.gateway, HttpSettings(workspace=MAIN), mounts={"/hooks": hooks})
        outer = Starlette(routes=[Mount("/agent", app)], exception_handlers={Exception: refused})
        async with served(outer) as port:
            there = URL(f"http://127.0.0.1:{port}/agent")
            path = f"{there}/api/sessions/{quote(ODD, safe='')}"
            async with here.browser.post(URL(f"{path}/prompt", encoded=True), json={"text": "hi"}) as got:
                assert (got.status, (await got.json())["session"]) == (200, ODD)
            async with here.browser.get(URL(path, encoded=True)) as got:
                assert (await got.json())["id"] == ODD
            async with here.browser.get(f"{there}/api/nothing") as got:
                assert (got.status, (await got.json())["error"]["type"]) == (404, "not_found")
            async with here.browser.post(f"{there}/hooks/ci") as got:
                assert (got.status, await got.text()) == (202, "/agent/hooks /agent/hooks/ci")
            for headers in ({"Host": "evil.example"}, {"Host": f"evil.example:{port}"}):
                async with here.browser.post(f"{there}/hooks/ci", headers=headers) as got:
                    assert (got.status, (await got.json())["error"]["type"]) == (403, "wrong_host")
            async with here.browser.post(f"{there}/hooks/ci", headers={"Origin": "https://evil.example"}) as got:
                assert (got.status, (await got.json())["error"]["type"]) == (403, "wrong_origin")


async def refused(request: Any, error: Exception) -> Any:
    raise AssertionError("what goes wrong inside is nobody else's business") from error


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[int]:
    stop = asyncio.Event()
    with bind_socket("127.0.0.1", 0) as at:
        task = asyncio.create_task(serve_asgi(app, at, stop))
        try:
            yield at.getsockname()[1]
        finally:
            stop.set()
            await task
