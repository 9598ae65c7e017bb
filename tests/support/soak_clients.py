"""Clients of the soak test: each sends one prompt after another over HTTP, to sessions of its own."""

from __future__ import annotations

import asyncio
import json
import random
import time
from typing import Any

import msgspec

from support.gateway_chaos import Broken, NotNow, listen

SESSION_TURNS = 25  # then a client begins another session
RETURN_SHARE = 0.1  # of turns in a session that was left before
STREAM_SHARE = 0.25  # of prompts whose events are streamed
AGAIN_S = 0.2  # before a refused prompt is sent again
ANSWER_S = 900.0  # in which every prompt has to be answered, with all that it waits for
ADD_SHARE, CHARGE_SHARE = 0.25, 0.15  # of prompts that need a tool


class SoakTurn(msgspec.Struct):
    """A prompt that was answered; times are monotonic."""

    mark: str
    prompt: str
    answer: str = ""
    outcome: str = ""
    sentence: str = ""  # of a failure
    began_at: float = 0.0
    ended_at: float = 0.0

    def is_right(self) -> bool:
        """True if the turn was answered with what the prompt asked for."""
        match self.prompt.split():
            case ["add", a, b, mark]:
                right = f"heard {mark}: {int(a) + int(b)}"
            case ["charge", mark]:
                right = f"heard {mark}: charged {mark}"
            case [_, mark]:
                right = f"heard {mark}"
        return self.answer.strip() == right


class Refusal(msgspec.Struct):
    """A prompt was not answered, and is sent again."""

    session: int
    number: int  # of the prompt in its session
    at: float  # monotonic
    at_ms: int  # of the system's clock
    sentence: str


class KeptConnection:
    """A connection that is kept for one request after another."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: Any) -> tuple[int, Any]:
        """Return status and answer. An idle connection may have been closed: then the request is sent on a new one."""
        data, is_idle = msgspec.json.encode(body), self._streams is not None
        try:
            return await self._post(path, data)
        except Broken:
            if not is_idle:
                raise
            return await self._post(path, data)

    async def _post(self, path: str, data: bytes) -> tuple[int, Any]:
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nContent-Type: application/json\r\n"
        try:
            if self._streams is None:
                self._streams = await asyncio.open_connection("127.0.0.1", self._port)
            reader, writer = self._streams
            writer.write(f"{head}Accept: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
            status, *rest = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
            headers = dict(line.split(": ", 1) for line in rest if line)
            answer = await reader.readexactly(int(headers["content-length"]))
        except (OSError, asyncio.IncompleteReadError) as error:
            self.close()
            raise Broken(str(error)) from None
        if headers.get("connection") == "close":
            self.close()
        return int(status.split()[1]), msgspec.json.decode(answer)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


class SoakClients:
    """All clients together, and what they were told."""

    def __init__(self, port: int, seed: int, turns: int) -> None:
        self._port, self._seed, self._left = port, seed, turns
        self.turns: list[SoakTurn] = []
        self.prompts: list[int] = []  # number of prompts, by session
        self.refusals: list[Refusal] = []
        self.problems: list[str] = []

    async def run_client(self, number: int) -> None:
        """Send prompts until there were enough of all clients."""
        chance = random.Random(f"{self._seed} client {number}")
        connection = KeptConnection(self._port)
        own: list[int] = []
        while self._left > 0:
            self._left -= 1
            if not own or self.prompts[own[-1]] >= SESSION_TURNS:
                own.append(len(self.prompts))
                self.prompts.append(0)
            session = chance.choice(own) if chance.random() < RETURN_SHARE else own[-1]
            await self._prompt(connection, session, chance)
        connection.close()

    async def continue_sessions(self, sessions: list[int]) -> None:
        """Send one more prompt to each of these sessions."""
        connection, chance = KeptConnection(self._port), random.Random(f"{self._seed} {sessions[:1]}")
        for session in sessions:
            await self._prompt(connection, session, chance)
        connection.close()

    async def _prompt(self, connection: KeptConnection, session: int, chance: random.Random) -> None:
        """Send a prompt, again under its id while it is refused, and note the answer."""
        self.prompts[session] += 1
        number = self.prompts[session]
        turn = SoakTurn(f"#s{session}-{number}", choose_prompt(f"#s{session}-{number}", chance))
        body = {"text": turn.prompt, "id": f"p{number}"}
        is_streamed = chance.random() < STREAM_SHARE
        seen: list[int] = []  # sequences of the durable events
        turn.began_at = time.monotonic()
        async with asyncio.timeout(ANSWER_S):
            while not turn.outcome:
                try:
                    if is_streamed:
                        await self._stream(f"s{session}", body, turn, seen)
                    else:
                        await self._post(connection, f"s{session}", body, turn)
                except NotNow as refusal:
                    now, now_ms, text = time.monotonic(), time.time_ns() // 1_000_000, str(refusal)
                    sentence = json.loads(text[text.index("{") :])["error"]["message"]
                    self.refusals.append(Refusal(session, number, now, now_ms, sentence))
                    await asyncio.sleep(AGAIN_S)
        turn.ended_at = time.monotonic()
        self.turns.append(turn)

    async def _post(self, connection: KeptConnection, session: str, body: Any, turn: SoakTurn) -> None:
        status, reply = await connection.post(f"/api/sessions/{session}/prompt", body)
        if status != 200:
            raise NotNow(f"{status}: {json.dumps(reply)}")
        turn.answer = reply["text"]
        note_outcome(turn, reply["outcome"])

    async def _stream(self, session: str, body: Any, turn: SoakTurn, seen: list[int]) -> None:
        events = listen(self._port, f"POST /api/sessions/{session}/prompt", body, seen[-1] if seen else 0)
        try:
            async for sequence, name, data in events:
                if sequence:
                    if seen and sequence <= seen[-1]:
                        self.problems.append(f"{turn.mark}: event {sequence} came after {seen[-1]}")
                    seen.append(sequence)
                if name == "problem":
                    raise NotNow(json.dumps(data))
                if name == "MessageAdded" and data["role"] == "assistant":
                    turn.answer = "".join(part.get("text", "") for part in data["parts"])
                if name == "TurnEnded":
                    note_outcome(turn, data["outcome"])
                    return
            raise Broken("the stream ended before the turn")
        finally:
            await events.aclose()  # type: ignore[attr-defined]


def choose_prompt(mark: str, chance: random.Random) -> str:
    share = chance.random()
    if share < ADD_SHARE:
        return f"add {chance.randrange(1000)} {chance.randrange(1000)} {mark}"
    return f"charge {mark}" if share < ADD_SHARE + CHARGE_SHARE else f"say {mark}"


def note_outcome(turn: SoakTurn, outcome: dict[str, Any]) -> None:
    turn.outcome, turn.sentence = outcome["type"], outcome.get("sentence", "")
