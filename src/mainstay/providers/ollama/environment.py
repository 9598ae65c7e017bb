"""Settings of an Ollama server in the environment: its address and its context window."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.core.model_info import ModelInfo

DEFAULT_WINDOW = 16_384  # an agent needs a large window, but every token of it takes memory
OUTPUT_TOKENS_MAX = 4_096
WINDOW_TOKENS_MIN = 512  # a smaller number is a mistake


def find_ollama_model(model: str) -> ModelInfo:
    """Return the defaults; the server itself is asked on first use."""
    return ModelInfo(name=model, window=DEFAULT_WINDOW, output=OUTPUT_TOKENS_MAX)


def apply_configured_window(info: ModelInfo, environ: Mapping[str, str]) -> ModelInfo:
    """Apply the context window that the operator of the server configured for all its models."""
    configured = environ.get("OLLAMA_CONTEXT_LENGTH", "").strip()
    if info.window == DEFAULT_WINDOW and configured.isdecimal() and int(configured) >= WINDOW_TOKENS_MIN:
        return msgspec.structs.replace(info, window=int(configured))
    return info


def parse_ollama_host(host: str) -> str:
    """Return the base URL for OLLAMA_HOST, which may be a listening address: `0.0.0.0`, `:11434`, `box:80`, a URL."""
    try:
        parts = urlsplit(host if "://" in host else f"http://{host}")
        port = parts.port or (443 if parts.scheme == "https" else 11434 if "://" not in host else 80)
    except ValueError:
        raise ConfigError(f"OLLAMA_HOST is {host!r}, which is not a valid address") from None
    name = parts.hostname or "127.0.0.1"
    if name in ("0.0.0.0", "::"):
        name = "127.0.0.1"
    if ":" in name:
        name = f"[{name}]"
    return f"{parts.scheme}://{name}:{port}{parts.path.rstrip('/').removesuffix('/v1')}/v1"
