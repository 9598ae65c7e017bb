"""Clients of a server that is killed again and again: over gRPC, over a WebSocket, and triggers; and checks of the
journals that it leaves, made after every restart."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from mainstay.core.events import MessageAdded, Received, ToolFinished
from mainstay.core.journal import Record
from mainstay.core.messages import ToolCall, parts_text
from mainstay.lane.replay import replay_journal
from mainstay.store.sqlite.store import SqliteStore
from support.gateway_chaos import MARK, Broken, Model, NotNow, ask, insist
from support.grpc_world import compiled
from support.journal_checks import check_journal

CHARGE = "charge"  # a prompt with this word makes the model run a command with an effect
# commands run where a test sees what they did
COMMANDS = "tools: {builtin: [bash]}\nsandbox: {kind: host}\n"
TICKS = "every-minute"
MINUTE_MS = 60_000


class ChargingModel(Model):
    """Asked to charge, it runs a command that writes the prompt's mark to a ledger; then it answers as `Model` does."""

    ledger: Path

    async def answer(self, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        last = json.loads(body)["messages"][-1]
        if last["role"] != "user" or CHARGE not in str(last["content"]):
            return await super().answer(head, body, writer)
        self.asked += 1
        mark = MARK.findall(str(last["content"]))[-1]
        arguments = json.dumps({"command": f"echo '{mark}' >> {self.ledger}"})
        call = {"index": 0, "id": f"c{self.asked}", "function": {"name": "bash", "arguments": arguments}}
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        self._say(writer, {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
        usage = {"prompt_tokens": 5, "completion_tokens": 5}
        self._say(writer, {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}], "usage": usage})
        writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
        return None


class KilledClient:
    """Sends one prompt after another in a session of its own, each under its id until it is answered."""

    def __init__(self, port: int, session: str) -> None:
        self.port, self.session = port, session
        self.stopping = False
        self.taken: list[str] = []  # ids that the server has acknowledged
        self.heard: dict[str, list[tuple[int, str]]] = {}  # by id of a prompt that was streamed: its durable events
        self.broken = 0

    async def run(self) -> None:
        number = 0
        while not self.stopping:
            number += 1
            await insist(lambda number=number: self.attempt(number))

    def text(self, number: int) -> str:
        return f"{CHARGE if number % 3 == 1 else 'say'} #{self.session}-{number}"

    def acknowledge(self, number: int) -> None:
        if f"p{number}" not in self.taken:
            self.taken.append(f"p{number}")

    async def attempt(self, number: int) -> None:
        raise NotImplementedError


class GrpcClient(KilledClient):
    """By turns a call that waits for the reply, and a stream that goes on after the last event that came."""

    async def attempt(self, number: int) -> None:
        messages, stubs = compiled()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{self.port}") as channel:
            stub = stubs.AgentStub(channel)
            given = {"session": self.session, "text": self.text(number), "id": f"p{number}"}
            try:
                if number % 2:
                    await stub.Weave(messages.WeaveRequest(**given))
                    self.acknowledge(number)
                else:
                    await self._stream(stub, messages, given, number)
            except grpc.aio.AioRpcError as error:
                self.broken += 1
                if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
                    self.acknowledge_failure(number, error)
                    return
                raise Broken(str(error.details())) from None

    async def _stream(self, stub: Any, messages: Any, given: dict[str, Any], number: int) -> None:
        heard = self.heard.setdefault(f"p{number}", [])
        after = heard[-1][0] if heard else 0
        async for event in stub.StreamWeave(messages.StreamWeaveRequest(**given, after=after)):
            self.acknowledge(number)
            if event.sequence:
                heard.append((event.sequence, event.type))

    def acknowledge_failure(self, number: int, error: grpc.aio.AioRpcError) -> None:
        """A turn that was interrupted too often is reported as failed; that is an answer, too."""
        assert error.code() in (grpc.StatusCode.INTERNAL, grpc.StatusCode.FAILED_PRECONDITION), error
        self.acknowledge(number)
        self.heard.pop(f"p{number}", None)


class WebSocketClient(KilledClient):
    """One connection for as long as it lasts; each prompt is sent again under its id after a break, and its turn is
    streamed from the beginning."""

    def note(self, number: int, event: dict[str, Any]) -> None:
        """Keep a durable event; `Done` begins the stream."""
        if event["type"] == "Done":
            self.heard[f"p{number}"] = []
        elif event.get("sequence"):
            self.heard.setdefault(f"p{number}", []).append((event["sequence"], event["type"]))

    async def attempt(self, number: int) -> None:
        try:
            async with connect(f"ws://127.0.0.1:{self.port}/api/ws", open_timeout=30, proxy=None) as socket:
                body = {"do": "prompt", "session": self.session, "text": self.text(number), "id": f"p{number}"}
                await socket.send(json.dumps(body))
                async for line in socket:
                    event = json.loads(line)
                    self.note(number, event)
                    match event["type"]:
                        case "Done":
                            self.acknowledge(number)
                        case "TurnEnded":
                            return
                        case "Problem" | "Bye":
                            raise NotNow(str(event))
            raise Broken("it ended before the turn did")
        except (OSError, WebSocketException, EOFError, TimeoutError) as error:
            self.broken += 1
            raise Broken(str(error)) from None


class Triggers:
    """A trigger of every minute, and triggers for a moment that is near."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "events"
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self.one_shots: list[str] = []  # texts, each its own
        self.started_ms = time.time_ns() // 1_000_000
        self._write(TICKS, type="periodic", schedule="* * * * *", threadId="ticks", text="say #tick0-0", missed="all")

    def add(self, delay_s: float) -> None:
        number = len(self.one_shots)
        at = datetime.now(UTC) + timedelta(seconds=delay_s)
        text = f"say #once{number}-0"
        self.one_shots.append(text)
        self._write(
            f"once-{number:04}",
            type="one-shot",
            schedule=at.strftime("%Y-%m-%dT%H:%M:%S"),
            threadId=f"once{number % 3}",
            text=text,
        )

    def _write(self, name: str, **fields: Any) -> None:
        draft = self._folder / f".{name}"
        draft.write_text(json.dumps(fields))
        draft.rename(self._folder / f"{name}.json")

    async def settled(self, port: int) -> bool:
        """True once every trigger that is due has an outcome."""
        runs = await self.runs(port)
        ended = {run["trigger"] for run in runs if run.get("outcome")}
        return len([name for name in ended if name != TICKS]) == len(self.one_shots) and all(
            run.get("outcome") for run in runs if run.get("came", "fired") == "fired"
        )

    async def runs(self, port: int) -> list[dict[str, Any]]:
        status, found = await ask(port, "GET /api/triggers/runs?limit=1000")
        assert status == 200, found
        return list(found["runs"])

    def check(self, runs: Sequence[dict[str, Any]], records: dict[str, list[Record]]) -> int:
        """Every time of every trigger was handled once and, if it fired, heard once. Return the number of minutes."""
        keys = Counter((run["trigger"], run["key"]) for run in runs)
        assert max(keys.values()) == 1, keys.most_common(3)
        heard = Counter(
            parts_text(record.event.parts)
            for found in records.values()
            for record in found
            if isinstance(record.event, Received)
        )
        assert {text: heard[text] for text in self.one_shots} == dict.fromkeys(self.one_shots, 1)
        ticks = sorted(run["due"] for run in runs if run["trigger"] == TICKS)
        minutes = list(range(ticks[0], ticks[-1] + 1, MINUTE_MS)) if ticks else []
        assert ticks == minutes, "a minute is missing or was handled twice"
        due = (time.time_ns() // 1_000_000) // MINUTE_MS - self.started_ms // MINUTE_MS
        assert len(ticks) >= due - 1, f"{len(ticks)} of {due} minutes"
        fired = sum(run.get("came", "fired") == "fired" for run in runs if run["trigger"] == TICKS)
        next_minute_ms = ticks[-1] + MINUTE_MS if ticks else 0
        heard_ticks = [
            record.at
            for found in records.values()
            for record in found
            if isinstance(record.event, Received) and "#tick0-0" in parts_text(record.event.parts)
        ]
        # the server may have fired at the next minute after it was asked for its runs, and before it was stopped
        assert sum(at < next_minute_ms for at in heard_ticks) == fired, (heard_ticks, runs)
        return len(ticks)


class JournalChecks:
    """The journals as they are on disk, read further after every restart: nothing that was read may change."""

    def __init__(self, home: Path) -> None:
        self._path = home / "workspaces" / "default" / "workspace.db"
        self.records: dict[str, list[Record]] = {}

    async def read_on(self) -> None:
        store = SqliteStore(str(self._path), read_only=True)
        await store.open()
        try:
            for info in await store.list_sessions(limit=1_000):
                found = self.records.setdefault(info.key, [])
                if found:
                    (last,) = await store.read_records(info.key, after=found[-1].seq - 1, limit=1)
                    assert last == found[-1], f"the journal of {info.key} has changed"
                while page := await store.read_records(info.key, after=found[-1].seq if found else 0):
                    found += page
        finally:
            await store.close()
        for key, found in self.records.items():
            check_journal(key, found)

    async def check_replay(self) -> None:
        for key, found in self.records.items():
            outcome = await replay_journal(found)
            assert outcome.is_identical, f"{key}: {outcome.difference}"


def check_streams(clients: Sequence[KilledClient], journals: dict[str, list[Record]]) -> int:
    """Every durable event that a client was sent is in the journal, in order, and was sent once, although the streams
    broke and went on. Return the number of events."""
    count = 0
    for client in clients:
        types = {record.seq: record.event.__struct_config__.tag for record in journals[client.session]}
        for id, heard in client.heard.items():
            sequences = [sequence for sequence, _ in heard]
            assert sequences == sorted(set(sequences)), f"{client.session}: {id} was sent {sequences}"
            assert all(types[sequence] == type for sequence, type in heard), f"{client.session}: {id}"
            count += len(heard)
    return count


def check_effects(ledger: Path, journals: dict[str, list[Record]]) -> int:
    """No command of a prompt ran twice, and every call has one result. Return the number of effects."""
    lines = ledger.read_text().splitlines() if ledger.exists() else []
    effects = Counter(lines)
    assert not effects or max(effects.values()) == 1, effects.most_common(3)
    for key, records in journals.items():
        added = [record.event for record in records if isinstance(record.event, MessageAdded)]
        calls = [part.id for event in added for part in event.parts if isinstance(part, ToolCall)]
        results = [record.event.result.call_id for record in records if isinstance(record.event, ToolFinished)]
        assert results == calls, key
    assert all(re.fullmatch(MARK, line) for line in lines), lines[:3]
    return len(lines)
