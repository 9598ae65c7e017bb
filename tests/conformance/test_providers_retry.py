"""F16: storms of refusals, played by a real server; when each request arrives is told by a clock that tests move."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest
from support.streams.formats import AnthropicFormat, Format, OpenAIFormat
from support.streams.server import RESET, STALL, Action, Loopback, chunked, closing, status
from test_providers import HELLO, joined, text_stream

from mainstay.core import errors
from mainstay.core.limits import Limits
from mainstay.core.ports import Options, Piece, StreamFinished
from mainstay.metering.resilient_provider import ResilientProvider


class Clock:
    """Sleeping takes no time and moves the clock."""

    def __init__(self) -> None:
        self.at = 0.0

    def now_ms(self) -> int:
        return int(self.at * 1000)

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds
        await asyncio.sleep(0)


class Chance:
    def __init__(self, value: float = 0.5) -> None:
        self.value = value

    def new_id(self) -> str:
        return "id"

    def random(self) -> float:
        return self.value


@pytest.fixture(params=[OpenAIFormat(), AnthropicFormat()], ids=lambda one: one.name)
def api(request: pytest.FixtureRequest) -> Format:
    made: Format = request.param
    return made


class Asking:
    def __init__(self, resilient: ResilientProvider, servers: list[Loopback], clock: Clock) -> None:
        self.resilient = resilient
        self.servers = servers
        self.clock = clock
        self.notices: list[tuple[str, float]] = []

    async def __call__(self) -> tuple[list[Piece], Exception | None]:
        pieces: list[Piece] = []
        options = Options(on_wait=lambda sentence, seconds: self.notices.append((sentence, seconds)))
        try:
            async with aclosing(self.resilient.stream(HELLO, options)) as stream:
                async for piece in stream:
                    pieces.append(piece)
        except errors.ProviderError as error:
            return pieces, error
        return pieces, None

    def times(self, server: int = 0) -> list[float]:
        return [round(asked.at, 3) for asked in self.servers[server].asked]


@asynccontextmanager
async def asking(
    api: Format, *scripts: list[list[Action]], limits: Limits | None = None, chance: float = 0.5
) -> AsyncIterator[Asking]:
    """One server for each list of scripts, in the order in which they are to be asked."""
    clock, limits = Clock(), limits or Limits()
    servers = [Loopback(*one, now=clock.monotonic) for one in scripts]
    for server in servers:
        await server.__aenter__()
    resilient = ResilientProvider(
        [api.make(server.url, limits) for server in servers], clock=clock, ids=Chance(chance), limits=limits
    )
    try:
        yield Asking(resilient, servers, clock)
    finally:
        await resilient.close()
        for server in servers:
            await server.__aexit__(None, None, None)


def fine(api: Format) -> list[Action]:
    return chunked(*text_stream(api))


async def test_f16_a_series_of_429_responses_is_retried_after_2_4_8_seconds(api: Format) -> None:
    async with asking(api, [*[status(429)] * 4, fine(api)]) as ask:
        pieces, error = await ask()
    assert error is None
    assert isinstance(pieces[-1], StreamFinished)
    assert ask.times() == [0, 2, 6, 14, 30]
    assert [seconds for _, seconds in ask.notices] == [2, 4, 8, 16]
    assert all("asks to slow down" in sentence for sentence, _ in ask.notices)


async def test_f16_an_endless_series_of_429_responses_is_given_up_within_both_limits(api: Format) -> None:
    async with asking(api, [status(529)]) as ask:
        _, error = await ask()
    assert isinstance(error, errors.Overloaded)
    assert len(ask.times()) == 9
    assert ask.clock.at == 510
    async with asking(api, [status(529)], limits=Limits(retry_wait_max_s=20)) as ask:
        await ask()
    assert ask.times() == [0, 2, 6, 14, 20]


@pytest.mark.parametrize(("chance", "first"), [(0.0, 1.6), (1.0, 2.4)])
async def test_f16_waiting_is_spread_by_a_fifth(api: Format, chance: float, first: float) -> None:
    async with asking(api, [status(429), fine(api)], chance=chance) as ask:
        await ask()
    assert ask.times() == [0, first]


@pytest.mark.parametrize(("header", "wait_s"), [("Retry-After: 40", 40.2), ("retry-after-ms: 300", 0.33)])
async def test_f16_the_retry_time_of_the_provider_comes_first_and_is_not_undercut(
    api: Format, header: str, wait_s: float
) -> None:
    async with asking(api, [status(429, headers=[header]), fine(api)]) as ask:
        await ask()
    assert ask.times() == [0, wait_s]


@pytest.mark.parametrize("header", ["Retry-After: 86400", "Retry-After: 99999999999999"])
@pytest.mark.parametrize(("code", "backoff_s"), [(429, 2.0), (503, 0.5)])
async def test_f16_a_wait_beyond_the_bound_is_not_begun_once_a_second_error_confirms_it(
    api: Format, header: str, code: int, backoff_s: float
) -> None:
    async with asking(api, [status(code, headers=[header])]) as ask:
        _, error = await ask()
    assert isinstance(error, errors.RateLimited | errors.Overloaded)
    assert "it accepts no calls for" in str(error)
    assert ask.times() == [0, backoff_s]
    assert ask.clock.at == backoff_s


async def test_f16_a_failing_provider_is_asked_again_by_a_shorter_policy_than_a_busy_one(api: Format) -> None:
    """5xx: six times from half a second; the two settings bound it, and the user is told each time."""
    async with asking(api, [status(500)]) as ask:
        _, error = await ask()
    assert isinstance(error, errors.Overloaded)
    assert ask.times() == [0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5]
    assert [seconds for _, seconds in ask.notices] == [0.5, 1, 2, 4, 8, 16]
    limits = Limits(failure_retries_max=2, failure_retry_base_s=1.0)
    async with asking(api, [status(503)], limits=limits) as ask:
        await ask()
    assert ask.times() == [0, 1, 3]


async def test_f16_a_401_is_not_asked_again(api: Format) -> None:
    async with asking(api, [status(401)]) as ask:
        _, error = await ask()
    assert isinstance(error, errors.Unauthorised)
    assert ask.times() == [0]


async def test_f16_a_reset_before_the_first_byte_is_asked_again(api: Format) -> None:
    async with asking(api, [[RESET], fine(api)]) as ask:
        _, error = await ask()
    assert error is None
    assert ask.times() == [0, 0.5]


async def test_f12_after_the_first_text_nothing_is_retried(api: Format) -> None:
    async with asking(api, [closing(*api.begin(), *api.text("half"))], [fine(api)]) as ask:
        pieces, error = await ask()
    assert isinstance(error, errors.StreamBroken)
    assert joined(pieces) == [("text", "half")]
    assert ask.times() == [0]
    assert ask.times(1) == []


async def test_f16_the_next_provider_is_asked_when_the_first_is_exhausted(api: Format) -> None:
    async with asking(api, [status(429)], [fine(api)], limits=Limits(retries_max=2)) as ask:
        pieces, error = await ask()
    assert error is None
    assert isinstance(pieces[-1], StreamFinished)
    assert (ask.times(), ask.times(1)) == ([0, 2, 6], [6])


@pytest.mark.parametrize("script", [status(401), [RESET], status(200)], ids=["401", "unreachable", "empty"])
async def test_f16_the_next_provider_is_asked_at_once_when_waiting_is_useless(
    api: Format, script: list[Action]
) -> None:
    async with asking(api, [script], [fine(api)]) as ask:
        _, error = await ask()
    assert error is None
    assert (ask.times(), ask.times(1)) == ([0], [0])


async def test_a_request_that_will_never_be_accepted_is_not_sent_to_the_next_provider(api: Format) -> None:
    async with asking(api, [status(400, b'{"error":{"message":"prompt is too long"}}')], [fine(api)]) as ask:
        _, error = await ask()
    assert isinstance(error, errors.ContextTooLong)
    assert ask.times(1) == []


async def test_f16_five_failures_open_the_circuit_and_one_probe_closes_it(api: Format) -> None:
    limits = Limits(retries_max=0)
    async with asking(api, [*[status(500)] * 5, fine(api)], limits=limits) as ask:
        for _ in range(5):
            _, error = await ask()
            assert isinstance(error, errors.Overloaded)
        _, error = await ask()
        assert isinstance(error, errors.CircuitOpen)
        assert len(ask.times()) == 5, "nobody is asked while it is open"
        ask.clock.at += 31
        _, error = await ask()
        assert error is None
        _, error = await ask()
        assert error is None


async def test_f16_one_call_that_fails_again_and_again_does_not_take_the_model_from_others(api: Format) -> None:
    async with asking(api, [*[status(500)] * 7, fine(api)]) as ask:
        _, error = await ask()
        assert isinstance(error, errors.Overloaded)
        assert len(ask.times()) == 7
        _, error = await ask()
        assert error is None


async def test_f16_429_and_529_never_open_the_circuit(api: Format) -> None:
    async with asking(api, [*[status(429)] * 6, *[status(529)] * 6, fine(api)], limits=Limits(retries_max=0)) as ask:
        for _ in range(12):
            _, error = await ask()
            assert not isinstance(error, errors.CircuitOpen)
        _, error = await ask()
        assert error is None


async def test_f16_an_open_circuit_turns_to_the_next_provider(api: Format) -> None:
    async with asking(api, [status(500)], [fine(api)], limits=Limits(retries_max=0)) as ask:
        for _ in range(7):
            _, error = await ask()
            assert error is None
    assert len(ask.times()) == 5
    assert len(ask.times(1)) == 7


async def test_f16_one_call_continues_after_the_circuit_that_it_opened(api: Format) -> None:
    async with asking(api, [*[status(503)] * 6, fine(api)]) as ask:
        _, error = await ask()
    assert error is None
    times = ask.times()
    assert times == [0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5]


async def test_leaving_early_closes_the_stream_of_the_inner_provider_at_once(api: Format) -> None:
    async with asking(api, [[*closing(*api.begin(), *api.text("x")), STALL]]) as ask:
        stream = ask.resilient.stream(HELLO, Options())
        await anext(stream)
        await stream.aclose()
        await asyncio.wait_for(ask.servers[0].left.wait(), 120)


async def test_an_aborted_probe_does_not_keep_the_circuit_open(api: Format) -> None:
    limits = Limits(retries_max=0)
    async with asking(api, [*[status(500)] * 5, [STALL], fine(api)], limits=limits) as ask:
        for _ in range(5):
            await ask()
        ask.clock.at += 31
        probe = asyncio.create_task(ask())
        await asyncio.wait_for(_until(lambda: len(ask.times()) == 6), 120)
        probe.cancel()
        await asyncio.gather(probe, return_exceptions=True)
        _, error = await ask()
    assert error is None


async def _until(true: object) -> None:
    assert callable(true)
    while not true():
        await asyncio.sleep(0.001)


async def test_the_model_is_the_first_one(api: Format) -> None:
    async with asking(api, [fine(api)], [fine(api)]) as ask:
        assert ask.resilient.model().name == "m"
