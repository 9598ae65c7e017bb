"""Rate limits reported by a provider reach the caller, with an answer as with a refusal; played by a real server."""

from __future__ import annotations

from contextlib import aclosing

import pytest
from support.streams.formats import AnthropicFormat, Format, OpenAIFormat
from support.streams.more import ResponsesFormat
from support.streams.server import Action, Loopback, chunked, status
from test_providers import HELLO, text_stream

from mainstay.core.errors import RateLimited
from mainstay.core.limits import Limits
from mainstay.core.ports import Options
from mainstay.core.rate_limits import RateLimitStatus

OPENAI = ["x-ratelimit-remaining-requests: 41", "x-ratelimit-limit-requests: 60", "x-ratelimit-reset-requests: 19s"]
ANTHROPIC = ["anthropic-ratelimit-requests-remaining: 41", "anthropic-ratelimit-requests-limit: 60"]


@pytest.fixture(params=[OpenAIFormat(), ResponsesFormat(), AnthropicFormat()], ids=lambda one: one.name)
def api(request: pytest.FixtureRequest) -> Format:
    made: Format = request.param
    return made


def said_by(api: Format) -> list[str]:
    return ANTHROPIC if isinstance(api, AnthropicFormat) else OPENAI


def with_headers(script: list[Action], lines: list[str]) -> list[Action]:
    """The same answer, saying more in its head."""
    head, *rest = script
    assert isinstance(head, bytes)
    first, others = head.split(b"\r\n", 1)
    return [first + b"\r\n" + "".join(f"{line}\r\n" for line in lines).encode() + others, *rest]


async def test_an_answer_reports_the_remaining_limits_before_its_first_text(api: Format) -> None:
    told: list[RateLimitStatus] = []
    async with Loopback(with_headers(chunked(*text_stream(api)), said_by(api))) as server:
        provider = api.make(server.url, Limits())
        async with aclosing(provider.stream(HELLO, Options(on_rate_limits=told.append))) as stream:
            async for _ in stream:
                assert len(told) == 1
        await provider.close()
    (left,) = told[0].quotas
    assert (left.name, left.kind, left.remaining, left.limit) == ("requests", "requests", 41, 60)


async def test_a_response_without_limits_counts_as_accepted(api: Format) -> None:
    told: list[RateLimitStatus] = []
    async with Loopback(chunked(*text_stream(api))) as server:
        provider = api.make(server.url, Limits())
        async with aclosing(provider.stream(HELLO, Options(on_rate_limits=told.append))) as stream:
            async for _ in stream:
                pass
        await provider.close()
    assert told == [RateLimitStatus()]


async def test_a_refusal_reports_its_limits_and_does_not_count_as_accepted(api: Format) -> None:
    told: list[RateLimitStatus] = []
    async with Loopback(status(429, headers=[*said_by(api), "Retry-After: 3"])) as server:
        provider = api.make(server.url, Limits())
        with pytest.raises(RateLimited) as caught:
            await anext(provider.stream(HELLO, Options(on_rate_limits=told.append)))
        await provider.close()
    assert told == []
    assert caught.value.rate_limits is not None
    assert caught.value.rate_limits.retry_after_s == 3.0
    assert [left.remaining for left in caught.value.rate_limits.quotas] == [41]
