"""Manifest of the provider `azure`."""

from __future__ import annotations

from mainstay.core.provider_manifest import ProviderComponent

COMPONENT = ProviderComponent(
    name="azure",
    title="Azure OpenAI",
    telemetry_name="azure.ai.openai",
    summary="A deployment of Azure OpenAI, at the endpoint of your own resource.",
    factory="mainstay.providers.azure.provider:build_azure_provider",
    url_variable="AZURE_OPENAI_ENDPOINT",
    key_variables=("AZURE_OPENAI_API_KEY",),
    setup=(
        "deploy a model at https://ai.azure.com, and copy the key and the endpoint of the resource",
        "set AZURE_OPENAI_ENDPOINT to that endpoint, and AZURE_OPENAI_DEPLOYMENT to the name of the deployment",
    ),
    default_model="gpt-4.1-mini",  # a guess at the deployment's name
    model_variable="AZURE_OPENAI_DEPLOYMENT",
    has_embeddings=False,
    model_info="mainstay.providers.azure.models:find_azure_model",
)
