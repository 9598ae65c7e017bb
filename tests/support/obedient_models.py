"""Models that do as they are told in plain words, behind the two protocols that most models speak.

What is decided is the same for both: read a file that is named, keep what shall be remembered, look up what was asked
about, talk for long. How it is said is each one's own: true requests come in by HTTP, and true events go out.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import msgspec

PAUSE_S = 0.01
LONG = ("long", "count", "every ", "story", "slow")
_FILE = re.compile(r"[\w./-]+\.[a-z]{2,4}\b")


class Asked(msgspec.Struct, frozen=True):
    """A request as the model understands it: the words of the turn, what its calls came to, what it may call, and all
    that it was shown."""

    text: str
    results: list[str]
    tools: set[str]
    everything: str


class Call(msgspec.Struct, frozen=True):
    name: str
    arguments: dict[str, Any]


def decide(asked: Asked) -> str | Call:
    """An obedient model without knowledge: a result is repeated, an instruction is carried out."""
    low = asked.text.lower()
    if asked.results:
        return f"Here it is: {asked.results[-1]}"
    if "remember" in low and "remember" in asked.tools and "?" not in asked.text:
        return Call("remember", {"text": asked.text})
    if (file := _FILE.search(asked.text)) and "read" in asked.tools:
        return Call("read", {"path": file[0]})
    if any(word in low for word in LONG):
        return " ".join(f"{n}," for n in range(1, 2_000))
    if "?" in asked.text and "memory_search" in asked.tools:
        return Call("memory_search", {"query": asked.text.rstrip("?")})
    return f"Yes: {asked.text}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: ObedientModel

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.served.requests.append(body)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for event in self.served.events(decide(self.served.understand(body))):
                self._chunk(event)
            self._chunk(b"")
        except OSError:  # the client disconnected
            self.served.left += 1
            self.close_connection = True

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()


class ObedientModel:
    """Serves until closed. `requests` is what it was asked, `left` how often the client left before the end."""

    provider: str
    variables: dict[str, str]

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.left = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Handler,), {"served": self}))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def understand(self, body: dict[str, Any]) -> Asked:
        raise NotImplementedError

    def events(self, said: str | Call) -> Iterator[bytes]:
        raise NotImplementedError


class ObedientOpenAI(ObedientModel):
    """Chat completions."""

    provider = "openai"

    def understand(self, body: dict[str, Any]) -> Asked:
        messages = body["messages"]
        turn = max(place for place, one in enumerate(messages) if one["role"] == "user")
        results = [str(one["content"]) for one in messages[turn:] if one["role"] == "tool"]
        tools = {one["function"]["name"] for one in body.get("tools", [])}
        return Asked(_words(messages[turn]["content"]), results, tools, json.dumps(messages))

    def events(self, said: str | Call) -> Iterator[bytes]:
        if isinstance(said, Call):
            function = {"name": said.name, "arguments": json.dumps(said.arguments)}
            call = {"index": 0, "id": f"call_{len(self.requests)}", "type": "function", "function": function}
            yield self._delta({"role": "assistant", "tool_calls": [call]})
        else:
            for piece in _pieces(said):
                yield self._delta({"content": piece})
        yield self._delta({}, "tool_calls" if isinstance(said, Call) else "stop")
        yield _event({"choices": [], "usage": {"prompt_tokens": 40, "completion_tokens": 8}})
        yield b"data: [DONE]\n\n"

    def _delta(self, delta: dict[str, Any], reason: str | None = None) -> bytes:
        return _event({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})


class ObedientAnthropic(ObedientModel):
    """Messages."""

    provider = "anthropic"

    def understand(self, body: dict[str, Any]) -> Asked:
        turn, text = 0, ""
        for place, one in enumerate(body["messages"]):
            if one["role"] == "user" and (words := _words(one["content"])):
                turn, text = place, words
        results = [
            _words(part["content"])
            for one in body["messages"][turn:]
            if isinstance(one["content"], list)
            for part in one["content"]
            if part["type"] == "tool_result"
        ]
        return Asked(text, results, {one["name"] for one in body.get("tools", [])}, json.dumps(body))

    def events(self, said: str | Call) -> Iterator[bytes]:
        usage = {"input_tokens": 40, "output_tokens": 1}
        message = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "fake", "usage": usage}
        yield _named("message_start", message=message)
        if isinstance(said, Call):
            id = f"toolu_{len(self.requests)}"
            block = {"type": "tool_use", "id": id, "name": said.name, "input": {}}
            yield _named("content_block_start", index=0, content_block=block)
            delta = {"type": "input_json_delta", "partial_json": json.dumps(said.arguments)}
            yield _named("content_block_delta", index=0, delta=delta)
        else:
            yield _named("content_block_start", index=0, content_block={"type": "text", "text": ""})
            for piece in _pieces(said):
                yield _named("content_block_delta", index=0, delta={"type": "text_delta", "text": piece})
        yield _named("content_block_stop", index=0)
        reason = "tool_use" if isinstance(said, Call) else "end_turn"
        yield _named("message_delta", delta={"stop_reason": reason}, usage={"output_tokens": 8})
        yield _named("message_stop")


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part.get("type") == "text")


def _pieces(text: str) -> Iterator[str]:
    """A short answer at once; a long one word by word, with time to think again."""
    words = re.findall(r"\S+\s*", text)
    for word in words:
        yield word
        if len(words) > 200:
            time.sleep(PAUSE_S)


def _event(payload: dict[str, Any], name: str = "") -> bytes:
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + json.dumps(payload).encode() + b"\n\n"


def _named(name: str, **fields: Any) -> bytes:
    return _event({"type": name, **fields}, name)
