"""Configuration of embedders: which one a model's name means, its options, and what its factory gets.

`sessions.memory.embeddings.model` is `<embedder>`, `<embedder>/<model>`, or `<provider>/<model>`, which means the
embedder `api`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import msgspec

from mainstay.core.component_options import ComponentOptions
from mainstay.core.components import ComponentKind, built_in_components, has_component
from mainstay.core.limits import Limits
from mainstay.core.provider_manifest import ProviderSettings

PROVIDER_EMBEDDER = "api"


class EmbedderOptions(ComponentOptions, frozen=True, kw_only=True):
    """Settings of an embedder, under `sessions.memory.embeddings.options`."""

    COMPONENT_KIND: ClassVar[ComponentKind] = "embedder"
    NAMED_ABOVE: ClassVar[str] = "model"
    DEFAULT_NAME: ClassVar[str] = "local"

    @classmethod
    def find_type(cls, name: str) -> type[Self]:
        return super().find_type(split_embedding_model(name)[0])


class EmbedderFactoryContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the factory of an embedder gets beside the model's name and the options. It is called as
    `factory(model, options, context)`; `model` is without the embedder's name, and empty if none was given."""

    provider: ProviderSettings  # of the provider that the model's name begins with
    limits: Limits
    environ: Mapping[str, str]


class EmbedderCheckContext(EmbedderFactoryContext, frozen=True, kw_only=True):
    """What the health check of an embedder gets beside the model's name and the options. It is called as
    `check(model, options, context)`; it may block, and returns findings."""

    timeout_s: float = 10.0  # for the whole check
    is_offline: bool = False  # True: no network access


def split_embedding_model(spec: str) -> tuple[str, str]:
    """Return the embedder's name and the name of its model."""
    name, _, model = spec.partition("/")
    if name in built_in_components("embedder"):
        return name, model
    if name not in built_in_components("provider") and has_component("embedder", name):
        return name, model
    return PROVIDER_EMBEDDER, spec
