"""From the configuration to the providers that lanes ask: failover order, retries, breaker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast

import msgspec

from mainstay.app.schema import Config, ModelEntry
from mainstay.app.world import SystemClock, SystemIds
from mainstay.core.errors import ConfigError
from mainstay.core.ports import ModelInfo, Provider
from mainstay.meter.resilient import Resilient
from mainstay.providers import catalogue

NO_MODEL = (
    'no model is configured: pass model="<provider>/<model>", set `model:` in mainstay.yaml, '
    "or run `mainstay doctor` to see what this machine offers"
)
ApiKey = str | Callable[[], str | Awaitable[str]]


class Models:
    """The default model and, for sessions that chose another, that one: each made once."""

    def __init__(
        self, model: str | Provider | None, base_url: str | None, api_key: ApiKey | None, config: Config
    ) -> None:
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
        providers = [self._one(entry, own=own and number == 0) for number, entry in enumerate(entries)]
        return Resilient(providers, clock=SystemClock(), ids=SystemIds(), limits=config.limits)

    def _one(self, entry: ModelEntry, *, own: bool) -> Provider:
        given = self._config.providers.get(entry.model.partition("/")[0])
        return catalogue.make(
            entry.model,
            base_url=(self._base_url if own else None) or entry.base_url or (given.base_url if given else None),
            api_key=(self._api_key if own else None) or entry.api_key or (given.api_key if given else None),
            limits=self._config.limits,
            info=info_of(entry),
        )


def entries_of(model: str | None, config: Config) -> list[ModelEntry]:
    configured = [one if isinstance(one, ModelEntry) else ModelEntry(model=one) for one in config.models]
    first = model or config.model
    if first is None:
        return configured
    named = next((one for one in configured if one.model == first), ModelEntry(model=first))
    return [named, *(one for one in configured if one.model != first)]


def info_of(entry: ModelEntry) -> ModelInfo | None:
    provider, _, name = entry.model.partition("/")
    known = catalogue.info(provider, name)
    given = {
        "window": entry.window,
        "output": entry.output,
        "price_prompt": entry.price_prompt,
        "price_completion": entry.price_completion,
    }
    changed = {key: value for key, value in given.items() if value is not None}
    return msgspec.structs.replace(known, **changed) if changed else known
