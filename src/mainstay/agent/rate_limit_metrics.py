"""Metrics of the rate limiters: queues, admitted calls and remaining limits of each provider account."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from mainstay.metering.rate_limiter import RateLimiterRegistry, RateLimiterState
from mainstay.observe.metrics import Gauge, MetricSample


def build_rate_limit_gauges(rate_limiters: RateLimiterRegistry) -> Iterator[Gauge]:
    """Yield the rate limiter gauges for `/metrics`. Accounts with the same provider and model are numbered."""
    states = list(_label_states(rate_limiters.snapshot_states()))
    if not states:
        return

    def gauge(name: str, help: str, figure: str, kind: Literal["gauge", "counter"] = "gauge") -> Gauge:
        samples = tuple(MetricSample(float(getattr(state, figure)), labels) for state, labels in states)
        return Gauge(name, help, samples, kind)

    yield gauge("mainstay_model_calls_waiting", "Model calls that wait for a provider's rate limit.", "waiting")
    yield gauge("mainstay_model_calls_unheard", "Model calls that a provider has not begun to answer.", "unheard")
    yield gauge("mainstay_model_calls_admitted_total", "Model calls that were sent.", "admitted", "counter")
    yield gauge("mainstay_model_calls_refused_total", "Model calls refused with 429 or 529.", "refused", "counter")
    yield gauge(
        "mainstay_model_calls_waited_seconds_total", "Total time that model calls waited.", "waited_s", "counter"
    )
    yield gauge("mainstay_provider_paused_seconds", "Remaining pause that a provider asked for.", "paused_s")
    for name, index, help in (
        ("mainstay_provider_left", 0, "Remaining rate limit of a provider, estimated from its headers."),
        ("mainstay_provider_limit", 1, "Rate limit of a provider, from its headers."),
    ):
        samples = [
            MetricSample(figures[index], {**labels, "bound": bound})
            for state, labels in states
            for bound, figures in state.remaining.items()
        ]
        if samples:
            yield Gauge(name, help, tuple(samples))


def _label_states(states: list[RateLimiterState]) -> Iterator[tuple[RateLimiterState, dict[str, str]]]:
    seen: dict[tuple[str, str], int] = {}
    for state in states:
        number = seen[state.provider_name, state.model] = seen.get((state.provider_name, state.model), 0) + 1
        yield state, {"provider": state.provider_name, "model": state.model, "account": str(number)}
