"""What the command's tests share: a model that answers on loopback, and the real command in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from support.warm_command import can_be_warm, run_warm

COMMAND_S = 120
SOURCE = Path(__file__).resolve().parents[2] / "src"

LONG = "\n\n".join(
    [
        "# A long answer",
        *(f"Paragraph {n}: some *words* with `code` and **weight** in them, to fill a line." for n in range(30)),
        "```python\n" + "\n".join(f"print({n})" for n in range(40)) + "\n```",
        "\n".join(f"{n}. item {n}" for n in range(1, 41)),
        "THE END",
    ]
)
EVIL = "before \x1b]0;owned\x07\x1b[2J\x1b]52;c;aGk=\x07\x9b31mred\u202eover\r\nafter"


def answer_to(text: str) -> tuple[str, float]:
    """What the model says, and how long it waits between words."""
    if "slow" in text:
        return "word " * (60 if "slow for a while" in text else 600), 0.05
    if "long" in text:
        return LONG, 0.002
    if "evil" in text:
        return EVIL, 0.0
    if "table" in text:
        return "| a | b |\n|---|---|\n| 1 | 2 |\n\nSee [the page](https://example.com/page).", 0.01
    return f"You said **{text}**.", 0.01


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._json(200, {"object": "list", "data": [{"id": "nomic-embed-text"}, {"id": "fake"}]})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/api/show":  # Ollama's
            return self._json(200, {"capabilities": ["completion", "tools"]})
        self.server.requests.append(asked)  # type: ignore[attr-defined]
        text = next(one["content"] for one in reversed(asked["messages"]) if one["role"] == "user")
        if "refuse" in text:
            return self._json(401, {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}})
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            if self.path == "/api/chat":
                self._lines(text)
            else:
                self._stream(text)
        except OSError:
            self.close_connection = True  # it was interrupted
        return None

    def _stream(self, text: str) -> None:
        answer, pause_s = answer_to(text)
        self._event({"role": "assistant", "content": ""})
        if "think" in text:
            for word in ["Let", "me", "think", "about", "it", "first.", "Then", "I", "answer."]:
                self._event({"reasoning_content": word + " "})
                time.sleep(0.05)
        for piece in pieces(answer):
            self._event({"content": piece})
            time.sleep(pause_s)
        self._event({}, "stop")
        words = len(answer.split())
        self._chunk({"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": words}})
        self._send(b"data: [DONE]\n\n")
        self._send(b"")

    def _lines(self, text: str) -> None:
        """As Ollama streams."""
        answer, pause_s = answer_to(text)
        for piece in pieces(answer):
            self._send(json.dumps({"message": {"content": piece}, "done": False}).encode() + b"\n")
            time.sleep(pause_s)
        counts = {"prompt_eval_count": 12, "eval_count": len(answer.split())}
        self._send(json.dumps({"message": {"content": ""}, "done": True, "done_reason": "stop", **counts}).encode())
        self._send(b"")

    def _event(self, delta: dict[str, Any], reason: str | None = None) -> None:
        self._chunk({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    def _chunk(self, body: dict[str, Any]) -> None:
        whole = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "fake"} | body
        self._send(b"data: " + json.dumps(whole).encode() + b"\n\n")

    def _send(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()

    def _json(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def pieces(text: str) -> Iterator[str]:
    """Words with the space before them, as models send them."""
    start = 0
    for at, char in enumerate(text):
        if char == " " and at > start:
            yield text[start:at]
            start = at
    yield text[start:]


class FakeModel:
    """An OpenAI-compatible server in a thread; `requests` is what it was asked."""

    def __init__(self, port: int = 0) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.requests: list[dict[str, Any]] = []
        self._server.requests = self.requests  # type: ignore[attr-defined]
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def wait_for_prompt(self, text: str) -> None:
        """Wait until the model was asked this. It answers slowly, so the turn is running then."""
        end = time.monotonic() + COMMAND_S
        while not any(text in json.dumps(request["messages"][-1:]) for request in list(self.requests)):
            assert time.monotonic() < end, f"the model was not asked {text!r}"
            time.sleep(0.01)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Command:
    """`mainstay`, run as people run it, with a home and an environment of its own."""

    def __init__(self, folder: Path, model_url: str = "") -> None:
        self.folder = folder
        self.home = folder / "home"
        self.env = {
            "HOME": str(folder),
            "PATH": os.environ.get("PATH", ""),
            "PYTHONPATH": str(SOURCE),
            "MAINSTAY_HOME": str(self.home),
            "OLLAMA_HOST": "127.0.0.1:9",  # no server is there
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "LANGUAGE": "C",  # else every option's help is looked up in catalogues that do not exist
            "TZ": "UTC",
        }
        if model_url:
            place = f"  openai:\n    base_url: {model_url}\n    api_key: ${{KEY}}\n"
            self.configure(f"model: openai/fake\nproviders:\n{place}")
            self.env["KEY"] = "sk-test"

    def configure(self, text: str) -> None:
        self.home.mkdir(mode=0o700, exist_ok=True)
        (self.home / "mainstay.yaml").write_text(text)

    def argv(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "mainstay", *arguments]

    def __call__(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        if can_be_warm(self.env):
            return run_warm(list(arguments), self.env, self.folder, stdin, COMMAND_S)
        return subprocess.run(
            self.argv(*arguments),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            env=self.env,
            cwd=self.folder,
            timeout=COMMAND_S,
            check=False,
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.argv(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.env,
            cwd=self.folder,
        )

    def json(self, *arguments: str, stdin: str | None = None) -> Any:
        done = self(*arguments, "--json", stdin=stdin)
        assert not done.stderr, done.stderr
        return json.loads(done.stdout)


def main(arguments: Sequence[str]) -> None:
    """By hand: `python cli_support.py PORT` and a chat beside it."""
    server = FakeModel(int(arguments[0]))
    print(server.url, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1:])
