"""Manifest of the provider `openai-responses`."""

from __future__ import annotations

from mainstay.core.provider_manifest import ProviderComponent

COMPONENT = ProviderComponent(
    name="openai-responses",
    title="OpenAI Responses",
    summary="OpenAI's Responses API, or a compatible server at `base_url`.",
    factory="mainstay.providers.openai_responses.provider:build_responses_provider",
    base_url="https://api.openai.com/v1",
    url_variable="OPENAI_BASE_URL",
    key_variables=("OPENAI_API_KEY",),
    model_info="mainstay.providers.openai.models:find_openai_model",
)
