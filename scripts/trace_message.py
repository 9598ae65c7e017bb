"""Counts the modules and Python calls that one message passes through: library, HTTP and Slack.

    python scripts/trace_message.py [--source SRC] [--list library|http|slack]

Each interface runs in a process of its own, against a model server and a Slack API on loopback that give fixed answers.
Messages after the first are measured, from sending to the answer, when everything is loaded. Only calls of functions
below `src/mainstay` count, in all threads; resuming a coroutine is no call. `--source` measures another checkout,
`--list` names the modules.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import hmac
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
INTERFACES = ("library", "http", "slack")
SIGNING_SECRET = "0123456789abcdef0123456789abcdef"
ANSWER_TIMEOUT_S = 60.0
MEASURED = 5  # messages; the one with the fewest calls counts: background work of the one before may fall into others
SETTLE_S = 1.5  # between two messages

CONFIG = """
model: openai/fixed
providers: {{openai: {{base_url: {model}, api_key: key}}}}
server: {{port: {port}}}
"""
SLACK_CONFIG = """
people: {{ann: {{role: admin, identities: {{slack: U0000000001}}}}}}
channels: {{slack: {{token: xoxb-1-2-3, signing_secret: {secret}, base_url: {slack}}}}}
"""


# --- counting ------------------------------------------------------------------------------------


class CallCounter:
    """Counts the calls of functions below a folder, in all threads, while it is enabled."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder.resolve()) + os.sep
        self._enabled = False
        self._paths: dict[str, str] = {}  # module path by file name; empty: not below the folder
        self._current: Counter[str] = Counter()  # calls by module
        self.messages: list[Counter[str]] = []

    def install(self) -> None:
        """Profile this thread and those that start later."""
        threading.setprofile(self._on_event)
        sys.setprofile(self._on_event)

    def _on_event(self, frame: FrameType, event: str, argument: object) -> None:
        if not self._enabled or event != "call":
            return
        code = frame.f_code
        if frame.f_lasti > 4 and code.co_flags & 0x2A0:  # a generator or coroutine that is resumed
            return
        path = self._paths.get(code.co_filename)
        if path is None:
            name = os.path.realpath(code.co_filename)
            path = name.removeprefix(self._folder) if name.startswith(self._folder) else ""
            self._paths[code.co_filename] = path
        if path:
            self._current[path] += 1

    @contextmanager
    def counting(self, number: int) -> Iterator[None]:
        """Count the calls of a message, unless it is the first (0): that one loads modules and fills caches."""
        self._current = Counter()
        self._enabled = number > 0
        try:
            yield
        finally:
            self._enabled = False
            if number > 0:
                self.messages.append(self._current)


# --- servers with fixed answers ------------------------------------------------------------------


class FixedModel(BaseHTTPRequestHandler):
    """An OpenAI-compatible model that streams one short answer."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        first = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "fine"}}]}
        last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        usage = {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}}
        chunks = [json.dumps({"id": "1", "object": "chat.completion.chunk", **part}) for part in (first, last, usage)]
        self._send("text/event-stream", "".join(f"data: {chunk}\n\n" for chunk in (*chunks, "[DONE]")).encode())

    def _send(self, content_type: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing."""


class FixedSlack(FixedModel):
    """A Slack API that accepts every call."""

    posted: list[str] = []

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
        method = self.path.split("?")[0].rsplit("/", 1)[-1]
        user = {"id": "U0000000001", "name": "ann", "profile": {"display_name": "ann"}}
        answer: dict[str, Any] = {"ok": True, "user": user, "channel": {"id": "C0000000001", "name": "room"}}
        if method == "auth.test":
            answer |= {"user_id": "U0000000009", "bot_id": "B1", "team_id": "T1", "user": "agent", "team": "team"}
        if method in ("chat.postMessage", "chat.update"):
            answer |= {"channel": "C0000000001", "ts": f"{time.time():.6f}", "message": {}}
            if "fine" in body:
                FixedSlack.posted.append(body)
        answer |= {"messages": [], "has_more": False}
        self._send("application/json", json.dumps(answer).encode())


def start_server(handler: type[BaseHTTPRequestHandler]) -> str:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"


# --- interfaces ----------------------------------------------------------------------------------


def measure_library(counter: CallCounter, home: Path, model: str) -> None:
    from mainstay import Agent

    async def run() -> None:
        async with Agent("openai/fixed", base_url=model, api_key="key", home=home) as agent:
            for number in range(1 + MEASURED):
                with counter.counting(number):
                    reply = await agent.run("s", f"hello {number}")
                assert reply.text == "fine", reply
                await asyncio.sleep(SETTLE_S)

    asyncio.run(run())


def measure_http(counter: CallCounter, home: Path, model: str) -> None:
    def prompt(base: str, text: str) -> None:
        answer = post(f"{base}/api/sessions/s/prompt", json.dumps({"text": text}).encode())
        assert b"fine" in answer, answer

    serve(home, CONFIG.format(model=model, port=0), lambda base: measure_messages(counter, partial(prompt, base)))


def measure_slack(counter: CallCounter, home: Path, model: str) -> None:
    thread = f"{time.time():.6f}"

    def say(base: str, text: str) -> None:
        before, at = len(FixedSlack.posted), f"{time.time():.6f}"
        event = {"type": "app_mention", "user": "U0000000001", "text": f"<@U0000000009> {text}", "ts": at}
        event |= {"channel": "C0000000001", "event_ts": at, "thread_ts": thread}
        body = json.dumps({"type": "event_callback", "team_id": "T1", "event_id": f"Ev{at}", "event": event}).encode()
        moment = str(int(time.time()))
        digest = hmac.new(SIGNING_SECRET.encode(), f"v0:{moment}:".encode() + body, hashlib.sha256).hexdigest()
        headers = {"X-Slack-Request-Timestamp": moment, "X-Slack-Signature": f"v0={digest}"}
        post(f"{base}/channels/slack", body, headers)
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while len(FixedSlack.posted) == before:
            assert time.monotonic() < deadline, "Slack got no answer"
            time.sleep(0.05)

    config = CONFIG.format(model=model, port=0)
    config += SLACK_CONFIG.format(secret=SIGNING_SECRET, slack=start_server(FixedSlack) + "/api/")
    serve(home, config, lambda base: measure_messages(counter, partial(say, base)))


def measure_messages(counter: CallCounter, send: Callable[[str], None]) -> None:
    for number in range(1 + MEASURED):
        with counter.counting(number):
            send(f"hello {number}")
        time.sleep(SETTLE_S)


def serve(home: Path, config: str, drive: Callable[[str], None]) -> None:
    """Run `mainstay serve` in this thread, where its calls can be counted, and `drive` with its URL in another one."""
    from mainstay.__main__ import main

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home.mkdir(parents=True, exist_ok=True)
    (home / "mainstay.yaml").write_text(config.replace("port: 0", f"port: {port}"))
    (home / "mainstay.yaml").chmod(0o600)

    def run() -> None:
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while True:
            try:
                urllib.request.urlopen(f"{url}/readyz", timeout=5.0).close()
                break
            except OSError:
                assert time.monotonic() < deadline, "the server did not start"
                time.sleep(0.1)
        drive(url)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=run, daemon=True).start()
    sys.argv = ["mainstay", "serve", "--home", str(home)]
    with contextlib.suppress(SystemExit):
        main()


def post(url: str, body: bytes, headers: dict[str, str] | None = None) -> bytes:
    request = urllib.request.Request(url, body, {"content-type": "application/json", **(headers or {})})
    with urllib.request.urlopen(request, timeout=ANSWER_TIMEOUT_S) as answer:
        data: bytes = answer.read()
    return data


def measure(interface: str, source: Path) -> None:
    """Measure one interface in this process and print the calls of each module as JSON to stderr's end."""
    counter = CallCounter(source / "mainstay")
    counter.install()
    model = start_server(FixedModel) + "/v1"
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        {"library": measure_library, "http": measure_http, "slack": measure_slack}[interface](counter, home, model)
        least = min(counter.messages, key=lambda calls: sum(calls.values()))
        print("\n" + json.dumps(least), file=sys.stderr, flush=True)
        os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, default=ROOT / "src", help="folder that contains the package mainstay")
    parser.add_argument("--list", choices=INTERFACES, help="name the modules and their calls")
    parser.add_argument("--measure", choices=INTERFACES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure, options.source)
    for interface in (options.list,) if options.list else INTERFACES:
        command = [sys.executable, __file__, "--measure", interface, "--source", str(options.source)]
        env = {**os.environ, "PYTHONPATH": str(options.source)}
        result = subprocess.run(
            command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=180
        )
        try:
            calls = json.loads(result.stderr.strip().splitlines()[-1])
        except (IndexError, ValueError):
            raise SystemExit(f"{interface}: {result.stderr[-2000:]}") from None
        print(f"{interface:8} {len(calls):4} modules {sum(calls.values()):6} calls")
        if options.list:
            for module, count in sorted(calls.items(), key=lambda item: -item[1]):
                print(f"  {count:5}  {module}")


if __name__ == "__main__":
    main()
