"""Models of services with OpenAI's chat completions API."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mainstay.core.model_info import ModelInfo
from mainstay.providers.anthropic.models import ANTHROPIC_MODELS
from mainstay.providers.gemini.models import GEMINI_MODELS
from mainstay.providers.model_lookup import KnownModel, describe_model
from mainstay.providers.openai.models import OPENAI_MODELS

DEEPSEEK_MODELS = {
    "deepseek-v4-pro": KnownModel(1_000_000, 393_216, 1.32, 3.96, 0.044, thinking=True, images=False),
    "deepseek-v4-flash": KnownModel(1_000_000, 393_216, 0.3, 1.2, 0.006, thinking=True),
}
MISTRAL_MODELS = {
    "mistral-large-latest": KnownModel(262_144, 262_144, 0.5, 1.5, 0.05),
    "mistral-medium-latest": KnownModel(262_144, 262_144, 1.5, 7.5, 0.15, thinking=True),
    "mistral-small-latest": KnownModel(262_144, 262_144, 0.15, 0.6, 0.015, thinking=True),
    "codestral-latest": KnownModel(128_000, 128_000, 0.3, 0.9, 0.03, images=False),
}
GROQ_MODELS = {
    "openai/gpt-oss-120b": KnownModel(131_072, 65_536, 0.15, 0.6, 0.075, thinking=True, images=False),
    "openai/gpt-oss-20b": KnownModel(131_072, 65_536, 0.075, 0.3, 0.0375, thinking=True, images=False),
}
XAI_MODELS = {
    "grok-4.7": KnownModel(500_000, 500_000, 2.0, 6.0, 0.5, thinking=True),
    "grok-4.6": KnownModel(500_000, 500_000, 2.0, 6.0, 0.5, thinking=True),
    "grok-4.5": KnownModel(500_000, 500_000, 2.0, 6.0, 0.3, thinking=True),
    "grok-4.3": KnownModel(1_000_000, 1_000_000, 1.25, 2.5, 0.2, thinking=True),
    "grok-code-fast": KnownModel(256_000, 256_000, 1.0, 2.0, 0.2, thinking=True),
}
# the vendor's part of a model's name at OpenRouter
_VENDORS: Mapping[str, Mapping[str, KnownModel]] = {
    "openai": OPENAI_MODELS,
    "anthropic": ANTHROPIC_MODELS,
    "google": GEMINI_MODELS,
    "deepseek": DEEPSEEK_MODELS,
}


def find_deepseek_model(model: str) -> ModelInfo:
    return describe_model(model, DEEPSEEK_MODELS, price_tables=("deepseek",))


def find_mistral_model(model: str) -> ModelInfo:
    return describe_model(model, MISTRAL_MODELS, price_tables=("mistral",))


def find_groq_model(model: str) -> ModelInfo:
    return describe_model(model, GROQ_MODELS, price_tables=("groq",))


def find_xai_model(model: str) -> ModelInfo:
    return describe_model(model, XAI_MODELS, price_tables=("xai",))


def find_openrouter_model(model: str) -> ModelInfo:
    vendor, _, name = model.partition("/")
    alias = name.replace(".", "-") if vendor == "anthropic" else name
    models = _VENDORS.get(vendor, {})
    info = describe_model(model, models, price_tables=("openrouter",), alias=alias, price_names=(model,))
    if not model.endswith(":free"):
        return info
    return msgspec.structs.replace(
        info, guessed=False, price_prompt=0.0, price_completion=0.0, price_cached=None, price_written=None, long=None
    )
