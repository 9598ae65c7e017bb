"""Base class of components' settings: a section of the configuration gets the struct type of the component it names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Self

from mainstay.core.components import ComponentKind, advise_upgrade, find_component, list_components
from mainstay.core.errors import ComponentBroken
from mainstay.core.settings import MASK, ConfigSection, list_secret_settings


class ComponentSettings(ConfigSection, frozen=True, kw_only=True):
    """Settings that all components of a kind have. A component adds its own in a subclass; the configuration is
    decoded into that subclass (`config/schema_validator.py` says how)."""

    COMPONENT_KIND: ClassVar[ComponentKind]
    NAMED_BY: ClassVar[str] = "kind"  # setting with the component's name; "" or not given: the section's name is it

    @classmethod
    def find_type(cls, name: str) -> type[Self]:
        """Return the settings type of the component with this name. Raises ConfigError if there is none."""
        component = find_component(cls.COMPONENT_KIND, name)
        if not issubclass(component.settings, cls):
            raise ComponentBroken(
                f"{component.described} cannot be configured: {component.settings.__name__} must be a subclass of "
                f"{cls.__module__}.{cls.__name__}",
                fix=advise_upgrade(component.distribution),
            )
        return component.settings

    @classmethod
    def list_types(cls) -> Iterator[tuple[str, type[Self]]]:
        """Yield the name and the settings type of every component that can be loaded."""
        for component in list_components(cls.COMPONENT_KIND):
            if issubclass(component.settings, cls):
                yield component.name, component.settings

    def list_secrets(self) -> list[str]:
        """Return the values of the secrets that are given."""
        return [value for name in list_secret_settings(type(self)) if (value := getattr(self, name))]

    def __rich_repr__(self) -> list[tuple[str, object]]:
        secrets = list_secret_settings(type(self))
        return [(name, MASK if name in secrets and value else value) for name, value in super().__rich_repr__()]
