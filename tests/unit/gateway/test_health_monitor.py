"""The health checks of a serving process: run together, within a limit, and not at any rate."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import pytest

from mainstay.core.health import CheckFinding
from mainstay.gateway import health_monitor
from mainstay.gateway.health_monitor import HealthMonitor


class CountedCheck:
    def __init__(self, subject: str, *findings: CheckFinding, error: Exception | None = None) -> None:
        self.subject = subject
        self.findings = list(findings)
        self.error = error
        self.hangs = False
        self.runs = 0

    async def run(self) -> Sequence[CheckFinding]:
        self.runs += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        return self.findings


FULL = CheckFinding("Disk", "FAIL", "no space")


async def test_failures_are_reported_by_subject_and_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(health_monitor, "FRESH_S", 0.0)
    caplog.set_level(logging.WARNING)
    disk, good = CountedCheck("disk", FULL, CheckFinding("Disk", "FAIL", "no inodes")), CountedCheck("w")
    good.findings = [CheckFinding("Database", "warn", "slow")]
    monitor = HealthMonitor(lambda: [disk, good])
    for _ in range(2):
        assert await monitor.find_failures() == {"disk": "no space; no inodes"}
    disk.findings = []
    assert await monitor.find_failures() == {}
    assert [record.getMessage() for record in caplog.records] == [
        "not ready: disk: no space; no inodes",
        "ready again: disk",
    ]


async def test_a_check_that_hangs_or_has_a_bug_is_a_failure_and_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(health_monitor, "CHECK_TIMEOUT_S", 0.02)
    hanging, broken, disk = (
        CountedCheck("w"),
        CountedCheck("home", error=ZeroDivisionError()),
        CountedCheck("disk", FULL),
    )
    hanging.hangs = True
    failures = await HealthMonitor(lambda: [hanging, broken, disk]).find_failures()
    assert failures == {
        "w": "its check did not end within 0.02 s",
        "home": "its check failed (ZeroDivisionError)",
        "disk": "no space",
    }


async def test_many_callers_share_one_run_of_the_checks() -> None:
    disk = CountedCheck("disk", FULL)
    monitor = HealthMonitor(lambda: [disk])
    results = await asyncio.gather(*(monitor.find_failures() for _ in range(100)))
    assert (disk.runs, results) == (1, [{"disk": "no space"}] * 100)
