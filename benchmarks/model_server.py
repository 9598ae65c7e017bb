"""A model that always says the same: 64 streamed chunks, or the call add(2, 3) when the user writes "tool:".

OpenAI chat completions on 127.0.0.1, in a process of its own; it prints its port and ends when its input closes.
Answers are built once, so that the server's own work is next to nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import sys
from typing import cast

import msgspec
import uvloop

WORDS = [f"w{i:02d} " for i in range(64)]
ANSWER = "".join(WORDS)
WRONG = "the tool's result did not say 5"
CALL_ID = "call_000000000"
USAGE = {"prompt_tokens": 50, "completion_tokens": 64, "total_tokens": 114}


class Message(msgspec.Struct):
    role: str
    content: msgspec.Raw = msgspec.Raw(b"null")


class Options(msgspec.Struct):
    include_usage: bool = False


class Request(msgspec.Struct):
    messages: list[Message]
    stream: bool = False
    stream_options: Options | None = None


decode_request = msgspec.json.Decoder(Request).decode


def answer_to(messages: list[Message]) -> str:
    """Which of the prepared answers this conversation gets."""
    last = messages[-1]
    content = bytes(last.content)
    if last.role == "tool":
        return "text" if b"5" in content else "wrong"
    return "call" if last.role == "user" and b"tool:" in content else "text"


def streamed(kind: str, usage: bool) -> list[bytes]:
    """The response as a model server sends it: every event its own HTTP chunk."""
    if kind == "call":
        function = {"name": "add", "arguments": ""}
        first = {"index": 0, "id": CALL_ID, "type": "function", "function": function}
        deltas = [{"role": "assistant", "content": None, "tool_calls": [first]}]
        for piece in ('{"a"', ":2,", '"b":', "3}"):
            deltas.append({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    else:
        deltas = [{"role": "assistant", "content": ""}]
        deltas += [{"content": word} for word in (WORDS if kind == "text" else [WRONG])]
    base = {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1760000000, "model": "fake-model"}
    events = [base | {"choices": [{"index": 0, "delta": d, "logprobs": None, "finish_reason": None}]} for d in deltas]
    reason = "tool_calls" if kind == "call" else "stop"
    events.append(base | {"choices": [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": reason}]})
    if usage:
        events.append(base | {"choices": [], "usage": USAGE})
    lines = [b"data: %b\n\n" % json.dumps(e, separators=(",", ":")).encode() for e in events] + [b"data: [DONE]\n\n"]
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = [b"%x\r\n%b\r\n" % (len(x), x) for x in lines]
    return [head + chunks[0], *chunks[1:-1], chunks[-1] + b"0\r\n\r\n"]


def whole(kind: str) -> bytes:
    message: dict[str, object] = {"role": "assistant", "content": ANSWER if kind == "text" else WRONG}
    if kind == "call":
        function = {"name": "add", "arguments": '{"a":2,"b":3}'}
        message = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": CALL_ID, "type": "function", "function": function}],
        }
    reason = "tool_calls" if kind == "call" else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return response(
        {
            "id": "chatcmpl-bench",
            "object": "chat.completion",
            "created": 1760000000,
            "model": "fake-model",
            "choices": [choice],
            "usage": USAGE,
        }
    )


def response(body: object, status: str = "200 OK") -> bytes:
    data = json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


KINDS = ("text", "call", "wrong")
STREAMED = {(kind, usage): streamed(kind, usage) for kind in KINDS for usage in (False, True)}
WHOLE = {kind: whole(kind) for kind in KINDS}


class Connection(asyncio.Protocol):
    latency_s = 0.0
    gap_s = 0.0
    requests = 0
    waiting = 0
    ids = itertools.count(1)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.received = cast(asyncio.Transport, transport), b""

    def data_received(self, data: bytes) -> None:
        self.received += data
        while (end := self.received.find(b"\r\n\r\n")) >= 0:
            head = self.received[:end].lower()
            length = next((int(x[15:]) for x in head.split(b"\r\n") if x.startswith(b"content-length:")), 0)
            if len(self.received) < end + 4 + length:
                return
            body = self.received[end + 4 : end + 4 + length]
            self.received = self.received[end + 4 + length :]
            self.answer(head.split(b" ", 2)[1], body)

    def answer(self, path: bytes, body: bytes) -> None:
        kind = type(self)
        if path == b"/stats":
            self.transport.write(response({"requests": kind.requests, "waiting": kind.waiting}))
        elif path == b"/v1/models":
            self.transport.write(response({"object": "list", "data": [{"id": "fake-model", "object": "model"}]}))
        elif path != b"/v1/chat/completions":
            self.transport.write(response({"error": {"message": "no such path"}}, "404 Not Found"))
        else:
            kind.requests += 1
            kind.waiting += 1
            asyncio.get_running_loop().call_later(kind.latency_s, self.send, self.parts(body), 0)

    def parts(self, body: bytes) -> list[bytes]:
        try:
            request = decode_request(body)
        except msgspec.MsgspecError as error:
            return [response({"error": {"message": str(error)}}, "400 Bad Request")]
        kind = answer_to(request.messages)
        usage = request.stream_options is not None and request.stream_options.include_usage
        parts = STREAMED[kind, usage] if request.stream else [WHOLE[kind]]
        if kind == "call":  # each call has an id of its own, as from a real model
            parts = [parts[0].replace(CALL_ID.encode(), b"call_%09d" % next(self.ids)), *parts[1:]]
        return parts

    def send(self, parts: list[bytes], at: int) -> None:
        if at == 0:
            type(self).waiting -= 1
        if self.transport.is_closing():
            return
        if not self.gap_s:
            self.transport.write(b"".join(parts))
            return
        self.transport.write(parts[at])
        if at + 1 < len(parts):
            asyncio.get_running_loop().call_later(self.gap_s, self.send, parts, at + 1)


async def serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()  # until whoever started this process is gone


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--latency-ms", type=float, default=0, help="wait before the first byte")
    options.add_argument("--gap-ms", type=float, default=0, help="wait between chunks; 0 sends them in one write")
    options.add_argument("--core", type=int, help="run on this core only")
    given = options.parse_args()
    if given.core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {given.core})
    Connection.latency_s, Connection.gap_s = given.latency_ms / 1000, given.gap_ms / 1000
    uvloop.run(serve())


if __name__ == "__main__":
    main()
