"""The tables of known models, by the provider that has each."""

from __future__ import annotations

from collections.abc import Mapping

from mainstay.providers.anthropic.models import ANTHROPIC_MODELS
from mainstay.providers.gemini.models import GEMINI_MODELS
from mainstay.providers.model_lookup import KnownModel
from mainstay.providers.openai import compatible_model_info
from mainstay.providers.openai.models import OPENAI_MODELS

MODEL_TABLES: Mapping[str, Mapping[str, KnownModel]] = {
    "openai": OPENAI_MODELS,
    "anthropic": ANTHROPIC_MODELS,
    "gemini": GEMINI_MODELS,
    "deepseek": compatible_model_info.DEEPSEEK_MODELS,
    "mistral": compatible_model_info.MISTRAL_MODELS,
    "groq": compatible_model_info.GROQ_MODELS,
    "xai": compatible_model_info.XAI_MODELS,
}
