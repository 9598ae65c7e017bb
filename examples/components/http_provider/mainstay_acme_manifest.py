"""The manifest of the provider `acme`. It imports neither the provider nor an HTTP client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from mainstay.core.health import CheckFinding
from mainstay.core.ports import ModelInfo
from mainstay.core.provider_manifest import ProviderCheckContext, ProviderComponent, ProviderSettings

MODELS = {"small": 8_000, "large": 32_000}  # context windows, in tokens


class AcmeSettings(ProviderSettings, frozen=True, kw_only=True):
    temperature: Annotated[float, Meta(ge=0, le=2, description="How much answers vary.")] = 0.7


COMPONENT = ProviderComponent(
    name="acme",
    title="Acme",
    summary="The generate API of Acme.",
    settings=AcmeSettings,
    factory="mainstay_acme_provider:build_acme_provider",
    base_url="https://api.acme.example/v2",
    url_variable="ACME_BASE_URL",
    key_variables=("ACME_API_KEY",),
    default_model="small",
    has_embeddings=False,
    model_info="mainstay_acme_manifest:find_acme_model",
    check="mainstay_acme_manifest:check_acme",
)


def find_acme_model(model: str) -> ModelInfo:
    window = MODELS.get(model, 8_000)
    return ModelInfo(name=model, window=window, output=2_000, images=False, price_prompt=1.0, price_completion=4.0)


def check_acme(model: str, settings: AcmeSettings, context: ProviderCheckContext) -> Iterator[CheckFinding]:
    if model not in MODELS:
        yield CheckFinding("Model", "warn", f"acme/{model} is not a published model", f"use one of {', '.join(MODELS)}")
