"""Models of Azure OpenAI: deployments are mostly named after their model."""

from __future__ import annotations

from mainstay.core.model_info import ModelInfo
from mainstay.providers.model_lookup import describe_model
from mainstay.providers.openai.models import OPENAI_MODELS


def find_azure_model(model: str) -> ModelInfo:
    return describe_model(model, OPENAI_MODELS, price_tables=("azure", "openai"))
