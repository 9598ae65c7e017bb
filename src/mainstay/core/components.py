"""Component manifests, by which providers, channels, backends, stores, fact stores, sandboxes and embedders register.

A component is one folder with a module that has a `COMPONENT`. The package of its kind lists the built-in ones in
`COMPONENTS`; other distributions offer theirs as entry points of the group `mainstay.<kind>s`. Configuration, `doctor`,
`init`, `channel add` and the reference read the manifests: no other table names a component.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from mainstay.core.errors import ComponentBroken, ConfigError, MainstayError
from mainstay.core.settings import ConfigSection, list_secret_settings

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ComponentFunction = Callable[..., Any]  # its parameters and its result depend on the kind
ComponentKind = Literal["provider", "channel", "backend", "store", "fact store", "sandbox", "embedder"]

# Packages whose `COMPONENTS`, or the attribute given here, maps the names of built-in components to the modules of
# their manifests.
_PACKAGES: Mapping[ComponentKind, str] = {
    "provider": "mainstay.providers",
    "channel": "mainstay.channels",
    "backend": "mainstay.backends",
    "store": "mainstay.store",
    "fact store": "mainstay.store:FACT_STORES",
    "sandbox": "mainstay.sandbox",
    "embedder": "mainstay.memory.embedders",
}


class ConditionalSetupStep(msgspec.Struct, frozen=True):
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
    setup: tuple[str | ConditionalSetupStep, ...] = ()
    libraries: Mapping[str, str] = {}  # modules it imports, with the names of their packages
    install: str = ""  # command that installs the libraries
    check: str = ""  # `module:function` of its health check, run by `doctor`
    distribution: str = ""  # that offers it; empty: built in

    def load_factory(self) -> ComponentFunction:
        """Import the factory. Raises ConfigError if a library is not installed, ComponentBroken if there is no such
        function. For a component of another distribution, the returned function raises only MainstayErrors: any other
        exception is a bug of the component, and becomes ComponentBroken."""
        return self._load(self.factory)

    def create(self, name: str, *arguments: object) -> Any:
        """Return a new instance: the result of `factory(name, *arguments)`. Raises ComponentBroken, with the name and
        the distribution, if the factory raises anything but a MainstayError."""
        factory = self._import(self.factory)
        try:
            return factory(name, *arguments)
        except MainstayError:
            raise
        except ImportError as error:  # the factory may import a library only now
            raise self._explain_missing_library(error) from None
        except Exception as error:  # the factory of another distribution may raise anything
            raise ComponentBroken(
                f"{self.describe_instance(name)} cannot be used: its factory failed: {type(error).__name__}: {error}",
                fix=advise_upgrade(self.distribution),
            ) from error

    def describe_instance(self, name: str) -> str:
        """Return `the channel 'parrot' of mainstay-parrot-channel`, for an error about one configured instance."""
        return f"the {self.kind} {name!r}" + (f" of {self.distribution}" if self.distribution else "")

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
        steps = (ConditionalSetupStep(step, given="name") if isinstance(step, str) else step for step in self.setup)
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

    @property
    def described(self) -> str:
        """The component as the subject of a sentence: `the provider 'acme' of mainstay-acme`."""
        return self.describe_instance(self.name)

    def describe_bug(self, error: BaseException | None) -> ComponentBroken:
        """Return the error for an exception of the component's code that none of its callers expects."""
        return ComponentBroken(
            f"{self.described} failed: {type(error).__name__}: {error}",
            fix=advise_upgrade(self.distribution),
        )

    def _load(self, reference: str) -> ComponentFunction:
        function = self._import(reference)
        return self._guard(function) if self.distribution else function

    def _import(self, reference: str) -> ComponentFunction:
        module, _, name = reference.partition(":")
        try:
            function: ComponentFunction = getattr(importlib.import_module(module), name)
        except Exception as error:  # the module of another distribution may raise anything while it is imported
            if not self.distribution and not isinstance(error, ImportError):
                raise
            raise self._explain_import(reference, error) from error
        return function

    def _explain_import(self, reference: str, error: Exception) -> ConfigError:
        module, _, name = reference.partition(":")
        own = {module, *(module[:end] for end, letter in enumerate(module) if letter == ".")}
        if isinstance(error, ModuleNotFoundError) and error.name in own:
            problem = f"there is no module {error.name!r}"
        elif isinstance(error, AttributeError) and not hasattr(sys.modules.get(module), name):
            problem = f"the module {module!r} has no {name!r}" if name else "it must be 'module:function'"
        elif isinstance(error, ImportError):
            return self._explain_missing_library(error)
        else:
            problem = f"it cannot be imported: {type(error).__name__}: {error}"
        return ComponentBroken(
            f"{self.described} names the function {reference!r}, but {problem}",
            fix=advise_upgrade(self.distribution),
        )

    def _explain_missing_library(self, error: ImportError) -> ConfigError:
        how = f": {self.install_command()}" if self.install or self.libraries else ""
        sentence = f"the {self.kind} {self.name!r} needs a library that is not installed ({error}){how}"
        return ConfigError(sentence, fix=self.install or (f"pip install {error.name}" if error.name else ""))

    def _guard(self, function: ComponentFunction) -> ComponentFunction:
        """Return the function with its bugs reported, also those in a generator or a coroutine that it returns."""

        def call(*arguments: object) -> object:
            with self._report_bugs():
                result = function(*arguments)
            if isinstance(result, Generator):
                return iterate(result)
            return wait(result) if isinstance(result, CoroutineType) else result

        def iterate(results: Iterator[object]) -> Iterator[object]:
            with self._report_bugs():
                yield from results

        async def wait(result: Awaitable[object]) -> object:
            with self._report_bugs():
                return await result

        return call

    @contextmanager
    def _report_bugs(self) -> Iterator[None]:
        try:
            yield
        except MainstayError:
            raise
        except ImportError as error:  # the function imports a library only now
            raise self._explain_missing_library(error) from error
        except Exception as error:  # the code of another distribution may raise anything
            raise self.describe_bug(error) from error


def advise_upgrade(distribution: str) -> str:
    """Return what to do about a broken component: the text of `ConfigError.fix`."""
    return f"correct, upgrade or uninstall the distribution {distribution}" if distribution else ""


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
    known = component_names(kind)
    near = suggest_name(name, known)
    hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(known)}"
    return f"{hint} (others come with a distribution that has an entry point in the group {entry_point_group(kind)})"


def suggest_name(name: str, known: Sequence[str]) -> str:
    """Return the most similar of the known names; empty if none is similar."""
    from difflib import get_close_matches  # only needed for a mistake

    return next(iter(get_close_matches(name, known, n=1, cutoff=0.5)), "")


def find_similar_component(kind: ComponentKind, name: str) -> str:
    """Return the component whose name is probably misspelled here; empty if there is none. A name that adds a digit or
    a hyphen (`openai2`, `ollama-gpu`) is no misspelling: users name their own servers like that."""
    from difflib import get_close_matches  # only needed for a mistake

    if has_component(kind, name):
        return ""
    near = next(iter(get_close_matches(name.lower(), component_names(kind), n=1, cutoff=0.75)), "")
    added = set(name.lower()) - set(near)
    return near if all(letter.isalpha() for letter in added) else ""


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
    package, _, attribute = _PACKAGES[kind].partition(":")
    index: Mapping[str, str] = getattr(importlib.import_module(package), attribute or "COMPONENTS")
    return index


def entry_point_group(kind: ComponentKind) -> str:
    """Return the group in which other distributions offer components: `mainstay.channels`, `mainstay.sandboxes`,
    `mainstay.fact_stores` …"""
    noun = kind.replace(" ", "_")
    return f"mainstay.{noun}es" if noun.endswith("x") else f"mainstay.{noun}s"


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
        subject, reason = f"the {kind} {entry_point.name!r} of {distribution}", f"{type(error).__name__}: {error}"
        sentence = f"{subject} cannot be loaded: {reason}"
        raise ComponentBroken(sentence, fix=advise_upgrade(distribution)) from error
    if not isinstance(component, Component) or component.kind != kind or component.name != entry_point.name:
        sentence = (
            f"the {kind} {entry_point.name!r} of {distribution} has no valid manifest: {entry_point.value} must be a "
            f"mainstay.core.components.Component of the kind {kind!r} with the name {entry_point.name!r}, but is "
            f"{_describe_manifest(component)}"
        )
        raise ComponentBroken(sentence, fix=advise_upgrade(distribution))
    if problem := _find_manifest_problem(component):
        sentence = f"the manifest of the {kind} {entry_point.name!r} of {distribution} {problem}"
        raise ComponentBroken(sentence, fix=advise_upgrade(distribution))
    return msgspec.structs.replace(component, distribution=distribution)


_FORMS: Mapping[
    str, tuple[type | tuple[type, ...], str]
] = {  # of the manifest's fields, each with an example for the author
    "required": (Mapping, 'required={"url": "https://chat.example"}'),
    "secrets": ((tuple, list), 'secrets=(("key",),), groups of settings, of each of which one must be given'),
    "secret_hints": (Mapping, 'secret_hints={"key": "the API key"}'),
    "secret_variables": (Mapping, 'secret_variables={"key": "{NAME}_KEY"}'),
    "setup": ((tuple, list), 'setup=("create an account",)'),
    "libraries": (Mapping, 'libraries={"module": "package"}'),
}


def _describe_manifest(value: object) -> str:
    if isinstance(value, Component):
        return f"the {value.kind} {value.name!r}"
    return f"of the type {type(value).__name__}"


def _find_manifest_problem(component: Component) -> str:
    for field, (form, example) in _FORMS.items():
        value = getattr(component, field)
        is_grouped = field != "secrets" or all(isinstance(group, tuple | list) for group in value)
        if not isinstance(value, form) or not is_grouped:
            return f"has {field!r} in the wrong form: write {example}"
    secrets = [key for group in component.secrets for key in group]
    for key in (*component.required, *secrets, *component.secret_hints):
        if key not in component.settings.__struct_fields__:
            return f"names the setting {key!r}, which {component.settings.__name__} does not have"
    for key in (*secrets, *component.secret_hints):
        if key not in list_secret_settings(component.settings):  # it would not be masked
            return f"names the secret {key!r}, whose type is not mainstay.core.settings.Secret"
    return ""
