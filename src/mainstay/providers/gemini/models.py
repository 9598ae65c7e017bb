"""Models of Google."""

from __future__ import annotations

from mainstay.core.model_info import ModelInfo
from mainstay.providers.model_lookup import KnownModel, describe_model


def _gemini_model(prompt: float, completion: float, cached: float) -> KnownModel:
    return KnownModel(1_048_576, 65_536, prompt, completion, cached, thinking=True)


GEMINI_MODELS = {
    "gemini-4-argon": _gemini_model(2.0, 10.0, 0.1),
    "gemini-pro-latest": _gemini_model(2.0, 12.0, 0.2),
    "gemini-flash-latest": _gemini_model(0.75, 3.75, 0.075),
    "gemini-flash-lite-latest": _gemini_model(0.3, 2.5, 0.03),
    "gemini-3.8-flash": _gemini_model(0.75, 3.75, 0.075),
    "gemini-3.7-flash": _gemini_model(0.75, 3.75, 0.075),
    "gemini-3.6-flash": _gemini_model(0.75, 3.75, 0.075),
    "gemini-3.5-flash": _gemini_model(1.5, 9.0, 0.15),
    "gemini-3.5-flash-lite": _gemini_model(0.3, 2.5, 0.03),
    "gemini-3.1-pro": _gemini_model(2.0, 12.0, 0.2),
    "gemini-3.1-flash-lite": _gemini_model(0.25, 1.5, 0.025),
    "gemini-3-flash": _gemini_model(0.5, 3.0, 0.05),
    "gemini-2.5-pro": _gemini_model(1.25, 10.0, 0.125),
    "gemini-2.5-flash": _gemini_model(0.3, 2.5, 0.03),
    "gemini-2.5-flash-lite": _gemini_model(0.1, 0.4, 0.01),
}


def find_gemini_model(model: str) -> ModelInfo:
    return describe_model(model, GEMINI_MODELS, price_tables=("gemini",), alias=model.removeprefix("models/"))
