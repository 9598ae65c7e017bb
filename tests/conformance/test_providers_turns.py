"""Retries, circuit breaker and rate limiter through real turns: an agent, and a model server that fails on loopback."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from support.streams.formats import KEY, Format, OpenAIFormat
from support.streams.more import FORMATS
from support.streams.server import CLOSE, OK, RESET, Action, Loopback, chunked, status

from mainstay import Agent, Config, Limits
from mainstay.agent.agent_options import GatewayServices
from mainstay.agent.system_clock import SystemClock
from mainstay.core.events import StepRestarted, Waiting
from mainstay.core.outcome import Answered, Failed
from mainstay.metering.rate_limiter import RateLimiterRegistry

WHOLE = bool(os.environ.get("MAINSTAY_TEST_ALL"))
SHARE = 1.0 if WHOLE else 0.03  # of the bytes at which a stream is cut
SOON = Limits(retry_base_s=0.001, breaker_open_s=3600.0)
OPENAI = OpenAIFormat()


def answer_stream(api: Format, text: str = "It is 1988.") -> list[bytes]:
    return [*api.begin(), *api.text(text), *api.end("end"), *api.tail()]


@asynccontextmanager
async def serving(api: Format, limits: Limits = SOON) -> AsyncIterator[tuple[Agent, Loopback]]:
    """An agent whose model server plays the scripts that a test sets, and then answers."""
    answers = chunked(*answer_stream(api))
    async with Loopback(answers) as server:
        config = Config(limits=limits)
        model = f"{api.name}/m"
        async with Agent(model, base_url=server.url, api_key=KEY, home=":memory:", config=config) as agent:
            if api.name == "ollama":
                server.scripts[:] = [status(200, b"{}"), answers]  # it is asked about the model first
                assert (await agent.run("first", "hello")).text == "It is 1988."
            yield agent, server


def play(server: Loopback, *scripts: list[Action]) -> None:
    """Play these before the last script, which is played for ever."""
    server.scripts[:-1] = scripts


async def count_restarts(agent: Agent, session: str) -> int:
    return sum(isinstance(record.event, StepRestarted) for record in await agent.sessions.records(session))


# --- streams that break -----------------------------------------------------------------------------


def cut_points(size: int, name: str) -> list[int]:
    """Every byte in `make test-all`; else the first and the last ones, and some from a printed seed."""
    if WHOLE:
        return list(range(size))
    seed = random.SystemRandom().randrange(1 << 16)
    print(f"{name}: seed {seed}")
    drawn = random.Random(seed).sample(range(size), max(int(SHARE * size), 8))
    return sorted({0, 1, size - 2, size - 1, *drawn})


@pytest.mark.parametrize("how", [CLOSE, RESET])
@pytest.mark.parametrize("framing", ["chunked", "until closed"])
@pytest.mark.parametrize("api", FORMATS, ids=lambda one: one.name)
async def test_f59_a_stream_cut_before_its_first_output_is_asked_again(api: Format, framing: str, how: str) -> None:
    """F59: at every byte of the HTTP head and of the events before the first output, with FIN and with RST."""
    silent, spoken = api.begin(), api.begin() + api.text("It is 1988.")[:1]
    if framing == "chunked":
        head = OK + b"Transfer-Encoding: chunked\r\n\r\n"
        body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in spoken)
        visible = len(head) + sum(len(b"%x\r\n%b\r\n" % (len(part), part)) for part in silent)
    else:
        head, body = OK + b"Connection: close\r\n\r\n", b"".join(spoken)
        visible = len(head) + len(b"".join(silent))
    async with serving(api) as (agent, server):
        for size in cut_points(len(head + body), f"{api.name} {framing} {how}"):
            play(server, [(head + body)[:size], how])
            asked, session = len(server.asked), f"s{size}"
            reply = await agent.run(session, "what is 1900 + 88?")
            assert isinstance(reply.outcome, Answered), (size, reply.outcome)
            assert reply.text == "It is 1988.", size
            assert len(server.asked) - asked == 2, size
            if size < visible:
                assert await count_restarts(agent, session) == 0, "nothing was shown that had to be taken back"


@pytest.mark.parametrize("api", FORMATS, ids=lambda one: one.name)
async def test_f59_an_error_event_before_the_first_output_is_retried(api: Format) -> None:
    """Inside of a response with status 200: it is overloaded, or it fails."""
    async with serving(api) as (agent, server):
        for number, error in enumerate((api.overloaded, {"message": "oops", "type": "api_error"})):
            play(server, chunked(*api.begin(), api.error(error)))
            asked = len(server.asked)
            reply = await agent.run(f"s{number}", "what is 1900 + 88?")
            assert reply.text == "It is 1988.", reply.outcome
            assert len(server.asked) - asked == 2
            assert await count_restarts(agent, f"s{number}") == 0


async def test_f12_a_stream_cut_after_output_is_asked_again_once_and_visibly() -> None:
    half = [OK + b"Connection: close\r\n\r\n", *OPENAI.begin(), *OPENAI.text("It i"), CLOSE]
    async with serving(OPENAI) as (agent, server):
        play(server, half)
        assert (await agent.run("once", "what is 1900 + 88?")).text == "It is 1988."
        assert await count_restarts(agent, "once") == 1
        play(server, half, half)
        assert isinstance((await agent.run("twice", "what is 1900 + 88?")).outcome, Failed)
        assert len(server.asked) == 4


async def test_a_page_instead_of_a_stream_is_reported_at_once() -> None:
    page = status(200, b"<html>Log in</html>", mime="text/html")
    async with serving(OPENAI) as (agent, server):
        play(server, page)
        outcome = (await agent.run("s", "hello")).outcome
        assert isinstance(outcome, Failed)
        assert "check base_url" in outcome.sentence
        assert len(server.asked) == 1


# --- the circuit breaker ------------------------------------------------------------------------------


async def test_f58_failures_with_good_turns_between_them_do_not_open_the_circuit() -> None:
    """F58: each of more failures than the breaker allows in a row is followed by good turns."""
    good_turns = 50 if WHOLE else 10
    async with serving(OPENAI) as (agent, server):
        for failure in range(7):
            play(server, status(500) if failure % 2 else [OK + b"Connection: close\r\n\r\n", CLOSE])
            for turn in range(good_turns):
                reply = await agent.run(f"s{turn % 5}", "what is 1900 + 88?")
                assert isinstance(reply.outcome, Answered), (failure, turn, reply.outcome)
        assert len(server.asked) == 7 * (good_turns + 1)


async def test_f58_five_failed_turns_in_a_row_open_the_circuit() -> None:
    async with serving(OPENAI, Limits(retries_max=0)) as (agent, server):
        play(server, *[status(500)] * 5)
        for number in range(6):
            outcome = (await agent.run(f"s{number}", "hello")).outcome
            assert isinstance(outcome, Failed)
        assert "failed too often" in outcome.sentence
        assert len(server.asked) == 5, "the sixth turn did not call it"


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param([OK + b"Connection: close\r\n\r\n", *OPENAI.begin(), *OPENAI.text("It i")], id="after output"),
        pytest.param([OK + b"Connection: close\r\n\r\n"], id="after the head"),
        pytest.param([], id="before the head"),
    ],
)
async def test_f58_streams_that_break_together_are_one_failure(sent: list[bytes]) -> None:
    """As if the model server restarts: every call that is under way breaks, and it works again at once."""
    sessions = 12
    release = asyncio.Event()

    class Restarting(Loopback):
        async def _play(self, script, reader, writer):  # type: ignore[no-untyped-def]
            if len(self.asked) > sessions:
                return await super()._play(script, reader, writer)
            writer.write(b"".join(sent))
            if len(self.asked) == sessions:
                release.set()
            await release.wait()
            return False

    async with Restarting(chunked(*answer_stream(OPENAI))) as server:
        config = Config(limits=SOON)
        async with Agent("openai/m", base_url=server.url, api_key=KEY, home=":memory:", config=config) as agent:
            replies = await asyncio.gather(*(agent.run(f"s{number}", "hello") for number in range(sessions)))
    assert [reply.text for reply in replies] == ["It is 1988."] * sessions
    assert len(server.asked) == 2 * sessions


# --- the rate limiter -----------------------------------------------------------------------------------

ABSURD = ["259200", "-5", "NaN", "1e30", "inf", "Fri, 31 Dec 2099 23:59:59 GMT", "soon", "", "9" * 4000]


@pytest.mark.parametrize("code", [429, 503])
@pytest.mark.parametrize("value", ABSURD, ids=lambda value: value[:12] or "empty")
async def test_f60_one_absurd_retry_after_does_not_stop_an_account(value: str, code: int) -> None:
    """Neither the call that was refused nor those of other sessions fail, and none waits for long."""
    async with serving(OPENAI) as (agent, server):
        play(server, status(code, headers=[f"Retry-After: {value}"]))
        async with asyncio.timeout(30):  # instead of days
            replies = await asyncio.gather(*(agent.run(f"s{number}", "hello") for number in range(4)))
    assert [reply.text for reply in replies] == ["It is 1988."] * 4
    assert len(server.asked) == 5


@pytest.mark.parametrize("turns_before", [0, 20])
async def test_a_long_retry_after_that_is_confirmed_fails_with_its_time(turns_before: int) -> None:
    """The account is out of quota for the day: a second refusal says so, and the turn does not wait for hours."""
    async with serving(OPENAI) as (agent, server):
        for _ in range(turns_before):
            assert (await agent.run("s", "hello")).text == "It is 1988."
        server.scripts[:] = [status(429, headers=["Retry-After: 7200"])]
        outcome = (await agent.run("s", "hello")).outcome
        assert isinstance(outcome, Failed)
        assert "accepts no calls for 120 min" in outcome.sentence
        assert len(server.asked) == turns_before + 2


@pytest.mark.parametrize("code", [429, 529])
async def test_a_turn_whose_calls_are_always_refused_ends_after_nine_requests_and_says_what_it_waits_for(
    code: int,
) -> None:
    async with serving(OPENAI, Limits(retry_base_s=0.002)) as (agent, server):
        server.scripts[:] = [status(code)]
        async with asyncio.timeout(60):  # instead of an hour
            events = [event async for event in agent.stream("s", "hello")]
        assert len(server.asked) == 9
        assert any("asks to slow down" in event.reason for event in events if isinstance(event, Waiting))
        outcome = (await agent.sessions.records("s"))[-1].event.outcome  # type: ignore[union-attr]
        assert isinstance(outcome, Failed)
        assert "this call was refused 9 times" in outcome.sentence
        server.scripts[:] = [chunked(*answer_stream(OPENAI))]
        assert (await agent.run("s", "again")).text == "It is 1988."


async def test_retries_max_bounds_refusals_and_failures_together() -> None:
    async with serving(OPENAI, Limits(retry_base_s=0.002, retries_max=1)) as (agent, server):
        server.scripts[:] = [status(429), status(500), status(429), status(500)]
        assert isinstance((await agent.run("s", "hello")).outcome, Failed)
        assert len(server.asked) == 2


async def test_f60_random_429s_slow_down_only_the_turns_that_they_hit() -> None:
    """F60: through real turns; the state of the rate limiter shows it, not the time that they took."""
    chance = random.Random(7)
    turns, refusal, answer = 240, status(429), chunked(*answer_stream(OPENAI))

    class Refusing(Loopback):
        async def _play(self, script, reader, writer):  # type: ignore[no-untyped-def]
            is_refused = len(self.asked) > 40 and chance.random() < 0.03
            return await super()._play(refusal if is_refused else answer, reader, writer)

    async with Refusing(answer) as server:
        limiters = RateLimiterRegistry(SystemClock())
        made = Agent("openai/m", base_url=server.url, api_key=KEY, home=":memory:")
        made.join_gateway(GatewayServices(rate_limiters=limiters))
        async with made as agent:

            async def run_session(name: str) -> None:
                for _ in range(turns // 8):
                    assert (await agent.run(name, "hello")).text == "It is 1988."

            await asyncio.gather(*(run_session(f"s{number}") for number in range(8)))
            (state,) = limiters.snapshot_states()
    assert len(server.asked) == turns + state.refused
    assert state.refused > 0
    assert state.rate is None, "the rate was not lowered"
