"""Manifests, settings and factory options of providers: what is known of a model API before its code is loaded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, ClassVar, Self

import msgspec
from msgspec import Meta

from mainstay.core.component_settings import ComponentSettings
from mainstay.core.components import Component, ComponentFunction, ComponentKind, find_component, has_component
from mainstay.core.errors import ConfigError
from mainstay.core.limits import Limits
from mainstay.core.model_info import ModelInfo

KEY_SETTING = "api_key"
ApiKeySource = str | Callable[[], str | Awaitable[str]] | None


class ProviderSettings(ComponentSettings, frozen=True, kw_only=True):
    """Settings that every provider has."""

    COMPONENT_KIND: ClassVar[ComponentKind] = "provider"
    NAMED_BY: ClassVar[str] = ""

    base_url: Annotated[str | None, Meta(description="Base URL of the API; default: the provider's public one.")] = None
    api_key: Annotated[
        str | None,
        Meta(description="API key, best given as `${VAR}`; default: the provider's usual environment variable."),
    ] = None

    @classmethod
    def find_type(cls, name: str) -> type[Self]:
        """Return the settings type of a provider. Any other name may stand for an OpenAI-compatible server."""
        return super().find_type(name) if has_component("provider", name) else cls


class ProviderComponent(Component, frozen=True, kw_only=True):
    """The manifest of a provider. Its factory is called as `factory(model, settings, context)` with the model's name,
    the provider's settings and a `ProviderFactoryContext`, and returns a `Provider`. Its health check is called
    likewise, with a `ProviderCheckContext`, for each configured model; it may block, does not call the model, and
    returns findings."""

    kind: ComponentKind = "provider"
    settings: type[ProviderSettings] = ProviderSettings
    title: str  # its name for people
    base_url: str = ""  # empty: the user must configure one, or the factory finds it
    url_variable: str = ""  # environment variable that replaces `base_url`
    url_parser: str = ""  # `module:function` that turns its value into a base URL; empty: it is one
    key_variables: tuple[str, ...] = ()  # environment variables with the API key; the first that is set counts
    needs_key: bool = True  # False: the key is optional
    default_model: str = ""  # a small model that every key may use: the one to use if only a key is given
    model_variable: str = ""  # environment variable that names the model to use in its place
    is_local: bool = False  # its models run on the user's machine: they cost nothing, and its server is looked for
    runs_in_process: bool = False  # it loads its models itself: it has no address and no rate limits
    has_embeddings: bool = True  # at `/embeddings` below its base URL, as OpenAI's
    model_info: str = ""  # `module:function` from a model's name to its `ModelInfo`; empty: only prices are known
    model_checker: str = ""  # `module:function` that raises ConfigError for a name that no model of it can have
    model_finder: str = ""  # `module:function` from the environment to the name of a model that is installed, or None
    model_hint: str = ""  # what to do if it does not have a model; `{model}` is filled in
    telemetry_name: str = ""  # in OpenTelemetry's GenAI semantic conventions; empty: its name
    # `module:function` from a `ProviderFilesContext` to findings about what it keeps on this machine, such as
    # downloads; `doctor` runs it whatever model is configured
    files_check: str = ""

    def __post_init__(self) -> None:
        """One field says where the API key is: from `key_variables` follow `secrets`, `secret_variables` and
        `secret_hints`, and from a secret `api_key` with its variable follow `key_variables`."""
        if not self.key_variables and any(KEY_SETTING in group for group in self.secrets):
            msgspec.structs.force_setattr(self, "key_variables", (self.secret_variable(self.name, KEY_SETTING),))
        if not self.key_variables:
            return
        if self.needs_key and not self.secrets:
            msgspec.structs.force_setattr(self, "secrets", ((KEY_SETTING,),))
        variables = {KEY_SETTING: self.key_variables[0], **self.secret_variables}
        hints = {KEY_SETTING: f"the API key of {self.title}", **self.secret_hints}
        msgspec.structs.force_setattr(self, "secret_variables", variables)
        msgspec.structs.force_setattr(self, "secret_hints", hints)

    @property
    def key_variable(self) -> str:
        """The usual environment variable of the API key; empty if none is needed."""
        return self.key_variables[0] if self.key_variables and self.needs_key else ""

    def find_api_key(self, environ: Mapping[str, str]) -> str | None:
        """Return the API key of the environment. Raises ConfigError if it cannot be one."""
        for variable in self.key_variables:
            value = environ.get(variable, "")
            if value.strip():
                if flaw := find_key_flaw(value):
                    raise ConfigError(f"{variable} {flaw}")
                return value.strip()
        return None

    @property
    def key_places(self) -> str:
        """Where the API key may be set: `ACME_API_KEY or providers.acme.api_key`."""
        return " or ".join([*self.key_variables[:1], f"providers.{self.name}.api_key"])

    def build_key_error(self, environ: Mapping[str, str]) -> ConfigError:
        """Return the error for an API key that is needed and not given."""
        empty = next((name for name in self.key_variables if name in environ), "")
        found = f"; {empty} {find_key_flaw(environ[empty])}" if empty else ""
        sentence = f"{self.name} needs an API key: set {self.key_places} to one, or pass api_key{found}"
        choice = "or choose another model: mainstay config set model <provider>/<model>"
        return ConfigError(sentence, fix=f"export {self.key_variable}=…, {choice}")

    def find_base_url(self, environ: Mapping[str, str]) -> str:
        """Return the base URL of the environment, else the default. Raises ConfigError if it cannot be parsed."""
        configured = environ.get(self.url_variable, "").strip() if self.url_variable else ""
        if not configured or not self.url_parser:
            return configured or self.base_url
        return str(self._load(self.url_parser)(configured))

    def find_model_info(self, model: str) -> ModelInfo | None:
        """Return what the provider's own code knows of a model; None if it has none for that."""
        if not self.model_info:
            return None
        info: ModelInfo = self._load(self.model_info)(model)
        return info

    def check_model_name(self, model: str) -> bool:
        """Raise ConfigError for a name that no model can have. False: the provider's own code does not check it."""
        if self.model_checker:
            self._load(self.model_checker)(model)
        return bool(self.model_checker)

    def find_installed_model(self, environ: Mapping[str, str]) -> str | None:
        """Return a model that is on this machine and can be used without configuration."""
        if not self.model_finder:
            return None
        model: str | None = self._load(self.model_finder)(environ)
        return model

    def load_files_check(self) -> ComponentFunction | None:
        return self._load(self.files_check) if self.files_check else None


class ProviderFactoryContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the factory of a provider gets beside the model's name and the provider's settings."""

    component: ProviderComponent
    base_url: str  # the configured one, that of the environment, or the default; empty: there is none
    api_key: ApiKeySource  # the configured one, or that of the environment
    info: ModelInfo
    limits: Limits
    environ: Mapping[str, str]

    def __repr__(self) -> str:
        return f"ProviderFactoryContext({self.component.name})"  # without the API key and a password in the URL

    def check_api_key(self) -> None:
        """Raise ConfigError if there is no API key, but the server needs one. A built-in provider with another address
        may be a server of the user's own that needs none."""
        provider = self.component
        is_own_server = not provider.distribution and provider.base_url not in (self.base_url, "")
        if self.api_key is None and provider.key_variable and not is_own_server:
            raise provider.build_key_error(self.environ)


class ProviderCheckContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the health check of a provider gets beside the model's name and the provider's settings."""

    environ: Mapping[str, str]
    is_deep: bool = False  # True: take the time for a thorough check


class ProviderFilesContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the check of a provider's files gets."""

    environ: Mapping[str, str]
    fix: bool = False  # True: repair what can be repaired


def find_telemetry_name(provider: str) -> str:
    """Return a provider's name in OpenTelemetry's GenAI semantic conventions; its own if there is no such provider."""
    try:
        component = find_component("provider", provider) if has_component("provider", provider) else None
    except ConfigError:  # a broken manifest of another distribution; reported when a model of it is used
        return provider
    return component.telemetry_name or provider if isinstance(component, ProviderComponent) else provider


def find_key_flaw(value: str) -> str:
    """Return what is wrong with an API key from an environment variable; an empty string if nothing is."""
    key = value.strip()
    if not key:
        return "is set, but empty"
    if key[0] in "\"'`" or key[-1] in "\"'`":
        return "has quotes in it: remove them"
    if any(letter.isspace() for letter in key):
        return "has a line break or a space in it: remove it"
    return "" if key.isprintable() else "has unprintable characters in it: remove them"
