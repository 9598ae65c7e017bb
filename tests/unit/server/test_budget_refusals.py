"""A turn that a budget refused before any model call, over every interface."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import msgspec
import pytest
from support import grpc_world
from support.http_world import world
from support.openai_rig import HOLDS_S, said, served

from mainstay import Config
from mainstay.config.schema_judges_budgets_telemetry import BudgetEntry, BudgetSettings, PeriodBudgets
from mainstay.core.messages import FinishReason, Usage
from mainstay.core.outcome import Answered, Exhausted
from mainstay.core.ports import StreamFinished, TextPiece
from mainstay.server.openai import http_response
from mainstay.server.quota_problem import find_quota_problem
from mainstay.testing import Pieces, Say, Stall

DAY = BudgetSettings(workspace=PeriodBudgets(day=BudgetEntry(tokens=30_000)))
SESSION = BudgetSettings(session=BudgetEntry(tokens=10))
SMALL = BudgetSettings(workspace=PeriodBudgets(day=BudgetEntry(tokens=10)))
MUCH = Say("much", usage=Usage(20_000, 9_900))  # of a day's budget: what is left is too little for anything


def sentence(told: str) -> bool:
    return told.startswith("the workspace's budget of 30,000 tokens a day ")


async def test_sigil014_the_native_api_says_429_with_the_budget_and_when_it_frees() -> None:
    async with world([MUCH, "never"], config=Config(budgets=DAY)) as here:
        assert (await here.say("s", "hello")).status == 200
        answer = await here.say("s", "hello")
        assert answer.status == 429
        assert answer.error == "insufficient_quota"
        assert sentence(answer.json["error"]["message"])
        assert 0 < int(answer.headers["retry-after"]) <= 24 * 3600
        assert answer.json["error"]["details"]["turn"] == 2
        async with here.hear("/api/sessions/s/prompt", {"text": "again"}) as events:
            (ended,) = [one async for one in events if one.event == "TurnEnded"]
    assert ended.data["outcome"]["budget"] == "workspace.day.tokens"
    assert ended.data["outcome"]["frees_at"] > 0


@pytest.mark.parametrize("budgets", [SESSION, SMALL], ids=["session", "never fits"])
async def test_a_budget_without_a_period_names_no_retry_time(budgets: BudgetSettings) -> None:
    async with world(["never"], config=Config(budgets=budgets)) as here:
        answer = await here.say("s", "hello")
    assert answer.status == 429
    assert "retry-after" not in answer.headers


PATHS = pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/chat/completions", {"model": "mainstay", "messages": [said("hi")]}),
        ("/responses", {"model": "mainstay", "input": "hi"}),
    ],
    ids=["chat", "responses"],
)


@PATHS
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_the_usual_api_says_insufficient_quota_and_not_to_try_at_once(
    path: str, body: dict[str, Any], stream: bool
) -> None:
    async with served([MUCH, "never"], config={"budgets": DAY}) as here:
        assert (await here.post(path, body))[0] == 200
        status, told, headers = await here.post(path, {**body, "stream": stream}, headers={"X-Session": "mine"})
    assert status == 429
    assert told["error"]["code"] == "insufficient_quota"
    assert sentence(told["error"]["message"])
    assert headers["x-should-retry"] == "false"
    assert int(headers["retry-after"]) > 0
    details = told["error"]["details"]
    assert (details["session"], details["turn"]) == ("mine", 1)
    assert details["trace"] == headers["x-trace-id"]
    assert len(details["trace"]) == 32


@PATHS
async def test_a_stream_that_has_begun_ends_with_the_refusal(
    path: str, body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn that waits longer than the keepalive is refused within the stream."""
    monkeypatch.setattr(http_response, "HOLD_BACK_S", 0.0)
    async with served([MUCH, "never"], config={"budgets": DAY}) as here:
        assert (await here.post(path, body))[0] == 200
        lines = await here.lines(path, {**body, "stream": True})
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: {")]
    last = msgspec.json.decode(data[-1])
    error = last["error"] if "error" in last else last["response"]["error"]
    assert error["code"] in ("insufficient_quota", "rate_limit_exceeded")  # of responses that fail there are few codes
    assert sentence(error["message"])
    assert error["details"]["turn"] == 1


async def test_a_stream_begins_before_a_slow_model_has_said_anything() -> None:
    stall = Stall()
    async with served([Pieces([stall, TextPiece("late"), StreamFinished(FinishReason.END, Usage(1, 1))])]) as here:
        body = {"model": "mainstay", "messages": [said("hi")], "stream": True}
        assert here.http is not None
        async with asyncio.timeout(HOLDS_S), here.http.post(f"{here.url}/chat/completions", json=body) as got:
            assert got.status == 200
            first = await got.content.readline()
            assert b'"role":"assistant"' in first
            stall.release()
            assert b"late" in await got.content.read()


async def test_grpc_says_resource_exhausted() -> None:
    async with grpc_world.served({"main": [MUCH, "never"]}, budgets=DAY) as here, here.client() as client:
        await client.weave("s", "hello")
        error = await grpc_world.trouble(client.weave("s", "hello"))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert sentence(error.details() or "")
    assert grpc_world.trailing(error)["mainstay-error-type"] == "insufficient_quota"
    _, retry = grpc_world.details(error)
    assert retry.retry_delay.seconds > 0


async def test_a_turn_that_was_answered_in_part_is_no_refusal() -> None:
    budgets = BudgetSettings(session=BudgetEntry(tokens=30_000))
    say = Say("much", usage=Usage(20_000, 9_000))
    async with world([say, "never"], config=Config(budgets=budgets)) as here:
        assert (await here.say("s", "hello")).status == 200
        assert (await here.say("s", "more")).status == 429


def test_outcomes_that_count_as_refused() -> None:
    spent = Exhausted("the turn's budget is used up", "turn.money")
    assert find_quota_problem(spent, Usage()) is not None
    assert find_quota_problem(spent, Usage(1)) is None
    assert find_quota_problem(Exhausted("25 steps"), Usage()) is None
    assert find_quota_problem(Answered(), Usage()) is None
