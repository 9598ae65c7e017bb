"""Projections that are behind for long: a failure of the audit log and the ledger, a warning of the others."""

from __future__ import annotations

import asyncio

import pytest

from mainstay.core.errors import StoreFull
from mainstay.core.projection_ports import JournalBatch
from mainstay.observe.projection_health import BEHIND_MAX_S, ProjectionLagCheck
from mainstay.observe.projection_runner import ProjectionRunner
from mainstay.store.memory.store import MemoryStore
from mainstay.testing.store_writer import SessionWriter

PATIENCE_S = 30.0


class SlowProjection:
    """Raises `error` while there is one, and waits while it is not `released`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.error: Exception | None = None
        self.released = asyncio.Event()
        self.released.set()
        self.place: dict[str, int] = {}

    async def positions(self) -> dict[str, int]:
        return dict(self.place)

    async def apply(self, batch: JournalBatch) -> None:
        await self.released.wait()
        if self.error is not None:
            raise self.error
        self.place[batch.info.key] = batch.records[-1].seq


class MovedTime:
    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return asyncio.get_running_loop().time() + self.ahead_s


async def find_verdicts(check: ProjectionLagCheck) -> list[str]:
    return [finding.verdict for finding in await check.run()]


@pytest.mark.parametrize(("name", "verdict"), [("audit", "FAIL"), ("spans", "warn")])
async def test_a_projection_that_fails_for_long_fails_the_check_only_if_it_is_required(name: str, verdict: str) -> None:
    store, projection, now = MemoryStore(), SlowProjection(name), MovedTime()
    projection.error = StoreFull("no space left for gateway.db")
    await store.open()
    runner = ProjectionRunner(store, [projection], workspace="w")
    check = ProjectionLagCheck(runner, "workspace w", {"audit": "the audit log"}, get_time=now)
    runner.start()
    await runner.wait_caught_up(PATIENCE_S)
    assert await find_verdicts(check) == ["ok"]
    await SessionWriter(store, "s").write_turn("hello")
    runner.notify("s")
    await runner.wait_caught_up(PATIENCE_S)
    assert await find_verdicts(check) == ["warn"]
    now.ahead_s = BEHIND_MAX_S + 1
    (finding,) = await check.run()
    assert finding.verdict == verdict
    assert "no space left" in finding.message
    projection.error = None
    await runner.retry_failed()
    await runner.wait_caught_up(PATIENCE_S)
    assert await find_verdicts(check) == ["ok"]
    await runner.close()


async def test_f57_projections_that_stand_still_for_long_fail_the_check_and_idle_ones_do_not() -> None:
    store, projection, now = MemoryStore(), SlowProjection("ledger"), MovedTime()
    await store.open()
    runner = ProjectionRunner(store, [projection], workspace="w")
    check = ProjectionLagCheck(runner, "workspace w", {}, get_time=now)
    runner.start()
    await runner.wait_caught_up(PATIENCE_S)
    for _ in range(2):
        now.ahead_s += 10 * BEHIND_MAX_S
        assert await find_verdicts(check) == ["ok"]
    projection.released.clear()
    await SessionWriter(store, "s").write_turn("hello")
    runner.notify("s")
    assert await find_verdicts(check) == ["ok"]
    now.ahead_s += BEHIND_MAX_S + 1
    assert await find_verdicts(check) == ["FAIL"]
    projection.released.set()
    await runner.wait_caught_up(PATIENCE_S)
    assert await find_verdicts(check) == ["ok"]
    await runner.close()
