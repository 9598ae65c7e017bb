"""Which model to ask when nobody said: what is configured, whose key is at hand, what runs on this machine."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from mainstay.app.config import FILE, Config

PROBE_S = 0.3
_ANSWER_BYTES_MAX = 1024 * 1024
_NOT_FOR_CHAT = ("embed", "bge-", "minilm", "rerank", "whisper", "tts", "clip")

# variable, and a small model of that provider that everyone with a key may use
KEYS = (
    ("ANTHROPIC_API_KEY", "anthropic/claude-haiku-4-5"),
    ("OPENAI_API_KEY", "openai/gpt-4.1-mini"),
    ("OPENROUTER_API_KEY", "openrouter/openai/gpt-4.1-mini"),
    ("GROQ_API_KEY", "groq/llama-3.3-70b-versatile"),
    ("MISTRAL_API_KEY", "mistral/mistral-small-latest"),
    ("DEEPSEEK_API_KEY", "deepseek/deepseek-chat"),
    ("GEMINI_API_KEY", "google/gemini-2.5-flash"),
    ("GOOGLE_API_KEY", "google/gemini-2.5-flash"),
    ("XAI_API_KEY", "xai/grok-3-mini"),
)

NO_MODEL_HELP = f"""\
There is no model to talk to yet. Any one of these gives you one: (1) put the key of a provider into the \
environment, for example `export ANTHROPIC_API_KEY=…` or `export OPENAI_API_KEY=…`; (2) run a model on this \
machine, for example with Ollama (https://ollama.com): `ollama serve &`, then `ollama pull llama3.2`, and it \
is found by itself, as are LM Studio, llama.cpp and vLLM; (3) name a model in {FILE}: `mainstay config set \
model openai/NAME` and, if it is not at its usual address, `mainstay config set providers.openai.base_url URL`. \
`mainstay doctor` shows what was looked for."""


class Found(msgspec.Struct, frozen=True):
    """A model, where it is reached if not at its usual address, and a sentence on why this one.

    `key_variable` names the variable that holds its key, where one was found.
    """

    spec: str
    base_url: str | None
    how: str
    key_variable: str = ""


class Server(msgspec.Struct, frozen=True):
    """A place where a local model server may listen."""

    name: str
    provider: str
    base_url: str


def find_model(config: Config, env: Mapping[str, str], *, probe: bool = True) -> Found | None:
    return _configured(config) or _with_key(env) or (_running(servers(env)) if probe else None)


def _configured(config: Config) -> Found | None:
    first = config.models[0] if config.models else None
    named = config.model or (first if isinstance(first, str | None) else first.model)
    return Found(named, None, "it is configured") if named else None


def _with_key(env: Mapping[str, str]) -> Found | None:
    for variable, spec in KEYS:
        if env.get(variable, "").strip():
            return Found(spec, None, f"{variable} is set", variable)
    return None


# --- what runs on this machine -------------------------------------------------------------------


def servers(env: Mapping[str, str]) -> list[Server]:
    return [
        Server("Ollama", "ollama", _ollama_address(env.get("OLLAMA_HOST", "")) + "/v1"),
        Server("LM Studio", "lmstudio", "http://127.0.0.1:1234/v1"),
        Server("llama.cpp", "llamacpp", "http://127.0.0.1:8080/v1"),
        Server("vLLM", "vllm", "http://127.0.0.1:8000/v1"),
    ]


def _ollama_address(host: str) -> str:
    """OLLAMA_HOST as Ollama reads it: scheme, host and port are each optional."""
    host = host.strip().rstrip("/")
    scheme, found, rest = host.partition("://")
    if not found:
        scheme, rest = "http", host
    try:
        parts = urlsplit(f"//{rest}")
        name, port = parts.hostname or "127.0.0.1", parts.port
    except ValueError:
        return "http://127.0.0.1:11434"
    if name in ("0.0.0.0", "::"):  # where it listens; here is where it is reached
        name = "127.0.0.1"
    name = f"[{name}]" if ":" in name else name
    default = {"http": 80, "https": 443}.get(scheme, 11434) if found else 11434
    return f"{scheme}://{name}:{port or default}{parts.path.rstrip('/')}"


def _running(places: list[Server]) -> Found | None:
    """Ask all at once; whoever has not answered in time is not there."""
    answers: dict[int, str] = {}

    def ask(number: int, server: Server) -> None:
        if (model := _first_model(server.base_url)) is not None:
            answers[number] = model

    threads = [threading.Thread(target=ask, args=each, daemon=True) for each in enumerate(places)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + PROBE_S
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    for number, server in enumerate(places):
        if (model := answers.get(number)) is not None:
            return Found(f"{server.provider}/{model}", server.base_url, f"{server.name} runs at {server.base_url}")
    return None


def _first_model(base_url: str) -> str | None:
    from http.client import HTTPConnection, HTTPException, HTTPSConnection  # only for those with no model

    parts = urlsplit(base_url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    try:
        connection = kind(parts.hostname or "", parts.port, timeout=PROBE_S)
        try:
            connection.request("GET", f"{parts.path}/models", headers={"Accept": "application/json"})
            answer = connection.getresponse()
            body = answer.read(_ANSWER_BYTES_MAX) if answer.status == 200 else b""
        finally:
            connection.close()
        return first_chat_model(json.loads(body))
    except (OSError, HTTPException, ValueError):
        return None


def first_chat_model(answer: Any) -> str | None:
    """The first of a server's models that can hold a conversation, as far as its name tells."""
    match answer:
        case {"data": list(entries)}:
            names = [one["id"] for one in entries if isinstance(one, dict) and isinstance(one.get("id"), str)]
            return next((one for one in names if _can_chat(one)), None)
    return None


def _can_chat(name: str) -> bool:
    return bool(name) and name.isprintable() and not any(word in name.lower() for word in _NOT_FOR_CHAT)
