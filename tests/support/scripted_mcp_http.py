"""An MCP server over streamable HTTP, in raw JSON-RPC, in a thread of this process; behaves as it is told to."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from support.mcp_world import tool


class Site:
    """`does` is what a call of a tool leads to; `asked` what came, with its headers."""

    def __init__(self) -> None:
        self.tools: list[dict[str, Any]] = [tool("echo")]
        self.does = ""
        self.location = ""
        self.status = 0  # of all answers, where it is not 0
        self.unasked = b""  # sent to listeners repeatedly
        self.nods = True  # to what it is told
        self.session = "first"
        self.sessions = 0
        self.modern = False
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.released = threading.Event()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def count(self, method: str) -> int:
        return sum(one == method for one, _ in self.asked)

    @contextmanager
    def served(self, port: int = 0) -> Iterator[Site]:
        site = self
        self.released.clear()

        class Handler(_Handler):
            pass

        Handler.site = site
        server = _Server(("127.0.0.1", port), Handler)
        self.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.released.set()
            server.shutdown()
            server.server_close()
            thread.join()


class _Server(ThreadingHTTPServer):
    allow_reuse_address = True
    daemon_threads = True


class _Handler(BaseHTTPRequestHandler):
    site: Site
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.site.asked.append(("GET", dict(self.headers)))
        if self.site.unasked:
            return self.pour(self.site.unasked)
        self.plain(405, b"")

    def do_DELETE(self) -> None:
        self.site.asked.append(("DELETE", dict(self.headers)))
        self.plain(200, b"")

    def do_POST(self) -> None:
        site = self.site
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, id = message.get("method", "answer"), message.get("id")
        if site.released.is_set():  # it is gone, and so is this
            self.close_connection = True
            return
        site.asked.append((method, dict(self.headers)))
        if site.status:
            self.plain(site.status, b"no")
        elif site.location:
            self.send_response(307)
            self.send_header("location", site.location)
            self.send_header("content-length", "0")
            self.end_headers()
        elif id is None and not site.nods:
            site.released.wait(120)
        elif id is None:
            self.plain(202, b"")
        elif method == "initialize":
            site.sessions += 1
            site.session = f"session-{site.sessions}"
            can = {"tools": {}}
            info = {"name": "site", "version": "1"}
            self.answer(id, {"protocolVersion": "2025-11-25", "capabilities": can, "serverInfo": info})
        elif method == "server/discover" and site.modern:
            self.answer(id, {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **MODERN})
        elif method == "server/discover":
            self.say(id, {"error": {"code": -32601, "message": "Method not found"}})
        elif not site.modern and self.headers.get("mcp-session-id") != site.session:
            self.plain(404, b"")
        elif method == "tools/list":
            self.answer(id, {"tools": site.tools, **(MODERN if site.modern else {})})
        else:
            getattr(self, f"do_{site.does or 'echo'}")(id, message)

    def plain(self, status: int, body: bytes, kind: str = "text/plain", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-type": kind, "content-length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:  # no client reads any more
            self.close_connection = True

    def say(self, id: Any, rest: dict[str, Any], **headers: str) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": id, **rest}).encode()
        self.plain(200, body, "application/json", mcp_session_id=self.site.session, **headers)

    def answer(self, id: Any, result: dict[str, Any]) -> None:
        self.say(id, {"result": result})

    def text(self, text: str) -> dict[str, Any]:
        more = {"resultType": "complete"} if self.site.modern else {}
        return {"content": [{"type": "text", "text": text}], **more}

    def do_echo(self, id: Any, message: Any) -> None:
        self.answer(id, self.text(message["params"]["arguments"].get("text", "")))

    def do_events(self, id: Any, message: Any) -> None:
        progress = {"progressToken": message["params"]["_meta"]["progressToken"], "progress": 1, "message": "half"}
        self.stream(
            [{"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}] * 3
            + [{"jsonrpc": "2.0", "id": id, "result": self.text("streamed")}]
        )

    def do_flood(self, id: Any, message: Any) -> None:
        note = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        self.stream([note] * 20_000 + [{"jsonrpc": "2.0", "id": id, "result": self.text("flooded")}])

    def stream(self, messages: list[Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        try:
            for one in messages:
                self.wfile.write(f"event: message\ndata: {json.dumps(one)}\n\n".encode())
        except OSError:
            pass
        self.close_connection = True

    def do_endless(self, id: Any, message: Any) -> None:
        """A line of an event that has no end."""
        self.pour(b"data: " + b"x" * 100_000)

    def do_chatter(self, id: Any, message: Any) -> None:
        """Events that are no messages."""
        self.pour(b"id: 5\nevent: x\n\n" * 4000)

    def do_silent(self, id: Any, message: Any) -> None:
        """A stream of events on which nothing comes."""
        self.pour(b"")

    def pour(self, data: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        try:
            if not data:
                self.wait_for_the_end()
            while data and not self.site.released.is_set():
                self.wfile.write(data)
        except OSError:
            pass
        self.close_connection = True

    def do_huge(self, id: Any, message: Any) -> None:
        self.answer(id, self.text("x" * 6_000_000))

    def do_packed(self, id: Any, message: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": id, "result": self.text("x" * 20_000_000)}).encode()
        self.plain(200, gzip.compress(body, 1), "application/json", content_encoding="gzip")

    def do_hang(self, id: Any, message: Any) -> None:
        self.wait_for_the_end()

    def wait_for_the_end(self) -> None:
        """Until they hang up."""
        self.connection.settimeout(120)
        try:
            self.connection.recv(1)
        except OSError:
            pass
        self.close_connection = True

    def do_broken(self, id: Any, message: Any) -> None:
        self.plain(500, b"<html>oops</html>", "text/html")

    def do_rude(self, id: Any, message: Any) -> None:
        """Hangs up in the midst."""
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "1000")
        self.end_headers()
        self.wfile.write(b"{")
        self.wfile.flush()
        self.close_connection = True


MODERN = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
