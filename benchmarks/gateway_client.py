"""Those who use the gateway, in a process of their own: one job in, as JSON, one line of JSON out.

It shares its cores with what is measured, so that while answers come it only keeps their bytes; each is looked at when
it has ended: the words must be the model's, the events in order, the end a good one.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Callable
from typing import Any, cast

import msgspec
import uvloop
from gateway_model import LONG, PACED, SHORT, answer, modestly

FIRST = re.compile(rb"event: (?:TextDelta|MessageAdded)|\"content\": ?\"[^\"]")  # of ours, and of a model's
DATA = re.compile(rb"data: (\{[^\n]*\})\n\n")
END = b"\r\n0\r\n\r\n"
ANSWERS = {True: answer(LONG), False: answer(SHORT)}
ATTEMPTS = 3


class Outcome(msgspec.Struct, frozen=True):
    type: str = ""


class Delta(msgspec.Struct, frozen=True):
    content: str | None = None


class Choice(msgspec.Struct, frozen=True):
    delta: Delta | None = None


class Part(msgspec.Struct, frozen=True):
    text: str = ""


class Event(msgspec.Struct, frozen=True):
    """Ours, or a chunk of a chat completion."""

    type: str = ""
    text: str = ""
    parts: list[Part] = []
    sequence: int = 0
    outcome: Outcome | None = None
    choices: list[Choice] = []


decode = msgspec.json.Decoder(Event).decode


class Connection(asyncio.Protocol):
    """One request at a time; what comes is kept until it is whole."""

    def __init__(self, gone: Callable[[Connection], None]) -> None:
        self.used = 0
        self._gone = gone

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.done: asyncio.Future[bytes] | None = None
        self.begun = asyncio.get_running_loop().create_future()
        self.stays = False

    def ask(self, request: bytes) -> asyncio.Future[bytes]:
        """The whole response."""
        self.used += 1
        self.first = 0.0
        self.pieces: list[bytes] = []
        self.length = -1
        self.asked = time.monotonic()
        self.done = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return self.done

    def data_received(self, data: bytes) -> None:
        if self.stays:  # somebody who only follows
            if not self.begun.done():
                self.begun.set_result(data)
            return
        if not self.first and FIRST.search(data):
            self.first = time.monotonic()
        self.pieces.append(data)
        if self.length < 0 and not self._head():
            return
        if self.length:
            over = sum(map(len, self.pieces)) >= self.length
        else:
            over = data.endswith(END) or b"".join(self.pieces[-2:]).endswith(END)
        if over and self.done is not None and not self.done.done():
            self.ended = time.monotonic()
            self.done.set_result(b"".join(self.pieces))

    def _head(self) -> bool:
        """What is to come: so many bytes, or (0) pieces until an empty one."""
        whole = b"".join(self.pieces)
        end = whole.find(b"\r\n\r\n")
        if end < 0:
            return False
        at = whole[:end].lower().find(b"content-length:")
        self.length = end + 4 + int(whole[at + 15 : end].split(b"\r\n", 1)[0]) if at >= 0 else 0
        return True

    def connection_lost(self, error: BaseException | None) -> None:
        self._gone(self)
        if self.done is not None and not self.done.done():
            self.done.set_exception(ConnectionError(f"closed after {len(self.pieces)} pieces"))


class Pool:
    """Connections to one address; the one that was used last is used first."""

    def __init__(self, url: str) -> None:
        self.host, port = url.removeprefix("http://").split("/")[0].split(":")
        self.port = int(port)
        self.free: list[Connection] = []
        self.again = 0

    async def take(self) -> Connection:
        while self.free:
            one = self.free.pop()
            if not one.transport.is_closing():
                return one
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(lambda: Connection(self._gone), self.host, self.port)
        return made

    def _gone(self, one: Connection) -> None:
        if one in self.free:
            self.free.remove(one)

    async def ask(self, request: bytes) -> tuple[Connection, bytes]:
        """A kept connection may be gone just when it is used: then once more, which an id makes safe."""
        for _ in range(ATTEMPTS):
            one = await self.take()
            try:
                return one, await one.ask(request)
            except ConnectionError:
                if one.used == 1 or one.pieces:
                    raise
                self.again += 1
        raise ConnectionError("no connection lasts")


def post(path: str, body: dict[str, Any], *headers: str) -> bytes:
    data = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(data)}", "", ""]).encode() + data


class Job:
    """`doors`: by which of them a turn is asked for: `events` and `json` are ours, `chat` is the other API."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self.keys: list[str] = given.get("keys") or [""]
        self.pool = Pool(given["url"])
        self.model = Pool(given["model"])
        self.failed: list[str] = []
        self.first_ms: list[float] = []
        self.whole_ms: list[float] = []
        self.open = self.open_max = self.events = self.ended = 0

    def request(self, session: int, turn: int, *, paced: bool) -> bytes:
        text = f"{PACED.decode() if paced else ''} turn {turn}, please"
        who = session % len(self.keys)
        headers = [f"Authorization: Bearer {self.keys[who]}"] if self.keys[who] else []
        door = self.given.get("door", "events")
        if door == "chat":
            asked = {"model": "mainstay", "messages": [{"role": "user", "content": text}]}
            asked |= {"stream": True, "session_id": f"s{session}"} if self.given.get("streamed", True) else {}
            return post("/v1/chat/completions", asked, *headers)
        headers += ["Accept: text/event-stream"] if door == "events" else []
        return post(f"/api/sessions/s{session}/prompt", {"text": text, "id": f"t{turn}"}, *headers)

    async def turn(self, session: int, turn: int, *, paced: bool) -> None:
        self.open += 1
        self.open_max = max(self.open_max, self.open)
        try:
            one, raw = await self.pool.ask(self.request(session, turn, paced=paced))
            if wrong := self.look(raw, ANSWERS[paced]):
                self.failed.append(f"s{session} t{turn}: {wrong}")
            else:
                self.first_ms.append(1000 * ((one.first or one.ended) - one.asked))
                self.whole_ms.append(1000 * (one.ended - one.asked))
            self.pool.free.append(one)
        except OSError as error:
            self.failed.append(f"s{session} t{turn}: {error}")
        finally:
            self.open -= 1
            self.ended += 1

    def look(self, raw: bytes, said: str) -> str:
        """What is wrong with an answer."""
        if not raw.startswith(b"HTTP/1.1 200"):
            return raw[:300].decode(errors="replace")
        if self.given.get("door") == "json" or not self.given.get("streamed", True):
            return "" if json.dumps(said)[1:-1].encode() in raw else f"other words: {raw[-300:]!r}"
        found = [decode(one) for one in DATA.findall(raw)]
        self.events += len(found)
        if self.given.get("door") == "chat":
            deltas = [one.choices[0].delta for one in found if one.choices]
            text = "".join(one.content or "" for one in deltas if one is not None)
            return "" if text == said else f"other words: {text[:100]!r}"
        sequences = [one.sequence for one in found if one.sequence]
        if sequences != sorted(set(sequences)):
            return f"out of order: {sequences}"
        last = found[-1] if found else Event()
        if last.type != "TurnEnded" or last.outcome is None or last.outcome.type != "Answered":
            return f"ended with {last}"
        text = "".join(part.text for one in found if one.type == "MessageAdded" for part in one.parts)
        pieces = "".join(one.text for one in found if one.type == "TextDelta")
        if text == said and (pieces == said or not (pieces or self.given["job"] == "paced")):
            return ""  # an answer that is there at once may be heard as a whole only
        at = next((n for n, (a, b) in enumerate(zip(pieces, said, strict=False)) if a != b), len(pieces))
        return f"other words: {len(text)} and {len(pieces)} of {len(said)}, {pieces[at : at + 40]!r} at {at}"

    # --- the jobs --------------------------------------------------------------------------------

    async def paced(self) -> dict[str, Any]:
        """New turns at a rate, whatever becomes of those before; the model is asked directly meanwhile."""
        given = self.given
        rate, seconds, sessions = given["rate"], given["seconds"], given["sessions"]
        loop = asyncio.get_running_loop()
        began = time.monotonic()
        turns: list[asyncio.Task[None]] = []
        probes = [
            loop.create_task(self.probe(began + n / given["probes_s"])) for n in range(int(seconds * given["probes_s"]))
        ]
        for n in range(int(rate * seconds)):
            await asyncio.sleep(max(began + n / rate - time.monotonic(), 0.0))
            turns.append(loop.create_task(self.turn(n % sessions, n, paced=True)))
        await asyncio.gather(*turns)
        direct = await asyncio.gather(*probes)
        return {"direct_ms": [one for one, _ in direct], "direct_whole_ms": [one for _, one in direct]}

    async def probe(self, at: float) -> tuple[float, float]:
        await asyncio.sleep(max(at - time.monotonic(), 0.0))
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": PACED.decode()}]}
        one, _ = await self.model.ask(post("/v1/chat/completions", body))
        self.model.free.append(one)
        return 1000 * (one.first - one.asked), 1000 * (one.ended - one.asked)

    async def burst(self) -> dict[str, Any]:
        """So many turns, so many at a time, as fast as it goes."""
        given = self.given
        each = given.get("each", 1)  # turns of a session, one after another, before it is left for good
        begin = given.get("from", 0) // each
        sessions = iter(range(begin, begin + given["turns"] // each))

        async def some() -> None:
            for session in sessions:
                for turn in range(each):
                    await self.turn(session, turn, paced=False)

        began = time.monotonic()
        await asyncio.gather(*(some() for _ in range(given["at_once"])))
        return {"turns_s": self.ended / (time.monotonic() - began)}

    async def follow(self) -> dict[str, Any]:
        """Followers of sessions, who hear nothing, until the input closes."""
        held = []
        for n in range(self.given["followers"]):
            one = await self.pool.take()
            one.stays = True
            key = self.keys[n % len(self.keys)]
            who = f"Authorization: Bearer {key}\r\n" if key else ""
            head = (
                f"GET /api/sessions/s{n}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n{who}Accept: text/event-stream\r\n\r\n"
            )
            one.transport.write(head.encode())
            said = await asyncio.wait_for(one.begun, 30)
            if not said.startswith(b"HTTP/1.1 200"):
                self.failed.append(said[:300].decode(errors="replace"))
            held.append(one)
        print("{}", flush=True)
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        await reader.read()
        return {"left": sum(not one.transport.is_closing() for one in held)}

    async def run(self) -> dict[str, Any]:
        found: dict[str, Any] = await getattr(self, self.given["job"])()
        return found | {
            "failed": self.failed[:20],
            "failures": len(self.failed),
            "again": self.pool.again,
            "turns": self.ended,
            "first_ms": self.first_ms,
            "whole_ms": self.whole_ms,
            "open_max": self.open_max,
            "events": self.events,
        }


async def main() -> None:
    print(json.dumps(await Job(json.loads(sys.argv[1])).run()), flush=True)


if __name__ == "__main__":
    modestly()
    uvloop.run(main())
