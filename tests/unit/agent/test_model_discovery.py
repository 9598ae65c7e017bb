"""Which model is found when none is configured."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from mainstay.agent import model_discovery
from mainstay.agent.model_discovery import (
    PROBE_TIMEOUT_S,
    DiscoveredModel,
    LocalServerCandidate,
    explain_missing_model,
    find_model,
    first_chat_model,
    list_local_servers,
)
from mainstay.config.loader import Config, ModelEntry
from mainstay.core.limits import Limits
from mainstay.providers import registry

NOBODY = {"OLLAMA_HOST": "127.0.0.1:9", "MAINSTAY_MODELS": "/nowhere"}


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
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    monkeypatch.setattr(model_discovery, "PROBE_TIMEOUT_S", 120.0)  # it answers, however loaded the machine is
    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.daemon_threads = True
    made.pause_s = 0.0  # type: ignore[attr-defined]
    thread = threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()


def test_the_configured_model_comes_first() -> None:
    keys = {"OPENAI_API_KEY": "k"}
    assert find_model(Config(model="groq/x"), keys) == DiscoveredModel("groq/x", None, "mainstay.yaml names it")
    by_variable = find_model(Config(model="groq/x"), {**keys, "MAINSTAY__MODEL": "groq/x"})
    assert by_variable is not None
    assert by_variable.reason == "the variable MAINSTAY__MODEL names it"
    named = find_model(Config(models=(ModelEntry(model="xai/y"), "groq/x")), keys)
    assert named is not None
    assert named.spec == "xai/y"


@pytest.mark.parametrize(
    ("variable", "spec"),
    [
        (variable, f"{provider.name}/{provider.default_model}")
        for provider in registry.list_built_in_providers()
        if provider.default_model
        for variable in provider.key_variables
    ],
)
def test_a_key_in_the_environment_gives_a_model_that_can_be_made(variable: str, spec: str) -> None:
    env = {variable: "k", "AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com"}
    found = find_model(Config(), env, probe=False)
    assert found is not None
    assert (found.spec, found.key_variable) == (spec, variable)
    made = registry.build_provider(found.spec, limits=Limits(), environ=env)
    assert made.model().name == spec.partition("/")[2]


def test_of_several_keys_the_first_in_the_order_is_used_and_the_rest_is_reported() -> None:
    env = {"XAI_API_KEY": "k", "OPENAI_API_KEY": "k", "GROQ_API_KEY": "k", "GOOGLE_API_KEY": "k", "GEMINI_API_KEY": "k"}
    found = find_model(Config(), env, probe=False)
    assert found == DiscoveredModel(
        "openai/gpt-4.1-mini",
        None,
        "OPENAI_API_KEY is set; so are GEMINI_API_KEY, GROQ_API_KEY, XAI_API_KEY",
        "OPENAI_API_KEY",
    )
    two = find_model(Config(), {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}, probe=False)
    assert two is not None
    assert two.reason == "ANTHROPIC_API_KEY is set; so is OPENAI_API_KEY"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "is set, but empty"),
        (" \n", "is set, but empty"),
        ('"sk-1"', "has quotes in it"),
        ("'sk-1'", "has quotes in it"),
        ("sk-1\nsk-2", "has a line break or a space in it"),
        ("sk-1\x1b", "has unprintable characters in it"),
    ],
    ids=["empty", "blank", "double quotes", "single quotes", "two lines", "control character"],
)
def test_an_invalid_key_is_skipped_and_reported(value: str, said: str) -> None:
    env = {"ANTHROPIC_API_KEY": value, "MISTRAL_API_KEY": " k\n"}
    found = find_model(Config(), env, probe=False)
    assert found is not None
    assert found.spec == "mistral/mistral-small-latest"
    assert f"ANTHROPIC_API_KEY {said}" in found.reason
    del env["MISTRAL_API_KEY"]
    assert find_model(Config(), env, probe=False) is None
    assert explain_missing_model(env).startswith(f"ANTHROPIC_API_KEY {said}")
    assert value.strip("\n ") not in explain_missing_model(env) or not value.strip(), "the key itself is never shown"


def test_help_without_keys_is_only_help() -> None:
    help = explain_missing_model({"HOME": "/"})
    assert help.startswith("There is no model to talk to yet. ")
    assert "`export ANTHROPIC_API_KEY=…` or `export OPENAI_API_KEY=…`" in help
    assert "as are LM Studio, llama.cpp and vLLM;" in help


def test_azure_needs_an_address_and_its_deployment_may_be_named() -> None:
    env = {"AZURE_OPENAI_API_KEY": "k"}
    assert find_model(Config(), env, probe=False) is None
    assert "AZURE_OPENAI_ENDPOINT" in explain_missing_model(env)
    env["AZURE_OPENAI_ENDPOINT"] = "https://mine.openai.azure.com/"
    guessed = find_model(Config(), env, probe=False)
    assert guessed is not None
    assert "AZURE_OPENAI_DEPLOYMENT" in guessed.reason
    named = find_model(Config(), {**env, "AZURE_OPENAI_DEPLOYMENT": "ours"}, probe=False)
    assert named == DiscoveredModel("azure/ours", None, "AZURE_OPENAI_API_KEY is set", "AZURE_OPENAI_API_KEY")


def test_a_server_is_found_despite_an_invalid_key_and_the_key_is_reported(server: ThreadingHTTPServer) -> None:
    env = {"OLLAMA_HOST": f"127.0.0.1:{server.server_address[1]}", "OPENAI_API_KEY": ""}
    found = find_model(Config(), env)
    assert found is not None
    assert found.spec == "ollama/llama3.2"
    assert found.reason.endswith("; OPENAI_API_KEY is set, but empty")


def test_a_running_server_is_found_with_its_first_chat_model(server: ThreadingHTTPServer) -> None:
    port = server.server_address[1]
    found = find_model(Config(), {"OLLAMA_HOST": f"127.0.0.1:{port}"})
    assert found is not None
    assert (found.spec, found.base_url) == ("ollama/llama3.2", f"http://127.0.0.1:{port}/v1")


def test_a_server_that_does_not_answer_costs_only_a_short_timeout(
    server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.pause_s = 600.0  # type: ignore[attr-defined]
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    monkeypatch.setattr(model_discovery, "PROBE_TIMEOUT_S", PROBE_TIMEOUT_S)
    monkeypatch.setattr(
        model_discovery, "list_local_servers", lambda env, _: [LocalServerCandidate("Slow", "vllm", url)] * 4
    )
    started = time.monotonic()
    assert find_model(Config(), NOBODY) is None
    assert time.monotonic() - started < 120


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
    assert list_local_servers({"OLLAMA_HOST": host})[0].base_url == url


@pytest.mark.parametrize("answer", [{}, [], {"data": "x"}, {"data": [1, {"id": 2}, {"id": ""}, {"id": "a\x1b"}]}, None])
def test_an_invalid_response_names_no_model(answer: Any) -> None:
    assert first_chat_model(answer) is None
