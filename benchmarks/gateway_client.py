"""HTTP clients of the gateway benchmark, in a separate process: one job as a JSON argument, results as lines of JSON.

The process shares the cores with the measured server. It therefore only collects the bytes of a response while they
arrive and checks them at the end: the text must be the model's, the events in order, the outcome an answer.
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
from paced_model_server import LONG_TOKENS, PACED_PREFIX, SHORT_TOKENS, build_answer, use_batch_scheduling

FIRST_TOKEN = re.compile(
    rb"event: (?:TextDelta|MessageAdded)|\"content\": ?\"[^\"]"
)  # Mainstay's events, and chat completions
EVENT_DATA = re.compile(rb"data: (\{[^\n]*\})\n\n")
LAST_CHUNK = b"\r\n0\r\n\r\n"
ANSWERS = {True: build_answer(LONG_TOKENS), False: build_answer(SHORT_TOKENS)}  # by `paced`
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
    """An event of Mainstay's API, or a chunk of a chat completion."""

    type: str = ""
    text: str = ""
    parts: list[Part] = []
    sequence: int = 0
    outcome: Outcome | None = None
    choices: list[Choice] = []


decode = msgspec.json.Decoder(Event).decode


class Connection(asyncio.Protocol):
    """A keep-alive connection with one request at a time; it collects the response until it is complete."""

    def __init__(self, on_lost: Callable[[Connection], None]) -> None:
        self.request_count = 0
        self._on_lost = on_lost

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.response: asyncio.Future[bytes] | None = None
        self.subscribed: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.is_subscription = False

    def send_request(self, request: bytes) -> asyncio.Future[bytes]:
        """Send a request; the future gets the complete response."""
        self.request_count += 1
        self.first_token_at = 0.0
        self.pieces: list[bytes] = []
        self.length = -1
        self.sent_at = time.monotonic()
        self.response = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return self.response

    def data_received(self, data: bytes) -> None:
        if self.is_subscription:  # the stream has no end; only its first bytes matter
            if not self.subscribed.done():
                self.subscribed.set_result(data)
            return
        if not self.first_token_at and FIRST_TOKEN.search(data):
            self.first_token_at = time.monotonic()
        self.pieces.append(data)
        if self.length < 0 and not self._parse_head():
            return
        if self.length:
            complete = sum(map(len, self.pieces)) >= self.length
        else:
            complete = data.endswith(LAST_CHUNK) or b"".join(self.pieces[-2:]).endswith(LAST_CHUNK)
        if complete and self.response is not None and not self.response.done():
            self.completed_at = time.monotonic()
            self.response.set_result(b"".join(self.pieces))

    def _parse_head(self) -> bool:
        """Set `length` to the response's size, or to 0 if it is chunked. Return False while the head is incomplete."""
        received = b"".join(self.pieces)
        end = received.find(b"\r\n\r\n")
        if end < 0:
            return False
        position = received[:end].lower().find(b"content-length:")
        self.length = end + 4 + int(received[position + 15 : end].split(b"\r\n", 1)[0]) if position >= 0 else 0
        return True

    def connection_lost(self, error: BaseException | None) -> None:
        self._on_lost(self)
        if self.response is not None and not self.response.done():
            self.response.set_exception(ConnectionError(f"closed after {len(self.pieces)} pieces"))


class ConnectionPool:
    """Keep-alive connections to one address; the most recently used one is taken first."""

    def __init__(self, url: str) -> None:
        self.host, port = url.removeprefix("http://").split("/")[0].split(":")
        self.port = int(port)
        self.idle_connections: list[Connection] = []
        self.retries = 0

    async def acquire(self) -> Connection:
        while self.idle_connections:
            connection = self.idle_connections.pop()
            if not connection.transport.is_closing():
                return connection
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: Connection(self._remove), self.host, self.port)
        return connection

    def _remove(self, connection: Connection) -> None:
        if connection in self.idle_connections:
            self.idle_connections.remove(connection)

    async def send_request(self, request: bytes) -> tuple[Connection, bytes]:
        """Retry if the server closed an idle connection just then; the id of the prompt makes a retry safe."""
        for _ in range(ATTEMPTS):
            connection = await self.acquire()
            try:
                return connection, await connection.send_request(request)
            except ConnectionError:
                if connection.request_count == 1 or connection.pieces:
                    raise
                self.retries += 1
        raise ConnectionError(f"the server closed {ATTEMPTS} connections")


def build_post_request(path: str, body: dict[str, Any], *headers: str) -> bytes:
    data = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(data)}", "", ""]).encode() + data


class ClientJob:
    """One job. `interface` selects the API of a turn: `events` or `json` of Mainstay, or OpenAI `chat` completions."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.arguments = arguments
        self.keys: list[str] = arguments.get("keys") or [""]
        self.pool = ConnectionPool(arguments["url"])
        self.model_pool = ConnectionPool(arguments["model"])
        self.failures: list[str] = []
        self.first_ms: list[float] = []
        self.whole_ms: list[float] = []
        self.open_turns = self.open_turns_max = self.event_count = self.completed_turns = 0

    def build_turn_request(self, session: int, turn: int, *, paced: bool) -> bytes:
        text = f"{PACED_PREFIX.decode() if paced else ''} turn {turn}, please"
        key = self.keys[session % len(self.keys)]
        headers = [f"Authorization: Bearer {key}"] if key else []
        interface = self.arguments.get("interface", "events")
        if interface == "chat":
            body = {"model": "mainstay", "messages": [{"role": "user", "content": text}]}
            body |= {"stream": True, "session_id": f"s{session}"} if self.arguments.get("streamed", True) else {}
            return build_post_request("/v1/chat/completions", body, *headers)
        headers += ["Accept: text/event-stream"] if interface == "events" else []
        return build_post_request(f"/api/sessions/s{session}/prompt", {"text": text, "id": f"t{turn}"}, *headers)

    async def run_turn(self, session: int, turn: int, *, paced: bool) -> None:
        self.open_turns += 1
        self.open_turns_max = max(self.open_turns_max, self.open_turns)
        try:
            request = self.build_turn_request(session, turn, paced=paced)
            connection, response = await self.pool.send_request(request)
            if problem := self.find_problem(response, ANSWERS[paced]):
                self.failures.append(f"s{session} t{turn}: {problem}")
            else:
                first_token_at = connection.first_token_at or connection.completed_at
                self.first_ms.append(1000 * (first_token_at - connection.sent_at))
                self.whole_ms.append(1000 * (connection.completed_at - connection.sent_at))
            self.pool.idle_connections.append(connection)
        except OSError as error:
            self.failures.append(f"s{session} t{turn}: {error}")
        finally:
            self.open_turns -= 1
            self.completed_turns += 1

    def find_problem(self, response: bytes, expected: str) -> str:
        """Describe what is wrong with a response; empty if nothing is."""
        if not response.startswith(b"HTTP/1.1 200"):
            return response[:300].decode(errors="replace")
        if self.arguments.get("interface") == "json" or not self.arguments.get("streamed", True):
            return "" if json.dumps(expected)[1:-1].encode() in response else f"wrong text: {response[-300:]!r}"
        events = [decode(data) for data in EVENT_DATA.findall(response)]
        self.event_count += len(events)
        if self.arguments.get("interface") == "chat":
            deltas = [event.choices[0].delta for event in events if event.choices]
            text = "".join(delta.content or "" for delta in deltas if delta is not None)
            return "" if text == expected else f"wrong text: {text[:100]!r}"
        sequences = [event.sequence for event in events if event.sequence]
        if sequences != sorted(set(sequences)):
            return f"out of order: {sequences}"
        last = events[-1] if events else Event()
        if last.type != "TurnEnded" or last.outcome is None or last.outcome.type != "Answered":
            return f"ended with {last}"
        text = "".join(part.text for event in events if event.type == "MessageAdded" for part in event.parts)
        pieces = "".join(event.text for event in events if event.type == "TextDelta")
        if text == expected and (pieces == expected or not (pieces or self.arguments["job"] == "paced")):
            return ""  # an answer that is available at once may come without deltas
        at = next((n for n, (a, b) in enumerate(zip(pieces, expected, strict=False)) if a != b), len(pieces))
        return f"wrong text: {len(text)} and {len(pieces)} of {len(expected)}, {pieces[at : at + 40]!r} at {at}"

    # --- jobs --------------------------------------------------------------------------------

    async def run_paced_turns(self) -> dict[str, Any]:
        """Start turns at a fixed rate, whether or not earlier ones have ended; also call the model directly."""
        arguments = self.arguments
        rate, seconds, sessions = arguments["rate"], arguments["seconds"], arguments["sessions"]
        loop = asyncio.get_running_loop()
        started = time.monotonic()
        turns: list[asyncio.Task[None]] = []
        probes = [
            loop.create_task(self.probe_model(started + n / arguments["probes_s"]))
            for n in range(int(seconds * arguments["probes_s"]))
        ]
        for n in range(int(rate * seconds)):
            await asyncio.sleep(max(started + n / rate - time.monotonic(), 0.0))
            turns.append(loop.create_task(self.run_turn(n % sessions, n, paced=True)))
        await asyncio.gather(*turns)
        direct = await asyncio.gather(*probes)
        return {"direct_ms": [first for first, _ in direct], "direct_whole_ms": [whole for _, whole in direct]}

    async def probe_model(self, at: float) -> tuple[float, float]:
        """Call the model directly; return the milliseconds until the first token and until the end."""
        await asyncio.sleep(max(at - time.monotonic(), 0.0))
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": PACED_PREFIX.decode()}]}
        connection, _ = await self.model_pool.send_request(build_post_request("/v1/chat/completions", body))
        self.model_pool.idle_connections.append(connection)
        first_ms = 1000 * (connection.first_token_at - connection.sent_at)
        return first_ms, 1000 * (connection.completed_at - connection.sent_at)

    async def run_burst(self) -> dict[str, Any]:
        """Run a number of turns as fast as possible, `concurrency` at a time."""
        turns_per_session = self.arguments.get("turns_per_session", 1)  # one after another
        first = self.arguments.get("first_turn", 0) // turns_per_session
        sessions = iter(range(first, first + self.arguments["turns"] // turns_per_session))

        async def run_sessions() -> None:
            for session in sessions:
                for turn in range(turns_per_session):
                    await self.run_turn(session, turn, paced=False)

        started = time.monotonic()
        await asyncio.gather(*(run_sessions() for _ in range(self.arguments["concurrency"])))
        return {"turns_s": self.completed_turns / (time.monotonic() - started)}

    async def subscribe(self) -> dict[str, Any]:
        """Subscribe to the events of idle sessions until the standard input closes."""
        connections = []
        for n in range(self.arguments["subscribers"]):
            connection = await self.pool.acquire()
            connection.is_subscription = True
            key = self.keys[n % len(self.keys)]
            authorization = f"Authorization: Bearer {key}\r\n" if key else ""
            head = (
                f"GET /api/sessions/s{n}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                f"{authorization}Accept: text/event-stream\r\n\r\n"
            )
            connection.transport.write(head.encode())
            response = await asyncio.wait_for(connection.subscribed, 30)
            if not response.startswith(b"HTTP/1.1 200"):
                self.failures.append(response[:300].decode(errors="replace"))
            connections.append(connection)
        print("{}", flush=True)
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        await reader.read()
        return {"connected": sum(not connection.transport.is_closing() for connection in connections)}

    async def run(self) -> dict[str, Any]:
        jobs = {"paced": self.run_paced_turns, "burst": self.run_burst, "subscribe": self.subscribe}
        result = await jobs[self.arguments["job"]]()
        return result | {
            "failed": self.failures[:20],
            "failures": len(self.failures),
            "retries": self.pool.retries,
            "turns": self.completed_turns,
            "first_ms": self.first_ms,
            "whole_ms": self.whole_ms,
            "open_max": self.open_turns_max,
            "events": self.event_count,
        }


async def main() -> None:
    print(json.dumps(await ClientJob(json.loads(sys.argv[1])).run()), flush=True)


if __name__ == "__main__":
    use_batch_scheduling()
    uvloop.run(main())
