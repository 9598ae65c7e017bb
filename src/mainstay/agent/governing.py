"""How the provider accounts of this process stand, for whoever measures it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from mainstay.metering.governor import Governors, State
from mainstay.observe.metrics import Gauge, Sample


def gauges(governors: Governors) -> Iterator[Gauge]:
    """For `/metrics`. Two accounts with one model at one provider are told apart by a number."""
    states = list(_numbered(governors.states()))
    if not states:
        return

    def of(name: str, help: str, figure: str, kind: Literal["gauge", "counter"] = "gauge") -> Gauge:
        samples = tuple(Sample(float(getattr(state, figure)), labels) for state, labels in states)
        return Gauge(name, help, samples, kind)

    yield of("mainstay_model_calls_waiting", "Model calls that wait for a provider.", "waiting")
    yield of("mainstay_model_calls_unheard", "Model calls that a provider has not begun to answer.", "unheard")
    yield of("mainstay_model_calls_admitted_total", "Model calls that went out.", "admitted", "counter")
    yield of("mainstay_model_calls_refused_total", "Of those, refused with 429 or 529.", "refused", "counter")
    yield of("mainstay_model_calls_waited_seconds_total", "How long calls waited, together.", "waited_s", "counter")
    yield of("mainstay_provider_paused_seconds", "For so long a provider asked to be left alone.", "paused_s")
    for name, place, help in (
        ("mainstay_provider_left", 0, "What a provider says is left, as it is believed now."),
        ("mainstay_provider_limit", 1, "And of how much."),
    ):
        found = [
            Sample(figures[place], {**labels, "bound": bound})
            for state, labels in states
            for bound, figures in state.left.items()
        ]
        if found:
            yield Gauge(name, help, tuple(found))


def _numbered(states: list[State]) -> Iterator[tuple[State, dict[str, str]]]:
    seen: dict[tuple[str, str], int] = {}
    for state in states:
        number = seen[state.who, state.model] = seen.get((state.who, state.model), 0) + 1
        yield state, {"provider": state.who, "model": state.model, "account": str(number)}
