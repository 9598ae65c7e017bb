"""OpenAI's models in Azure: chat completions of a deployment, at the address of one's own resource."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from mainstay.core.limits import Limits
from mainstay.core.ports import ModelInfo
from mainstay.providers.openai import OpenAIProvider
from mainstay.providers.wire import Key


class AzureProvider(OpenAIProvider):
    """One deployment. An endpoint without a path gets that of the v1 API, which needs no version.

    `<endpoint>?api-version=<version>` asks in the old way, with the deployment in the path.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str,
        api_key: Key = None,
        limits: Limits | None = None,
        info: ModelInfo | None = None,
        label: str = "azure",
    ) -> None:
        super().__init__(name, base_url=base_url, api_key=api_key, limits=limits, info=info, label=label)
        self._url = _url(base_url, name)
        self._bound = b'"max_completion_tokens":%d,'
        if "Authorization" in self._headers:
            del self._headers["Authorization"]
            self._headers["api-key"] = "{key}"


def _url(endpoint: str, deployment: str) -> str:
    parts = urlsplit(endpoint.strip())
    path = parts.path.rstrip("/").removesuffix("/chat/completions")
    if parts.query:
        if "/deployments/" not in path:
            path = f"{path.removesuffix('/v1').removesuffix('/openai')}/openai/deployments/{quote(deployment, safe='')}"
        return f"{parts.scheme}://{parts.netloc}{path}/chat/completions?{parts.query}"
    return f"{parts.scheme}://{parts.netloc}{path or '/openai/v1'}/chat/completions"
