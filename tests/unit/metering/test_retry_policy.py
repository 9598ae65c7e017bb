"""Retries: how often and how soon, by what went wrong, through the library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.ports import choose_port

from mainstay import Agent, Config
from mainstay.core.errors import Overloaded, RateLimited, StreamBroken, Unreachable
from mainstay.core.events import Waiting
from mainstay.core.limits import Limits
from mainstay.core.outcome import Failed
from mainstay.core.provider_manifest import ProviderSettings
from mainstay.metering.resilient_provider import choose_retry_limits, compute_delay_s
from mainstay.providers.wire.errors import error_for_unreachable


def waits_after(error: Any, limits: Limits | None = None) -> list[float]:
    chosen = choose_retry_limits(limits or Limits(), error)
    waits: list[float] = []
    while (
        wait_s := compute_delay_s(
            chosen, attempt=len(waits) + 1, retry_after_s=error.retry_after_s, waited_s=sum(waits), chance=0.5
        )
    ) is not None:
        waits.append(wait_s)
    return waits


@pytest.mark.parametrize("error", [RateLimited("429"), Overloaded("529")])
def test_miclaw_072_without_a_hint_a_lack_of_capacity_is_retried_from_two_seconds_doubling_eight_times(
    error: Any,
) -> None:
    assert waits_after(error) == [2, 4, 8, 16, 32, 64, 128, 256]
    assert waits_after(error, Limits(retries_max=2)) == [2, 4]


def test_miclaw_072_a_hint_of_the_provider_is_followed() -> None:
    waits = waits_after(RateLimited("429", retry_after_s=20.0))
    assert all(20 <= wait <= 24 for wait in waits)
    assert len(waits) == 8


@pytest.mark.parametrize(
    "error", [Overloaded("500", counts_as_failure=True), Unreachable("no connection"), StreamBroken("cut")]
)
def test_miclaw_072_failures_are_retried_by_a_shorter_policy_that_both_settings_bound(error: Any) -> None:
    assert waits_after(error) == [0.5, 1, 2, 4, 8, 16]
    assert waits_after(error, Limits(retries_max=1)) == [0.5]
    assert waits_after(error, Limits(failure_retries_max=2, failure_retry_base_s=1.0)) == [1, 2]
    assert waits_after(error, Limits(retries_max=0)) == []


@pytest.mark.parametrize(
    ("url", "is_local"),
    [
        ("http://127.0.0.1:11434/api", True),
        ("http://[::1]:8080", True),
        ("http://localhost:1/v1", True),
        ("http://192.0.2.7:1/v1", False),
        ("https://api.example.com/v1", False),
    ],
)
def test_a_refused_connection_is_final_only_on_this_machine(url: str, is_local: bool) -> None:
    error = error_for_unreachable("m", url, ConnectionRefusedError(111, "refused"))
    assert error.is_not_running is is_local
    assert error.counts_as_failure is not is_local
    assert sum(waits_after(error)) * 1.2 < (5 if is_local else 600)
    assert error_for_unreachable("m", url, TimeoutError()).is_not_running is False


@pytest.mark.parametrize("prompts", [2])
async def test_miclaw_072_a_server_that_does_not_run_here_fails_within_five_seconds_and_its_address_is_named(
    tmp_path: Path, prompts: int
) -> None:
    """Each time: the circuit breaker does not open. The user sees what is being waited for."""
    port = choose_port()
    providers = {"mine": ProviderSettings(base_url=f"http://127.0.0.1:{port}/v1", api_key="k")}
    async with Agent("mine/m", home=tmp_path, config=Config(providers=providers)) as agent:
        for _ in range(prompts):
            waited = []
            async for event in agent.stream("s", "hello"):
                if isinstance(event, Waiting):
                    waited.append(event)
            reply = (await agent.sessions.records("s"))[-1].event.outcome  # type: ignore[union-attr]
            assert isinstance(reply, Failed)
            assert f"127.0.0.1:{port}" in reply.sentence
            assert "not running" in reply.sentence
            assert 1 <= len(waited) <= 3
            assert sum(event.seconds for event in waited) < 5
            assert all(f"127.0.0.1:{port}" in event.reason for event in waited)
