"""A model server that streams like a model: 600 tokens at 30 a second for a "paced:" prompt, else 32 tokens at once.

It serves OpenAI chat completions on 127.0.0.1 in a separate process, prints its port and exits when its standard input
closes. It shares the cores with the measured server and therefore does little work: responses are built once, one timer
drives all streams, and a token is one write.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from typing import cast

import uvloop

LONG_TOKENS, SHORT_TOKENS = 600, 32
WORDS = [f" word{n % 100:02d}" for n in range(LONG_TOKENS)]
PACED_PREFIX = b"paced:"  # prefix of a prompt whose answer is streamed slowly
SLOTS = 16  # timer ticks between two tokens of a stream; streams are spread over them
RESPONSE_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def build_answer(count: int) -> str:
    return "".join(WORDS[:count])


def build_chunks(count: int) -> list[bytes]:
    """HTTP chunks, one per token. The first includes the response head, the last everything after the last token."""
    base = {"id": "chatcmpl-gateway", "object": "chat.completion.chunk", "created": 1760000000, "model": "fake-model"}

    def frame_event(body: dict[str, object] | str) -> bytes:
        data = b"data: %b\n\n" % (body if isinstance(body, str) else json.dumps(base | body)).encode()
        return b"%x\r\n%b\r\n" % (len(data), data)

    def frame_delta(delta: dict[str, str], finish_reason: str | None = None) -> bytes:
        return frame_event(
            {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}]}
        )

    usage = {"prompt_tokens": 50, "completion_tokens": count, "total_tokens": 50 + count}
    chunks = [frame_delta({"content": word}) for word in WORDS[:count]]
    chunks[0] = RESPONSE_HEAD + frame_delta({"role": "assistant", "content": ""}) + chunks[0]
    chunks.append(
        frame_delta({}, "stop") + frame_event({"choices": [], "usage": usage}) + frame_event("[DONE]") + b"0\r\n\r\n"
    )
    return chunks


LONG_CHUNKS = build_chunks(LONG_TOKENS)
SHORT_RESPONSE = b"".join(build_chunks(SHORT_TOKENS))


class TokenScheduler:
    """One timer for all streams: each stream belongs to a slot and gets a token whenever its slot is due."""

    def __init__(self, per_second: float, first_s: float) -> None:
        self._slot_s = 1 / per_second / SLOTS
        self._first_ticks = round(first_s / self._slot_s)
        self._slots: list[dict[Connection, int]] = [{} for _ in range(SLOTS)]
        self._pending: dict[int, list[Connection]] = {}  # streams that have not started, by their first tick
        self._tick = 0
        self._started = time.monotonic()
        self._running = False
        self._loop = asyncio.get_running_loop()

    def start_stream(self, connection: Connection) -> None:
        if not self._running:
            self._running = True
            self._started = time.monotonic() - self._tick * self._slot_s
            self._loop.call_later(self._slot_s, self._send_due_tokens)
        first_tick = max(self._tick + 1, round((time.monotonic() - self._started) / self._slot_s) + self._first_ticks)
        self._pending.setdefault(first_tick, []).append(connection)

    def _send_due_tokens(self) -> None:
        now = int((time.monotonic() - self._started) / self._slot_s)
        while self._tick < now:
            self._tick += 1
            slot = self._slots[self._tick % SLOTS]
            for connection in self._pending.pop(self._tick, ()):
                slot[connection] = 0
            for connection, position in list(slot.items()):
                if connection.write_chunk(LONG_CHUNKS[position]) and position + 1 < len(LONG_CHUNKS):
                    slot[connection] = position + 1
                else:
                    del slot[connection]
        self._running = bool(self._pending) or any(self._slots)
        if self._running:
            next_s = self._started + (self._tick + 1) * self._slot_s - time.monotonic()
            self._loop.call_later(max(next_s, 0.0), self._send_due_tokens)


class Connection(asyncio.Protocol):
    scheduler: TokenScheduler

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.received = cast(asyncio.Transport, transport), b""
        self.fd = self.transport.get_extra_info("socket").fileno()

    def data_received(self, data: bytes) -> None:
        received = self.received = self.received + data if self.received else data
        end = received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = received[:end].lower()
        position = head.find(b"content-length:")
        length = int(head[position + 15 :].split(b"\r\n", 1)[0]) if position >= 0 else 0
        if len(received) < end + 4 + length:
            return
        self.received = received[end + 4 + length :]
        if head.startswith(b"get "):
            models = b'{"object": "list", "data": [{"id": "fake-model", "object": "model"}]}'
            self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(models), models))
        elif received.rfind(PACED_PREFIX, end) > received.rfind(b'"role"', end):  # in the last message
            self.scheduler.start_stream(self)
        else:
            self.transport.write(SHORT_RESPONSE)

    def write_chunk(self, chunk: bytes) -> bool:
        """Write to the socket directly, which is cheaper; use the transport if the socket buffer is full.

        Return False if the connection is closed.
        """
        if self.transport.is_closing():
            return False
        try:
            sent = os.write(self.fd, chunk) if not self.transport.get_write_buffer_size() else 0
        except BlockingIOError:
            sent = 0
        except OSError:
            return False
        if sent < len(chunk):
            self.transport.write(chunk[sent:])
        return True


async def serve(arguments: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    Connection.scheduler = TokenScheduler(arguments.per_second, arguments.first_ms / 1000)
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()  # until the parent process exits or closes the pipe


def use_batch_scheduling() -> None:
    """Let this process not preempt the measured server when it wakes up: in production it is on another machine."""
    if hasattr(os, "sched_setscheduler"):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def main() -> None:
    use_batch_scheduling()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--per-second", type=float, default=30.0, help="tokens per second of a paced answer")
    parser.add_argument("--first-ms", type=float, default=200.0, help="milliseconds until its first token")
    uvloop.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
