"""`POST /hooks/NAME` as ASGI messages: the order of checks, and the responses."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import msgspec
import pytest

from mainstay.core.errors import (
    AgentClosed,
    ConfigError,
    InputRefused,
    LaneFull,
    SessionArchived,
    StoreBusy,
    StoreFull,
)
from mainstay.core.triggers import TriggerTarget, Webhook
from mainstay.io.webhook_signatures import sign_webhook
from mainstay.testing.virtual_time import START_MS, VirtualClock, virtual_run
from mainstay.triggers.webhook_app import (
    BODY_BYTES_MAX,
    DeliveryReceipt,
    WebhookAppLimits,
    WebhookDelivery,
    build_webhook_app,
    check_webhook,
    check_webhooks,
)

NOW_S = START_MS // 1000
SECRET = "a secret of some length"
TARGET = TriggerTarget(session="s")
CI = Webhook(name="ci", secret=SECRET, target=TARGET, bytes_max=1000)
GITHUB = Webhook(name="github", secret="It's a Secret to Everybody", target=TARGET, scheme="github")
PAUSED = Webhook(name="paused", secret="another one, as long", target=TARGET, paused=True)
HOOKS = {one.name: one for one in (CI, GITHUB, PAUSED)}

Headers = Iterable[tuple[str | bytes, str | bytes]]


class Answer(msgspec.Struct):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def kind(self) -> str:
        return str(self.json["error"]["type"])


class Sender:
    """An ASGI server for the application. `pieces` are the body, as it comes; a number is a wait in seconds."""

    def __init__(
        self, deliver: Callable[[WebhookDelivery], Awaitable[DeliveryReceipt]] | None = None, **settings: Any
    ) -> None:
        self.taken: list[WebhookDelivery] = []
        self.read = 0  # pieces of the last body that were asked for
        bounds = settings.pop("bounds", None)
        hooks = settings.pop("hooks", HOOKS)
        self.app = build_webhook_app(hooks, deliver or self.keep, clock=VirtualClock(), limits=bounds, **settings)

    async def keep(self, delivery: WebhookDelivery) -> DeliveryReceipt:
        again = any(one.nonce == delivery.nonce for one in self.taken)
        self.taken += [] if again else [delivery]
        return DeliveryReceipt(delivery.nonce, again)

    async def send(
        self,
        path: str = "/hooks/ci",
        pieces: Sequence[bytes | float] = (b"",),
        headers: Headers = (),
        method: str = "POST",
        root: str = "",
    ) -> Answer:
        left = list(pieces)
        self.read = 0
        said: list[Any] = []

        async def receive() -> Any:
            self.read += 1
            while left and isinstance(left[0], float | int):
                await asyncio.sleep(float(left.pop(0)))  # type: ignore[arg-type]
            if not left:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

        async def send(message: Any) -> None:
            said.append(message)

        raw = [(_bytes(name).lower(), _bytes(value)) for name, value in headers]
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "root_path": root,
            "headers": raw,
            "client": ("::1", 9),
        }
        await self.app(scope, receive, send)
        if not said:
            return Answer(0, {}, b"")
        start, body = said
        found = {name.decode(): value.decode() for name, value in start["headers"]}
        assert len(found) == len(start["headers"]), "a header is there twice"
        return Answer(start["status"], found, body["body"])

    async def post(self, body: bytes, kind: str = "application/json", hook: Webhook = CI, more: Headers = ()) -> Answer:
        made = sign_webhook(hook.scheme, hook.secret, body, at_s=NOW_S, id="")
        headers = [("content-type", kind), ("content-length", str(len(body))), *made.items(), *more]
        return await self.send(f"/hooks/{hook.name}", [body], headers)


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


@pytest.fixture
def sender(monkeypatch: pytest.MonkeyPatch) -> Sender:
    """On real time: nothing here waits."""
    made = Sender()
    monkeypatch.setattr(VirtualClock, "now_ms", lambda self: START_MS)
    return made


# --- taken ---------------------------------------------------------------------------------------


async def test_a_signed_delivery_is_passed_on_and_answered_with_202(sender: Sender) -> None:
    answer = await sender.post(b'{"ok": true}')
    assert answer.status == 202
    (taken,) = sender.taken
    assert answer.json == {"accepted": True, "id": taken.nonce}
    assert (taken.webhook, taken.payload_format, taken.delivery_id) == (CI, "json", "")
    assert json.loads(taken.payload_text) == {"ok": True}
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["content-length"] == str(len(answer.body))
    assert "connection" not in answer.headers


async def test_202_comes_only_when_it_is_durable() -> None:
    stored = asyncio.Event()
    begun = asyncio.Event()

    async def slow(delivery: WebhookDelivery) -> DeliveryReceipt:
        begun.set()
        await stored.wait()
        return DeliveryReceipt("k")

    asking = asyncio.create_task(Sender(slow, hooks={"github": GITHUB}).post(b"x", "text/plain", GITHUB))
    await begun.wait()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not asking.done()
    stored.set()
    assert (await asking).json == {"accepted": True, "id": "k"}


async def test_f42_a_replay_is_a_duplicate_and_says_so(sender: Sender) -> None:
    first = await sender.post(b"{}")
    again = await sender.post(b"{}", more=[("Idempotency-Key", "another")])
    assert again.status == 202
    assert again.json == first.json | {"duplicate": True}
    assert len(sender.taken) == 1


@pytest.mark.parametrize(
    ("hook", "headers", "given"),
    [
        (CI, [("Idempotency-Key", "abc")], "abc"),
        (CI, [("X-GitHub-Delivery", "abc")], ""),
        (GITHUB, [("X-GitHub-Delivery", "72d3162e")], "72d3162e"),
        (GITHUB, [("X-GitHub-Delivery", "72d3162e"), ("Idempotency-Key", "abc")], "abc"),
    ],
    ids=["named", "not-githubs", "githubs", "both"],
)
async def test_the_senders_delivery_id_is_passed_on(
    sender: Sender, hook: Webhook, headers: Headers, given: str
) -> None:
    assert (await sender.post(b"{}", hook=hook, more=headers)).status == 202
    assert sender.taken[0].delivery_id == given


@pytest.mark.parametrize("value", ["é", "a\x01b", "x" * 300, "x" * 5000], ids=["ascii", "control", "long", "huge"])
async def test_a_name_that_cannot_be_kept_is_refused(sender: Sender, value: str) -> None:
    answer = await sender.post(b"{}", more=[("Idempotency-Key", value)])
    assert (answer.status, answer.kind) == (400, "bad_request")
    assert sender.taken == []
    twice = await sender.post(b"{}", more=[("Idempotency-Key", "a"), ("Idempotency-Key", "b")])
    assert twice.status == 400


@pytest.mark.parametrize(
    ("body", "kind", "media", "shown"),
    [
        (b'{"a": 1}', "application/json", "json", '{\n  "a": 1\n}'),
        (b'{"a": 1}', "application/vnd.x+json; charset=utf-8", "json", '{\n  "a": 1\n}'),
        (b'{"a": 1}', "", "json", '{\n  "a": 1\n}'),
        (b" [1]", "text/plain", "json", "[\n  1\n]"),
        (b'"text"', "application/json", "json", "text"),
        (b'"text"', "text/plain", "text", '"text"'),
        (b"{not json", "text/plain", "text", "{not json"),
        (b'{"a": 1e999}', "text/plain", "text", '{"a": 1e999}'),
        (b'{"a": 1.5e3}', "text/plain", "json", '{\n  "a": 1500.0\n}'),
        (b"[[" * 300, "text/plain", "text", "[[" * 300),
        ("Zoë\n".encode(), "text/plain", "text", "Zoë\n"),
        (b"a\x00b\x1bc", "text/plain", "text", "a\ufffdb\ufffdc"),
        (b"\xef\xbb\xbf{}", "application/json", "json", "{}"),
        (b'{"a": "\\ud800"}', "application/json", "json", '{\n  "a": "?"\n}'),
        (b"", "text/plain", "text", ""),
        (
            b"text=deploy&user=ada",
            "application/x-www-form-urlencoded",
            "json",
            '{\n  "text": "deploy",\n  "user": "ada"\n}',
        ),
    ],
)
async def test_json_is_read_where_declared_or_detected_and_all_else_is_text(
    sender: Sender, body: bytes, kind: str, media: str, shown: str
) -> None:
    assert (await sender.post(body, kind)).status == 202
    assert (sender.taken[0].payload_format, sender.taken[0].payload_text) == (media, shown)


async def test_github_sends_forms_by_default_and_what_they_hold_is_read(sender: Sender) -> None:
    form = b"payload=%7B%22action%22%3A+%22opened%22%7D"
    assert (await sender.post(form, "application/x-www-form-urlencoded", GITHUB)).status == 202
    assert json.loads(sender.taken[0].payload_text) == {"action": "opened"}
    assert (await sender.post(b"payload=%7B", "application/x-www-form-urlencoded", GITHUB)).status == 400


async def test_a_template_says_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    hook = msgspec.structs.replace(CI, template="{{ who }} said {{ what }}: {{ body }}")
    sender = Sender(hooks={"ci": hook})
    monkeypatch.setattr(VirtualClock, "now_ms", lambda self: START_MS)
    await sender.post(b'{"who": "ada", "what": "{{ who }}"}')
    assert sender.taken[0].payload_text.startswith("ada said {{ who }}: {")
    await sender.post(b"hello", "text/plain")
    assert sender.taken[1].payload_text == "(there is no who) said (there is no what): hello"


async def test_the_shown_payload_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    sender = Sender(bounds=WebhookAppLimits(payload_chars_max=100))
    monkeypatch.setattr(VirtualClock, "now_ms", lambda self: START_MS)
    await sender.post(b"x" * 900, "text/plain")
    assert len(sender.taken[0].payload_text) == 100
    assert sender.taken[0].payload_text.endswith("(the rest was left out)")


# --- refused before it is parsed -----------------------------------------------------------------


def unsigned_cases() -> list[tuple[str, Headers]]:
    good = list(sign_webhook("timestamp", SECRET, b"{}", at_s=NOW_S).items())
    old = list(sign_webhook("timestamp", SECRET, b"{}", at_s=NOW_S - 301).items())
    return [
        ("nothing", []),
        ("no-signature", good[:1]),
        ("no-time", good[1:]),
        ("twice", [*good, good[0]]),
        ("old", old),
        ("future", list(sign_webhook("timestamp", SECRET, b"{}", at_s=NOW_S + 301).items())),
        ("other-secret", list(sign_webhook("timestamp", SECRET + "x", b"{}", at_s=NOW_S).items())),
        ("other-body", list(sign_webhook("timestamp", SECRET, b"{ }", at_s=NOW_S).items())),
        ("other-algorithm", [good[0], (good[1][0], good[1][1].replace("v1=", "sha1="))]),
        ("not-ascii", [good[0], (good[1][0], "v1=é")]),
        ("github-like", list(sign_webhook("github", SECRET, b"{}").items())),
    ]


@pytest.mark.parametrize("headers", [pytest.param(case, id=name) for name, case in unsigned_cases()])
async def test_f42_every_signature_problem_gets_the_same_401(
    sender: Sender, headers: Headers, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        answer = await sender.send("/hooks/ci", [b"{}"], headers)
    assert answer.status == 401
    assert answer.json == {"error": {"type": "unauthorized", "message": "the signature is missing or invalid"}}
    assert sender.taken == []
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith("webhook ci: rejected a delivery from ::1: ")


async def test_f42_a_body_is_not_parsed_before_it_is_known_to_be_signed(sender: Sender) -> None:
    for body in (b"\xff\xfe", b"{broken", b"[" * 900):
        refused = await sender.send("/hooks/ci", [body], [("content-type", "application/json")])
        assert refused.status == 401
    compressed = await sender.send("/hooks/ci", [b"x"], [("content-encoding", "gzip")])
    assert compressed.status == 401


async def test_nothing_that_came_and_no_secret_is_in_the_log(sender: Sender, caplog: pytest.LogCaptureFixture) -> None:
    headers = {"X-Mainstay-Timestamp": "canary-time", "X-Mainstay-Signature": "v1=canary-signature"}
    with caplog.at_level(logging.DEBUG):
        await sender.send("/hooks/ci", [b"canary-body"], headers.items())
        await sender.post(b"canary-body", "text/plain")
        await sender.post(b"\xffcanary-body", "text/plain")
    assert "canary" not in caplog.text
    assert SECRET not in caplog.text


def test_an_unauthenticated_sender_cannot_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def knock() -> None:
        sender = Sender()
        for _ in range(500):
            assert (await sender.send()).status == 401
        await asyncio.sleep(2)
        await sender.send()

    with caplog.at_level(logging.DEBUG, logger="mainstay"):
        virtual_run(knock())
    assert len(caplog.records) == 2
    assert "(499 more were rejected before)" in caplog.records[1].getMessage()


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"\xff\xfe{\x00", "application/json", 415),
        (b"caf\xe9", "text/plain; charset=iso-8859-1", 415),
        (b"{broken", "application/json", 400),
        (b"[NaN]", "application/json", 400),
        (b'{"a": 1e999}', "application/json", 400),
        (b'{"a": [-1.5e400]}', "application/json", 400),
        (b"", "application/json", 400),
        (b"[" * 900, "application/json", 400),
        (b"[" + b"9" * 900 + b"]", "application/json", 202),
        (b"a=1&" * 240, "application/x-www-form-urlencoded", 202),
    ],
)
async def test_a_signed_invalid_body_is_refused_with_a_sentence(
    sender: Sender, body: bytes, kind: str, status: int
) -> None:
    answer = await sender.post(body, kind)
    assert answer.status == status
    if status != 202:
        assert answer.json["error"]["message"]
        assert sender.taken == []


async def test_a_compressed_body_is_refused(sender: Sender) -> None:
    assert (await sender.post(b"x", more=[("Content-Encoding", "gzip")])).status == 415
    assert (await sender.post(b"{}", more=[("Content-Encoding", "identity")])).status == 202


# --- where ---------------------------------------------------------------------------------------

NOWHERE = [
    *("", "/", "/hooks", "/hooks/", "/hooks//ci", "/hooks/ci/", "/hooks/ci/x", "/hooks/CI", "/Hooks/ci", "//hooks/ci"),
    *(
        "/hooks/../hooks/ci",
        "/hooks/./ci",
        "/hooks/ci\x00",
        "/hooks/ci ",
        "/hooks/ci%20",
        "/hooks/a/b",
        "/hooks/..%2fci",
    ),
    *("/hooks/\uff43\uff49", "/hooks/c\u200bi", "/hooks/" + "a" * 1_000_000, "/hooks" + "/" * 1_000_000, "/x/hooks/ci"),
    *("/healthz", "hooks/ci", "/hooks/ci?x", "/hooks/ci;a", "/hooks/ci#"),
]


@pytest.mark.parametrize("path", NOWHERE, ids=range(len(NOWHERE)))
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_every_other_path_is_404(sender: Sender, path: str, method: str) -> None:
    answer = await sender.send(path, [b"{}"], sign_webhook("timestamp", SECRET, b"{}", at_s=NOW_S).items(), method)
    assert (answer.status, answer.kind) == (404, "not_found")
    assert sender.taken == []


async def test_a_paused_hook_looks_like_an_unknown_one(sender: Sender) -> None:
    for method in ("GET", "POST", "OPTIONS", "HEAD"):
        unknown = await sender.send("/hooks/nobody", method=method)
        assert await sender.send("/hooks/paused", method=method) == unknown
        assert unknown.status == 404


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "TRACE", "post"])
async def test_other_methods_are_405_and_the_right_one_is_named(sender: Sender, method: str) -> None:
    answer = await sender.send(method=method)
    assert (answer.status, answer.kind, answer.headers["allow"]) == (405, "method_not_allowed", "OPTIONS, POST")


async def test_head_has_no_body_and_options_says_what_is_allowed(sender: Sender) -> None:
    head = await sender.send(method="HEAD")
    assert (head.status, head.body) == (405, b"")
    options = await sender.send(method="OPTIONS", headers=[("Origin", "https://evil.example")])
    assert (options.status, options.body, options.headers["allow"]) == (204, b"", "OPTIONS, POST")
    assert not [name for name in options.headers if name.startswith("access-control")]  # no page of a browser may


@pytest.mark.parametrize(
    ("root", "path", "status"),
    [
        ("", "/hooks/ci", 202),
        ("/in", "/in/hooks/ci", 202),
        ("/in/", "/in/hooks/ci", 202),
        ("/in", "/hooks/ci", 202),  # a server that leaves the root out of the path
        ("/in", "/inhooks/ci", 404),
        ("/in", "/other/hooks/ci", 404),
        ("/hooks", "/hooks/hooks/ci", 202),
        ("/hooks", "/hooks/ci", 404),
    ],
)
async def test_it_is_found_below_any_mount_path(sender: Sender, root: str, path: str, status: int) -> None:
    headers = sign_webhook("timestamp", SECRET, b"{}", at_s=NOW_S).items()
    assert (await sender.send(path, [b"{}"], headers, root=root)).status == status


async def test_health_is_answered_when_it_stands_alone() -> None:
    alone = Sender(standalone=True)
    assert (await alone.send("/healthz", method="GET")).json == {"ok": True}
    assert (await alone.send("/healthz", method="HEAD")).body == b""
    assert (await alone.send("/healthz")).status == 405
    assert (await Sender().send("/healthz", method="GET")).status == 404


# --- how much and how long -----------------------------------------------------------------------


async def test_a_body_that_says_it_is_too_large_is_refused_before_anything_is_read(sender: Sender) -> None:
    for length in ("1001", "9" * 18, "9" * 5000):
        answer = await sender.send(pieces=[b"x" * 10], headers=[("content-length", length)])
        assert (answer.status, answer.kind, sender.read) == (413, "too_large", 0)
        assert answer.headers["connection"] == "close"


async def test_a_body_with_a_false_length_is_counted_as_it_comes(sender: Sender) -> None:
    for headers in ([], [("content-length", "10")], [("transfer-encoding", "chunked")], [("content-length", "-5")]):
        answer = await sender.send(pieces=[b"x" * 400] * 100, headers=headers)
        assert (answer.status, sender.read) == (413, 3)
    exact = b"x" * 1000
    headers = [*sign_webhook("timestamp", SECRET, exact, at_s=NOW_S).items()]
    assert (await sender.send(pieces=[exact[:1], b"", exact[1:]], headers=headers)).status == 202
    assert (await sender.send(pieces=[exact, b"x"], headers=headers)).status == 413


async def test_a_body_in_a_thousand_pieces_is_one_body(sender: Sender) -> None:
    body = json.dumps({"text": "y" * 900}).encode()
    headers = [*sign_webhook("timestamp", SECRET, body, at_s=NOW_S).items()]
    answer = await sender.send(pieces=[body[at : at + 1] for at in range(len(body))], headers=headers)
    assert answer.status == 202


def test_a_slow_sender_is_cut_off_after_ten_seconds_however_busy_it_looks() -> None:
    async def drip() -> None:
        sender = Sender()
        began = asyncio.get_running_loop().time()
        pieces = [piece for _ in range(500) for piece in (0.5, b"x")]
        answer = await sender.send(pieces=pieces)
        assert (answer.status, answer.kind) == (408, "too_slow")
        assert answer.headers["connection"] == "close"
        assert asyncio.get_running_loop().time() - began == 10
        body = b"{}"
        headers = [*sign_webhook("timestamp", SECRET, body, at_s=NOW_S + 10).items()]
        assert (await sender.send(pieces=[4.5, b"{", 4.5, b"}"], headers=headers)).status == 202

    virtual_run(drip())


async def test_a_sender_that_disconnects_gets_no_answer_and_nothing_is_stored(sender: Sender) -> None:
    assert (await sender.send(pieces=[])).status == 0
    assert sender.taken == []
    assert (await sender.post(b"{}")).status == 202


def test_all_bodies_together_are_bounded_and_released_afterwards() -> None:
    hook = msgspec.structs.replace(CI, bytes_max=10_000)

    async def crowd() -> None:
        sender = Sender(hooks={"ci": hook}, bounds=WebhookAppLimits(held_bytes_max=50_000))
        for _ in range(3):  # again and again: nothing is left behind
            many = [sender.send(pieces=[1, b"x" * 4000, 1, b""]) for _ in range(20)]
            answers = await asyncio.gather(*many)
            assert [one.status for one in answers].count(401) == 12  # as many as fit at the same time
            busy = [one for one in answers if one.status == 503]
            assert len(busy) == 8
            assert {(one.kind, one.headers["retry-after"]) for one in busy} == {("busy", "10")}
            at_s = VirtualClock().now_ms() // 1000
            headers = sign_webhook("timestamp", SECRET, b"{}", at_s=at_s).items()
            assert (await sender.send(pieces=[b"{}"], headers=headers)).status == 202

    virtual_run(crowd())


# --- not taken -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (LaneFull("5 prompts wait in secret-session"), 429, "busy"),
        (StoreBusy("/home/ada/workspace.db is locked"), 503, "unavailable"),
        (StoreFull("no space left in /home/ada"), 503, "unavailable"),
        (SessionArchived("session 'secret-session' is archived"), 503, "unavailable"),
        (AgentClosed("the agent is closed"), 503, "unavailable"),
        (InputRefused("the message is empty"), 422, "refused"),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Exception) else str(one),
)
async def test_a_delivery_that_cannot_be_stored_now_is_refused_without_internal_details(
    monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, kind: str
) -> None:
    async def refuse(delivery: WebhookDelivery) -> DeliveryReceipt:
        raise error

    monkeypatch.setattr(VirtualClock, "now_ms", lambda self: START_MS)
    answer = await Sender(refuse).post(b"{}")
    assert (answer.status, answer.kind) == (status, kind)
    assert ("retry-after" in answer.headers) == (status in (429, 503))
    assert "secret-session" not in answer.body.decode()
    assert "/home" not in answer.body.decode()


def test_a_delivery_that_is_not_durable_in_time_is_503(caplog: pytest.LogCaptureFixture) -> None:
    async def never(delivery: WebhookDelivery) -> DeliveryReceipt:
        await asyncio.sleep(3600)
        return DeliveryReceipt("x")

    async def wait() -> None:
        sender = Sender(never)
        answer = await sender.post(b"{}")
        assert (answer.status, answer.headers["retry-after"]) == (503, "10")
        assert asyncio.get_running_loop().time() == 25

    virtual_run(wait())
    assert "it took too long" in caplog.text


async def test_concurrent_copies_of_a_delivery_reach_the_handler_with_one_nonce(sender: Sender) -> None:
    answers = await asyncio.gather(*(sender.post(b"{}") for _ in range(50)))
    assert {one.status for one in answers} == {202}
    assert sum("duplicate" not in one.json for one in answers) == 1
    assert len(sender.taken) == 1


# --- the protocol, and the configuration ---------------------------------------------------------


async def test_it_begins_and_ends_as_servers_want_it() -> None:
    messages = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    said: list[str] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        said.append(message["type"])

    app = Sender().app
    await app({"type": "lifespan"}, receive, send)
    assert said == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    await app({"type": "websocket", "path": "/hooks/ci"}, receive, send)
    assert said[-1] == "websocket.close"
    with pytest.raises(NotImplementedError):
        await app({"type": "carrier-pigeon"}, receive, send)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"secret": ""}, "no secret"),
        ({"secret": "short"}, "5 bytes"),
        ({"other_secrets": ("short",)}, "5 bytes"),
        ({"other_secrets": (SECRET,) * 4}, "more than 4 secrets"),
        ({"name": "../x"}, "is not a valid webhook name"),
        ({"name": ""}, "is not a valid webhook name"),
        ({"name": "a" * 65}, "is not a valid webhook name"),
        ({"name": "ci/names"}, "is not a valid webhook name"),
        ({"template": "{{ a"}, "not closed"),
        ({"bytes_max": 0}, "0 bytes"),
        ({"bytes_max": BODY_BYTES_MAX + 1}, "at most"),
        ({"window_s": 0.0}, "window"),
        ({"window_s": 1e9}, "window"),
        ({"target": TriggerTarget()}, "either a session or a channel"),
        ({"target": TriggerTarget(channel="c")}, "either a session or a channel"),
        ({"target": TriggerTarget(session="s", channel="c", room="r")}, "either a session or a channel"),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else "",
)
def test_f42_a_hook_that_must_not_be_served_prevents_the_start(change: dict[str, Any], why: str) -> None:
    bad = msgspec.structs.replace(CI, **change)
    with pytest.raises(ConfigError) as caught:
        check_webhook(bad)
    assert why in str(caught.value)
    assert SECRET not in str(caught.value)
    with pytest.raises(ConfigError):
        build_webhook_app({bad.name: bad}, Sender().keep, clock=VirtualClock())


def test_f42_two_hooks_with_one_secret_are_refused_since_one_could_be_replayed_to_the_other() -> None:
    other = msgspec.structs.replace(CI, name="other")
    with pytest.raises(ConfigError, match="ci and other have the same secret"):
        check_webhooks({"ci": CI, "other": other})
    rotated = msgspec.structs.replace(other, secret="a new one, long enough", other_secrets=(SECRET,))
    with pytest.raises(ConfigError, match="same secret"):
        check_webhooks({"ci": CI, "other": rotated})
    check_webhooks({"ci": msgspec.structs.replace(CI, other_secrets=(SECRET,))})
    with pytest.raises(ConfigError, match="listed as"):
        check_webhooks({"x": CI})
    check_webhooks(HOOKS)
