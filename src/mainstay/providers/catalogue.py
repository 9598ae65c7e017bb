"""Which providers there are, where they live, which variable holds their key."""

from __future__ import annotations

import difflib
import hashlib
import os
from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.core.limits import Limits
from mainstay.core.ports import ModelInfo, Provider
from mainstay.providers.known import OLLAMA_WINDOW
from mainstay.providers.known import info as info
from mainstay.providers.wire import Key


class Place(msgspec.Struct, frozen=True):
    """Where a provider is and what it wants. Without `key_variable` it asks for no key; without `base_url`, the address
    is one's own. `speaks` names its API; `also` holds the key where the first variable does not."""

    base_url: str
    key_variable: str = ""
    url_variable: str = ""
    speaks: str = "openai"
    also: str = ""


# Addresses are those of the compatible API where a provider has one: its vectors are there. Its own API is beside it.
_GOOGLE = "https://generativelanguage.googleapis.com/v1beta/openai"
PLACES: dict[str, Place] = {
    "openai": Place("https://api.openai.com/v1", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "openai-responses": Place("https://api.openai.com/v1", "OPENAI_API_KEY", "OPENAI_BASE_URL", "responses"),
    "anthropic": Place("https://api.anthropic.com", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "anthropic"),
    "gemini": Place(_GOOGLE, "GEMINI_API_KEY", "", "gemini", "GOOGLE_API_KEY"),
    "google": Place(_GOOGLE, "GEMINI_API_KEY", "", "gemini", "GOOGLE_API_KEY"),
    "openrouter": Place("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "groq": Place("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "mistral": Place("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "deepseek": Place("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "together": Place("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "xai": Place("https://api.x.ai/v1", "XAI_API_KEY"),
    "azure": Place("", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT", "azure"),
    "bedrock": Place("", "AWS_BEARER_TOKEN_BEDROCK", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "bedrock"),
    "ollama": Place("http://127.0.0.1:11434/v1", "", "OLLAMA_HOST", "ollama", "OLLAMA_API_KEY"),
    "lmstudio": Place("http://127.0.0.1:1234/v1"),
    "llamacpp": Place("http://127.0.0.1:8080/v1"),
    "vllm": Place("http://127.0.0.1:8000/v1"),
}


_info = info  # `make` has a parameter of that name


def make(
    spec: str,
    base_url: str | None = None,
    api_key: Key = None,
    limits: Limits | None = None,
    info: ModelInfo | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Provider:
    """A provider for `<provider>/<model>`. Any other name will do for a compatible server at `base_url`."""
    provider, _, model = spec.partition("/")
    if not provider or not model:
        raise ConfigError(f"{spec!r} names no model: write <provider>/<model>, for example openai/gpt-4.1-mini")
    if provider == "local":
        from mainstay.providers.local.provider import make_local  # for those who have one

        return make_local(model, limits, info, environ)
    place = PLACES.get(provider) or (Place(base_url) if base_url else None)
    if place is None:
        near = difflib.get_close_matches(provider, PLACES, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(PLACES)}; or give a base_url"
        raise ConfigError(f"there is no provider {provider!r}; {hint}")
    known = info if info is not None else _info(provider, model)
    address = base_url or _address(place, environ)
    if address and not _is_address(address):
        where = f" or {place.url_variable}" if place.url_variable else ""
        raise ConfigError(f"{provider}: base_url{where} must be an address that begins with http:// or https://")
    key: Any = api_key or _key(place, environ)
    match place.speaks:
        case "bedrock":
            from mainstay.providers.bedrock_keys import find_access

            address, key = find_access(address, key, environ)
        case "azure":
            address = _azure_address(address, environ)
        case "ollama":
            known = _ollama_info(known, environ)
    if key is None and place.key_variable and place.base_url in (address, ""):
        raise ConfigError(f"{provider} needs an API key: set {place.key_variable}, or pass api_key")
    kind = _kind(place.speaks)
    return kind(model, base_url=address, api_key=key, limits=limits or Limits(), info=known, label=provider)


def account(
    spec: str, base_url: str | None = None, api_key: Key = None, environ: Mapping[str, str] = os.environ
) -> str | None:
    """The same for the same address and key, of which it tells neither; a key that a function gives is known by its
    address. None for a model on this machine, which has no limits of that kind."""
    provider, _, _ = spec.partition("/")
    if provider == "local":
        return None
    place = PLACES.get(provider) or Place(base_url or "")
    key = api_key or _key(place, environ) or ""
    said = f"{base_url or _address(place, environ)}\0{key if isinstance(key, str) else type(key).__name__}"
    return hashlib.blake2b(said.encode(errors="replace"), digest_size=12).hexdigest()


class _Kind(Protocol):
    """What every class of providers is made with."""

    def __call__(
        self, name: str, *, base_url: str, api_key: Any, limits: Limits, info: ModelInfo, label: str
    ) -> Provider: ...


def _kind(speaks: str) -> _Kind:
    """Each API is loaded by those who use it."""
    match speaks:
        case "anthropic":
            from mainstay.providers.anthropic import AnthropicProvider

            return AnthropicProvider
        case "responses":
            from mainstay.providers.openai_responses import ResponsesProvider

            return ResponsesProvider
        case "gemini":
            from mainstay.providers.gemini import GeminiProvider

            return GeminiProvider
        case "ollama":
            from mainstay.providers.ollama import OllamaProvider

            return OllamaProvider
        case "azure":
            from mainstay.providers.azure import AzureProvider

            return AzureProvider
        case "bedrock":
            from mainstay.providers.bedrock import BedrockProvider

            return BedrockProvider
    from mainstay.providers.openai import OpenAIProvider

    return OpenAIProvider


def key_flaw(value: str) -> str:
    """What is wrong with a key as it stands in a variable; empty if nothing is."""
    key = value.strip()
    if not key:
        return "is set, but empty"
    if key[0] in "\"'`" or key[-1] in "\"'`":
        return "has quotes in it, which no key has: write it without them"
    if any(letter.isspace() for letter in key):
        return "has a line break or a space in it, which no key has"
    return "" if key.isprintable() else "has characters in it that no key has"


def _key(place: Place, environ: Mapping[str, str]) -> str | None:
    for variable in (place.key_variable, place.also):
        value = environ.get(variable, "") if variable else ""
        if value.strip():
            if flaw := key_flaw(value):
                raise ConfigError(f"{variable} {flaw}")
            return value.strip()
    return None


def _address(place: Place, environ: Mapping[str, str]) -> str:
    """An empty string where the address is one's own and nobody said it."""
    given = environ.get(place.url_variable, "").strip() if place.url_variable else ""
    if not given:
        return place.base_url
    return ollama_address(given) if place.url_variable == "OLLAMA_HOST" else given


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that are never closed, a port that is none
        return False


def _azure_address(endpoint: str, environ: Mapping[str, str]) -> str:
    """With the version in it where somebody chose one."""
    if not endpoint:
        raise ConfigError("azure needs the address of your resource: set AZURE_OPENAI_ENDPOINT, or pass base_url")
    version = environ.get("AZURE_OPENAI_API_VERSION", "").strip()
    return f"{endpoint}?api-version={version}" if version and "?" not in endpoint else endpoint


def _ollama_info(known: ModelInfo, environ: Mapping[str, str]) -> ModelInfo:
    """Whoever runs the server may have chosen a window for all its models."""
    chosen = environ.get("OLLAMA_CONTEXT_LENGTH", "").strip()
    if known.window == OLLAMA_WINDOW and chosen.isdecimal() and int(chosen) >= 512:
        return msgspec.structs.replace(known, window=int(chosen))
    return known


def ollama_address(host: str) -> str:
    """OLLAMA_HOST says where to listen as well as where to ask: `0.0.0.0`, `:11434`, `box:80`, a whole URL."""
    try:
        parts = urlsplit(host if "://" in host else f"http://{host}")
        port = parts.port or (443 if parts.scheme == "https" else 11434 if "://" not in host else 80)
    except ValueError:
        raise ConfigError(f"OLLAMA_HOST is {host!r}, which is no address") from None
    name = parts.hostname or "127.0.0.1"
    if name in ("0.0.0.0", "::"):
        name = "127.0.0.1"
    if ":" in name:
        name = f"[{name}]"
    return f"{parts.scheme}://{name}:{port}{parts.path.rstrip('/').removesuffix('/v1')}/v1"
