"""Records how triggered turns ended: follows replies, and polls runs whose outcome is still unknown."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from itertools import islice

from mainstay.core.outcome import Paused, Reply
from mainstay.core.triggers import RUNS_MAX, PromptSubmitter, TriggerLog, TriggerRun

log = logging.getLogger("mainstay.triggers")

PAUSED = "paused"  # not final: an approval is pending
OUTCOME_CHARS_MAX = 300
RUNS_PER_POLL = 50  # runs per poll
AGE_MS_MAX = 30 * 86_400_000  # older runs without an outcome are not polled any more

RunKey = tuple[str, str]  # trigger name and key of the run


class RunOutcomeTracker:
    """Follows the replies of this process's runs; the outcomes of earlier processes' runs are looked up in their
    sessions."""

    def __init__(self, log: TriggerLog, submitter: PromptSubmitter) -> None:
        self._log = log
        self._submitter = submitter
        self._unfinished: dict[RunKey, TriggerRun] = {}
        self._follow_tasks: dict[RunKey, asyncio.Task[None]] = {}

    async def load(self, now_ms: int) -> list[TriggerRun]:
        """Load the runs without an outcome; return all runs, the newest first."""
        runs = await self._log.list_runs(limit=RUNS_MAX)
        for run in reversed(runs):
            if run.result == "fired" and run.outcome in ("", PAUSED) and now_ms - run.at < AGE_MS_MAX:
                self._unfinished[run.trigger, run.key] = run
        return runs

    def follow(self, run: TriggerRun, reply: Awaitable[Reply] | None) -> None:
        run_key = run.trigger, run.key
        self._unfinished[run_key] = run
        if reply is not None:
            task = asyncio.ensure_future(self._follow_reply(run, reply))
            self._follow_tasks[run_key] = task
            task.add_done_callback(lambda task: self._on_followed(run_key, task))

    async def wait_for_answer(self, run: TriggerRun, timeout_s: float) -> None:
        """Wait until the run's reply has arrived, or for the timeout."""
        if (task := self._follow_tasks.get((run.trigger, run.key))) is not None:
            await asyncio.wait((task,), timeout=timeout_s)

    async def poll_outcomes(self) -> None:
        """Look up the outcomes of some runs whose replies are not followed."""
        unfollowed = [run_key for run_key in self._unfinished if run_key not in self._follow_tasks]
        for run_key in list(islice(unfollowed, RUNS_PER_POLL)):
            run = self._unfinished.pop(run_key)
            self._unfinished[run_key] = run  # moved to the end, so that every run gets its turn
            await self._record_outcome(run)

    async def close(self) -> None:
        tasks = list(self._follow_tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow_reply(self, run: TriggerRun, reply: Awaitable[Reply]) -> None:
        answer = await asyncio.shield(reply)
        if isinstance(answer.outcome, Paused):
            await self._log.set_outcome(run.trigger, run.key, PAUSED)
        else:
            await self._record_outcome(run)

    async def _record_outcome(self, run: TriggerRun) -> None:
        outcome = await self._submitter.get_outcome(run.session, run.seq)
        if outcome:
            await self._log.set_outcome(run.trigger, run.key, outcome[:OUTCOME_CHARS_MAX])
            self._unfinished.pop((run.trigger, run.key), None)

    def _on_followed(self, run_key: RunKey, task: asyncio.Task[None]) -> None:
        self._follow_tasks.pop(run_key, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("the outcome of trigger %s (%s) is looked up later: %s", *run_key, error)
