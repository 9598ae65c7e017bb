"""Builds providers by name: `<provider>/<model>`, for built-in providers and those of other distributions."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import urlsplit

import msgspec

from mainstay.core.components import (
    Component,
    advise_upgrade,
    built_in_components,
    find_component,
    has_component,
    list_other_components,
    suggest_component,
)
from mainstay.core.errors import ComponentBroken, ConfigError
from mainstay.core.limits import Limits
from mainstay.core.ports import ModelInfo, Provider
from mainstay.core.provider_manifest import ApiKeySource, ProviderComponent, ProviderFactoryContext, ProviderSettings
from mainstay.providers.model_lookup import describe_model
from mainstay.providers.openai.manifest import COMPONENT as OPENAI

SCRIPTED = "scripted"  # no provider; people look for one of this name
_SCRIPTED_HINT = (
    f"there is no provider {SCRIPTED!r}: to use scripted answers instead of a model, run `mainstay eval CASES "
    "--script FILE`, or pass a ScriptedProvider (mainstay.testing) to Agent"
)


def find_provider(name: str) -> ProviderComponent | None:
    """Return the manifest of a provider; None if there is no such provider. Raises ConfigError if it is broken."""
    if not has_component("provider", name):
        return None
    component = find_component("provider", name)
    if not isinstance(component, ProviderComponent):
        raise ComponentBroken(_wrong_class(component), fix=advise_upgrade(component.distribution))
    return component


def list_providers(on_problem: Callable[[str], None] = lambda problem: None) -> Iterator[ProviderComponent]:
    """Yield the manifests of all providers, the built-in ones first; no metadata of distributions is read before.
    `on_problem` is called with a sentence for each that cannot be used."""
    yield from list_built_in_providers()
    yield from list_other_providers(on_problem)


def list_built_in_providers() -> list[ProviderComponent]:
    return [component for name in built_in_components("provider") if (component := find_provider(name)) is not None]


def list_other_providers(on_problem: Callable[[str], None] = lambda problem: None) -> Iterator[ProviderComponent]:
    """Yield the manifests of providers of other distributions."""
    for component in list_other_components("provider", on_problem):
        if isinstance(component, ProviderComponent):
            yield component
        else:
            on_problem(_wrong_class(component))


def _wrong_class(component: Component) -> str:
    return (
        f"{component.described} has no valid manifest: it must be a "
        f"mainstay.core.provider_manifest.ProviderComponent, but is of the type {type(component).__name__}"
    )


def build_provider(
    spec: str,
    settings: ProviderSettings | None = None,
    api_key: ApiKeySource = None,
    limits: Limits | None = None,
    info: ModelInfo | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Provider:
    """Build a provider for `<provider>/<model>`. With a base URL, an unknown provider name means an OpenAI-compatible
    server there. `api_key` replaces that of the settings. Raises ConfigError if the name, the URL or the key is missing
    or invalid."""
    name, _, model = spec.partition("/")
    if not name or not model:
        raise ConfigError(f"{spec!r} does not name a model: write <provider>/<model>, for example openai/gpt-4.1-mini")
    component = find_provider(name)
    if component is None and settings is not None and settings.base_url:
        component = _compatible_server(name)
    if component is None:
        hint = suggest_component("provider", name)
        if name == SCRIPTED:
            raise ConfigError(_SCRIPTED_HINT)
        raise ConfigError(f"there is no provider {name!r}; {hint}; or set base_url to a server with OpenAI's API")
    settings = complete_settings(settings or ProviderSettings(), component)
    url = settings.base_url or component.find_base_url(environ)
    if url and not _is_http_url(url):
        variable = f" or {component.url_variable}" if component.url_variable else ""
        raise ConfigError(f"{name}: base_url{variable} must be an address that begins with http:// or https://")
    context = ProviderFactoryContext(
        component=component,
        base_url=url,
        api_key=api_key or (settings.api_key or "").strip() or component.find_api_key(environ),
        info=info if info is not None else find_model_info(name, model),
        limits=limits or Limits(),
        environ=environ,
    )
    provider: Provider = component.load_factory()(model, settings, context)
    return provider


def check_model(spec: str, settings: ProviderSettings | None = None) -> None:
    """Raise ConfigError for an unknown provider or a spec without a model. It makes no request, and needs neither an
    API key nor an installed model."""
    name, _, model = spec.partition("/")
    component = find_provider(name) if model else None
    if component is None or not component.check_model_name(model):
        build_provider(spec, settings, api_key="placeholder")


def runs_in_process(spec: str) -> bool:
    """Return whether a model is loaded by Mainstay itself, not by a server."""
    component = find_provider(spec.partition("/")[0])
    return component is not None and component.runs_in_process


def find_model_info(provider: str, model: str) -> ModelInfo:
    """Return what is known about a model; the defaults of `ModelInfo` for an unknown one."""
    component = find_provider(provider)
    if component is not None and (info := component.find_model_info(model)) is not None:
        return info
    info = describe_model(model, {}, price_tables=(provider,))
    return msgspec.structs.replace(info, guessed=False) if component is not None and component.is_local else info


def account_fingerprint(
    spec: str,
    settings: ProviderSettings | None = None,
    api_key: ApiKeySource = None,
    environ: Mapping[str, str] = os.environ,
) -> str | None:
    """Return a hash of the base URL and the API key: models with the same hash share one account and its rate limits.

    A key that a function returns is not part of the hash. None for a model without rate limits.
    """
    name, _, _ = spec.partition("/")
    settings = settings or ProviderSettings()
    component = find_provider(name) or _compatible_server(name)
    if component.runs_in_process:
        return None
    key = api_key or settings.api_key or component.find_api_key(environ) or ""
    url = settings.base_url or component.find_base_url(environ)
    identity = f"{url}\0{key if isinstance(key, str) else type(key).__name__}"
    return hashlib.blake2b(identity.encode(errors="replace"), digest_size=12).hexdigest()


def complete_settings(settings: ProviderSettings, component: ProviderComponent) -> ProviderSettings:
    """Return the settings in the provider's own type. Raises ConfigError if they lack one that it needs."""
    if isinstance(settings, component.settings):
        return settings
    given = {"base_url": settings.base_url, "api_key": settings.api_key}
    try:
        return msgspec.convert(given, component.settings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"set providers.{component.name} in mainstay.yaml: {error}") from None


def _compatible_server(name: str) -> ProviderComponent:
    """Return the manifest of an OpenAI-compatible server that only the configuration knows."""
    return ProviderComponent(
        name=name, title=name, summary="an OpenAI-compatible server of the user's own", factory=OPENAI.factory
    )


def _is_http_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an unclosed bracket, an invalid port
        return False
