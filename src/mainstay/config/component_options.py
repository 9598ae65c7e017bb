"""Settings of the configured sandbox, store, fact store and embedder: `options`, decoded by the named component."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from mainstay.config.schema import (
    Config,
    EmbeddingSettings,
    KnowledgeStorageSettings,
    SandboxSettings,
    StorageSettings,
)
from mainstay.core.component_options import ComponentOptions, FactStoreOptions, SandboxOptions, StoreOptions
from mainstay.core.embedder_settings import EmbedderOptions
from mainstay.core.errors import ConfigError

Options = TypeVar("Options", bound=ComponentOptions)


def resolve_sandbox_options(settings: SandboxSettings) -> SandboxOptions:
    """Return the settings of the sandbox that `sandbox.kind` names. Raises ConfigError if there is none."""
    shared = {"container": settings.container}
    return _resolve_options(SandboxOptions, settings.kind, settings.options, "sandbox.options", shared)


def resolve_store_options(settings: StorageSettings) -> StoreOptions:
    """Return the settings of the store that `storage.backend` names. Raises ConfigError if there is none."""
    return _resolve_options(StoreOptions, settings.backend, settings.options, "storage.options", {})


def resolve_fact_store_options(settings: KnowledgeStorageSettings) -> FactStoreOptions:
    """Return the settings of the fact store that `backend` names. Raises ConfigError if there is none."""
    key = "storage.memory.knowledge.options"
    return _resolve_options(FactStoreOptions, settings.backend, settings.options, key, {})


def resolve_embedder_options(settings: EmbeddingSettings) -> EmbedderOptions:
    """Return the settings of the embedder that `model` means. Raises ConfigError if it needs some that are missing."""
    return _resolve_options(EmbedderOptions, settings.model, settings.options, "sessions.memory.embeddings.options", {})


def check_component_options(config: Config) -> None:
    """Raise ConfigError if the configured sandbox, store or fact store does not exist or cannot use its settings."""
    if config.sandbox != SandboxSettings() and (problem := resolve_sandbox_options(config.sandbox).find_problem()):
        raise ConfigError(problem)
    if config.storage != StorageSettings() and (problem := resolve_store_options(config.storage).find_problem()):
        raise ConfigError(problem)
    if (facts := config.storage.memory.knowledge) != KnowledgeStorageSettings() and (
        problem := resolve_fact_store_options(facts).find_problem()
    ):
        raise ConfigError(problem)


def _resolve_options(base: type[Options], name: str, given: Options, key: str, shared: Mapping[str, object]) -> Options:
    """Decode options by the settings type of a component. `shared` values are used for settings that are not given."""
    settings_type = base.find_type(name)
    values = {field: getattr(given, field) for field in given.__struct_fields__}
    added = {
        field: value
        for field, value in shared.items()
        if value and field in settings_type.__struct_fields__ and not values.get(field)
    }
    if isinstance(given, settings_type):
        return msgspec.structs.replace(given, **added)
    values |= added
    for field in msgspec.structs.fields(settings_type):
        if field.required and field.name not in values:
            raise ConfigError(f"'{key}' needs '{field.name}' for the {base.COMPONENT_KIND} {name!r}")
    try:
        return msgspec.convert(values, settings_type)
    except msgspec.ValidationError as error:
        raise ConfigError(f"'{key}' does not fit the {base.COMPONENT_KIND} {name!r}: {error}") from None
