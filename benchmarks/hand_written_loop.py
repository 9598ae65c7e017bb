"""The limit: a durable conversation loop written by hand, without a runtime.

It is as durable as a Mainstay turn: it commits the input before it calls the model, a tool call before the tool runs,
and the answer before it returns. One writer thread commits all pending rows at once, with `synchronous=FULL`. There are
no events, no policy, no guards, no limits, no recovery and no memory; messages stay encoded.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import apsw
import msgspec

if TYPE_CHECKING:
    from work import Case

Rows = list[tuple[str, int, bytes]]


class Function(msgspec.Struct, omit_defaults=True):
    name: str | None = None
    arguments: str = ""


class ToolCall(msgspec.Struct, omit_defaults=True):
    index: int
    function: Function
    id: str = ""
    type: str = "function"


class Delta(msgspec.Struct):
    content: str | None = None
    tool_calls: list[ToolCall] | None = None


class Choice(msgspec.Struct):
    delta: Delta


class Chunk(msgspec.Struct):
    choices: list[Choice]


class AddArguments(msgspec.Struct):
    a: int
    b: int


decode_chunk = msgspec.json.Decoder(Chunk).decode
decode_add_arguments = msgspec.json.Decoder(AddArguments).decode
encode = msgspec.json.Encoder().encode

SYSTEM_MESSAGE = encode({"role": "system", "content": "You are a helpful assistant."})
INTEGER_SCHEMA = {"type": "integer"}
ADD_SCHEMA = {"type": "object", "properties": {"a": INTEGER_SCHEMA, "b": INTEGER_SCHEMA}, "required": ["a", "b"]}
ADD_TOOL = {
    "type": "function",
    "function": {"name": "add", "description": "Add two integers.", "parameters": ADD_SCHEMA},
}
REQUEST_PREFIX = b'{"model":"fake-model","stream":true,"stream_options":{"include_usage":true},"tools":' + encode(
    [ADD_TOOL]
)

CREATE_TABLE = """
create table if not exists message (session text, n int, body blob, primary key (session, n)) without rowid"""


def connect(path: Path) -> apsw.Connection:
    db = apsw.Connection(str(path))
    db.execute("pragma journal_mode = wal")
    db.execute("pragma synchronous = full")
    return db


class Journal(threading.Thread):
    """A writer thread: commits all pending rows in one transaction, then completes their futures."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self.db = connect(path)
        self.db.execute(CREATE_TABLE)
        self.pending: queue.SimpleQueue[tuple[Rows, asyncio.Future[None]] | None] = queue.SimpleQueue()
        self.loop = asyncio.get_running_loop()
        self.start()

    def append(self, rows: Rows) -> asyncio.Future[None]:
        committed: asyncio.Future[None] = self.loop.create_future()
        self.pending.put((rows, committed))
        return committed

    def run(self) -> None:
        running = True
        while running:
            batch = [self.pending.get()]
            while not self.pending.empty():
                batch.append(self.pending.get())
            running = batch[-1] is not None
            commits = [commit for commit in batch if commit is not None]
            if commits:
                self.db.execute("begin immediate")
                for rows, _ in commits:
                    self.db.executemany("insert into message values (?, ?, ?)", rows)
                self.db.execute("commit")
                self.loop.call_soon_threadsafe(complete_futures, [committed for _, committed in commits])
        self.db.close()


def complete_futures(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)


class HandWrittenLoop:
    cases: Mapping[str, Case] = {}  # it runs only the cases of work.py

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
        self.journal.pending.put(None)  # ends the thread
        self.journal.join()
        self.reader.close()

    async def wait_until_indexed(self) -> None:
        pass  # it has no memory index

    def load_messages(self, session: str) -> list[bytes]:
        rows = self.reader.execute("select body from message where session = ? order by n", (session,))
        self.sessions[session] = messages = [body for (body,) in rows]
        return messages

    def append_messages(self, session: str, messages: list[bytes], *new: bytes) -> asyncio.Future[None]:
        rows = [(session, len(messages) + i, body) for i, body in enumerate(new)]
        messages += new
        return self.journal.append(rows)

    async def call_model(self, messages: list[bytes]) -> tuple[str, list[ToolCall]]:
        body = b'%b,"messages":[%b]}' % (REQUEST_PREFIX, b",".join([SYSTEM_MESSAGE, *messages]))
        text: list[str] = []
        calls: list[ToolCall] = []
        remainder = b""
        async with self.http.post(self.url, data=body) as response:
            async for data in response.content.iter_any():
                *events, remainder = (remainder + data).split(b"\n\n")
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

    async def run_turn(self, session: str, text: str) -> str:
        messages = self.sessions.get(session)
        if messages is None:
            messages = self.load_messages(session)
        await self.append_messages(session, messages, encode({"role": "user", "content": text}))
        results: list[bytes] = []
        while True:
            answer, calls = await self.call_model(messages + results)
            if not calls:
                await self.append_messages(
                    session, messages, *results, encode({"role": "assistant", "content": answer})
                )
                return answer
            tool_call_message = encode({"role": "assistant", "content": None, "tool_calls": calls})
            await self.append_messages(session, messages, *results, tool_call_message)
            results = []
            for call in calls:
                numbers = decode_add_arguments(call.function.arguments)
                result = {"role": "tool", "tool_call_id": call.id, "content": str(numbers.a + numbers.b)}
                results.append(encode(result))
