"""Runs the health checks of a serving process, for `/readyz` and `doctor`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from mainstay.core.health import CheckFinding, HealthCheck
from mainstay.observe.projection_runner import capture_error

log = logging.getLogger("mainstay.gateway")

CHECK_TIMEOUT_S = 5.0
FRESH_S = 1.0  # results are reused for so long: `/readyz` is public, and may be called at any rate


class HealthMonitor:
    """Runs all checks at the same time when their results are asked for, and logs what changes."""

    def __init__(self, list_checks: Callable[[], Sequence[HealthCheck]]) -> None:
        self._list_checks = list_checks
        self._failures: dict[str, str] = {}
        self._checked_at = float("-inf")  # monotonic time
        self._task: asyncio.Task[None] | None = None

    async def find_failures(self) -> dict[str, str]:
        """Return what has failed, by its subject, with the reason."""
        if time.monotonic() - self._checked_at >= FRESH_S:
            if self._task is None or self._task.done():
                self._task = asyncio.get_running_loop().create_task(self._run_checks(), name="mainstay-health")
            await asyncio.shield(self._task)
        return dict(self._failures)

    async def _run_checks(self) -> None:
        checks = self._list_checks()
        failures: dict[str, str] = {}
        for check, findings in zip(checks, await asyncio.gather(*map(_run_check, checks)), strict=True):
            messages = [finding.message for finding in findings if finding.verdict == "FAIL"]
            if messages:
                failures[check.subject] = "; ".join(filter(None, [failures.get(check.subject, ""), *messages]))
        for subject, message in failures.items():
            if subject not in self._failures:
                log.error("not ready: %s: %s", subject, message)
        for subject in self._failures.keys() - failures.keys():
            log.warning("ready again: %s", subject)
        self._failures, self._checked_at = failures, time.monotonic()


async def _run_check(check: HealthCheck) -> Sequence[CheckFinding]:
    findings: list[CheckFinding] = []

    async def run() -> None:
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            findings.extend(await check.run())

    error = await capture_error(run())
    if isinstance(error, TimeoutError):
        return [CheckFinding("Health", "FAIL", f"its check did not end within {CHECK_TIMEOUT_S:g} s")]
    if error is not None:
        log.error("the health check of %s failed: %s", check.subject, error, exc_info=error)
        return [CheckFinding("Health", "FAIL", f"its check failed ({type(error).__name__})")]
    return findings
