"""Provider for Azure OpenAI: chat completions of a deployment, at the endpoint of the user's own resource."""

from __future__ import annotations

from typing import ClassVar
from urllib.parse import quote, urlsplit

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.core.provider_manifest import ProviderComponent, ProviderFactoryContext, ProviderSettings
from mainstay.providers.azure.manifest import COMPONENT
from mainstay.providers.openai.provider import OpenAIProvider


def build_azure_provider(model: str, settings: ProviderSettings, context: ProviderFactoryContext) -> AzureProvider:
    """Build the provider, for the API version of the environment if one is set. Raises ConfigError."""
    endpoint = context.base_url
    if not endpoint:
        raise ConfigError("azure needs the address of your resource: set AZURE_OPENAI_ENDPOINT, or pass base_url")
    version = context.environ.get("AZURE_OPENAI_API_VERSION", "").strip()
    if version and "?" not in endpoint:
        context = msgspec.structs.replace(context, base_url=f"{endpoint}?api-version={version}")
    return AzureProvider.from_context(model, context)


class AzureProvider(OpenAIProvider):
    """One Azure deployment. An endpoint without a path gets the path of the v1 API, which needs no API version.

    `<endpoint>?api-version=<version>` selects the older API, with the deployment in the path.
    """

    MANIFEST: ClassVar[ProviderComponent] = COMPONENT
    KEY_HEADER: ClassVar[tuple[str, str]] = ("api-key", "{key}")

    def prepare(self) -> None:
        super().prepare()
        self._output_limit_field = b'"max_completion_tokens":%d,'

    def build_url(self, base_url: str) -> str:
        parts = urlsplit(base_url.strip())
        path = parts.path.rstrip("/").removesuffix("/chat/completions")
        if parts.query:
            if "/deployments/" not in path:
                root = path.removesuffix("/v1").removesuffix("/openai")
                path = f"{root}/openai/deployments/{quote(self.name, safe='')}"
            return f"{parts.scheme}://{parts.netloc}{path}/chat/completions?{parts.query}"
        return f"{parts.scheme}://{parts.netloc}{path or '/openai/v1'}/chat/completions"
