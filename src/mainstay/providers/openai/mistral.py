"""Provider for Mistral's API: chat completions with short ids of tool calls."""

from __future__ import annotations

from typing import ClassVar

from mainstay.core.provider_manifest import ProviderComponent, ProviderFactoryContext, ProviderSettings
from mainstay.providers.openai.compatible_manifests import MISTRAL
from mainstay.providers.openai.provider import OpenAIProvider


def build_mistral_provider(model: str, settings: ProviderSettings, context: ProviderFactoryContext) -> MistralProvider:
    return MistralProvider.from_context(model, context)


class MistralProvider(OpenAIProvider):
    MANIFEST: ClassVar[ProviderComponent] = MISTRAL
    SHORT_IDS: ClassVar[bool] = True
