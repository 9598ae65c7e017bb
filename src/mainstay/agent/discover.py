"""Which model to ask when nobody said: what is configured, whose key is at hand, what runs on this machine."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from mainstay.config.loading import FILE, Config
from mainstay.core.errors import ConfigError
from mainstay.providers.catalogue import PLACES, key_flaw, ollama_address
from mainstay.providers.local import weights

PROBE_S = 0.3
_ANSWER_BYTES_MAX = 1024 * 1024
_NOT_FOR_CHAT = ("embed", "bge-", "minilm", "rerank", "whisper", "tts", "clip")

# variable, and a small model of that provider that everyone with a key may use; the first that is set is taken
KEYS = (
    ("ANTHROPIC_API_KEY", "anthropic/claude-haiku-4-5"),
    ("OPENAI_API_KEY", "openai/gpt-4.1-mini"),
    ("GEMINI_API_KEY", "gemini/gemini-flash-latest"),
    ("GOOGLE_API_KEY", "gemini/gemini-flash-latest"),
    ("OPENROUTER_API_KEY", "openrouter/openai/gpt-4.1-mini"),
    ("MISTRAL_API_KEY", "mistral/mistral-small-latest"),
    ("GROQ_API_KEY", "groq/openai/gpt-oss-20b"),
    ("DEEPSEEK_API_KEY", "deepseek/deepseek-v4-flash"),
    ("AZURE_OPENAI_API_KEY", "azure/gpt-4.1-mini"),  # a guess at what the deployment is called
    ("XAI_API_KEY", "xai/grok-4.3"),
)
AZURE_KEY, AZURE_PLACE, AZURE_MODEL = "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_DEPLOYMENT"

NO_MODEL_HELP = f"""\
There is no model to talk to yet. Any one of these gives you one: (1) `mainstay model pull` brings a small one that \
runs on this machine and needs nothing else; (2) put the key of a provider into the environment, for example \
`export ANTHROPIC_API_KEY=…` or `export OPENAI_API_KEY=…`; (3) run a model server, for example \
Ollama (https://ollama.com): `ollama serve &`, then `ollama pull llama3.2`, and it is found by itself, as are \
LM Studio, llama.cpp and vLLM; (4) name a model in {FILE}: `mainstay config set \
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
    if found := _configured(config) or _with_key(env):
        return found
    found = (_running(servers(env)) or _pulled(env)) if probe else None
    if found is not None and (passed := key_troubles(env)):
        return msgspec.structs.replace(found, how="; ".join([found.how, *passed]))
    return found


def _configured(config: Config) -> Found | None:
    first = config.models[0] if config.models else None
    named = config.model or (first if isinstance(first, str | None) else first.model)
    return Found(named, None, "it is configured") if named else None


def _with_key(env: Mapping[str, str]) -> Found | None:
    """The first key in the order, and a word on the others: somebody may have meant one of those."""
    usable = keyed(env)
    if not usable:
        return None
    first, *others = usable
    said = [first.how]
    if others:
        names = ", ".join(one.key_variable for one in others)
        said.append(f"so {'is' if len(others) == 1 else 'are'} {names}")
    return msgspec.structs.replace(first, how="; ".join([*said, *key_troubles(env)]))


def keyed(env: Mapping[str, str]) -> list[Found]:
    """A model for each provider whose key is at hand."""
    made: dict[str, Found] = {}
    for variable, spec in KEYS:
        if not env.get(variable, "").strip() or _key_trouble(variable, env):
            continue
        how = f"{variable} is set"
        if variable == AZURE_KEY:
            if deployment := env.get(AZURE_MODEL, "").strip():
                spec = f"azure/{deployment}"
            else:
                how += f", and {spec.partition('/')[2]} is a guess at the deployment ({AZURE_MODEL} says which)"
        made.setdefault(spec.partition("/")[0], Found(spec, None, how, variable))
    return list(made.values())


def key_troubles(env: Mapping[str, str]) -> list[str]:
    """A sentence on each key that is set and of no use."""
    return [trouble for variable, _ in KEYS if variable in env and (trouble := _key_trouble(variable, env))]


def _key_trouble(variable: str, env: Mapping[str, str]) -> str:
    if flaw := key_flaw(env[variable]):
        return f"{variable} {flaw}"
    if variable == AZURE_KEY and not env.get(AZURE_PLACE, "").strip():
        return f"{AZURE_KEY} is set, but not {AZURE_PLACE}, which says where"
    return ""


def no_model_help(env: Mapping[str, str]) -> str:
    """What to do for somebody who has nothing, after what is wrong with what they have."""
    return " ".join([*(f"{trouble}." for trouble in key_troubles(env)), NO_MODEL_HELP])


# --- weights on this machine ---------------------------------------------------------------------


def of_pulled(one: weights.Weights) -> Found:
    return Found(f"local/{one.name}", None, "its weights are on this machine")


def _pulled(env: Mapping[str, str]) -> Found | None:
    """Of several, the one that was brought last: somebody wanted it."""
    place = weights.folder(env)
    try:
        here = sorted(weights.pulled(place), key=lambda one: (place / one.file).stat().st_mtime)
    except OSError:  # one was removed just now
        return None
    return of_pulled(here[-1]) if here else None


# --- what runs on this machine -------------------------------------------------------------------


def servers(env: Mapping[str, str]) -> list[Server]:
    try:
        ollama = ollama_address(env.get("OLLAMA_HOST", "").strip())
    except ConfigError:  # whoever asks for it by name is told; this only looks around
        ollama = PLACES["ollama"].base_url
    return [
        Server("Ollama", "ollama", ollama),
        Server("LM Studio", "lmstudio", PLACES["lmstudio"].base_url),
        Server("llama.cpp", "llamacpp", PLACES["llamacpp"].base_url),
        Server("vLLM", "vllm", PLACES["vllm"].base_url),
    ]


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
