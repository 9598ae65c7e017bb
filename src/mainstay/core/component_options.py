"""Settings of sandboxes, stores and fact stores, in a section `options` beside the key that names the component."""

from __future__ import annotations

from typing import ClassVar, Self

from mainstay.core.component_settings import ComponentSettings
from mainstay.core.components import ComponentKind

AUTO_SANDBOX = "auto"  # `sandbox.kind`: the best that works on this machine


class ComponentOptions(ComponentSettings, frozen=True, kw_only=True):
    """Base class of sections `options`. A component adds its settings in a subclass."""

    NAMED_BY: ClassVar[str] = ""
    NAMED_ABOVE: ClassVar[str]  # key of the section above with the component's name
    DEFAULT_NAME: ClassVar[str]  # where that key is not given

    def find_problem(self) -> str:
        """Return what is wrong with these values, in one sentence; empty: nothing."""
        return ""


class SandboxOptions(ComponentOptions, frozen=True, kw_only=True):
    """Settings of a sandbox, under `sandbox.options`. One that has the name of a key of `sandbox` (`container`) gets
    that key's value unless it is given here."""

    COMPONENT_KIND: ClassVar[ComponentKind] = "sandbox"
    NAMED_ABOVE: ClassVar[str] = "kind"
    DEFAULT_NAME: ClassVar[str] = AUTO_SANDBOX

    @classmethod
    def find_type(cls, name: str) -> type[Self]:
        return cls if name == AUTO_SANDBOX else super().find_type(name)


class StoreOptions(ComponentOptions, frozen=True, kw_only=True):
    """Settings of a store, under `storage.options`."""

    COMPONENT_KIND: ClassVar[ComponentKind] = "store"
    NAMED_ABOVE: ClassVar[str] = "backend"
    DEFAULT_NAME: ClassVar[str] = "sqlite"


class FactStoreOptions(ComponentOptions, frozen=True, kw_only=True):
    """Settings of a fact store, under `storage.memory.knowledge.options`."""

    COMPONENT_KIND: ClassVar[ComponentKind] = "fact store"
    NAMED_ABOVE: ClassVar[str] = "backend"
    DEFAULT_NAME: ClassVar[str] = "sqlite"
