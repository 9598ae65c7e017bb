"""A server for the API of `examples/components/http_provider`. The model's name selects what it does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "acme-secret-0123456789"


class AcmeHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: AcmeServer

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._refuse(404, "no such path")

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(request)
        model, is_first = request["model"], len(self.server.requests) == 1
        if self.path != "/v2/generate":
            self._refuse(404, "no such path")
        elif self.headers["X-Acme-Key"] != KEY:
            self._refuse(401, f"bad key {self.headers['X-Acme-Key']}")
        elif model == "full":
            self._refuse(429, "slow down", retry_after="7200")
        elif model == "busy" and is_first:
            self._refuse(429, "slow down", retry_after="2")
        else:
            self._answer(f"You said: {request['turns'][-1]['text']}", is_cut=model == "cut" and is_first)

    def _refuse(self, status: int, message: str, retry_after: str = "") -> None:
        body = json.dumps({"error": message}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if retry_after:
            self.send_header("Retry-After", retry_after)
        self.end_headers()
        self.wfile.write(body)

    def _answer(self, text: str, *, is_cut: bool) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        words = [{"delta": f"{word} "} for word in text.split()]
        lines = words[:2] if is_cut else [*words, {"done": "stop", "usage": {"read": 12, "written": 5}}]
        for line in lines:
            data = json.dumps(line).encode() + b"\n"
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        if is_cut:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")


class AcmeServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), AcmeHandler)
        self.requests: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v2"


@contextmanager
def serve_acme() -> Iterator[AcmeServer]:
    server = AcmeServer()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
