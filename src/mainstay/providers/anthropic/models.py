"""Models of Anthropic."""

from __future__ import annotations

from mainstay.core.model_info import ModelInfo
from mainstay.providers.model_lookup import KnownModel, describe_model


def _claude_model(prompt: float, completion: float, cached: float) -> KnownModel:
    return KnownModel(1_000_000, 128_000, prompt, completion, cached, thinking=True)


ANTHROPIC_MODELS = {
    "claude-fable-5-1": _claude_model(10.0, 50.0, 0.25),
    "claude-fable-5": _claude_model(10.0, 50.0, 1.0),
    "claude-opus-5-5": _claude_model(4.0, 20.0, 0.2),
    "claude-opus-5": _claude_model(5.0, 25.0, 0.5),
    "claude-opus-4-8": _claude_model(5.0, 25.0, 0.5),
    "claude-opus-4-7": _claude_model(5.0, 25.0, 0.5),
    "claude-opus-4-6": _claude_model(5.0, 25.0, 0.5),
    "claude-opus-4-5": KnownModel(200_000, 64_000, 5.0, 25.0, 0.5, thinking=True),
    "claude-opus-4-1": KnownModel(200_000, 32_000, 15.0, 75.0, 1.5, thinking=True),
    "claude-opus-4": KnownModel(200_000, 32_000, 15.0, 75.0, 1.5, thinking=True),
    "claude-opus-4-0": KnownModel(200_000, 32_000, 15.0, 75.0, 1.5, thinking=True),
    "claude-sonnet-5-5": _claude_model(2.0, 10.0, 0.1),
    "claude-sonnet-5": _claude_model(2.0, 10.0, 0.2),
    "claude-sonnet-4-6": _claude_model(3.0, 15.0, 0.3),
    "claude-sonnet-4-5": KnownModel(200_000, 64_000, 3.0, 15.0, 0.3, thinking=True),
    "claude-sonnet-4": KnownModel(200_000, 64_000, 3.0, 15.0, 0.3, thinking=True),
    "claude-sonnet-4-0": KnownModel(200_000, 64_000, 3.0, 15.0, 0.3, thinking=True),
    "claude-haiku-5-5": _claude_model(0.1, 0.5, 0.01),
    "claude-haiku-4-5": KnownModel(200_000, 64_000, 1.0, 5.0, 0.1, thinking=True),
    "claude-3-7-sonnet": KnownModel(200_000, 64_000, 3.0, 15.0, 0.3, thinking=True),
    "claude-3-5-sonnet": KnownModel(200_000, 8_192, 3.0, 15.0, 0.3),
    "claude-3-5-haiku": KnownModel(200_000, 8_192, 0.8, 4.0, 0.08),
    "claude-3-opus": KnownModel(200_000, 4_096, 15.0, 75.0, 1.5),
    "claude-3-haiku": KnownModel(200_000, 4_096, 0.25, 1.25, 0.03),
}


def find_anthropic_model(model: str) -> ModelInfo:
    return describe_model(model, ANTHROPIC_MODELS, price_tables=("anthropic",), alias=model.replace(".", "-"))
