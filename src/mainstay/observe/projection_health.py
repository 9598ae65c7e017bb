"""Health check of a workspace's projections: whether they follow the journals."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from mainstay.core.health import CheckFinding
from mainstay.observe.projection_runner import ProjectionRunner

BEHIND_MAX_S = 60.0  # how long a projection may fail or stand still before that counts as a failure


class ProjectionLagCheck:
    """Finds projections that are behind for long. `required` has the names of those that must not be, with what they
    write; for the others it is a warning."""

    def __init__(
        self,
        runner: ProjectionRunner,
        subject: str,
        required: Mapping[str, str],
        *,
        behind_max_s: float = BEHIND_MAX_S,
        get_time: Callable[[], float] = time.monotonic,
    ) -> None:
        self.subject = subject
        self._runner = runner
        self._required = required
        self._behind_max_s = behind_max_s
        self._get_time = get_time
        self._progress = -1  # groups processed when progress was last seen
        self._progress_at = 0.0

    async def run(self) -> Sequence[CheckFinding]:
        now, runner = self._get_time(), self._runner
        if not runner.has_work or runner.groups_processed != self._progress:
            self._progress, self._progress_at = runner.groups_processed, now
        findings = [
            self._describe(name, now - since, runner.get_error(name)) for name, since in runner.failed_since.items()
        ]
        if (stalled_s := now - self._progress_at) >= self._behind_max_s:
            message = f"audit log, spending and errors have not followed the journals for {stalled_s:.0f} s"
            findings.append(CheckFinding("Projections", "FAIL", message, "see the log, and restart"))
        return findings or [CheckFinding("Projections", "ok", "audit log, spending and errors follow the journals")]

    def _describe(self, name: str, behind_s: float, error: str) -> CheckFinding:
        what = self._required.get(name, f"the projection {name}")
        is_failure = name in self._required and behind_s >= self._behind_max_s
        message = f"{what} is behind for {behind_s:.0f} s: {error}"
        return CheckFinding("Projections", "FAIL" if is_failure else "warn", message, "it goes on by itself after that")
