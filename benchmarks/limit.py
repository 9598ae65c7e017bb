"""The limit: a durable conversation loop written by hand, with no runtime around it.

The same promises as a Mainstay turn keeps: the input is on disk before the model is asked, a tool call before it
runs, the answer before it is returned. One writer thread commits whatever is waiting, with `synchronous=FULL`.
There are no events, no policy, no guards, no limits, no recovery and no memory; messages stay encoded.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from pathlib import Path

import aiohttp
import apsw
import msgspec

Rows = list[tuple[str, int, bytes]]


class Function(msgspec.Struct, omit_defaults=True):
    name: str | None = None
    arguments: str = ""


class Call(msgspec.Struct, omit_defaults=True):
    index: int
    function: Function
    id: str = ""
    type: str = "function"


class Delta(msgspec.Struct):
    content: str | None = None
    tool_calls: list[Call] | None = None


class Choice(msgspec.Struct):
    delta: Delta


class Chunk(msgspec.Struct):
    choices: list[Choice]


class Sum(msgspec.Struct):
    a: int
    b: int


decode_chunk = msgspec.json.Decoder(Chunk).decode
decode_sum = msgspec.json.Decoder(Sum).decode
encode = msgspec.json.Encoder().encode

SYSTEM = encode({"role": "system", "content": "You are a helpful assistant."})
NUMBER = {"type": "integer"}
SCHEMA = {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}, "required": ["a", "b"]}
TOOL = {"type": "function", "function": {"name": "add", "description": "Add two integers.", "parameters": SCHEMA}}
HEAD = b'{"model":"fake-model","stream":true,"stream_options":{"include_usage":true},"tools":' + encode([TOOL])

TABLE = """
create table if not exists message (session text, n int, body blob, primary key (session, n)) without rowid"""


def connect(path: Path) -> apsw.Connection:
    db = apsw.Connection(str(path))
    db.execute("pragma journal_mode = wal")
    db.execute("pragma synchronous = full")
    return db


class Journal(threading.Thread):
    """Commits what is waiting, all of it in one transaction, and wakes those who waited."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self.db = connect(path)
        self.db.execute(TABLE)
        self.inbox: queue.SimpleQueue[tuple[Rows, asyncio.Future[None]] | None] = queue.SimpleQueue()
        self.loop = asyncio.get_running_loop()
        self.start()

    def append(self, rows: Rows) -> asyncio.Future[None]:
        durable: asyncio.Future[None] = self.loop.create_future()
        self.inbox.put((rows, durable))
        return durable

    def run(self) -> None:
        open_ = True
        while open_:
            batch = [self.inbox.get()]
            while not self.inbox.empty():
                batch.append(self.inbox.get())
            open_ = batch[-1] is not None
            jobs = [job for job in batch if job is not None]
            if jobs:
                self.db.execute("begin immediate")
                for rows, _ in jobs:
                    self.db.executemany("insert into message values (?, ?, ?)", rows)
                self.db.execute("commit")
                self.loop.call_soon_threadsafe(wake, [durable for _, durable in jobs])
        self.db.close()


def wake(waiting: list[asyncio.Future[None]]) -> None:
    for durable in waiting:
        if not durable.done():
            durable.set_result(None)


class Limit:
    def __init__(self, url: str, home: Path) -> None:
        self.url, self.path = url + "/chat/completions", home / "limit.db"
        self.sessions: dict[str, list[bytes]] = {}

    async def open(self) -> None:
        self.journal = Journal(self.path)
        self.reader = connect(self.path)
        headers = {"Authorization": "Bearer bench", "Content-Type": "application/json"}
        self.http = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), headers=headers)

    async def close(self) -> None:
        await self.http.close()
        self.journal.inbox.put(None)
        self.journal.join()
        self.reader.close()

    def load(self, session: str) -> list[bytes]:
        rows = self.reader.execute("select body from message where session = ? order by n", (session,))
        self.sessions[session] = messages = [body for (body,) in rows]
        return messages

    def add(self, session: str, messages: list[bytes], *new: bytes) -> asyncio.Future[None]:
        rows = [(session, len(messages) + i, body) for i, body in enumerate(new)]
        messages += new
        return self.journal.append(rows)

    async def ask(self, messages: list[bytes]) -> tuple[str, list[Call]]:
        body = b'%b,"messages":[%b]}' % (HEAD, b",".join([SYSTEM, *messages]))
        text: list[str] = []
        calls: list[Call] = []
        rest = b""
        async with self.http.post(self.url, data=body) as response:
            async for data in response.content.iter_any():
                *events, rest = (rest + data).split(b"\n\n")
                for event in events:
                    if event == b"data: [DONE]":
                        continue
                    for choice in decode_chunk(memoryview(event)[6:]).choices:
                        if choice.delta.content:
                            text.append(choice.delta.content)
                        for call in choice.delta.tool_calls or ():
                            if call.index < len(calls):
                                calls[call.index].function.arguments += call.function.arguments
                            else:
                                calls.append(call)
        return "".join(text), calls

    async def turn(self, session: str, text: str) -> str:
        messages = self.sessions.get(session)
        if messages is None:
            messages = self.load(session)
        await self.add(session, messages, encode({"role": "user", "content": text}))
        results: list[bytes] = []
        while True:
            answer, calls = await self.ask(messages + results)
            if not calls:
                await self.add(session, messages, *results, encode({"role": "assistant", "content": answer}))
                return answer
            asked = encode({"role": "assistant", "content": None, "tool_calls": calls})
            await self.add(session, messages, *results, asked)
            results = []
            for call in calls:
                numbers = decode_sum(call.function.arguments)
                result = {"role": "tool", "tool_call_id": call.id, "content": str(numbers.a + numbers.b)}
                results.append(encode(result))
