"""Manifest of the provider `local`."""

from __future__ import annotations

from mainstay.core.provider_manifest import ProviderComponent

COMPONENT = ProviderComponent(
    name="local",
    title="Local models",
    summary="Models on this machine: downloaded by `mainstay model pull`, or your own GGUF file.",
    factory="mainstay.providers.local.provider:build_local_provider",
    is_local=True,
    setup=("download a model: `mainstay model pull`",),
    runs_in_process=True,
    has_embeddings=False,
    model_info="mainstay.providers.local.model_info:find_local_model_info",
    model_checker="mainstay.providers.local.catalogue:check_model_name",
    model_finder="mainstay.providers.local.catalogue:find_newest_pulled",
    model_hint="mainstay model list; mainstay model pull {model} downloads it again",
    libraries={"xllamacpp": "xllamacpp"},
    install="pip install -e '.[local]'",
    check="mainstay.providers.local.weights_health:check_local_model",
    files_check="mainstay.providers.local.weights_health:check_weights_folder",
)
