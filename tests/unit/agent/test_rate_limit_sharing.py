"""One rate limiter per account: agents of several workspaces against a real server with limits."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mainstay import Agent, Config, Limits, tool
from mainstay.agent.agent_options import GatewayServices
from mainstay.agent.model_providers import ModelProviders
from mainstay.agent.rate_limit_metrics import build_rate_limit_gauges
from mainstay.agent.system_clock import SystemClock
from mainstay.config.schema import ModelEntry, ToolSettings
from mainstay.core.events import Waiting
from mainstay.core.outcome import Answered
from mainstay.core.provider_manifest import ProviderSettings
from mainstay.metering.rate_limiter import RateLimiterRegistry
from mainstay.observe.metrics import render_metrics
from mainstay.providers import registry

MODEL = Path(__file__).resolve().parents[3] / "benchmarks" / "rate_limited_model_server.py"
WHOLE = bool(os.environ.get("MAINSTAY_TEST_ALL"))
KEY = "sk-a-key-that-nobody-may-see"


@contextmanager
def limited(*options: str) -> Iterator[str]:
    """The benchmark's provider, in a process of its own."""
    command = [sys.executable, str(MODEL), *options]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.terminate()
        process.wait(120)
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()


def stats(root: str) -> dict[str, float]:
    with urllib.request.urlopen(root + "/stats") as response:
        found: dict[str, float] = json.load(response)
        return found


@tool(effect="pure", untrusted=False, sink=False)
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def agent_at(root: str, limiters: RateLimiterRegistry, workspace: str) -> Agent:
    config = Config(workspace=workspace, tools=ToolSettings(memory="off"), limits=Limits(output_tokens_max=100))
    made = Agent("openai/fake-model", base_url=f"{root}/v1", api_key=KEY, tools=[add], home=":memory:", config=config)
    made.join_gateway(GatewayServices(rate_limiters=limiters))
    return made


@pytest.mark.parametrize("says", ["truth", "nothing", "always-empty"] if WHOLE else ["truth"])
async def test_sixty_four_agents_in_two_workspaces_share_what_one_account_allows(says: str) -> None:
    limiters = RateLimiterRegistry(SystemClock())
    waits: list[str] = []
    with limited("--says", says, "--requests", "40", "--bucket-s", "1", "--latency-ms", "40") as root:
        async with agent_at(root, limiters, "one") as one, agent_at(root, limiters, "two") as two:

            async def watch(agent: Agent) -> None:
                async for event in agent.watch():
                    if isinstance(event, Waiting):
                        waits.append(event.reason)

            watching = [asyncio.ensure_future(watch(agent)) for agent in (one, two)]
            await asyncio.sleep(0)
            turns = [(one, two)[n % 2].run(f"s{n}", f"tool: please add 2 and 3 for item {n}") for n in range(64)]
            replies = await asyncio.wait_for(asyncio.gather(*turns), 120)
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
        counted = stats(root)
    assert [type(reply.outcome) for reply in replies] == [Answered] * 64
    assert counted["taken"] == 128
    (state,) = limiters.snapshot_states()
    assert state.admitted == 128 + state.refused
    assert state.refused == counted["refused"]
    assert (state.waiting, state.unheard) == (0, 0)
    assert any("openai" in reason for reason in waits), "waiting is shown, and not an error"
    if says == "truth":
        assert set(state.remaining) == {"requests", "tokens"}


def test_an_account_is_an_address_and_a_key_and_tells_neither() -> None:
    same = registry.account_fingerprint("openai/a", ProviderSettings(base_url="http://here/v1"), KEY)
    assert same == registry.account_fingerprint("openai/b", ProviderSettings(base_url="http://here/v1"), KEY)
    assert same != registry.account_fingerprint("openai/a", ProviderSettings(base_url="http://there/v1"), KEY)
    assert same != registry.account_fingerprint("openai/a", ProviderSettings(base_url="http://here/v1"), "sk-other")
    assert same is not None
    assert KEY not in same
    assert registry.account_fingerprint(
        "openai/a", None, None, {"OPENAI_API_KEY": KEY}
    ) == registry.account_fingerprint("openai/a", ProviderSettings(base_url="https://api.openai.com/v1"), KEY)
    assert registry.account_fingerprint("local/small") is None


def test_a_local_model_has_no_rate_limiter() -> None:
    config = Config(models=[ModelEntry(model="openai/a", base_url="http://here/v1", api_key=KEY)])
    limiters = RateLimiterRegistry(SystemClock())
    ModelProviders("openai/a", None, None, config, limiters)
    ModelProviders("openai/a", None, None, config, limiters)
    assert [(state.provider_name, state.model) for state in limiters.snapshot_states()] == [("openai", "a")]


async def test_metrics_tell_how_accounts_stand_and_no_keys() -> None:
    limiters = RateLimiterRegistry(SystemClock())
    assert list(build_rate_limit_gauges(limiters)) == []
    for key in (KEY, "sk-other"):
        account = registry.account_fingerprint("openai/a", ProviderSettings(base_url="http://here/v1"), key)
        assert account is not None
        limiters.get_limiter(account, "openai", "a")
    text = render_metrics(list(build_rate_limit_gauges(limiters)))
    assert 'mainstay_model_calls_waiting{provider="openai",model="a",account="1"} 0' in text
    assert 'account="2"' in text
    assert "# TYPE mainstay_model_calls_refused_total counter" in text
    assert KEY not in text
