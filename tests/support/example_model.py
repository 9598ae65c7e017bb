"""A model for the examples and the documentation: an OpenAI-compatible server on loopback, told what to say.

`say` is a function of the messages; it returns a text, or the calls to make, as a list of (name, arguments).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Messages = list[dict[str, Any]]
Said = str | list[tuple[str, dict[str, Any]]]


class ExampleModel:
    """Serves until closed. `asked` is every conversation it was shown."""

    def __init__(self, say: Callable[[Messages], Said], pause_s: float = 0.0) -> None:
        self.asked: list[Messages] = []
        self.say = say
        self.pause_s = pause_s
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Handler,), {"model": self}))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def environment(self) -> dict[str, str]:
        return {"OPENAI_BASE_URL": self.url, "OPENAI_API_KEY": "none", "MAINSTAY_MODEL": "openai/gpt-4.1-mini"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: ExampleModel

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        messages = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"]
        self.model.asked.append(messages)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            self._answer(self.model.say(messages))
        except OSError:  # the client is gone
            self.close_connection = True

    def _answer(self, said: Said) -> None:
        if isinstance(said, str):
            for word in said.split(" "):
                self._delta({"content": word + " "})
                time.sleep(self.model.pause_s)
            self._delta({}, "stop")
        else:
            for index, (name, arguments) in enumerate(said):
                function = {"name": name, "arguments": json.dumps(arguments)}
                self._delta({"tool_calls": [{"index": index, "id": f"c{index}", "function": function}]})
            self._delta({}, "tool_calls")
        self._event({"choices": [], "usage": {"prompt_tokens": 40, "completion_tokens": 8}})
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _delta(self, delta: dict[str, Any], reason: str | None = None) -> None:
        self._event({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    def _event(self, body: dict[str, Any]) -> None:
        self._chunk(b"data: " + json.dumps(body).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()
