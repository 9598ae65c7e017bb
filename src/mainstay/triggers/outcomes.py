"""How it ended: the word for each run, as soon as there is one. A run without it is looked up again and again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from itertools import islice

from mainstay.core.outcome import Paused, Reply
from mainstay.core.trigger_log import RUNS_MAX
from mainstay.core.triggers import Door, Run, TriggerLog

log = logging.getLogger("mainstay.triggers")

PAUSED = "paused"  # not the last word: somebody is to answer first
WORD_CHARS_MAX = 300
LOOKED_UP = 50  # runs at a time
AGE_MS_MAX = 30 * 86_400_000  # what has not ended by then is left as it is

Place = tuple[str, str]  # a trigger and a time of it


class Outcomes:
    """Follows replies while this process has them; what an earlier one left open is asked for at the door."""

    def __init__(self, log: TriggerLog, door: Door) -> None:
        self._log = log
        self._door = door
        self._open: dict[Place, Run] = {}
        self._following: dict[Place, asyncio.Task[None]] = {}

    async def load(self, now_ms: int) -> list[Run]:
        """What is still open of what was done before; all that was done, the newest first."""
        runs = await self._log.runs(limit=RUNS_MAX)
        for run in reversed(runs):
            if run.came == "fired" and run.outcome in ("", PAUSED) and now_ms - run.at < AGE_MS_MAX:
                self._open[run.trigger, run.key] = run
        return runs

    def follow(self, run: Run, reply: Awaitable[Reply] | None) -> None:
        place = run.trigger, run.key
        self._open[place] = run
        if reply is not None:
            task = asyncio.ensure_future(self._wait(run, reply))
            self._following[place] = task
            task.add_done_callback(lambda task: self._let_go(place, task))

    async def answered(self, run: Run, timeout_s: float) -> None:
        """Returns when its reply is in, or after so long."""
        if (task := self._following.get((run.trigger, run.key))) is not None:
            await asyncio.wait((task,), timeout=timeout_s)

    async def look(self) -> None:
        """Ask once more for some of those that nobody follows."""
        left = [place for place in self._open if place not in self._following]
        for place in list(islice(left, LOOKED_UP)):
            run = self._open.pop(place)
            self._open[place] = run  # at the end: all have their turn
            await self._settle(run)

    async def close(self) -> None:
        tasks = list(self._following.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait(self, run: Run, reply: Awaitable[Reply]) -> None:
        answer = await asyncio.shield(reply)
        if isinstance(answer.outcome, Paused):
            await self._log.ended(run.trigger, run.key, PAUSED)
        else:
            await self._settle(run)

    async def _settle(self, run: Run) -> None:
        word = await self._door.outcome(run.session, run.seq)
        if word:
            await self._log.ended(run.trigger, run.key, word[:WORD_CHARS_MAX])
            self._open.pop((run.trigger, run.key), None)

    def _let_go(self, place: Place, task: asyncio.Task[None]) -> None:
        self._following.pop(place, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("how %s (%s) ended is looked up later: %s", *place, error)
