"""A model server with fixed answers: 64 streamed chunks, or the call add(2, 3) if the user writes "tool:".

It serves OpenAI chat completions on 127.0.0.1 in a separate process, prints its port and exits when its standard input
closes. Responses are built once, so that the server needs little CPU.
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
WRONG_RESULT_ANSWER = "the tool's result did not say 5"
CALL_ID = "call_000000000"
USAGE = {"prompt_tokens": 50, "completion_tokens": 64, "total_tokens": 114}


class Message(msgspec.Struct):
    role: str
    content: msgspec.Raw = msgspec.Raw(b"null")


class StreamOptions(msgspec.Struct):
    include_usage: bool = False


class Request(msgspec.Struct):
    messages: list[Message]
    stream: bool = False
    stream_options: StreamOptions | None = None


decode_request = msgspec.json.Decoder(Request).decode


def classify_conversation(messages: list[Message]) -> str:
    """The kind of response to a conversation, one of `KINDS`."""
    last = messages[-1]
    content = bytes(last.content)
    if last.role == "tool":
        return "text" if b"5" in content else "wrong"
    return "call" if last.role == "user" and b"tool:" in content else "text"


def build_streamed_response(kind: str, usage: bool) -> list[bytes]:
    """A streamed response; every event is a separate HTTP chunk."""
    if kind == "call":
        function = {"name": "add", "arguments": ""}
        first = {"index": 0, "id": CALL_ID, "type": "function", "function": function}
        deltas = [{"role": "assistant", "content": None, "tool_calls": [first]}]
        for piece in ('{"a"', ":2,", '"b":', "3}"):
            deltas.append({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    else:
        deltas = [{"role": "assistant", "content": ""}]
        deltas += [{"content": word} for word in (WORDS if kind == "text" else [WRONG_RESULT_ANSWER])]
    base = {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1760000000, "model": "fake-model"}
    events = [
        base | {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}]} for delta in deltas
    ]
    reason = "tool_calls" if kind == "call" else "stop"
    events.append(base | {"choices": [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": reason}]})
    if usage:
        events.append(base | {"choices": [], "usage": USAGE})
    lines = [b"data: %b\n\n" % json.dumps(event, separators=(",", ":")).encode() for event in events] + [
        b"data: [DONE]\n\n"
    ]
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = [b"%x\r\n%b\r\n" % (len(line), line) for line in lines]
    return [head + chunks[0], *chunks[1:-1], chunks[-1] + b"0\r\n\r\n"]


def build_complete_response(kind: str) -> bytes:
    message: dict[str, object] = {"role": "assistant", "content": ANSWER if kind == "text" else WRONG_RESULT_ANSWER}
    if kind == "call":
        function = {"name": "add", "arguments": '{"a":2,"b":3}'}
        message = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": CALL_ID, "type": "function", "function": function}],
        }
    reason = "tool_calls" if kind == "call" else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return build_json_response(
        {
            "id": "chatcmpl-bench",
            "object": "chat.completion",
            "created": 1760000000,
            "model": "fake-model",
            "choices": [choice],
            "usage": USAGE,
        }
    )


def build_json_response(body: object, status: str = "200 OK") -> bytes:
    data = json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


KINDS = ("text", "call", "wrong")
STREAMED_RESPONSES = {(kind, usage): build_streamed_response(kind, usage) for kind in KINDS for usage in (False, True)}
COMPLETE_RESPONSES = {kind: build_complete_response(kind) for kind in KINDS}


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
            length = next((int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:")), 0)
            if len(self.received) < end + 4 + length:
                return
            body = self.received[end + 4 : end + 4 + length]
            self.received = self.received[end + 4 + length :]
            self.handle_request(head.split(b" ", 2)[1], body)

    def handle_request(self, path: bytes, body: bytes) -> None:
        connection_class = type(self)
        if path == b"/stats":
            self.transport.write(
                build_json_response({"requests": connection_class.requests, "waiting": connection_class.waiting})
            )
        elif path == b"/v1/models":
            self.transport.write(
                build_json_response({"object": "list", "data": [{"id": "fake-model", "object": "model"}]})
            )
        elif path != b"/v1/chat/completions":
            self.transport.write(build_json_response({"error": {"message": "no such path"}}, "404 Not Found"))
        else:
            connection_class.requests += 1
            connection_class.waiting += 1
            asyncio.get_running_loop().call_later(
                connection_class.latency_s, self.send_parts, self.build_response_parts(body), 0
            )

    def build_response_parts(self, body: bytes) -> list[bytes]:
        try:
            request = decode_request(body)
        except msgspec.MsgspecError as error:
            return [build_json_response({"error": {"message": str(error)}}, "400 Bad Request")]
        kind = classify_conversation(request.messages)
        usage = request.stream_options is not None and request.stream_options.include_usage
        parts = STREAMED_RESPONSES[kind, usage] if request.stream else [COMPLETE_RESPONSES[kind]]
        if kind == "call":  # each call has its own id, as with a real model
            parts = [parts[0].replace(CALL_ID.encode(), b"call_%09d" % next(self.ids)), *parts[1:]]
        return parts

    def send_parts(self, parts: list[bytes], index: int) -> None:
        if index == 0:
            type(self).waiting -= 1
        if self.transport.is_closing():
            return
        if not self.gap_s:
            self.transport.write(b"".join(parts))
            return
        self.transport.write(parts[index])
        if index + 1 < len(parts):
            asyncio.get_running_loop().call_later(self.gap_s, self.send_parts, parts, index + 1)


async def serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()  # until the parent process exits or closes the pipe


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency-ms", type=float, default=0, help="delay before the first byte")
    parser.add_argument("--gap-ms", type=float, default=0, help="delay between chunks; 0 sends all in one write")
    parser.add_argument("--core", type=int, help="run on this core only")
    arguments = parser.parse_args()
    if arguments.core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {arguments.core})
    Connection.latency_s, Connection.gap_s = arguments.latency_ms / 1000, arguments.gap_ms / 1000
    uvloop.run(serve())


if __name__ == "__main__":
    main()
