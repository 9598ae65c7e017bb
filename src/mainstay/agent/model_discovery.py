"""Finds a model to use when none was named: from the configuration, API keys in the environment, local servers."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlsplit

import msgspec

from mainstay.config.loader import FILE, PREFIX, Config
from mainstay.core.errors import ConfigError
from mainstay.core.provider_manifest import ProviderComponent, ProviderSettings, find_key_flaw
from mainstay.providers.registry import list_built_in_providers, list_other_providers, list_providers

PROBE_TIMEOUT_S = 0.3
_RESPONSE_BYTES_MAX = 1024 * 1024
_MODEL_SETTINGS = (f"{PREFIX}MODEL", f"{PREFIX}MODELS")
_NON_CHAT_WORDS = ("embed", "bge-", "minilm", "rerank", "whisper", "tts", "clip")

_HELP = """\
There is no model to talk to yet. Any one of these gives you one: (1) `mainstay model pull` downloads a small one that \
runs on this machine and needs nothing else; (2) set the API key of a provider in the environment, for example \
{keys}; (3) run a model server, for example: {example}; it is found automatically, as are \
{servers}; (4) name a model in {file}: `mainstay config set \
model openai/NAME` and, if it is not at its usual address, `mainstay config set providers.openai.base_url URL`. \
`mainstay doctor` shows what was searched for."""


class DiscoveredModel(msgspec.Struct, frozen=True):
    """A model that can be used, and why it was chosen."""

    spec: str  # "<provider>/<model>"
    base_url: str | None  # None: the provider's usual address
    reason: str  # why this one, as a clause for people
    key_variable: str = ""  # the environment variable with its API key; empty: none was needed


class LocalServerCandidate(msgspec.Struct, frozen=True):
    """A local model server and the address it usually listens on."""

    name: str
    provider: str
    base_url: str


def find_model(config: Config, env: Mapping[str, str], *, probe: bool = True) -> DiscoveredModel | None:
    """Return the configured model, else one with an API key, else (with `probe`) one on this machine; None if there is
    none. Blocks for up to `PROBE_TIMEOUT_S` while it asks local servers."""
    if model := _find_configured(config, env):
        return model
    # those of other distributions only if nothing else is found, because looking for them takes time
    return _find_unconfigured(list_built_in_providers(), env, probe=probe) or _find_unconfigured(
        list(list_other_providers()), env, probe=probe
    )


def _find_unconfigured(
    providers: Sequence[ProviderComponent], env: Mapping[str, str], *, probe: bool
) -> DiscoveredModel | None:
    if model := _find_by_api_key(providers, env):
        return model
    model = (_find_running(list_local_servers(env, providers)) or _find_installed(providers, env)) if probe else None
    if model is not None and (unusable := find_unusable_keys(env, providers)):
        return msgspec.structs.replace(model, reason="; ".join([model.reason, *unusable]))
    return model


def configure_provider(config: Config, discovered: DiscoveredModel) -> Config:
    """Add the address and API key of the found model to its provider, where the configuration has none."""
    name = discovered.spec.partition("/")[0]
    configured = config.providers.get(name) or ProviderSettings()
    key = os.environ.get(discovered.key_variable) if discovered.key_variable else None
    base_url = configured.base_url or discovered.base_url
    settings = msgspec.structs.replace(configured, base_url=base_url, api_key=configured.api_key or key)
    return msgspec.structs.replace(config, providers={**config.providers, name: settings})


def _find_configured(config: Config, env: Mapping[str, str]) -> DiscoveredModel | None:
    first = config.models[0] if config.models else None
    spec = config.model or (first if isinstance(first, str | None) else first.model)
    if not spec:
        return None
    variable = next((name for name in env if name.upper() in _MODEL_SETTINGS), "")
    return DiscoveredModel(spec, None, f"{f'the variable {variable}' if variable else FILE} names it")


def _find_by_api_key(providers: Sequence[ProviderComponent], env: Mapping[str, str]) -> DiscoveredModel | None:
    """Return the model of the first API key in the order of the providers; `reason` names the other keys, one of which
    may have been meant."""
    usable = list_models_with_key(env, providers)
    if not usable:
        return None
    first, *others = usable
    reasons = [first.reason]
    if others:
        names = ", ".join(other.key_variable for other in others)
        reasons.append(f"so {'is' if len(others) == 1 else 'are'} {names}")
    return msgspec.structs.replace(first, reason="; ".join([*reasons, *find_unusable_keys(env, providers)]))


def list_models_with_key(
    env: Mapping[str, str], providers: Iterable[ProviderComponent] | None = None
) -> list[DiscoveredModel]:
    """Return a model for each provider whose API key is set and usable."""
    models: list[DiscoveredModel] = []
    for provider in providers if providers is not None else list_providers():
        usable = [name for name in _list_key_variables(provider, env) if not _find_key_problem(provider, name, env)]
        if not usable:
            continue
        model, how = provider.default_model, f"{usable[0]} is set"
        if variable := provider.model_variable:
            if named := env.get(variable, "").strip():
                model = named
            else:
                how += f", and {model} is a guess; set {variable} to name yours"
        models.append(DiscoveredModel(f"{provider.name}/{model}", None, how, usable[0]))
    return models


def find_unusable_keys(env: Mapping[str, str], providers: Iterable[ProviderComponent] | None = None) -> list[str]:
    """Return a clause for each API key that is set but cannot be used."""
    return [
        problem
        for provider in (providers if providers is not None else list_providers())
        for variable in _list_key_variables(provider, env)
        if (problem := _find_key_problem(provider, variable, env))
    ]


def _list_key_variables(provider: ProviderComponent, env: Mapping[str, str]) -> list[str]:
    """Return the variables of the provider's API key that are set, if a model of it can be used without more."""
    return [variable for variable in provider.key_variables if variable in env] if provider.default_model else []


def _find_key_problem(provider: ProviderComponent, variable: str, env: Mapping[str, str]) -> str:
    if flaw := find_key_flaw(env[variable]):
        return f"{variable} {flaw}"
    if not provider.base_url and provider.url_variable and not env.get(provider.url_variable, "").strip():
        return f"{variable} is set, but not {provider.url_variable}, the address of the resource"
    return ""


def explain_missing_model(env: Mapping[str, str]) -> str:
    """Explain how to get a model, after naming the keys that are set but cannot be used."""
    providers = list(list_providers())
    keys = " or ".join([f"`export {provider.key_variable}=…`" for provider in providers if provider.default_model][:2])
    example, *others = list_local_servers(env, providers)
    steps = next(provider.setup_steps(provider.name, {}) for provider in providers if provider.name == example.provider)
    names = [server.name for server in others]
    servers = " and ".join([*([", ".join(names[:-1])] if names[:-1] else []), *names[-1:]])
    problems = [f"{problem}." for problem in find_unusable_keys(env, providers)]
    return " ".join([*problems, _HELP.format(keys=keys, example=", then ".join(steps), servers=servers, file=FILE)])


# --- models on this machine ----------------------------------------------------------------------


def _find_installed(providers: Sequence[ProviderComponent], env: Mapping[str, str]) -> DiscoveredModel | None:
    for provider in providers:
        try:
            model = provider.find_installed_model(env)
        except ConfigError:  # reported when a model of it is used
            continue
        if model is not None:
            return build_installed_model(provider.name, model)
    return None


def build_installed_model(provider: str, model: str) -> DiscoveredModel:
    return DiscoveredModel(f"{provider}/{model}", None, "its weights are on this machine")


# --- model servers on this machine ---------------------------------------------------------------


def list_local_servers(
    env: Mapping[str, str], providers: Iterable[ProviderComponent] | None = None
) -> list[LocalServerCandidate]:
    """Return the model servers that may run on this machine, and where each of them would listen."""
    servers = []
    for provider in providers if providers is not None else list_providers():
        if provider.is_local and provider.base_url:
            try:
                base_url = provider.find_base_url(env)
            except ConfigError:  # reported when a model of it is used
                base_url = provider.base_url
            servers.append(LocalServerCandidate(provider.title, provider.name, base_url))
    return servers


def _find_running(servers: list[LocalServerCandidate]) -> DiscoveredModel | None:
    """Ask all servers at once; one that does not answer within `PROBE_TIMEOUT_S` counts as absent."""
    answers: dict[int, str] = {}

    def ask(number: int, server: LocalServerCandidate) -> None:
        if (model := _fetch_first_model(server.base_url)) is not None:
            answers[number] = model

    threads = [threading.Thread(target=ask, args=each, daemon=True) for each in enumerate(servers)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + PROBE_TIMEOUT_S
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    for number, server in enumerate(servers):
        if (model := answers.get(number)) is not None:
            return DiscoveredModel(
                f"{server.provider}/{model}", server.base_url, f"{server.name} runs at {server.base_url}"
            )
    return None


def _fetch_first_model(base_url: str) -> str | None:
    from http.client import HTTPConnection, HTTPException, HTTPSConnection  # only needed to probe

    parts = urlsplit(base_url)
    connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    try:
        connection = connect(parts.hostname or "", parts.port, timeout=PROBE_TIMEOUT_S)
        try:
            connection.request("GET", f"{parts.path}/models", headers={"Accept": "application/json"})
            response = connection.getresponse()
            body = response.read(_RESPONSE_BYTES_MAX) if response.status == 200 else b""
        finally:
            connection.close()
        return first_chat_model(json.loads(body))
    except (OSError, HTTPException, ValueError):
        return None


def first_chat_model(response: object) -> str | None:
    """Return the first model in a server's list that is for chat, judged by its name: no embedding model, no
    speech."""
    match response:
        case {"data": list(entries)}:
            names = [entry["id"] for entry in entries if isinstance(entry, dict) and isinstance(entry.get("id"), str)]
            return next((name for name in names if _is_chat_model(name)), None)
    return None


def _is_chat_model(name: str) -> bool:
    return bool(name) and name.isprintable() and not any(word in name.lower() for word in _NON_CHAT_WORDS)
