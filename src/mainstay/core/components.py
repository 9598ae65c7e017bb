"""Component manifests, by which providers, channels, backends, stores, sandboxes and embedders register themselves.

A component is one folder with a module that has a `COMPONENT`. The package of its kind lists the built-in ones in
`COMPONENTS`; other distributions offer theirs as entry points of the group `mainstay.<kind>s`. Configuration, `doctor`,
`init`, `channel add` and the reference read the manifests: no other table names a component.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.core.settings import ConfigSection, list_secret_settings

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ComponentFunction = Callable[..., Any]  # its parameters and its result depend on the kind
ComponentKind = Literal["provider", "channel", "backend", "store", "sandbox", "embedder"]

# Packages whose `COMPONENTS` maps the names of built-in components to the modules of their manifests.
_PACKAGES: Mapping[ComponentKind, str] = {
    "provider": "mainstay.providers",
    "channel": "mainstay.channels",
    "backend": "mainstay.backends",
    "store": "mainstay.store",
    "sandbox": "mainstay.sandbox",
    "embedder": "mainstay.memory.embedders",
}


class SetupStep(msgspec.Struct, frozen=True):
    """A step of the setup that is only needed if a setting is given."""

    text: str
    given: str


class Component(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest of a component. Importing it imports neither the factory nor a third-party library."""

    kind: ComponentKind
    name: str  # in the configuration
    summary: str  # one line of documentation
    settings: type[ConfigSection]  # of one configured instance
    factory: str  # `module:function`, imported when an instance is built
    required: Mapping[str, str] = {}  # settings that the user must give, each with an example
    secrets: tuple[tuple[str, ...], ...] = ()  # groups of secret settings; of each group one must be given
    secret_hints: Mapping[str, str] = {}  # what a secret is, in words for people
    # usual environment variables of secrets, with `{NAME}` for the configured name; default: `{NAME}_SETTING`
    secret_variables: Mapping[str, str] = {}
    # steps outside of Mainstay, for people; `{name}` and `{setting}` are filled in
    setup: tuple[str | SetupStep, ...] = ()
    libraries: Mapping[str, str] = {}  # modules it imports, with the names of their packages
    install: str = ""  # command that installs the libraries
    check: str = ""  # `module:function` of its health check, run by `doctor`
    distribution: str = ""  # that offers it; empty: built in

    def load_factory(self) -> ComponentFunction:
        """Import the factory. Raises ConfigError if a library is not installed."""
        return self._load(self.factory)

    def load_check(self) -> ComponentFunction | None:
        return self._load(self.check) if self.check else None

    def missing_libraries(self) -> list[str]:
        """Return the packages of libraries that are not installed."""
        return [package for module, package in self.libraries.items() if importlib.util.find_spec(module) is None]

    def install_command(self) -> str:
        """Return the command that installs the libraries, or those that are missing."""
        return self.install or f"pip install {' '.join(self.missing_libraries() or self.libraries.values())}"

    def setup_steps(self, name: str, settings: Mapping[str, object]) -> list[str]:
        """Return what is left to do outside of Mainstay, with the values that were given; one sentence each."""
        values = {**self.required, **{key: str(value) for key, value in settings.items() if value}, "name": name}
        steps = (SetupStep(step, given="name") if isinstance(step, str) else step for step in self.setup)
        return [step.text.format_map(values) for step in steps if step.given in values]

    def required_groups(self) -> list[tuple[str, ...]]:
        """Return groups of settings, of each of which one must be given."""
        return [*((key,) for key in self.required), *self.secrets]

    def find_missing(self, settings: ConfigSection) -> str:
        """Return the settings of which one must be given and none is: `'url'`; empty if nothing is missing."""
        for group in self.required_groups():
            if not any(getattr(settings, key) for key in group):
                return " or ".join(f"'{key}'" for key in group)
        return ""

    def secret_variable(self, name: str, setting: str) -> str:
        """Return the environment variable that is suggested for a secret of the instance `name`."""
        variable = self.secret_variables.get(setting, f"{{NAME}}_{setting.upper()}")
        return variable.format(NAME=name.upper().replace("-", "_"))

    def describe_secret(self, setting: str) -> str:
        return self.secret_hints.get(setting, f"its {setting.replace('_', ' ')}")

    def _load(self, reference: str) -> ComponentFunction:
        module, _, name = reference.partition(":")
        try:
            function: ComponentFunction = getattr(importlib.import_module(module), name)
        except ImportError as error:
            how = f": {self.install}" if self.install else ""
            raise ConfigError(
                f"the {self.kind} {self.name!r} needs a library that is not installed ({error}){how}"
            ) from error
        return function


def find_component(kind: ComponentKind, name: str) -> Component:
    """Return a component by name: a built-in one, else one of an installed distribution. Raises ConfigError."""
    if (module := built_in_components(kind).get(name)) is not None:
        return _load_manifest(module)
    return _find_in_distributions(kind, name)


def has_component(kind: ComponentKind, name: str) -> bool:
    """Return whether there is a component of this name; one of another distribution is not loaded."""
    return name in built_in_components(kind) or any(point.name == name for point in _entry_points(kind))


def suggest_component(kind: ComponentKind, name: str) -> str:
    """Return the end of an error about an unknown component: the most similar name, or all of them."""
    from difflib import get_close_matches  # only needed for a mistake

    known = component_names(kind)
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
    return f"{hint} (others come with a distribution that has an entry point in the group {entry_point_group(kind)})"


def list_components(
    kind: ComponentKind, on_problem: Callable[[str], None] = lambda problem: None
) -> Iterator[Component]:
    """Yield the built-in components in their order, then those of other distributions by name. `on_problem` is called
    with a sentence for each one that cannot be loaded."""
    for module in built_in_components(kind).values():
        yield _load_manifest(module)
    yield from list_other_components(kind, on_problem)


def list_other_components(
    kind: ComponentKind, on_problem: Callable[[str], None] = lambda problem: None
) -> Iterator[Component]:
    """Yield the components of other distributions by name."""
    for entry_point in sorted(_entry_points(kind), key=lambda entry_point: entry_point.name):
        try:
            yield _load_entry_point(kind, entry_point)
        except ConfigError as error:
            on_problem(str(error))


def component_names(kind: ComponentKind) -> list[str]:
    """Return the names of all components of a kind, without loading those of other distributions."""
    built_in = built_in_components(kind)
    return [*built_in, *sorted(point.name for point in _entry_points(kind) if point.name not in built_in)]


def built_in_components(kind: ComponentKind) -> Mapping[str, str]:
    """Return the index of a kind: where each manifest is, as `module` (its `COMPONENT`) or `module:ATTRIBUTE`. No
    metadata of distributions is read."""
    index: Mapping[str, str] = importlib.import_module(_PACKAGES[kind]).COMPONENTS
    return index


def entry_point_group(kind: ComponentKind) -> str:
    """Return the group in which other distributions offer components: `mainstay.channels`, `mainstay.sandboxes` …"""
    return f"mainstay.{kind}es" if kind.endswith("x") else f"mainstay.{kind}s"


@cache
def _load_manifest(reference: str) -> Component:
    module, _, attribute = reference.partition(":")
    component: Component = getattr(importlib.import_module(module), attribute or "COMPONENT")
    return component


def _entry_points(kind: ComponentKind) -> list[EntryPoint]:
    """Return the entry points of a kind. One that takes the name of a built-in component is left out."""
    points = _read_entry_points(entry_point_group(kind), *sys.path)
    return [point for point in points if point.name not in built_in_components(kind)]


@cache  # reading takes 30 ms; the search path is part of the key
def _read_entry_points(group: str, *search_path: str) -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points  # slow to import, and only needed for other distributions

    return tuple(entry_points(group=group))


@cache
def _find_in_distributions(kind: ComponentKind, name: str) -> Component:
    for entry_point in _entry_points(kind):
        if entry_point.name == name:
            return _load_entry_point(kind, entry_point)
    raise ConfigError(f"there is no {kind} {name[:80]!r}; {suggest_component(kind, name)}")


def _load_entry_point(kind: ComponentKind, entry_point: EntryPoint) -> Component:
    distribution = entry_point.dist.name if entry_point.dist is not None else entry_point.module
    try:
        component = entry_point.load()
    except Exception as error:  # the module of another distribution may raise anything while it is imported
        raise ConfigError(
            f"the {kind} {entry_point.name!r} of {distribution} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(component, Component) or component.kind != kind or component.name != entry_point.name:
        raise ConfigError(
            f"the {kind} {entry_point.name!r} of {distribution} is no manifest: {entry_point.value} must be a "
            f"mainstay.core.components.Component of the kind {kind!r} with that name"
        )
    if problem := _find_manifest_problem(component):
        raise ConfigError(f"the manifest of the {kind} {entry_point.name!r} of {distribution} {problem}")
    return msgspec.structs.replace(component, distribution=distribution)


def _find_manifest_problem(component: Component) -> str:
    secrets = [key for group in component.secrets for key in group]
    for key in (*component.required, *secrets, *component.secret_hints):
        if key not in component.settings.__struct_fields__:
            return f"names the setting {key!r}, which {component.settings.__name__} does not have"
    for key in (*secrets, *component.secret_hints):
        if key not in list_secret_settings(component.settings):  # it would not be masked
            return f"names the secret {key!r}, whose type is not mainstay.core.settings.Secret"
    return ""
