"""A whole server with two isolated workspaces, red and blue, and a main one.

`WorkspacesRig` is what `mainstay serve` runs, in this process, on real ports. Red is filled with unique words, in
everything that it can hold; `leaks` says which of them are in a text.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import aiohttp.web
import msgspec
from yarl import URL

from mainstay import Agent
from mainstay.config.loader import load_config
from mainstay.config.schema import Config
from mainstay.core.people import AccessScope, Person, PersonRole
from mainstay.core.ports import Context, Options
from mainstay.core.tools import tool
from mainstay.gateway.room_routing import ChannelRoutingSettings
from mainstay.gateway.service import GatewayService
from mainstay.io.webhook_signatures import sign_webhook
from mainstay.server.network_listeners import run_listeners
from mainstay.testing import Call, ScriptedProvider
from mainstay.testing.channel_rig import eventually, wait_until
from mainstay.testing.loopback_channel import LoopbackChannel, LoopbackMessage, LoopbackPlatform

WHOLE = bool(os.environ.get("MAINSTAY_TEST_ALL"))
HOLDS_S = 120.0
SECRET = "what both sides sign with and nobody else"
ALL: tuple[AccessScope, ...] = ("chat", "read", "approve", "admin")
KINDS = (
    *("session", "title", "message", "answer", "summary", "fact", "memory", "pinned", "file", "attachment"),
    *("approval", "trigger", "triggername", "skill", "result", "guesttool", "error", "delivery", "person", "called"),
    *("keynote", "pairing", "room", "overheard", "direct", "rules", "steered", "admins"),
)


def canary(kind: str) -> str:
    """One word that is nowhere else, and that no stemmer shortens."""
    digest = hashlib.sha256(f"red {kind}".encode()).hexdigest()[:18]
    return "".join(chr(ord("g") + int(char, 16)) for char in digest) + "7"


RED = {kind: canary(kind) for kind in KINDS}


def leaks(*said: object) -> set[str]:
    """The kinds of red's words that stand in any of this."""
    text = "\n".join(one if isinstance(one, str) else repr(one) for one in said).casefold()
    return {kind for kind, mark in RED.items() if mark[2:-1] in text}


BLUE = "{instructions: You are blue.}"
YAML = """
workspace: default
server: {port: 0, grpc_port: 0, keys: required, rate_per_min: 1000000, streams_max: 1000, drain_s: 1}
tools: {builtin: [all, message], memory: "on"}
sandbox: {kind: host}
policy: {ask: [burn]}
sessions: {memory: {embeddings: {enabled: false}}}
channels:
  hook:
    {kind: webhook, secret: SECRET, url: "http://127.0.0.1:PORT/posted", rooms: {ROOM: red, blue-room: blue}}
workspaces:
  red: {instructions: "Never say RULES."}
  blue: {instructions: You are blue.}
  green: {instructions: You are green.}
triggers:
  webhooks: {redhook: {secret: "of the hook alone and long enough for it", session: desk, text: hello, workspace: red}}
"""


class Answer(msgspec.Struct):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def told(self) -> str:
        """Everything that the caller gets of it; without the time."""
        kept = {name: value for name, value in self.headers.items() if name != "date"}
        return f"{self.status} {kept} {self.body.decode(errors='replace')}"


class Model:
    """Calls the tools that a message names, and answers with a text that only its workspace has."""

    def __init__(self, workspace: str) -> None:
        self.workspace = workspace
        self.shown: list[str] = []  # all that it ever saw
        self.heard: list[str] = []  # what was said to it, as it saw it
        self.tools: dict[str, dict[str, Any]] = {}  # what it is offered, by name

    def __call__(self, context: Context, options: Options) -> Any:
        seen = [context.system, context.profile, *map(repr, context.messages)]
        self.shown += seen
        self.tools |= {one.name: one.schema for one in context.tools}
        red = self.workspace == "red"
        if "You write the memory of a conversation" in context.system:
            fact = {"subject": RED["fact"], "predicate": "keeps", "object": "bees", "source": 1}
            ours = not {RED["message"], RED["summary"]}.isdisjoint(re.findall(r"\w+", str(seen)))  # others have it too
            said = f"They spoke of {RED['summary']}." if ours else "They spoke."
            return json.dumps({"summary": said, "facts": [fact] if ours else []})
        last = next(one for one in reversed(context.messages) if one.role != "system")
        self.heard += [last.text] if last.role == "user" else []
        if last.role == "user" and (calls := _calls_in(last.text)):
            return calls
        if last.role == "user" and "fail!" in last.text:
            raise RuntimeError(RED["error"] if red else "broken")
        return f"So it is: {RED['answer']}." if red else f"{self.workspace} hears you."


def _calls_in(text: str) -> list[Call]:
    """`CALL [["tool", {…}], …]` anywhere in what is said."""
    _, found, rest = text.partition("CALL ")
    if not found:
        return []
    given, _ = json.JSONDecoder().raw_decode(rest)
    return [Call(name, arguments) for name, arguments in given]


def calling(*calls: tuple[str, dict[str, Any]]) -> str:
    return f"CALL {json.dumps(calls)}"


class WorkspacesRig:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.models: dict[str, Model] = {}
        self.keys: dict[str, str] = {}  # by the name of their person
        self.posted: list[dict[str, Any]] = []  # to the platform behind the webhook
        self.burnt: list[str] = []
        self.platform = LoopbackPlatform(direct=("D-red", "D-blue", "D-eve"), rooms=("C-red", "C-blue", "C-open"))
        self.service: GatewayService
        self.browser: aiohttp.ClientSession
        self.url = self.grpc = ""
        self._count = 0

    def make(self, config: Config) -> Agent:
        model = self.models.setdefault(config.workspace, Model(config.workspace))
        red = config.workspace == "red"

        @tool(effect="pure", untrusted=False, sink=False)
        def dump() -> str:
            """Says a lot."""
            return "a line of it\n" * 20_000 + (RED["result"] if red else "the end")

        @tool(untrusted=False, sink=False)
        def burn(what: str) -> str:
            """Changes the world."""
            self.burnt.append(what)
            return f"burnt {what}"

        return Agent(ScriptedProvider(model), tools=[dump, burn], home=self.home, config=config)

    # --- people ----------------------------------------------------------------------------------

    async def person(self, name: str, role: PersonRole, workspace: str, called: str = "") -> None:
        await self.service.people.add_person(Person(name=name, display_name=called, roles={workspace: role}))

    async def key(
        self, holder: str, workspace: str, scopes: tuple[AccessScope, ...], name: str = "", note: str = ""
    ) -> str:
        token, _ = await self.service.people.create_key(holder, workspace, scopes=scopes, note=note)
        self.keys[name or holder] = token
        return token

    async def paired(self, name: str, channel: str, user: str, workspace: str, role: PersonRole = "member") -> None:
        code = await self.service.people.issue_pairing_code(channel, user, name)
        assert code is not None
        await self.service.people.pair_account(code, name=name, workspace=workspace, role=role)

    # --- asking ----------------------------------------------------------------------------------

    async def ask(
        self, method: str, path: str, body: Any = None, *, key: str = "", headers: Mapping[str, str] | None = None
    ) -> Answer:
        given = {**({"Authorization": f"Bearer {key}"} if key else {}), **(headers or {})}
        data = body
        if body is not None and not isinstance(body, bytes):
            data = json.dumps(body).encode()
            given.setdefault("Content-Type", "application/json")
        where = URL(self.url + path, encoded=True)
        async with asyncio.timeout(HOLDS_S), self.browser.request(method, where, data=data, headers=given) as got:
            headers = {name.lower(): value for name, value in got.headers.items()}
            if headers.get("content-type", "").startswith("text/event-stream"):
                return Answer(got.status, headers, await _some(got.content))
            return Answer(got.status, headers, await got.read())

    async def prompt(self, who: str, session: str, text: str) -> Any:
        got = await self.ask("POST", f"/api/sessions/{session}/prompt", {"text": text}, key=self.keys[who])
        assert got.status == 200, got.body
        return got.json

    async def post(self, channel: str, message: Mapping[str, Any]) -> Answer:
        """As the platform behind a webhook does, signed."""
        self._count += 1
        body = json.dumps({"id": f"p{self._count}", **message}).encode()
        signed = sign_webhook("timestamp", SECRET, body, at_s=int(time.time()), id=f"p{self._count}")
        return await self.ask(
            "POST", f"/channels/{channel}", body, headers={"Content-Type": "application/json", **signed}
        )

    async def say(self, room: str, text: str, user: str, **more: Any) -> str:
        """In a room of the platform in memory; returns when it was heard."""
        id, at = self.platform.next_id_and_time()
        said = LoopbackMessage(id=id, room=room, user=user, text=text, at=at, **more)
        self.platform.add_message(said)
        await wait_until(lambda: not self.platform.undelivered, f"{text[:40]!r} was heard")
        return id

    def shown(self, room: str) -> list[str]:
        return [one.text for one in self.platform.bot_messages(room)]

    async def settled(self) -> None:
        for workspace in self.service.workspaces.open_workspaces.values():
            await workspace.agent.settled()
        board = self.service.channel_router

        async def quiet() -> bool:
            return not (
                board._inbound_handler.is_busy
                or board._deliverer.is_busy
                or any(one.is_busy for one in board._posters.values())
            )

        await eventually(quiet, "nothing is on its way")

    # --- what red has ----------------------------------------------------------------------------

    async def journal(self, *, but: tuple[str, ...] = ()) -> dict[str, str]:
        """Every record of red's, and every file, but for sessions that begin so."""
        red = await self.service.workspaces.get_agent("red")
        found: dict[str, str] = {}
        for standing in await red.sessions.list(limit=10_000):
            if not standing.key.startswith(but or ("\0",)):
                for record in await red.sessions.records(standing.key, limit=100_000):
                    found[f"{standing.key}#{record.seq}"] = repr(record.event)
        folder = self.home / "workspaces" / "red"
        ours = tuple(str(folder / "/".join(one.split(":"))) for one in but)
        events = [path for path in (self.home / "events").rglob("*.json") if b'"red"' in path.read_bytes()]
        for path in [*folder.rglob("*"), *events]:
            theirs = path.is_file() and not str(path).startswith(ours or ("\0",))
            if theirs and not path.name.startswith("workspace.db"):
                found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
        people = self.service.people
        found |= {f"person {one.name}": repr(one) for one in people.list_people() if "red" in one.roles}
        kept = people.list_keys()
        found |= {f"key {one.id}": repr(one) for one in kept if one.workspace == "red"}
        return found | {f"memory {one.id}": one.text for one in await red.memory.list(limit=1000)}


async def _some(source: aiohttp.StreamReader) -> bytes:
    """What a stream says before it has no more to say for a moment: it may be one without an end."""
    said = b""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.15):
            async for piece in source.iter_any():
                said += piece
    return said


def on_disk(home: Path) -> set[str]:
    """The kinds of red's words that are anywhere in the home."""
    files = [path for path in home.rglob("*") if path.is_file()]
    return leaks(*map(str, files), *(path.read_bytes().decode("latin-1") for path in files))


# --- running -------------------------------------------------------------------------------------


@asynccontextmanager
async def serving_workspaces(
    home: Path, *, keys: str = "required", blue: str = BLUE, before: WorkspacesRig | None = None
) -> AsyncIterator[WorkspacesRig]:
    """The server, without people; `blue` is what is configured of that workspace. With one that was there
    `before`: another process on the same home and the same platform, for the same people."""
    rig = WorkspacesRig(home)
    if before is not None:
        rig.platform, rig.keys = before.platform, before.keys
    async with _platform(rig) as port:
        yaml = YAML.replace("SECRET", SECRET).replace("PORT", str(port)).replace("RULES", RED["rules"])
        yaml = yaml.replace("ROOM", RED["room"]).replace("keys: required", f"keys: {keys}").replace(BLUE, blue)
        (home / "mainstay.yaml").write_text(yaml)
        (home / "mainstay.yaml").chmod(0o600)
        async with _served(rig):
            yield rig


@asynccontextmanager
async def _served(rig: WorkspacesRig) -> AsyncIterator[None]:
    rig.service = service = GatewayService(rig.home, load_config(rig.home, env={}), rig.make)
    stop, now = asyncio.Event(), asyncio.Event()
    told: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()
    await service.open()
    rooms = {"C-red": "red", "C-blue": "blue"}
    chat = LoopbackChannel(rig.platform)
    await service.channel_router.connect_channel(chat, ChannelRoutingSettings(workspace="default", rooms=rooms))
    serving = asyncio.create_task(run_listeners(service, stop, now, lambda url, grpc: told.set_result((url, grpc))))
    rig.browser = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2 * HOLDS_S))
    try:
        await asyncio.wait((serving, told), return_when=asyncio.FIRST_COMPLETED, timeout=HOLDS_S)
        if serving.done():
            serving.result()
        rig.url, rig.grpc = await told
        yield
    finally:
        await rig.browser.close()
        stop.set()
        now.set()
        await serving
        await service.close()


@asynccontextmanager
async def _platform(rig: WorkspacesRig) -> AsyncIterator[int]:
    """Where the webhook's answers are posted to."""

    async def take(request: aiohttp.web.Request) -> aiohttp.web.Response:
        rig.posted.append(await request.json())
        return aiohttp.web.json_response({})

    app = aiohttp.web.Application()
    app.router.add_post("/posted", take)
    runner = aiohttp.web.AppRunner(app)
    await runner.setup()
    try:
        site = aiohttp.web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


# --- filling -------------------------------------------------------------------------------------


class LeakedIds(msgspec.Struct, frozen=True):
    """What an attacker may have learned of red from a log or a screen: names and ids, no content."""

    sessions: tuple[str, ...]
    approvals: tuple[str, ...]
    triggers: tuple[str, ...]
    people: tuple[str, ...]
    keys: tuple[str, ...]
    responses: tuple[str, ...]
    calls: tuple[str, ...]
    memories: tuple[str, ...]
    rooms: tuple[str, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for field in self.__struct_fields__ for name in getattr(self, field)))


async def people(rig: WorkspacesRig) -> None:
    """Ann, Bob, Gus and Adm of red; Bea, Bill, Gil and Bos of blue; each with a key, and an account on the platform."""
    for name, role, workspace in (
        *(("ann", "member", "red"), ("bob", "member", "red"), ("gus", "guest", "red"), ("adm", "admin", "red")),
        *(("bea", "member", "blue"), ("gil", "guest", "blue"), ("bos", "admin", "blue"), ("del", "member", "default")),
    ):
        await rig.person(name, role, workspace, called=RED["called"] if name == "ann" else name.title())
        scopes = {"member": ("chat", "approve"), "guest": ("chat",), "admin": ALL}[role]
        await rig.key(name, workspace, scopes, note=RED["keynote"] if name == "ann" else "")
        await rig.paired(name, "chat", name, workspace)
    await rig.person(RED["person"], "member", "red")


async def fill_workspaces(rig: WorkspacesRig) -> LeakedIds:
    """One of red's words in everything that it can hold."""
    skill = rig.home / "workspaces" / "red" / "skills" / "bees"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(f"---\nname: bees\ndescription: Of {RED['skill']}.\n---\nBees.\n")
    agent = await rig.service.workspaces.get_agent("red")
    async with asyncio.timeout(120):
        while not await agent.skills("any"):  # the disk is looked at once a second
            await asyncio.sleep(0.05)
    name = RED["session"]
    await rig.prompt("ann", name, f"The word is {RED['message']}.")
    await rig.prompt("ann", name, calling(("dump", {}), ("write", {"path": "kept.txt", "content": RED["file"]})))
    kept = calling(("remember", {"text": RED["memory"]}), ("remember", {"text": RED["pinned"], "pin": True}))
    await rig.prompt("ann", name, kept)
    for verb, body in (("rename", {"title": RED["title"]}), ("compact", {})):
        got = await rig.ask("POST", f"/api/sessions/{name}/{verb}", body, key=rig.keys["ann"])
        assert got.status == 200, got.body
    await rig.ask("POST", f"/api/sessions/{name}/steer", {"text": RED["steered"]}, key=rig.keys["ann"])
    await rig.ask("POST", "/api/sessions/broken/prompt", {"text": "fail!"}, key=rig.keys["ann"])
    await rig.prompt("adm", "admins", f"What only admins say: {RED['admins']}")
    asked = await rig.prompt("ann", "fire", calling(("burn", {"what": RED["approval"]})))
    spoken = {"model": "mainstay", "input": "hello", "conversation": "client"}
    tools = [{"type": "function", "name": f"tool_{RED['guesttool']}", "description": RED["guesttool"]}]
    responded = await rig.ask("POST", "/v1/responses", {**spoken, "tools": tools}, key=rig.keys["ann"])
    assert responded.status == 200, responded.body
    made = {"kind": "periodic", "schedule": "0 9 1 1 *", "session": "admins", "text": RED["trigger"]}
    got = await rig.ask("POST", "/api/triggers", {**made, "name": RED["triggername"]}, key=rig.keys["adm"])
    assert got.status == 201, got.body
    await _on_channels(rig)
    await rig.settled()
    red = await rig.service.workspaces.get_agent("red")
    kept = rig.service.people.list_keys()
    return LeakedIds(
        sessions=(*(one.key for one in await red.sessions.list(limit=100)), name, "fire", "broken"),
        approvals=(asked["outcome"]["approval"],),
        triggers=(RED["triggername"],),
        people=("ann", "bob", "adm", RED["person"]),
        keys=tuple(one.id for one in kept if one.workspace == "red"),
        responses=(responded.json["id"],),
        calls=("call_2_1_0", f"web:ann:{name}/call_2_1_0"),
        memories=tuple(one.id for one in await red.memory.list(limit=100)),
        rooms=("chat:C-red", "chat:D-red", f"hook:{RED['room']}"),
    )


async def _on_channels(rig: WorkspacesRig) -> None:
    file = (("bees.txt", RED["attachment"].encode()),)
    await rig.say("C-red", f"by the way, {RED['overheard']}", "bob")
    thread = await rig.say("C-red", "agent, look", "ann", mention=True, files=file)
    await rig.settled()
    sent = calling(("message", {"text": RED["delivery"], "to": "chat:C-red"}))
    await rig.say("C-red", sent, "ann", thread=thread)
    await rig.say("D-red", f"between us: {RED['direct']}", "ann")
    await rig.post("hook", {"room": RED["room"], "user": "x", "name": RED["pairing"], "text": "hi", "direct": False})
    await rig.post("hook", {"room": "D-x", "user": "x", "name": RED["pairing"], "text": "let me in", "direct": True})
