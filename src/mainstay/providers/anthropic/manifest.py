"""Manifest of the provider `anthropic`."""

from __future__ import annotations

from mainstay.core.provider_manifest import ProviderComponent

COMPONENT = ProviderComponent(
    name="anthropic",
    title="Anthropic",
    summary="Anthropic's Messages API.",
    factory="mainstay.providers.anthropic.provider:build_anthropic_provider",
    base_url="https://api.anthropic.com",
    url_variable="ANTHROPIC_BASE_URL",
    key_variables=("ANTHROPIC_API_KEY",),
    setup=("create an API key at https://console.anthropic.com/settings/keys",),
    default_model="claude-haiku-4-5",
    has_embeddings=False,
    model_info="mainstay.providers.anthropic.models:find_anthropic_model",
)
