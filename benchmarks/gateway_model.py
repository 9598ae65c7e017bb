"""A model that speaks at the pace of a model: 600 tokens, 30 a second; or, unless it is asked for that, 32 at once.

OpenAI chat completions on 127.0.0.1, in a process of its own; it prints its port and ends when its input closes. It
shares its cores with what is measured, so that it does as little as can be: what it says is built once, one clock
drives all answers, and a token is one write.
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

LONG, SHORT = 600, 32
WORDS = [f" word{n % 100:02d}" for n in range(LONG)]
PACED = b"paced:"  # what a message begins with that is answered at a model's pace
SLOTS = 16  # moments between two tokens of an answer at which others have theirs
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def answer(count: int) -> str:
    return "".join(WORDS[:count])


def events(count: int) -> list[bytes]:
    """The first has the head, the last all that follows the last word."""
    base = {"id": "chatcmpl-gateway", "object": "chat.completion.chunk", "created": 1760000000, "model": "fake-model"}

    def framed(body: dict[str, object] | str) -> bytes:
        data = b"data: %b\n\n" % (body if isinstance(body, str) else json.dumps(base | body)).encode()
        return b"%x\r\n%b\r\n" % (len(data), data)

    def said(delta: dict[str, str], reason: str | None = None) -> bytes:
        return framed({"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]})

    usage = {"prompt_tokens": 50, "completion_tokens": count, "total_tokens": 50 + count}
    made = [said({"content": word}) for word in WORDS[:count]]
    made[0] = HEAD + said({"role": "assistant", "content": ""}) + made[0]
    made.append(said({}, "stop") + framed({"choices": [], "usage": usage}) + framed("[DONE]") + b"0\r\n\r\n")
    return made


EVENTS = events(LONG)
AT_ONCE = b"".join(events(SHORT))


class Wheel:
    """One clock for all answers: each has its moment between two tokens, and gets the next one there."""

    def __init__(self, per_second: float, first_s: float) -> None:
        self._slot_s = 1 / per_second / SLOTS
        self._first = round(first_s / self._slot_s)
        self._slots: list[dict[Connection, int]] = [{} for _ in range(SLOTS)]
        self._due: dict[int, list[Connection]] = {}  # answers that are yet to begin, by the tick they begin at
        self._tick = 0
        self._began = time.monotonic()
        self._running = False
        self._loop = asyncio.get_running_loop()

    def begin(self, one: Connection) -> None:
        if not self._running:
            self._running = True
            self._began = time.monotonic() - self._tick * self._slot_s
            self._loop.call_later(self._slot_s, self._turn)
        at = max(self._tick + 1, round((time.monotonic() - self._began) / self._slot_s) + self._first)
        self._due.setdefault(at, []).append(one)

    def _turn(self) -> None:
        now = int((time.monotonic() - self._began) / self._slot_s)
        while self._tick < now:
            self._tick += 1
            slot = self._slots[self._tick % SLOTS]
            for one in self._due.pop(self._tick, ()):
                slot[one] = 0
            for one, at in list(slot.items()):
                if one.speak(EVENTS[at]) and at + 1 < len(EVENTS):
                    slot[one] = at + 1
                else:
                    del slot[one]
        self._running = bool(self._due) or any(self._slots)
        if self._running:
            next_s = self._began + (self._tick + 1) * self._slot_s - time.monotonic()
            self._loop.call_later(max(next_s, 0.0), self._turn)


class Connection(asyncio.Protocol):
    wheel: Wheel

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.received = cast(asyncio.Transport, transport), b""
        self.fd = self.transport.get_extra_info("socket").fileno()

    def data_received(self, data: bytes) -> None:
        received = self.received = self.received + data if self.received else data
        end = received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = received[:end].lower()
        at = head.find(b"content-length:")
        length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(received) < end + 4 + length:
            return
        self.received = received[end + 4 + length :]
        if head.startswith(b"get "):
            models = b'{"object": "list", "data": [{"id": "fake-model", "object": "model"}]}'
            self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(models), models))
        elif received.rfind(PACED, end) > received.rfind(b'"role"', end):  # in what was said last
            self.wheel.begin(self)
        else:
            self.transport.write(AT_ONCE)

    def speak(self, token: bytes) -> bool:
        """Straight to the socket: it has room for a token, unless nobody has read for long."""
        if self.transport.is_closing():
            return False
        try:
            sent = os.write(self.fd, token) if not self.transport.get_write_buffer_size() else 0
        except BlockingIOError:
            sent = 0
        except OSError:
            return False
        if sent < len(token):
            self.transport.write(token[sent:])
        return True


async def serve(given: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    Connection.wheel = Wheel(given.per_second, given.first_ms / 1000)
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()  # until whoever started this process is gone


def modestly() -> None:
    """What stands in for other machines does not push aside, whenever it wakes up, whom it wakes up for."""
    if hasattr(os, "sched_setscheduler"):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def main() -> None:
    modestly()
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--per-second", type=float, default=30.0, help="tokens of a paced answer")
    options.add_argument("--first-ms", type=float, default=200.0, help="until the first of them")
    uvloop.run(serve(options.parse_args()))


if __name__ == "__main__":
    main()
