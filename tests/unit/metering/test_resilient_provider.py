"""Failover: the model that answered is known and paid at its own price; waiting for one that failed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from mainstay import Agent
from mainstay.core.errors import CircuitOpen, Overloaded, ProviderError, RateLimited, StreamBroken, Unreachable
from mainstay.core.events import MessageAdded
from mainstay.core.limits import Limits
from mainstay.core.messages import FinishReason, Usage
from mainstay.core.ports import Context, ModelInfo, Options, Piece, StreamFinished, TextPiece
from mainstay.metering.circuit_breaker import PROBE_S
from mainstay.metering.rate_limiter import RateLimiter
from mainstay.metering.resilient_provider import ResilientProvider
from mainstay.testing import CountingIds, Raise, Say, ScriptedProvider, VirtualClock, virtual_run

DEAR = ModelInfo(name="dear", price_prompt=100.0, price_completion=100.0)
CHEAP = ModelInfo(name="cheap", price_prompt=1.0, price_completion=2.0)


def test_a_failover_model_is_named_and_its_price_is_paid() -> None:
    async def main() -> None:
        first = ScriptedProvider([Raise(Unreachable("gone")), "I am back"], info=DEAR)
        second = ScriptedProvider([Say("standing in", usage=Usage(1_000_000, 1_000_000))], info=CHEAP)
        both = ResilientProvider([first, second], clock=VirtualClock(), ids=CountingIds(), limits=Limits())
        async with Agent(both, home=":memory:") as agent:
            reply = await agent.run("s", "hi")
            assert (reply.text, reply.cost) == ("standing in", 3.0)
            records = await agent.sessions.records("s")
            said = [record.event for record in records if isinstance(record.event, MessageAdded)]
            assert said[0].model == "cheap"
            assert (await agent.run("s", "hi")).text == "I am back"
            assert (await agent.sessions.replay("s")).is_identical

    virtual_run(main())


class FakeProvider:
    """A provider that does what it is told to; its calls are counted from 1."""

    def __init__(self, does: Callable[[int], float | Exception], info: ModelInfo = DEAR) -> None:
        self.asked: list[Options] = []
        self._does = does
        self._info = info

    def model(self) -> ModelInfo:
        return self._info

    async def close(self) -> None:
        pass

    async def stream(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        self.asked.append(options)
        done = self._does(len(self.asked))
        if isinstance(done, Exception):
            raise done
        await asyncio.sleep(done)
        yield TextPiece("yes")
        yield StreamFinished(FinishReason.END, Usage(1, 1))


EMPTY = Context("", ())


def test_a_model_that_returns_only_an_end_is_named_too() -> None:
    """Hidden reasoning is paid, too."""

    class Mute(FakeProvider):
        async def stream(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
            yield StreamFinished(FinishReason.END, Usage(1000, 1000))

    async def main() -> None:
        first, second = FakeProvider(lambda _: Unreachable("gone")), Mute(lambda _: 0.0, CHEAP)
        both = ResilientProvider([first, second], clock=VirtualClock(), ids=CountingIds(), limits=Limits())
        assert [piece async for piece in both.stream(EMPTY, Options())] == [
            StreamFinished(FinishReason.END, Usage(1000, 1000), model=CHEAP)
        ]

    virtual_run(main())


def test_a_model_with_a_smaller_output_limit_is_asked_for_no_more() -> None:
    async def main() -> None:
        first = FakeProvider(lambda _: Unreachable("gone"), ModelInfo(name="first", output=64_000))
        second = FakeProvider(lambda _: 0.0, ModelInfo(name="second", output=4096))
        both = ResilientProvider([first, second], clock=VirtualClock(), ids=CountingIds(), limits=Limits())
        for wanted, given in ((16_384, 4096), (1000, 1000), (None, None)):
            assert [piece async for piece in both.stream(EMPTY, Options(output_tokens_max=wanted))]
            assert first.asked[-1].output_tokens_max == wanted
            assert second.asked[-1].output_tokens_max == given

    virtual_run(main())


@pytest.mark.parametrize("governed", [True, False], ids=["governed", "alone"])
@pytest.mark.parametrize("kind", [RateLimited, Overloaded])
@pytest.mark.parametrize(
    "wait_s", [float("nan"), float("inf"), -5.0, 10**400, "30", [1]], ids=lambda wait: str(wait)[:9]
)
def test_f56_a_pause_of_any_type_and_size_that_a_providers_code_names_is_no_bug_of_the_next_calls(
    governed: bool, kind: Callable[..., ProviderError], wait_s: Any
) -> None:
    async def main() -> None:
        clock = VirtualClock()
        odd = FakeProvider(lambda number: kind("slow down", retry_after_s=wait_s) if number == 1 else 0.0)
        limiters = [RateLimiter("odd", clock)] if governed else ()
        provider = ResilientProvider([odd], clock=clock, ids=CountingIds(), limits=Limits(), limiters=limiters)
        for _ in range(2):
            assert [piece async for piece in provider.stream(EMPTY, Options())]
        assert len(odd.asked) == 3
        assert clock.monotonic() < 60

    virtual_run(main())


@pytest.mark.parametrize("governed", [True, False], ids=["governed", "alone"])
@pytest.mark.parametrize(("takes_s", "within_s"), [(2.0, 3.0), (3600.0, PROBE_S + 1)], ids=["answers", "hangs"])
def test_while_one_call_probes_the_others_wait_for_it_but_not_for_ever(
    governed: bool, takes_s: float, within_s: float
) -> None:
    async def main() -> None:
        clock = VirtualClock()
        odd = FakeProvider(lambda n: StreamBroken("torn", retryable=False) if n <= 5 else takes_s if n == 6 else 0.0)
        limiters = [RateLimiter("odd", clock)] if governed else ()
        provider = ResilientProvider([odd], clock=clock, ids=CountingIds(), limits=Limits(), limiters=limiters)
        notices: list[str] = []
        options = Options(turn=1, step=1, on_wait=lambda sentence, seconds: notices.append(sentence))

        async def ask() -> float:
            assert [piece async for piece in provider.stream(EMPTY, options)]
            return clock.monotonic()

        for _ in range(5):
            with pytest.raises(StreamBroken):
                await ask()
        with pytest.raises(CircuitOpen, match="not called for 30 s"):
            await ask()
        await asyncio.sleep(30)
        probe = asyncio.ensure_future(ask())
        await asyncio.sleep(0.1)
        began = clock.monotonic()
        assert max(await asyncio.gather(*(ask() for _ in range(5)))) - began <= within_s
        assert any("another call is testing" in sentence for sentence in notices)
        probe.cancel()
        await asyncio.gather(probe, return_exceptions=True)

    virtual_run(main())


def test_when_a_probe_fails_the_waiting_calls_are_told_the_remaining_open_time() -> None:
    async def main() -> None:
        clock = VirtualClock()

        class Failing(FakeProvider):
            async def stream(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
                self.asked.append(options)
                await asyncio.sleep(1)
                raise StreamBroken("torn", retryable=False)
                yield

        odd = Failing(lambda _: 0.0)
        provider = ResilientProvider([odd], clock=clock, ids=CountingIds(), limits=Limits())

        async def ask() -> str:
            with pytest.raises((StreamBroken, CircuitOpen)) as failed:
                assert [piece async for piece in provider.stream(EMPTY, Options())]
            return str(failed.value)

        for _ in range(5):
            await ask()
        await asyncio.sleep(30)
        probe = asyncio.ensure_future(ask())
        await asyncio.sleep(0.1)
        assert "not called for 30 s" in await ask() or "not called for 29 s" in await ask()
        assert await probe == "torn"
        assert len(odd.asked) == 6

    virtual_run(main())
