"""A model server for the soak test: OpenAI chat completions over HTTP that are cut, refused and failed at given rates.

It answers a prompt by its mark, calls a tool first if the prompt asks for it, and notes what it did to every call.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Iterator
from typing import Any

import msgspec

from support.gateway_chaos import MARK, Server
from support.streams.server import reset

EARLY, LATE, FAILED, REFUSED, ANSWERED = "cut before output", "cut after output", "5xx", "429", "answered"
# of 2,000 calls: 0.5 % cut streams, 0.1 % 5xx, 1 % 429
FAULTS_OF_2000 = {EARLY: 5, LATE: 5, FAILED: 2, REFUSED: 20}
CUT_AGAIN_SHARE = 0.1  # of the streams that were cut after output: the repeated call is cut, too
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
ERRORS = {500: "Internal Server Error", 502: "Bad Gateway", 503: "Service Unavailable"}


class FaultDeck:
    """Faults in random order and exact number: `FAULTS_OF_2000` among `size` calls, again and again."""

    def __init__(self, chance: random.Random, size: int) -> None:
        self._cards = self._deal(chance, size)

    @staticmethod
    def _deal(chance: random.Random, size: int) -> Iterator[str]:
        faults = [fault for fault, count in FAULTS_OF_2000.items() for _ in range(count)]
        cards = faults + [ANSWERED] * (size - len(faults))
        while True:
            chance.shuffle(cards)
            yield from cards

    def draw(self) -> str:
        return next(self._cards)


class SoakMessage(msgspec.Struct):
    role: str
    content: Any = None


class SoakRequest(msgspec.Struct):
    messages: list[SoakMessage]


class SoakModel(Server):
    """`calls` has, by mark and step of a turn, what happened to each of its calls in order."""

    def __init__(self, seed: int, deck_size: int, latency_s: float) -> None:
        self._latency_s = latency_s
        self._chance = random.Random(f"{seed} model")
        self._deck = FaultDeck(self._chance, deck_size)
        self._decode = msgspec.json.Decoder(SoakRequest).decode
        self._cut_again: list[str] | None = None  # the first one that is cut, so that every run has a turn that fails
        self._call_ids = itertools.count(1)
        self.calls: dict[tuple[str, int], list[str]] = {}
        self.is_healthy = False  # no faults

    async def answer(self, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        messages = self._decode(body).messages
        asked = next(one for one in reversed(messages) if one.role == "user")
        text, last = str(asked.content), messages[-1]
        mark = MARK.findall(text)[-1]
        calls = self.calls.setdefault((mark, 2 if last.role == "tool" else 1), [])
        fault = self._choose_fault(calls)
        calls.append(fault)
        await asyncio.sleep(self._chance.uniform(0, self._latency_s))
        if fault in (FAILED, REFUSED):
            self._refuse(writer, fault)
            return
        if last.role == "tool":
            deltas = build_text(f"heard {mark}: {last.content}")
        elif text.startswith(("add", "charge")):
            deltas = build_call(text, mark, next(self._call_ids))
        else:
            deltas = build_text(f"heard {mark}")
        self._stream(writer, deltas, fault)

    def _choose_fault(self, calls: list[str]) -> str:
        if self.is_healthy:
            return ANSWERED
        if calls and calls[-1] == LATE and (calls is self._cut_again or self._chance.random() < CUT_AGAIN_SHARE):
            return LATE
        fault = self._deck.draw()
        if fault == LATE and self._cut_again is None:
            self._cut_again = calls
        return fault

    def _refuse(self, writer: asyncio.StreamWriter, fault: str) -> None:
        status = 429 if fault == REFUSED else self._chance.choice(list(ERRORS))
        reason = ERRORS.get(status, "Too Many Requests")
        retry = "Retry-After: 1\r\n" if fault == REFUSED and self._chance.random() < 0.5 else ""
        body = json.dumps({"error": {"message": reason, "type": "error"}})
        head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{retry}"
        writer.write(f"{head}\r\n{body}".encode())

    def _stream(self, writer: asyncio.StreamWriter, deltas: list[dict[str, Any]], fault: str) -> None:
        reason = "tool_calls" if "tool_calls" in deltas[-1] else "stop"
        first = {"role": "assistant", "content": ""}
        events = [{"choices": [{"index": 0, "delta": delta}]} for delta in (first, *deltas)]
        usage = {"prompt_tokens": 50, "completion_tokens": len(deltas)}
        events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage})
        chunks = [HEAD, *(build_chunk(event) for event in events), END]
        if fault == EARLY:  # nothing, a part of the head, the head, or an event without a word
            whole = b"".join(chunks[:2])
            writer.write(whole[: self._chance.choice([0, 20, len(HEAD), len(whole)])])
        elif fault == LATE:
            least = 4 if reason == "tool_calls" else 3  # a call is output from its arguments on
            writer.write(b"".join(chunks[: self._chance.randint(least, len(chunks) - 2)]))
        else:
            writer.write(b"".join(chunks))
            return
        if fault == EARLY and self._chance.random() < 0.5:
            reset(writer)  # the client may lose what it has not read yet, so this is no way to cut after output
        else:
            writer.close()

    def count_faults(self) -> dict[str, int]:
        found = [fault for calls in self.calls.values() for fault in calls]
        return {fault: found.count(fault) for fault in (*FAULTS_OF_2000, ANSWERED)}

    def list_unrepeatable(self) -> set[str]:
        """Return the marks of the turns of which one call was cut after output and, when it was repeated, again."""
        return {mark for (mark, _), calls in self.calls.items() if calls.count(LATE) > 1}


def build_text(text: str) -> list[dict[str, Any]]:
    """Return the deltas of a text, word by word."""
    return [{"content": f"{word} "} for word in text.split(" ")]


def build_call(text: str, mark: str, number: int) -> list[dict[str, Any]]:
    """Return the deltas of a call, in parts, as the prompt asks for it: `add 3 4 #mark` or `charge #mark`."""
    words = text.split()
    if words[0] == "add":
        name, arguments = "till__add", json.dumps({"a": int(words[1]), "b": int(words[2])})
    else:
        name, arguments = "till__charge", json.dumps({"mark": mark})
    first = {"index": 0, "id": f"c{number}", "type": "function", "function": {"name": name, "arguments": ""}}
    parts = [arguments[:7], arguments[7:]]
    more = [{"index": 0, "function": {"arguments": part}} for part in parts]
    return [{"tool_calls": [one]} for one in (first, *more)]


def build_chunk(event: dict[str, Any]) -> bytes:
    data = b"data: " + msgspec.json.encode(event) + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)
