"""Model information of local models, without reading their files."""

from __future__ import annotations

from pathlib import Path

from mainstay.core.ports import ModelInfo
from mainstay.providers.local import catalogue

OUTPUT_TOKENS_MAX = 1024  # one or two minutes of generation: small models often do not stop by themselves
CUSTOM_CONTEXT_TOKENS = 8192  # context window of a file that is not in the catalogue, unless configured


def find_local_model_info(name: str) -> ModelInfo:
    """Return the information for `local/<name>`: a model of the catalogue, or the path of the user's own file."""
    known = next((entry for entry in catalogue.CATALOGUE if entry.name == name), None)
    tokens = known.context_tokens if known is not None else CUSTOM_CONTEXT_TOKENS
    short_name = Path(name).stem if name.endswith(catalogue.GGUF_SUFFIX) else name
    return ModelInfo(
        name=short_name, window=tokens, output=min(OUTPUT_TOKENS_MAX, tokens // 4), images=False, terse=True
    )
