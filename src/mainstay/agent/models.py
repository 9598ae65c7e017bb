"""From the configuration to the providers that lanes ask: failover order, retries, breaker, governor."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec

from mainstay.agent.world import SystemClock, SystemIds
from mainstay.config.schema import Config, ModelEntry
from mainstay.config.schema_observability import bounds_money
from mainstay.core.errors import ConfigError
from mainstay.core.ports import ModelInfo, Provider
from mainstay.metering.governor import Governor, Governors
from mainstay.metering.resilient import Resilient
from mainstay.providers import catalogue

log = logging.getLogger("mainstay.metering")

NO_MODEL = (
    'no model is configured: pass model="<provider>/<model>", set `model:` in mainstay.yaml, '
    "or run `mainstay doctor` to see what this machine offers"
)
ApiKey = str | Callable[[], str | Awaitable[str]]


class Models:
    """The default model and, for sessions that chose another, that one: each made once."""

    def __init__(
        self,
        model: str | Provider | None,
        base_url: str | None,
        api_key: ApiKey | None,
        config: Config,
        governors: Governors | None = None,
    ) -> None:
        """`governors` are shared by all who ask the same accounts in this process."""
        self.governors = governors or Governors(SystemClock())
        self._config = config
        self._base_url = base_url
        self._api_key = api_key
        given = model if model is None or isinstance(model, str) else None
        own = cast(Provider, model) if given is not model else self._build(given, own=True)
        self._made: dict[str, Provider] = {"": own}

    def choose(self, spec: str) -> Provider:
        """Raises ConfigError if there is no such model."""
        if spec not in self._made:
            self._made[spec] = self._build(spec, own=False)
        return self._made[spec]

    async def close(self) -> None:
        for provider in self._made.values():
            await provider.close()

    def _build(self, model: str | None, *, own: bool) -> Provider:
        """The model asked for, then the configured ones it may fail over to. The agent's own address and key
        are for the model it was given, and for no other."""
        config = self._config
        entries = entries_of(model, config)
        if not entries:
            raise ConfigError(NO_MODEL)
        made = [self._one(entry, own=own and number == 0) for number, entry in enumerate(entries)]
        providers, governors = zip(*made, strict=True)
        return Resilient(providers, clock=SystemClock(), ids=SystemIds(), limits=config.limits, governors=governors)

    def _one(self, entry: ModelEntry, *, own: bool) -> tuple[Provider, Governor | None]:
        name, _, model = entry.model.partition("/")
        given = self._config.providers.get(name)
        base_url = (self._base_url if own else None) or entry.base_url or (given.base_url if given else None)
        api_key = (self._api_key if own else None) or entry.api_key or (given.api_key if given else None)
        info = by_rule(info_of(entry), self._config)
        provider = catalogue.make(entry.model, base_url, api_key, self._config.limits, info)
        account = catalogue.account(entry.model, base_url, api_key)
        return provider, self.governors.of(account, name, model) if account is not None else None


def entries_of(model: str | None, config: Config) -> list[ModelEntry]:
    configured = [one if isinstance(one, ModelEntry) else ModelEntry(model=one) for one in config.models]
    first = model or config.model
    if first is None:
        return configured
    named = next((one for one in configured if one.model == first), ModelEntry(model=first))
    return [named, *(one for one in configured if one.model != first)]


def info_of(entry: ModelEntry) -> ModelInfo:
    provider, _, name = entry.model.partition("/")
    known = catalogue.info(provider, name)
    given = {
        "window": entry.window,
        "output": entry.output,
        "price_prompt": entry.price_prompt,
        "price_completion": entry.price_completion,
        "price_cached": entry.price_cached,
    }
    changed: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if any(key.startswith("price_") for key in changed):  # whoever gives one gives them all
        changed = {"price_cached": None, "price_written": None, "long": None, "guessed": False, **changed}
    return msgspec.structs.replace(known, **changed) if changed else known


def by_rule(info: ModelInfo, config: Config) -> ModelInfo:
    """A model whose price nobody knows has one where money is bounded: rather too high than none at all."""
    if not info.guessed or not bounds_money(config.budgets):
        return info
    price = config.budgets.unknown_price
    log.warning(
        "nobody knows what %s costs: it is counted at $%g per million tokens; say it with price_prompt and "
        "price_completion in `models`",
        info.name,
        price,
    )
    return msgspec.structs.replace(info, price_prompt=price, price_completion=price)
