"""Manifest of the provider `ollama`."""

from __future__ import annotations

from mainstay.core.provider_manifest import ProviderComponent

COMPONENT = ProviderComponent(
    name="ollama",
    title="Ollama",
    summary="An Ollama server, by its native API.",
    factory="mainstay.providers.ollama.provider:build_ollama_provider",
    base_url="http://127.0.0.1:11434/v1",
    url_variable="OLLAMA_HOST",
    url_parser="mainstay.providers.ollama.environment:parse_ollama_host",
    key_variables=("OLLAMA_API_KEY",),
    needs_key=False,
    is_local=True,
    setup=(
        "install Ollama (https://ollama.com) and start it: `ollama serve &`",
        "pull a model: `ollama pull llama3.2`",
    ),
    model_info="mainstay.providers.ollama.environment:find_ollama_model",
    model_hint="ollama pull {model}; `ollama list` lists the pulled models",
)
