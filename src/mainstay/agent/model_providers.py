"""Builds the providers of an agent from its configuration: failover, retries, circuit breaker, rate limiter."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import msgspec

from mainstay.agent.system_clock import RandomIdGenerator, SystemClock
from mainstay.config.schema import Config, ModelEntry
from mainstay.config.schema_judges_budgets_telemetry import limits_money
from mainstay.core.errors import ConfigError
from mainstay.core.model_info import find_description_problem
from mainstay.core.ports import ModelInfo, Provider
from mainstay.core.provider_manifest import ProviderSettings
from mainstay.metering.rate_limiter import RateLimiter, RateLimiterRegistry
from mainstay.metering.resilient_provider import ResilientProvider
from mainstay.providers import registry

log = logging.getLogger("mainstay.metering")

NO_MODEL_SENTENCE = (
    'no model is configured: pass model="<provider>/<model>", set `model:` in mainstay.yaml, '
    "or run `mainstay doctor` to see what this machine offers"
)
ApiKey = str | Callable[[], str | Awaitable[str]]


class ModelProviders:
    """The default model's provider, and one for every other model that a session chose; each is built once."""

    def __init__(
        self,
        model: str | Provider | None,
        base_url: str | None,
        api_key: ApiKey | None,
        config: Config,
        rate_limiters: RateLimiterRegistry | None = None,
    ) -> None:
        """`base_url` and `api_key` apply to `model` only. `rate_limiters`: those of the process, so that all
        agents which use the same provider account share its limits."""
        self.rate_limiters = rate_limiters or RateLimiterRegistry(SystemClock())
        self._config = config
        self._base_url = base_url
        self._api_key = api_key
        if model is None or isinstance(model, str):
            model = self._build_with_failover(model, use_arguments=True)
        elif problem := find_description_problem(model.model()):
            raise ConfigError(f"{type(model).__name__}.model() cannot be used: {problem}")
        self._providers: dict[str, Provider] = {"": model}

    def provider_for(self, model: str) -> Provider:
        """Return the provider of a model; "" is the default model. Raises ConfigError if there is no such model."""
        if model not in self._providers:
            self._providers[model] = self._build_with_failover(model, use_arguments=False)
        return self._providers[model]

    async def close(self) -> None:
        for provider in self._providers.values():
            await provider.close()

    def _build_with_failover(self, model: str | None, *, use_arguments: bool) -> Provider:
        """Build the provider of a model, with the configured models to fail over to. `use_arguments`: use the
        `base_url` and `api_key` of the agent's arguments for the first."""
        config = self._config
        entries = list_failover_entries(model, config)
        if not entries:
            raise ConfigError(NO_MODEL_SENTENCE)
        pairs = [
            self._build_one(entry, use_arguments=use_arguments and number == 0) for number, entry in enumerate(entries)
        ]
        providers, limiters = zip(*pairs, strict=True)
        return ResilientProvider(
            providers, clock=SystemClock(), ids=RandomIdGenerator(), limits=config.limits, limiters=limiters
        )

    def _build_one(self, entry: ModelEntry, *, use_arguments: bool) -> tuple[Provider, RateLimiter | None]:
        name, _, model = entry.model.partition("/")
        settings = self._config.providers.get(name) or ProviderSettings()
        if base_url := (self._base_url if use_arguments else None) or entry.base_url:
            settings = msgspec.structs.replace(settings, base_url=base_url)
        api_key = (self._api_key if use_arguments else None) or entry.api_key
        info = with_unknown_price(build_model_info(entry), self._config)
        provider = registry.build_provider(entry.model, settings, api_key, self._config.limits, info)
        if problem := find_description_problem(provider.model()):
            raise ConfigError(f"the model {entry.model} of the provider {name!r} cannot be used: {problem}")
        account = registry.account_fingerprint(entry.model, settings, api_key)
        return provider, self.rate_limiters.get_limiter(account, name, model) if account is not None else None


def list_failover_entries(model: str | None, config: Config) -> list[ModelEntry]:
    """Return the models to use in failover order: `model`, else the configured default, then the rest of `models`."""
    configured = [entry if isinstance(entry, ModelEntry) else ModelEntry(model=entry) for entry in config.models]
    first = model or config.model
    if first is None:
        return configured
    chosen = next((entry for entry in configured if entry.model == first), ModelEntry(model=first))
    return [chosen, *(entry for entry in configured if entry.model != first)]


def build_model_info(entry: ModelEntry) -> ModelInfo:
    """Return what is known about a model, with the window, output and prices of its entry in their place."""
    provider, _, name = entry.model.partition("/")
    known = registry.find_model_info(provider, name)
    info = msgspec.structs.replace(known, window=entry.window or known.window, output=entry.output or known.output)
    if entry.price_prompt is None and entry.price_completion is None and entry.price_cached is None:
        return info
    return msgspec.structs.replace(  # one configured price replaces all known ones
        info,
        price_prompt=known.price_prompt if entry.price_prompt is None else entry.price_prompt,
        price_completion=known.price_completion if entry.price_completion is None else entry.price_completion,
        price_cached=entry.price_cached,
        price_written=None,
        long=None,
        guessed=False,
    )


def with_unknown_price(info: ModelInfo, config: Config) -> ModelInfo:
    """Give a model of unknown price `budgets.unknown_price` if any budget limits money: too high is safer than free."""
    if not info.guessed or not limits_money(config.budgets):
        return info
    price = config.budgets.unknown_price
    log.warning(
        "the price of %s is not known: it is counted at $%g per million tokens; set price_prompt and "
        "price_completion of its entry in `models`",
        info.name,
        price,
    )
    return msgspec.structs.replace(info, price_prompt=price, price_completion=price)
