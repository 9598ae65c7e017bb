"""Manifest of the provider `openai`."""

from __future__ import annotations

from mainstay.core.provider_manifest import ProviderComponent

COMPONENT = ProviderComponent(
    name="openai",
    title="OpenAI",
    summary="Chat completions of OpenAI, or of any compatible server at `base_url`.",
    factory="mainstay.providers.openai.provider:build_openai_provider",
    base_url="https://api.openai.com/v1",
    url_variable="OPENAI_BASE_URL",
    key_variables=("OPENAI_API_KEY",),
    setup=("create an API key at https://platform.openai.com/api-keys",),
    default_model="gpt-4.1-mini",
    model_info="mainstay.providers.openai.models:find_openai_model",
)
