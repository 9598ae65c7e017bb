"""Webhooks over real sockets, into real lanes and a real store: signed by real senders, replayed, killed (F42)."""

from __future__ import annotations

import asyncio
import datetime
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support import hook_server
from support.cli_support import Command, FakeModel
from support.hook_server import GITHUB, HOOKS, SECRET, STANDARD, WebhookRig, loop_of, serving
from support.paths import PYTHONPATH

from mainstay.core.limits import Limits
from mainstay.io.webhook_signatures import sign_webhook
from mainstay.providers.scripted import Stall
from mainstay.triggers.webhook_app import WebhookAppLimits

LOOPS = ["asyncio", "uvloop"]


class Answer(msgspec.Struct):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def post(
    port: int, body: bytes, headers: dict[str, str] | None = None, path: str = "/hooks/ci", method: str = "POST"
) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def signed(body: bytes, *, at_s: int = 0, id: str = "") -> dict[str, str]:
    return sign_webhook("timestamp", SECRET, body, at_s=at_s or int(time.time()), id=id)


async def raw(port: int, *pieces: bytes, wait_s: float = 0.0) -> bytes:
    """What comes back until the other side closes; pieces go out with a pause between them."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            if writer.transport.is_closing():
                break
            writer.write(piece)
            await asyncio.sleep(wait_s)
        return await asyncio.wait_for(reader.read(), 120)
    except ConnectionError:
        return b""
    finally:
        writer.close()


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Iterator[Callable[[Coroutine[Any, Any, None]], None]]:
    with asyncio.Runner(loop_factory=loop_of(request.param)) as runner:
        yield runner.run


# --- real senders --------------------------------------------------------------------------------


def test_deliveries_signed_by_real_senders_are_accepted_and_reach_their_session(
    tmp_path: Path, run: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    async def life() -> None:
        rig = WebhookRig(tmp_path)
        await rig.open()
        async with serving(rig.app()) as port:
            body = json.dumps({"job": "tests", "ok": False}).encode()
            answer = await asyncio.to_thread(post, port, body, signed(body) | {"Content-Type": "application/json"})
            assert (answer.status, answer.json["accepted"]) == (202, True)
            assert answer.headers["content-type"] == "application/json"
            issue = json.dumps({"issue": {"title": "It breaks"}, "sender": {"login": "ada"}}).encode()
            for headers in (
                sign_webhook("github", GITHUB, issue, id="72d3162e"),
                sign_webhook("github", GITHUB, issue, id="other"),
            ):
                answer = await asyncio.to_thread(post, port, issue, headers, "/hooks/github")
                assert answer.status == 202
            assert answer.json["duplicate"] is True  # the same bytes under another name
            for n in range(2):
                text = f"disk {n} is full".encode()
                made = sign_webhook("timestamp", "for rooms, long enough", text, at_s=int(time.time()))
                assert (await asyncio.to_thread(post, port, text, made, "/hooks/rooms")).status == 202
            assert (await asyncio.to_thread(post, port, b"", {}, "/healthz", "GET")).json == {"ok": True}
        await rig.lanes.wait_until_settled()
        assert await rig.said("builds") == ['A build ended:{\n  "job": "tests",\n  "ok": false\n}']
        assert await rig.said("issues") == ["ada opened It breaks"]
        rooms = [one.key for one in await rig.store.list_sessions() if one.key.startswith("chat:ops:rooms-")]
        assert len(rooms) == 2  # each a thread of its own
        assert [run.trigger for run in rig.runs] == ["ci", "github", "rooms", "rooms"]
        assert (await rig.store.get_session("builds")).untrusted  # type: ignore[union-attr]
        await rig.close()

    run(life())


def test_the_package_of_standard_webhooks_signs_requests_that_are_accepted(
    tmp_path: Path, run: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    webhooks = pytest.importorskip("standardwebhooks", reason="an independent signer")
    body = '{"type": "invoice.paid", "name": "Zoë"}'

    def attempt(at: datetime.datetime) -> dict[str, str]:
        made = webhooks.Webhook(STANDARD).sign(msg_id="msg_1", timestamp=at, data=body)
        return {"webhook-id": "msg_1", "webhook-timestamp": str(int(at.timestamp())), "webhook-signature": made}

    async def life() -> None:
        rig = WebhookRig(tmp_path)
        await rig.open()
        async with serving(rig.app()) as port:
            now = datetime.datetime.now(tz=datetime.UTC)
            path = "/hooks/standard"
            first = await asyncio.to_thread(post, port, body.encode(), attempt(now), path)
            assert first.status == 202
            later = attempt(now + datetime.timedelta(seconds=5))  # as it is sent again: the same id at another time
            again = await asyncio.to_thread(post, port, body.encode(), later, path)
            assert again.json == first.json | {"duplicate": True}
            old = attempt(now - datetime.timedelta(seconds=400))
            assert (await asyncio.to_thread(post, port, body.encode(), old, path)).status == 401
        assert len(await rig.said("payments")) == 1
        await rig.close()

    run(life())


PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "webhooks.md"


def shell_of_the_page() -> str:
    """What docs/how-to/webhooks.md tells people to type."""
    (block,) = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    made: str = block.replace("http://127.0.0.1:7460", "$URL").replace("curl -sS", "curl -sS -w '\\n%{http_code}\\n'")
    assert "$URL/hooks/ci" in made
    return made


async def shell(script: str, port: int) -> list[str]:
    env = {"PATH": os.environ["PATH"], "CI_SECRET": SECRET, "URL": f"http://127.0.0.1:{port}"}
    process = await asyncio.create_subprocess_exec("sh", "-eu", "-c", script, env=env, stdout=asyncio.subprocess.PIPE)
    said, _ = await asyncio.wait_for(process.communicate(), 120)
    return said.decode().splitlines()


def test_openssl_and_curl_send_as_the_page_says(
    tmp_path: Path, run: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    if not shutil.which("openssl") or not shutil.which("curl"):
        pytest.skip("openssl or curl is not installed")

    async def life() -> None:
        rig = WebhookRig(tmp_path)
        await rig.open()
        async with serving(rig.app()) as port:
            body, status = await shell(shell_of_the_page(), port)
            assert status == "202"
            assert json.loads(body)["accepted"] is True
            _, status = await shell(shell_of_the_page().replace('"$CI_SECRET"', '"another secret, as long"'), port)
            assert status == "401"
            _, status = await shell(
                shell_of_the_page().replace('--data-binary "$body"', '--data-binary "$body "'), port
            )
            assert status == "401"
            large = (
                "head -c 2000000 /dev/zero | curl -sS -o /dev/null -w '%{http_code}\\n' --data-binary @- $URL/hooks/ci"
            )
            assert (await shell(large, port))[-1] == "413"
        assert len(await rig.said("builds")) == 1
        await rig.close()

    run(life())


# --- replays -------------------------------------------------------------------------------------


def test_f42_a_delivery_fifty_times_at_once_is_taken_once(
    tmp_path: Path, run: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    async def life() -> None:
        rig = WebhookRig(tmp_path)
        await rig.open()
        async with serving(rig.app()) as port:
            body = b'{"n": 1}'
            headers = signed(body)
            with ThreadPoolExecutor(50) as pool:
                loop = asyncio.get_running_loop()
                asking = [
                    loop.run_in_executor(pool, post, port, body, headers | {"Idempotency-Key": f"k{n % 7}"})
                    for n in range(50)
                ]
                answers = await asyncio.gather(*asking)
        assert {one.status for one in answers} == {202}
        assert sum("duplicate" not in one.json for one in answers) == 1
        assert len({one.json["id"] for one in answers}) == 1
        assert len(await rig.said("builds")) == 1
        assert len(rig.runs) == 1
        await rig.close()

    run(life())


class Process:
    """A server that can be killed. What it kept is in its folder."""

    def __init__(self, folder: Path, loop: str) -> None:
        self.folder = folder
        self.loop = loop
        self.start()

    def start(self) -> None:
        program = [sys.executable, hook_server.__file__, str(self.folder), self.loop]
        self.process = subprocess.Popen(
            program, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": PYTHONPATH}
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the server did not start"
        self.port = int(line)

    def stop(self, how: int) -> None:
        self.process.send_signal(how)
        self.process.wait(120)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def restart(self, how: int = signal.SIGKILL) -> None:
        self.stop(how)
        self.start()

    def said(self, session: str) -> list[str]:
        async def read() -> list[str]:
            rig = WebhookRig(self.folder)
            await rig.store.open()
            try:
                return await rig.said(session)
            finally:
                await rig.store.close()

        return asyncio.run(read())


@pytest.mark.parametrize("loop", LOOPS)
def test_f42_replays_are_known_across_restarts_and_kills(tmp_path: Path, loop: str) -> None:
    server = Process(tmp_path, loop)
    try:
        body = b'{"n": 1}'
        headers = signed(body, id="first")
        taken = post(server.port, body, headers).json
        assert "duplicate" not in taken
        again = signed(body, at_s=int(time.time()) + 5, id="first")  # signed anew, under the same name
        for how in (signal.SIGKILL, signal.SIGTERM):
            server.restart(how)
            assert post(server.port, body, headers).json == taken | {"duplicate": True}
            assert post(server.port, body, headers | {"Idempotency-Key": "other"}).json == taken | {"duplicate": True}
            assert post(server.port, body, again).json == taken | {"duplicate": True}
            unnamed = {name: value for name, value in again.items() if name != "Idempotency-Key"}
            assert post(server.port, body, unnamed).json == taken | {"duplicate": True}
        late = signed(body, at_s=int(time.time()) - 301)
        assert post(server.port, body, late).status == 401
    finally:
        server.stop(signal.SIGKILL)
    assert len(server.said("builds")) == 1


def test_f42_f6_a_delivery_answered_with_202_is_stored_once_despite_repeated_kills(tmp_path: Path) -> None:
    """Senders send again until they hear 202, as they do; the server is killed among them."""
    server = Process(tmp_path, "asyncio")
    secret = "for rooms, long enough"
    bodies = [f"delivery {n}".encode() for n in range(40)]
    left = dict.fromkeys(range(len(bodies)))
    kills = 0

    def attempt(n: int) -> bool:
        headers = sign_webhook("timestamp", secret, bodies[n], at_s=int(time.time()), id=f"d{n}")
        try:
            return post(server.port, bodies[n], headers, "/hooks/rooms").status == 202
        except (OSError, http.client.HTTPException):
            return False

    try:
        with ThreadPoolExecutor(8) as pool:
            while left:
                tried = [(n, pool.submit(attempt, n)) for n in left]
                if kills < 4:
                    tried[min(5, len(tried) - 1)][1].result()
                    server.restart()
                    kills += 1
                for n, answer in tried:
                    if answer.result():
                        del left[n]
    finally:
        server.stop(signal.SIGKILL)
    assert kills == 4

    async def all_said() -> list[str]:
        rig = WebhookRig(tmp_path)
        await rig.store.open()
        keys = [one.key for one in await rig.store.list_sessions(limit=1000) if one.key.startswith("chat:ops:")]
        said = [text for key in keys for text in await rig.said(key)]
        await rig.store.close()
        return said

    assert sorted(asyncio.run(all_said())) == sorted(body.decode() for body in bodies)


# --- a full lane, slow and lying senders ---------------------------------------------------------


def test_a_full_lane_answers_with_retry_after_and_accepts_the_retry(
    tmp_path: Path, run: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    async def life() -> None:
        stall = Stall("Done.")
        rig = WebhookRig(tmp_path, answer=lambda context, options: stall)
        await rig.open()
        async with serving(rig.app()) as port:
            bodies = [f"{n}".encode() for n in range(Limits().mailbox_depth_max + 2)]
            headers = [signed(body) for body in bodies]
            answers = [await asyncio.to_thread(post, port, *pair) for pair in zip(bodies, headers, strict=True)]
            assert [one.status for one in answers] == [202] * (len(bodies) - 1) + [429]
            assert answers[-1].headers["retry-after"] == "10"
            stall.release()
            await rig.lanes.wait_until_settled()
            assert (await asyncio.to_thread(post, port, bodies[-1], headers[-1])).json.get("duplicate") is None
        assert len(await rig.said("builds")) == len(bodies)
        await rig.close()

    run(life())


def test_slow_endless_or_lying_senders_are_cut_off_and_others_are_served_meanwhile(
    tmp_path: Path, run: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    head = b"POST /hooks/ci HTTP/1.1\r\nHost: x\r\n"

    async def life() -> None:
        rig = WebhookRig(tmp_path)
        await rig.open()
        async with serving(rig.app(bounds=WebhookAppLimits(body_timeout_s=2.0))) as port:
            slow = [asyncio.create_task(raw(port, head + b"Content-Length: 100\r\n\r\nx")) for _ in range(20)]
            body = b"{}"
            assert (await asyncio.to_thread(post, port, body, signed(body))).status == 202
            for answer in await asyncio.gather(*slow):
                assert answer.startswith(b"HTTP/1.1 408 ")  # and the connection is closed, or it would not have ended
            chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
            endless = await raw(port, head + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 40)
            assert endless.startswith(b"HTTP/1.1 413 ") or not endless  # it was cut off while it sent
            large = await raw(port, head + b"Content-Length: 99999999999\r\n\r\n")
            assert large.startswith(b"HTTP/1.1 413 ")
            assert (await raw(port, head + b"Content-Length: 5\r\n\r\nabc", wait_s=0.05)).startswith(b"HTTP/1.1 408 ")
            gone = await asyncio.open_connection("127.0.0.1", port)
            gone[1].write(head + b"Content-Length: 100\r\n\r\nx")
            gone[1].close()
            assert (await asyncio.to_thread(post, port, b"[]", signed(b"[]"))).status == 202
        await rig.close()

    run(life())


def test_a_connection_is_reused_for_the_next_delivery_also_after_a_refusal(
    tmp_path: Path, run: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    def talk(port: int) -> list[int]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        statuses = []
        for n, headers in enumerate([{}, signed(b"1"), {"X-Mainstay-Signature": "v1=00"}, signed(b"3")]):
            connection.request("POST", "/hooks/ci", str(n).encode(), headers)
            answer = connection.getresponse()
            answer.read()
            statuses.append(answer.status)
        sock = connection.sock
        connection.request("OPTIONS", "/hooks/ci")
        statuses.append(connection.getresponse().status)
        assert connection.sock is sock
        connection.close()
        return statuses

    async def life() -> None:
        rig = WebhookRig(tmp_path)
        await rig.open()
        async with serving(rig.app()) as port:
            assert await asyncio.to_thread(talk, port) == [401, 202, 401, 202, 204]
        await rig.close()

    run(life())


@pytest.mark.parametrize(
    "target",
    [
        *(
            b"/hooks/../hooks/ci",
            b"/hooks/%2e%2e/ci",
            b"/hooks/ci%2f",
            b"/hooks%2fci/x",
            b"/hooks/%00",
            b"/hooks/c%69%00",
        ),
        *(b"/hooks/%ef%bd%83%ef%bd%89", b"//hooks/ci", b"/hooks/ci/", b"/hooks/", b"/hooks/" + b"a" * 60_000, b"/%ff"),
        *(b"/hooks/%", b"/hooks/ci/../ci", b"*", b"/hooks/ci%3f"),
    ],
    ids=range(16),
)
def test_manipulated_paths_are_not_found(tmp_path: Path, target: bytes) -> None:
    async def life() -> None:
        rig = WebhookRig(tmp_path)
        await rig.open()
        async with serving(rig.app()) as port:
            headers = "".join(f"{name}: {value}\r\n" for name, value in signed(b"{}").items()).encode()
            request = b"POST " + target + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n" + headers + b"\r\n{}"
            answer = await raw(port, request)
            assert answer.startswith((b"HTTP/1.1 404 ", b"HTTP/1.1 400 "))
        assert await rig.store.list_sessions() == []
        await rig.close()

    asyncio.run(life())


def test_it_can_be_mounted_in_another_application(
    tmp_path: Path, run: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Mount, Route

    async def home(request: Any) -> PlainTextResponse:
        return PlainTextResponse("home")

    async def life() -> None:
        rig = WebhookRig(tmp_path)
        await rig.open()
        app = Starlette(
            routes=[
                Route("/", home),
                Mount("/deep", routes=[Mount("/in", app=rig.app())]),
                Mount("/", app=rig.app({"ci": HOOKS["ci"]})),
            ]
        )
        async with serving(app) as port:
            assert (await asyncio.to_thread(post, port, b"", {}, "/", "GET")).body == b"home"
            first = await asyncio.to_thread(post, port, b"{}", signed(b"{}"), "/deep/in/hooks/ci")
            assert first.status == 202
            second = await asyncio.to_thread(post, port, b"[]", signed(b"[]"), "/hooks/ci")
            assert second.status == 202
            assert (await asyncio.to_thread(post, port, b"[]", signed(b"[]"), "/deep/hooks/ci")).status == 404
            assert (await asyncio.to_thread(post, port, b"[]", signed(b"[]"), "/in/hooks/ci")).status == 404
        assert len(await rig.said("builds")) == 2
        await rig.close()

    run(life())


# --- the command ---------------------------------------------------------------------------------


@pytest.fixture
def mainstay(tmp_path: Path) -> Iterator[Command]:
    model = FakeModel()
    made = Command(tmp_path, model.url)
    made.env["CI_SECRET"] = SECRET
    yield made
    model.close()


def configure(mainstay: Command, secret: str) -> None:
    path = mainstay.home / "mainstay.yaml"
    hook = f"    ci: {{secret: '{secret}', session: builds, text: 'A build ended:'}}\n"
    path.write_text(path.read_text().partition("triggers:")[0] + f"triggers:\n  webhooks:\n{hook}")
    path.chmod(0o600)


def serve(mainstay: Command) -> tuple[subprocess.Popen[str], int]:
    """Returns when it answers."""
    process = mainstay.start("trigger", "serve", "--port", "0")
    assert process.stderr is not None
    told = ""
    while "webhooks at" not in told:
        told = process.stderr.readline()
        assert told, "it ended before it served"
    port = int(told.partition("127.0.0.1:")[2].partition("/")[0])
    until = time.monotonic() + 120
    while True:
        try:
            assert post(port, b"", {}, "/healthz", "GET").status == 200
            return process, port
        except OSError:
            assert time.monotonic() < until, "it does not answer"


def end(process: subprocess.Popen[str], how: int) -> None:
    process.send_signal(how)
    process.communicate(timeout=120)


def test_f42_the_command_serves_webhooks_and_knows_replays_after_it_was_killed(mainstay: Command) -> None:
    configure(mainstay, "${CI_SECRET}")
    body = b'{"job": "tests"}'
    headers = signed(body, id="first")
    process, port = serve(mainstay)
    try:
        first = post(port, body, headers)
        assert first.status == 202
        assert post(port, body).status == 401
    finally:
        end(process, signal.SIGKILL)
    process, port = serve(mainstay)
    try:
        again = post(port, body, headers | {"Idempotency-Key": "another"})
        assert again.json == first.json | {"duplicate": True}
    finally:
        end(process, signal.SIGTERM)
    assert process.returncode == 0
    (session,) = mainstay.json("session", "list")["sessions"]
    assert (session["key"], session["turns"]) == ("builds", 1)
    shown = mainstay("session", "show", "builds").stdout
    assert "A build ended:" in shown
    assert SECRET not in shown


@pytest.mark.parametrize("secret", ["", "short", "${NOT_SET}", "$HOOK_SECRET_NOT_SET", "%HOOK_SECRET_NOT_SET%"])
def test_f42_without_a_secret_worth_the_name_the_command_does_not_start(mainstay: Command, secret: str) -> None:
    configure(mainstay, secret)
    done = mainstay("trigger", "serve", "--port", "0")
    assert done.returncode != 0
    assert "secret" in done.stderr
    if "HOOK" in secret:
        assert "as ${NAME}" in done.stderr
        assert secret not in done.stderr, "it may be one all the same"
    assert "webhooks at" not in done.stderr
    assert "Traceback" not in done.stderr
