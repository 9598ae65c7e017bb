"""How long judging takes, on a clock that jumps: as long as the slowest judge, and no longer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from statistics import median

import pytest
from support.kernel_world import World, virtual

from mainstay.core.messages import FinishReason, Usage
from mainstay.core.outcome import Answered
from mainstay.core.ports import Context, ModelInfo, Options, Piece, StreamFinished, TextPiece
from mainstay.judges.model_judge import ModelJudge
from mainstay.judges.panel import ConcurrentJudgePanel

TURNS = 200
MEDIAN_S, P99_S = 0.920, 2.300
OVERHEAD_S = 0.001


def latencies() -> list[float]:
    """Of a model of that speed: half of its answers within the median, one in a hundred not within the other."""
    usual = [MEDIAN_S * (0.6 + 0.8 * place / (TURNS - 1)) for place in range(TURNS - 4)]
    times = sorted([*usual, P99_S, P99_S, P99_S, 2 * P99_S])
    middle = median(times)
    return [time * MEDIAN_S / middle if time < P99_S else time for time in times]


class Timed:
    """A model that thinks for so long, each time, and is content."""

    def __init__(self, times: Iterator[float]) -> None:
        self._times = times

    def model(self) -> ModelInfo:
        return ModelInfo(name="timed")

    async def close(self) -> None: ...

    async def stream(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        await asyncio.sleep(next(self._times))
        yield TextPiece('{"score": 0.9, "reason": "good"}')
        yield StreamFinished(FinishReason.END, Usage(200, 20))


def p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99) - 1]


@virtual
async def test_loom_108_a_verdict_takes_920_ms_at_the_median_and_2300_ms_at_the_99th_percentile() -> None:
    times = latencies()
    assert (median(times), p99(times)) == (pytest.approx(MEDIAN_S), pytest.approx(P99_S))
    judge = Timed(iter(times))
    panel = ConcurrentJudgePanel([ModelJudge("kind", lambda: "be kind", lambda spec: judge)])
    took: list[float] = []
    async with World(lambda context, options: "an answer", more={"judges": panel}) as world:
        for turn in range(TURNS):
            began = world.clock.monotonic()
            reply = await world.ask("go", f"s{turn}")
            took.append(world.clock.monotonic() - began)
            assert reply.outcome == Answered(0.9)
    assert median(took) == pytest.approx(MEDIAN_S, abs=OVERHEAD_S)
    assert p99(took) == pytest.approx(P99_S, abs=OVERHEAD_S)
    assert max(mine - theirs for mine, theirs in zip(took, times, strict=True)) < OVERHEAD_S


@virtual
async def test_three_judges_take_as_long_as_the_slowest_of_them() -> None:
    judges = [Timed(iter([seconds] * 10)) for seconds in (0.3, MEDIAN_S, P99_S)]
    panel = ConcurrentJudgePanel(
        [ModelJudge(f"j{n}", lambda: "", lambda spec, one=one: one) for n, one in enumerate(judges)]
    )  # type: ignore[misc]
    async with World(lambda context, options: "an answer", more={"judges": panel}) as world:
        began = world.clock.monotonic()
        await world.ask("go")
        assert world.clock.monotonic() - began == pytest.approx(P99_S, abs=OVERHEAD_S)
        journal = await world.journal()
        [judged] = [one for one in journal if type(one).__name__ == "Judged"]
        assert [score.seconds for score in judged.scores] == pytest.approx([0.3, MEDIAN_S, P99_S], abs=OVERHEAD_S)
