"""Manifests of the provider `gemini` and its other name, `google`."""

from __future__ import annotations

import msgspec

from mainstay.core.provider_manifest import ProviderComponent

COMPONENT = ProviderComponent(
    name="gemini",
    title="Gemini",
    telemetry_name="gcp.gemini",
    summary="Google's Gemini API.",
    factory="mainstay.providers.gemini.provider:build_gemini_provider",
    # that of the OpenAI-compatible API, which has the embeddings; the provider derives the native one from it
    base_url="https://generativelanguage.googleapis.com/v1beta/openai",
    key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    setup=("create an API key at https://aistudio.google.com/apikey",),
    default_model="gemini-flash-latest",
    model_info="mainstay.providers.gemini.models:find_gemini_model",
)
GOOGLE = msgspec.structs.replace(COMPONENT, name="google", summary="Another name of `gemini`.", default_model="")
