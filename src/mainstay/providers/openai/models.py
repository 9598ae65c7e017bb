"""Models of OpenAI."""

from __future__ import annotations

from mainstay.core.model_info import ModelInfo
from mainstay.providers.model_lookup import KnownModel, describe_model


def _gpt5_model(prompt: float, completion: float, cached: float) -> KnownModel:
    return KnownModel(272_000, 128_000, prompt, completion, cached, thinking=True)


def _gpt6_model(prompt: float, completion: float, cached: float) -> KnownModel:
    return KnownModel(922_000, 128_000, prompt, completion, cached, thinking=True)


OPENAI_MODELS = {
    "gpt-6-astra": _gpt6_model(10.0, 50.0, 1.0),
    "gpt-6.1-sol": _gpt6_model(2.0, 10.0, 0.1),
    "gpt-6-sol": _gpt6_model(2.0, 10.0, 0.2),
    "gpt-6-luna": _gpt6_model(0.1, 0.5, 0.01),
    "gpt-5.6-sol": _gpt6_model(4.0, 20.0, 0.4),
    "gpt-5.6-terra": _gpt6_model(2.0, 12.0, 0.2),
    "gpt-5.6-luna": _gpt6_model(0.2, 1.2, 0.02),
    "gpt-5.5-pro": _gpt6_model(30.0, 180.0, 30.0),
    "gpt-5.5": _gpt6_model(5.0, 30.0, 0.5),
    "gpt-5.4-pro": _gpt6_model(30.0, 180.0, 30.0),
    "gpt-5.4": _gpt6_model(2.5, 15.0, 0.25),
    "gpt-5.4-mini": _gpt5_model(0.75, 4.5, 0.075),
    "gpt-5.4-nano": _gpt5_model(0.2, 1.25, 0.02),
    "gpt-5.3-codex": _gpt5_model(1.75, 14.0, 0.175),
    "gpt-5.2-pro": _gpt5_model(21.0, 168.0, 21.0),
    "gpt-5.2": _gpt5_model(1.75, 14.0, 0.175),
    "gpt-5.1": _gpt5_model(1.25, 10.0, 0.125),
    "gpt-5": _gpt5_model(1.25, 10.0, 0.125),
    "gpt-5-mini": _gpt5_model(0.25, 2.0, 0.025),
    "gpt-5-nano": _gpt5_model(0.05, 0.4, 0.005),
    "gpt-5-codex": _gpt5_model(1.25, 10.0, 0.125),
    "gpt-5-chat": KnownModel(128_000, 16_384, 1.25, 10.0, 0.125),
    "gpt-4.1": KnownModel(1_047_576, 32_768, 2.0, 8.0, 0.5),
    "gpt-4.1-mini": KnownModel(1_047_576, 32_768, 0.4, 1.6, 0.1),
    "gpt-4.1-nano": KnownModel(1_047_576, 32_768, 0.1, 0.4, 0.025),
    "gpt-4o-2024-05-13": KnownModel(128_000, 4_096, 5.0, 15.0, 5.0),
    "gpt-4o": KnownModel(128_000, 16_384, 2.5, 10.0, 1.25),
    "gpt-4o-mini": KnownModel(128_000, 16_384, 0.15, 0.6, 0.075),
    "gpt-4-turbo": KnownModel(128_000, 4_096, 10.0, 30.0, 10.0),
    "gpt-3.5-turbo": KnownModel(16_385, 4_096, 0.5, 1.5, 0.5, images=False),
    "o1": KnownModel(200_000, 100_000, 15.0, 60.0, 7.5, thinking=True),
    "o3-pro": KnownModel(200_000, 100_000, 20.0, 80.0, 20.0, thinking=True),
    "o3": KnownModel(200_000, 100_000, 2.0, 8.0, 0.5, thinking=True),
    "o3-mini": KnownModel(200_000, 100_000, 1.1, 4.4, 0.55, thinking=True, images=False),
    "o4-mini": KnownModel(200_000, 100_000, 1.1, 4.4, 0.275, thinking=True),
}


def find_openai_model(model: str) -> ModelInfo:
    return describe_model(model, OPENAI_MODELS, price_tables=("openai",))
