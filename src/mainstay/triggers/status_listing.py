"""Lists triggers without a running engine: from their files and the log."""

from __future__ import annotations

from mainstay.core.ports import Clock
from mainstay.core.triggers import SubmittedPrompt, Trigger, TriggerLog, TriggerStatus, WakeCheckResult
from mainstay.triggers.async_event_folder import AsyncEventFolder
from mainstay.triggers.engine import TriggerEngine
from mainstay.triggers.misfire_policy import TriggerEngineSettings


async def list_statuses(
    folder: AsyncEventFolder, log: TriggerLog, clock: Clock, rules: TriggerEngineSettings
) -> list[TriggerStatus]:
    """Scan the files and return the status of each trigger. No prompt is submitted and no check command runs."""
    engine = TriggerEngine(folder, log, _ListingSubmitter(), check=_refuse_check, clock=clock, rules=rules)
    return await engine.scan_status()


class _ListingSubmitter:
    """The submitter of an engine that only lists: each call is a bug of the engine."""

    async def submit(self, trigger: Trigger, key: str) -> SubmittedPrompt:
        raise AssertionError(f"listing submitted the prompt of {trigger.name}")

    async def find_submitted(self, trigger: Trigger, key: str) -> SubmittedPrompt | None:
        raise AssertionError(f"listing looked for the prompt of {trigger.name}")

    async def get_outcome(self, session: str, seq: int) -> str:
        raise AssertionError(f"listing looked for the outcome of {session} {seq}")


async def _refuse_check(trigger: Trigger) -> WakeCheckResult:
    raise AssertionError(f"listing ran the check command of {trigger.name}")
