"""Which model is found when nobody said."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from mainstay.app import discover
from mainstay.app.config import Config, ModelEntry
from mainstay.app.discover import Found, Server, find_model, first_chat_model, servers
from mainstay.core.limits import Limits
from mainstay.providers import catalogue

NOBODY = {"OLLAMA_HOST": "127.0.0.1:9"}


class Handler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        time.sleep(self.server.pause_s)  # type: ignore[attr-defined]
        body = json.dumps({"data": [{"id": "nomic-embed-text:latest"}, {"id": "llama3.2"}]}).encode()
        self.send_response(200 if self.path == "/v1/models" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.daemon_threads = True
    made.pause_s = 0.0  # type: ignore[attr-defined]
    thread = threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()


def test_what_is_configured_comes_first() -> None:
    keys = {"OPENAI_API_KEY": "k"}
    assert find_model(Config(model="groq/x"), keys) == Found("groq/x", None, "it is configured")
    named = find_model(Config(models=(ModelEntry(model="xai/y"), "groq/x")), keys)
    assert named is not None
    assert named.spec == "xai/y"


@pytest.mark.parametrize(("variable", "spec"), discover.KEYS)
def test_a_key_in_the_environment_gives_a_model_that_can_be_made(variable: str, spec: str) -> None:
    found = find_model(Config(), {variable: "k"}, probe=False)
    assert found is not None
    assert (found.spec, found.key_variable) == (spec, variable)
    made = catalogue.make(found.spec, api_key="k", limits=Limits())
    assert made.model().name == spec.partition("/")[2]


def test_an_empty_key_is_none() -> None:
    assert find_model(Config(), {"OPENAI_API_KEY": " "}, probe=False) is None


def test_a_running_server_is_found_with_its_first_chat_model(server: ThreadingHTTPServer) -> None:
    port = server.server_address[1]
    found = find_model(Config(), {"OLLAMA_HOST": f"127.0.0.1:{port}"})
    assert found is not None
    assert (found.spec, found.base_url) == ("ollama/llama3.2", f"http://127.0.0.1:{port}/v1")


def test_a_server_that_does_not_answer_costs_a_moment_and_no_more(
    server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.pause_s = 5.0  # type: ignore[attr-defined]
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    monkeypatch.setattr(discover, "servers", lambda env: [Server("Slow", "vllm", url)] * 4)
    started = time.monotonic()
    assert find_model(Config(), NOBODY) is None
    assert time.monotonic() - started < 1.5


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0:7000", "http://127.0.0.1:7000/v1"),
        (":7000", "http://127.0.0.1:7000/v1"),
        ("box", "http://box:11434/v1"),
        ("box:80/", "http://box:80/v1"),
        ("https://box", "https://box:443/v1"),
        ("http://box/ollama/", "http://box:80/ollama/v1"),
        ("[::1]:7000", "http://[::1]:7000/v1"),
        ("box:notaport", "http://127.0.0.1:11434/v1"),
    ],
)
def test_ollama_host_is_read_as_ollama_reads_it(host: str, url: str) -> None:
    assert servers({"OLLAMA_HOST": host})[0].base_url == url


@pytest.mark.parametrize("answer", [{}, [], {"data": "x"}, {"data": [1, {"id": 2}, {"id": ""}, {"id": "a\x1b"}]}, None])
def test_an_answer_that_makes_no_sense_names_no_model(answer: Any) -> None:
    assert first_chat_model(answer) is None
