"""Shared by the chaos tests of the gateway: a real server that is killed and restarted, a model, a platform, and
clients that reconnect."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from mainstay.core.journal import Record
from mainstay.io.webhook_signatures import IDEMPOTENCY_KEY_HEADER, sign_webhook
from mainstay.store.sqlite.store import SqliteStore
from support.ports import choose_port

SOURCE = Path(__file__).resolve().parents[2] / "src"
SECRET = "what only the two of us know"
PATIENCE_S = 120.0
INSIST_S = 1800.0
AGAIN_S = 0.05  # before a client comes again
MARK = re.compile(r"#[a-z]+[0-9]+-[0-9]+")  # what each prompt is known by
WORDS = 24
AHEAD = 3


class Broken(Exception):
    """The connection ended before what was to come on it."""


class NotNow(Exception):
    """Refused for the moment."""


async def until(holds: Callable[[], Any], said: Callable[[], str] = lambda: "") -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, f"it did not happen: {said()[-2000:]}"
        await asyncio.sleep(AGAIN_S)


# --- HTTP, as little of it as is needed ----------------------------------------------------------


async def request(port: int, head: str, body: bytes, headers: dict[str, str]) -> tuple[Any, Any, int, dict[str, str]]:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        lines = [f"{head} HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        status, *rest = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    except (OSError, asyncio.IncompleteReadError) as error:
        raise Broken(str(error)) from None
    found = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest if line)}
    return reader, writer, int(status.split()[1]), found


async def ask(port: int, head: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """An answer as JSON."""
    sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    given = {"Content-Type": "application/json", "Accept": "application/json", "Connection": "close", **headers}
    reader, writer, status, found = await request(port, head, sent, given)
    try:
        raw = await reader.readexactly(int(found.get("content-length", 0)))
    except (OSError, asyncio.IncompleteReadError) as error:
        raise Broken(str(error)) from None
    finally:
        writer.close()
    return status, json.loads(raw) if raw else None


async def listen(port: int, head: str, body: Any = None, last: int = 0) -> AsyncIterator[tuple[int, str, Any]]:
    """Events as they come: id (0: none), name, data. An end without a word is Broken."""
    sent = b"" if body is None else json.dumps(body).encode()
    given = {"Content-Type": "application/json", "Accept": "text/event-stream"}
    given |= {"Last-Event-ID": str(last)} if last else {}
    reader, writer, status, found = await request(port, head, sent, given)
    held = b""
    try:
        if status != 200:
            said = await reader.readexactly(int(found.get("content-length", 0)))
            raise NotNow(f"{status} to {head}: {said.decode()}")
        yield 0, "begun", None
        while size := int(await reader.readline() or b"", 16):
            held += (await reader.readexactly(size + 2))[:-2]
            *whole, held = held.split(b"\n\n")
            for one in whole:
                fields = dict(line.split(": ", 1) for line in one.decode().split("\n") if ": " in line)
                if "event" in fields:
                    yield int(fields.get("id", 0)), fields["event"], json.loads(fields["data"])
    except (OSError, ValueError, asyncio.IncompleteReadError) as error:
        raise Broken(str(error)) from None
    finally:
        writer.close()


# --- those who are there all the time ------------------------------------------------------------


class Server:
    """A loopback HTTP server in this process."""

    async def __aenter__(self) -> Any:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *raised: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                found = re.search(r"(?i)content-length: *(\d+)", head)
                await self.answer(head, await reader.readexactly(int(found[1]) if found else 0), writer)
        writer.close()

    async def answer(self, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError


class Model(Server):
    """Says whom it was told to be and what it was asked, and then goes on for a while, or for long if asked slowly."""

    pause_s = 0.01
    asked = 0

    async def answer(self, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        self.asked += 1
        messages = json.loads(body)["messages"]
        text = str(next(one["content"] for one in reversed(messages) if MARK.search(str(one["content"]))))
        mark = MARK.findall(text)[-1]
        told = str(messages[0]["content"]).partition("\n")[0]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for word in (f"[{told}] ", f"heard {mark}", *(f" w{n}" for n in range(WORDS))):
            self._say(writer, {"choices": [{"index": 0, "delta": {"content": word}}]})
            await writer.drain()
            await asyncio.sleep(self.pause_s * (20 if "slowly" in text else 1))
        usage = {"prompt_tokens": 5, "completion_tokens": WORDS}
        self._say(writer, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage})
        writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")

    def _say(self, writer: asyncio.StreamWriter, event: dict[str, Any]) -> None:
        data = b"data: " + json.dumps(event).encode() + b"\n\n"
        writer.write(b"%x\r\n%b\r\n" % (len(data), data))


class Platform(Server):
    """Shows a message once, by the key it came with. Now and then it takes one and hangs up without saying so."""

    def __init__(self) -> None:
        self.shown: dict[str, str] = {}  # by key: the text
        self.came = 0

    def answered(self, room: str) -> int:
        return sum(f"#{room}-" in text for text in self.shown.values())

    async def answer(self, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        self.came += 1
        found = re.search(rf"(?i){IDEMPOTENCY_KEY_HEADER}: *(\S+)", head)
        assert found is not None, "a reply came without a key"
        fresh = found[1] not in self.shown
        text = json.loads(body)["text"]
        assert self.shown.setdefault(found[1], text) == text, "two texts under one key"
        if fresh and len(self.shown) % 3 == 0:
            writer.close()
            return
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")


class ServerRestarts:
    """`mainstay serve` on one port, again and again."""

    prefix: tuple[str, ...] = ()  # of the command line: a program that changes limits and runs the command

    def __init__(self, folder: Path, model: Model, platform: Platform | None = None, drain_s: float = 30.0) -> None:
        self.home = folder / "home"
        self.home.mkdir(mode=0o700, exist_ok=True)
        self.log = folder / "log"
        self.model, self.platform, self.drain_s = model, platform, drain_s
        self.port = choose_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.configure()

    def configure(self, instructions: str = "Be terse.", more: str = "") -> None:
        text = f"""model: openai/fake
instructions: {instructions}
providers: {{openai: {{base_url: "http://127.0.0.1:{self.model.port}/v1", api_key: "${{KEY}}"}}}}
server: {{port: {self.port}, drain_s: {self.drain_s}}}
{more}"""
        if self.platform is not None:
            text += f"""people: {{ann: {{identities: {{hook: u1}}}}}}
channels: {{hook: {{kind: webhook, secret: {SECRET}, url: "http://127.0.0.1:{self.platform.port}/"}}}}
"""
        new = self.home / "new.yaml"
        new.write_text(text)
        new.chmod(0o600)
        new.rename(self.home / "mainstay.yaml")

    async def start(self) -> None:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "PYTHONPATH": str(SOURCE), "KEY": "sk-nothing"}
        command = [*self.prefix, sys.executable, "-m", "mainstay", "serve", "--home", str(self.home)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
        end = time.monotonic() + PATIENCE_S
        while not await self.is_ready():
            assert self.process.poll() is None, self.said
            assert time.monotonic() < end, self.said
            await asyncio.sleep(AGAIN_S / 2)

    async def is_ready(self) -> bool:
        try:
            return (await ask(self.port, "GET /readyz"))[0] == 200
        except Broken:
            return False

    @property
    def said(self) -> str:
        return self.log.read_text()

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    async def end(self, number: signal.Signals = signal.SIGKILL) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.send(number)
        code = await asyncio.wait_for(asyncio.to_thread(self.process.wait), PATIENCE_S)
        self.process = None
        return code

    async def __aenter__(self) -> ServerRestarts:
        await self.start()
        return self

    async def __aexit__(self, *raised: object) -> None:
        if self.process is not None:
            await self.end()

    # --- what became of it -----------------------------------------------------------------------

    async def standings(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await ask(self.port, "GET /api/sessions?limit=1000"))[1]["sessions"]
        return found

    async def settled(self) -> None:
        """Nothing is under way any more."""
        end = time.monotonic() + PATIENCE_S
        while any(one.get("unfinished") for one in await self.standings()):
            assert time.monotonic() < end, self.said[-3000:]
            await asyncio.sleep(AGAIN_S)

    async def events(self, session: str) -> list[tuple[int, str]]:
        """A session's journal as HTTP tells it."""
        found: list[tuple[int, str]] = []
        after: int | None = 0
        while after is not None:
            _, page = await ask(self.port, f"GET /api/sessions/{session}/events?limit=50&after={after}")
            found += [(one["sequence"], one["event"]["type"]) for one in page["events"]]
            after = page["next"]
        return found

    async def journal(self, session: str) -> list[Record]:
        """As it is on disk, once it is closed."""
        store = SqliteStore(str(self.home / "workspaces" / "default" / "workspace.db"), read_only=True)
        await store.open()
        try:
            found: list[Record] = []
            while page := await store.read_records(session, found[-1].seq if found else 0):
                found += page
            return found
        finally:
            await store.close()


def kind_of(record: Record) -> str:
    return str(msgspec.to_builtins(record.event)["type"])


# --- those who come back -------------------------------------------------------------------------


async def insist(work: Callable[[], Awaitable[Any]]) -> Any:
    """Until it is done. On a slow machine, no turn may end between two kills; there is time after the last one."""
    end = time.monotonic() + INSIST_S
    while True:
        try:
            return await work()
        except (Broken, NotNow):
            assert time.monotonic() < end, "it cannot be done"
            await asyncio.sleep(AGAIN_S)


class Talker:
    """Says one thing after another in a session of its own, and never again what was taken."""

    def __init__(self, port: int, session: str) -> None:
        self.port, self.session = port, session
        self.stopping = False
        self.taken: list[str] = []  # ids of what the server has answered for
        self.heard: dict[str, list[tuple[int, str]]] = {}  # by id of a prompt that was listened to: what has an id
        self.broken = 0  # streams that ended too early

    async def run(self) -> None:
        number = 0
        while not self.stopping:
            number += 1
            await (self.post(number) if number % 2 else self.stream(number))

    async def post(self, number: int) -> None:
        """On disk, and that is all it wants to know."""
        body = {"text": f"say #{self.session}-{number}", "id": f"p{number}", "wait": False}

        async def work() -> None:
            status, said = await ask(self.port, f"POST /api/sessions/{self.session}/prompt", body)
            if status == 503:
                raise NotNow
            assert status == 202, said

        await insist(work)
        self.taken.append(f"p{number}")
        await asyncio.sleep(AGAIN_S)

    async def stream(self, number: int, how: str = "") -> None:
        """Heard to its end: after a break, from the last that was heard."""
        body = {"text": f"say {how} #{self.session}-{number}", "id": f"p{number}"}
        heard = self.heard[f"p{number}"] = []

        async def work() -> None:
            last = heard[-1][0] if heard else 0
            events = listen(self.port, f"POST /api/sessions/{self.session}/prompt", body, last)
            try:
                async for id, name, _ in events:
                    if name == "begun" and f"p{number}" not in self.taken:
                        self.taken.append(f"p{number}")
                    if id:
                        heard.append((id, name))
                    if name == "TurnEnded":
                        return
                raise Broken("it said goodbye")
            except Broken:
                self.broken += 1
                raise
            finally:
                await events.aclose()  # type: ignore[attr-defined]

        await insist(work)


class Follower:
    """Follows all events of a session, through all restarts of the server."""

    def __init__(self, port: int, session: str) -> None:
        self.port, self.session = port, session
        self.heard: list[tuple[int, str]] = []

    async def run(self) -> None:
        while True:
            with suppress(Broken, NotNow):
                last = self.heard[-1][0] if self.heard else 0
                async for id, name, _ in listen(self.port, f"GET /api/sessions/{self.session}/events", None, last):
                    if id:
                        self.heard.append((id, name))
            await asyncio.sleep(AGAIN_S)


class Poster:
    """A user on a channel, a few messages ahead of the answers; what was taken is not said again."""

    def __init__(self, port: int, room: str, platform: Platform) -> None:
        self.port, self.room, self.platform = port, room, platform
        self.stopping = False
        self.taken: list[str] = []  # marks

    async def run(self) -> None:
        number = 0
        while not self.stopping:
            number += 1
            await insist(lambda number=number: self._post(number))
            self.taken.append(f"#{self.room}-{number}")
            await until(lambda: len(self.taken) - self.platform.answered(self.room) < AHEAD)
            await asyncio.sleep(AGAIN_S * 4)

    async def _post(self, number: int) -> None:
        mark = f"#{self.room}-{number}"
        given = {"id": f"m{number}", "room": self.room, "user": "u1", "text": f"say {mark}", "direct": True}
        body = json.dumps(given).encode()
        status, said = await ask(
            self.port, "POST /channels/hook", body, **sign_webhook("timestamp", SECRET, body, at_s=int(time.time()))
        )
        if status == 503:
            raise NotNow
        assert status == 202, (status, said)
