"""Manifest of the provider `openai-responses`."""

from __future__ import annotations

from mainstay.core.provider_manifest import ProviderComponent

COMPONENT = ProviderComponent(
    name="openai-responses",
    title="OpenAI Responses",
    telemetry_name="openai",
    summary="OpenAI's Responses API, or a compatible server at `base_url`.",
    factory="mainstay.providers.openai_responses.provider:build_responses_provider",
    base_url="https://api.openai.com/v1",
    url_variable="OPENAI_BASE_URL",
    key_variables=("OPENAI_API_KEY",),
    setup=("create an API key at https://platform.openai.com/api-keys",),
    model_info="mainstay.providers.openai.models:find_openai_model",
)
