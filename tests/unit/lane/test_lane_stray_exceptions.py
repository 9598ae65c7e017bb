"""Exceptions that no code should raise: a cancellation without a reason, a panic of an extension. No caller hangs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from mainstay import Agent
from mainstay.core.errors import MainstayError
from mainstay.core.messages import FinishReason, Usage
from mainstay.core.model_info import ModelInfo
from mainstay.core.outcome import Failed
from mainstay.core.ports import Context, Options, Piece, StreamFinished, TextPiece
from mainstay.lane.lane import Lane
from mainstay.lane.turn_attempt import RUNTIME_FAILED
from mainstay.testing import ScriptedProvider

PATIENCE_S = 60.0


class Panic(BaseException):
    """As extensions in Rust raise it."""


STRAY = [asyncio.CancelledError, Panic, TimeoutError]


class StrayProvider:
    """Raises in its first answer, before or after the first word."""

    def __init__(self, error: type[BaseException], words: int) -> None:
        self._error = error
        self._words = words
        self._calls = 0

    def model(self) -> ModelInfo:
        return ModelInfo(name="m")

    async def close(self) -> None: ...

    async def stream(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        self._calls += 1
        if self._calls == 1:
            for _ in range(self._words):
                yield TextPiece("half ")
            raise self._error
        yield TextPiece("whole")
        yield StreamFinished(FinishReason.END, Usage(5, 5))


@pytest.mark.parametrize("words", [0, 1])
@pytest.mark.parametrize("error", STRAY)
async def test_f57_a_provider_that_raises_anything_fails_its_turn_and_the_session_goes_on(
    error: type[BaseException], words: int
) -> None:
    async with Agent(StrayProvider(error, words), home=":memory:") as agent, asyncio.timeout(PATIENCE_S):
        assert isinstance((await agent.run("s", "hello")).outcome, Failed)
        assert (await agent.run("s", "go on")).text == "whole"


@pytest.mark.parametrize("error", STRAY)
async def test_f57_a_lane_that_ends_by_any_exception_fails_its_callers_and_the_next_prompt_runs(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(lane: Lane, **arguments: object) -> bool:
        raise error

    async with Agent(ScriptedProvider(["one", "two"]), home=":memory:") as agent, asyncio.timeout(PATIENCE_S):
        with monkeypatch.context() as patch:
            patch.setattr(Lane, "_run_next_turn", fail)
            with pytest.raises(MainstayError, match=RUNTIME_FAILED):
                await agent.run("s", "hello")
        await agent.run("s", "go on")
        assert (await agent.sessions.replay("s")).is_identical
