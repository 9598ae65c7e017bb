"""What is known of a local model before anything of it is read."""

from __future__ import annotations

from pathlib import Path

from mainstay.core.ports import ModelInfo
from mainstay.providers.local import weights

OUTPUT = 1024  # a minute or two of writing, and small models like to go on for ever
OWN_TOKENS = 8192  # of context, for a file that the catalogue does not know; a configuration may say otherwise


def info_of(name: str) -> ModelInfo:
    """For `local/<name>`: one of the catalogue's, or somebody's own file."""
    known = next((one for one in weights.CATALOGUE if one.name == name), None)
    tokens = known.tokens if known is not None else OWN_TOKENS
    shown = Path(name).stem if name.endswith(weights.OWN) else name
    return ModelInfo(name=shown, window=tokens, output=min(OUTPUT, tokens // 4), images=False, terse=True)
