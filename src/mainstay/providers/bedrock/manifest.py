"""Manifest of the provider `bedrock`."""

from __future__ import annotations

from mainstay.core.provider_manifest import ProviderComponent

COMPONENT = ProviderComponent(
    name="bedrock",
    title="Amazon Bedrock",
    telemetry_name="aws.bedrock",
    summary="Amazon Bedrock's Converse API, with an API key or with the AWS credentials of the environment.",
    factory="mainstay.providers.bedrock.provider:build_bedrock_provider",
    url_variable="AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
    key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
    setup=(
        "create an API key in the Amazon Bedrock console (API keys), or set up AWS credentials",
        "set AWS_REGION to a region in which your account may use the model",
    ),
    has_embeddings=False,
    model_info="mainstay.providers.bedrock.models:find_bedrock_model",
)
