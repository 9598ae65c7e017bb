"""Which providers there are, where they live, which variable holds their key; and what is known of models."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.core.limits import Limits
from mainstay.core.ports import ModelInfo, Provider
from mainstay.providers.anthropic import AnthropicProvider
from mainstay.providers.openai import OpenAIProvider
from mainstay.providers.wire import Key


class Place(msgspec.Struct, frozen=True):
    """Where a provider is and what it wants. Without `key_variable` it asks for no key."""

    base_url: str
    key_variable: str = ""
    url_variable: str = ""


PLACES: dict[str, Place] = {
    "openai": Place("https://api.openai.com/v1", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "anthropic": Place("https://api.anthropic.com", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    "openrouter": Place("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "groq": Place("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "mistral": Place("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "deepseek": Place("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "together": Place("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "xai": Place("https://api.x.ai/v1", "XAI_API_KEY"),
    "google": Place("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "ollama": Place("http://127.0.0.1:11434/v1", "", "OLLAMA_HOST"),
    "lmstudio": Place("http://127.0.0.1:1234/v1"),
    "llamacpp": Place("http://127.0.0.1:8080/v1"),
    "vllm": Place("http://127.0.0.1:8000/v1"),
}


class _Known(msgspec.Struct, frozen=True):
    """Tokens, and dollars per million of them."""

    window: int
    output: int
    prompt: float
    completion: float
    cached: float
    thinking: bool = False
    images: bool = True


# List prices as published, without batch or long-context tiers; a configuration may override them. A name
# matches the longest entry that it begins with, so dated versions need no entry of their own.
_MODELS: dict[str, dict[str, _Known]] = {
    "openai": {
        "gpt-5": _Known(400_000, 128_000, 1.25, 10.0, 0.125, thinking=True),
        "gpt-5-mini": _Known(400_000, 128_000, 0.25, 2.0, 0.025, thinking=True),
        "gpt-5-nano": _Known(400_000, 128_000, 0.05, 0.4, 0.005, thinking=True),
        "gpt-4.1": _Known(1_047_576, 32_768, 2.0, 8.0, 0.5),
        "gpt-4.1-mini": _Known(1_047_576, 32_768, 0.4, 1.6, 0.1),
        "gpt-4.1-nano": _Known(1_047_576, 32_768, 0.1, 0.4, 0.025),
        "gpt-4o": _Known(128_000, 16_384, 2.5, 10.0, 1.25),
        "gpt-4o-mini": _Known(128_000, 16_384, 0.15, 0.6, 0.075),
        "gpt-4-turbo": _Known(128_000, 4_096, 10.0, 30.0, 10.0),
        "gpt-3.5-turbo": _Known(16_385, 4_096, 0.5, 1.5, 0.5, images=False),
        "o1": _Known(200_000, 100_000, 15.0, 60.0, 7.5, thinking=True),
        "o3": _Known(200_000, 100_000, 2.0, 8.0, 0.5, thinking=True),
        "o3-mini": _Known(200_000, 100_000, 1.1, 4.4, 0.55, thinking=True, images=False),
        "o4-mini": _Known(200_000, 100_000, 1.1, 4.4, 0.275, thinking=True),
    },
    "anthropic": {
        "claude-opus-4-5": _Known(200_000, 64_000, 5.0, 25.0, 0.5, thinking=True),
        "claude-opus-4": _Known(200_000, 32_000, 15.0, 75.0, 1.5, thinking=True),
        "claude-sonnet-4": _Known(200_000, 64_000, 3.0, 15.0, 0.3, thinking=True),
        "claude-haiku-4": _Known(200_000, 64_000, 1.0, 5.0, 0.1, thinking=True),
        "claude-3-7-sonnet": _Known(200_000, 64_000, 3.0, 15.0, 0.3, thinking=True),
        "claude-3-5-sonnet": _Known(200_000, 8_192, 3.0, 15.0, 0.3),
        "claude-3-5-haiku": _Known(200_000, 8_192, 0.8, 4.0, 0.08),
        "claude-3-opus": _Known(200_000, 4_096, 15.0, 75.0, 1.5),
        "claude-3-haiku": _Known(200_000, 4_096, 0.25, 1.25, 0.03),
    },
}


def info(provider: str, model: str) -> ModelInfo:
    """What is known of a model; the defaults of `ModelInfo` for one that is not."""
    vendor, short = provider, model
    if provider == "openrouter":
        vendor, _, short = model.partition("/")
    if vendor == "anthropic":
        short = short.replace(".", "-")
    table = _MODELS.get(vendor, {})
    best = max((name for name in table if short.startswith(name)), key=len, default="")
    if not best:
        return ModelInfo(name=model)
    known = table[best]
    return ModelInfo(
        name=model,
        window=known.window,
        output=known.output,
        images=known.images,
        thinking=known.thinking,
        price_prompt=known.prompt,
        price_completion=known.completion,
        price_cached=known.cached,
    )


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
    place = PLACES.get(provider) or (Place(base_url) if base_url else None)
    if place is None:
        near = difflib.get_close_matches(provider, PLACES, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(PLACES)}; or give a base_url"
        raise ConfigError(f"there is no provider {provider!r}; {hint}")
    address = base_url or _address(place, environ)
    key = api_key or environ.get(place.key_variable) or None
    if key is None and place.key_variable and address == place.base_url:
        raise ConfigError(f"{provider} needs an API key: set {place.key_variable}, or pass api_key")
    kind = AnthropicProvider if provider == "anthropic" else OpenAIProvider
    known = info if info is not None else _info(provider, model)
    return kind(model, base_url=address, api_key=key, limits=limits or Limits(), info=known, label=provider)


def _address(place: Place, environ: Mapping[str, str]) -> str:
    given = environ.get(place.url_variable, "").strip() if place.url_variable else ""
    if not given:
        return place.base_url
    return _ollama_address(given) if place.url_variable == "OLLAMA_HOST" else given


def _ollama_address(host: str) -> str:
    """OLLAMA_HOST says where to listen as well as where to ask: `0.0.0.0`, `:11434`, `box:80`, a whole URL."""
    parts = urlsplit(host if "://" in host else f"http://{host}")
    name = parts.hostname or "127.0.0.1"
    if name in ("0.0.0.0", "::"):
        name = "127.0.0.1"
    if ":" in name:
        name = f"[{name}]"
    try:
        port = parts.port or (443 if parts.scheme == "https" else 11434 if "://" not in host else 80)
    except ValueError:
        raise ConfigError(f"OLLAMA_HOST is {host!r}, which is no address") from None
    return f"{parts.scheme}://{name}:{port}{parts.path.rstrip('/').removesuffix('/v1')}/v1"
