"""From the configuration to the provider that a lane asks: failover order, retries, breaker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from mainstay.app.schema import Config, ModelEntry
from mainstay.core.errors import ConfigError
from mainstay.core.ports import Clock, Ids, ModelInfo, Provider
from mainstay.meter.resilient import Resilient
from mainstay.providers import catalogue

NO_MODEL = (
    'no model is configured: pass model="<provider>/<model>", set `model:` in mainstay.yaml, '
    "or run `mainstay doctor` to see what this machine offers"
)
ApiKey = str | Callable[[], str | Awaitable[str]]


def build_provider(
    model: str | None, base_url: str | None, api_key: ApiKey | None, config: Config, clock: Clock, ids: Ids
) -> Provider:
    """The model asked for, then the configured ones it may fail over to."""
    entries = _entries(model, config)
    if not entries:
        raise ConfigError(NO_MODEL)
    providers: list[Provider] = []
    for number, entry in enumerate(entries):
        given = config.providers.get(entry.model.partition("/")[0])
        first = number == 0
        providers.append(
            catalogue.make(
                entry.model,
                base_url=(base_url if first else None) or entry.base_url or (given.base_url if given else None),
                api_key=(api_key if first else None) or entry.api_key or (given.api_key if given else None),
                limits=config.limits,
                info=_info(entry),
            )
        )
    return Resilient(providers, clock=clock, ids=ids, limits=config.limits)


def _entries(model: str | None, config: Config) -> list[ModelEntry]:
    configured = [one if isinstance(one, ModelEntry) else ModelEntry(model=one) for one in config.models]
    first = model or config.model
    if first is None:
        return configured
    named = next((one for one in configured if one.model == first), ModelEntry(model=first))
    return [named, *(one for one in configured if one.model != first)]


def _info(entry: ModelEntry) -> ModelInfo | None:
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
