"""All lanes of an agent: made when needed, put to sleep when idle, watched over."""

from __future__ import annotations

import asyncio
import logging

from mainstay.core.errors import AgentClosed
from mainstay.core.events import Stuck
from mainstay.lane.lane import Lane
from mainstay.lane.services import Services

log = logging.getLogger("mainstay.lane")


class Lanes:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._lanes: dict[str, Lane] = {}
        self._keeper: asyncio.Task[None] | None = None
        self._stuck: set[str] = set()
        self._closed = False

    def get(self, key: str) -> Lane:
        if self._closed:
            raise AgentClosed("the agent is closed")
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(key, self._services)
            lane.active_at = asyncio.get_running_loop().time()
            self._watch()
        return lane

    def _watch(self) -> None:
        if self._keeper is None:
            self._keeper = asyncio.get_running_loop().create_task(self._keep(), name="lane keeper")

    @property
    def closed(self) -> bool:
        return self._closed

    def __len__(self) -> int:
        return len(self._lanes)

    def load(self) -> tuple[int, int]:
        """How many turns run, and how many inputs wait for one, of the lanes that are awake."""
        pens = [lane._pen for lane in self._lanes.values() if lane._pen is not None]
        running = sum(lane.control is not None for lane in self._lanes.values())
        return running, sum(len(pen.session.waiting) for pen in pens)

    async def resume(self) -> list[str]:
        """Take up whatever an earlier process left unfinished."""
        store, resumed = self._services.store, []
        for key in await store.unfinished():
            standing = await store.get(key)
            if standing is not None and standing.approval is not None:  # it goes on when somebody has answered
                self._services.approvals.note(key, standing.approval)
                self._watch()
                continue
            resumed.append(key)
            self.get(key).wake()
        return resumed

    async def settled(self) -> None:
        """Returns when nothing is running or waiting to run."""
        while tasks := [task for lane in self._lanes.values() for task in lane.tasks]:
            await asyncio.wait(tasks)

    def forget(self, key: str) -> None:
        """Drop a lane whose session was changed behind it; the next message reads it again."""
        self._lanes.pop(key, None)

    def refresh(self, key: str) -> None:
        """The journal was changed behind this lane, if it is awake: it reads it again."""
        if (lane := self._lanes.get(key)) is not None:
            lane.refresh()

    async def close(self) -> None:
        self._closed = True
        if self._keeper is not None:
            self._keeper.cancel()
        await asyncio.gather(*(lane.close() for lane in self._lanes.values()))
        self._lanes.clear()

    # --- the keeper ------------------------------------------------------------------------------

    async def _keep(self) -> None:
        """One small task for all lanes: sleep for the idle, a word about the stuck. Ends with the last lane."""
        limits = self._services.limits
        period_s = min(limits.watchdog_period_s, max(limits.lane_idle_s / 2, 0.05))
        try:
            while self._lanes or len(self._services.approvals):
                await self._services.clock.sleep(period_s)
                now = asyncio.get_running_loop().time()
                self._put_to_sleep(now - limits.lane_idle_s)
                self._look_for_stuck(now - limits.watchdog_grace_s)
                for key in self._services.approvals.expired(self._services.clock.now_ms()):
                    self.get(key).wake()
        finally:
            self._keeper = None

    def _put_to_sleep(self, since: float) -> None:
        for key in [key for key, lane in self._lanes.items() if not lane.busy and lane.active_at <= since]:
            del self._lanes[key]

    def _look_for_stuck(self, since: float) -> None:
        """Stuck is past every bound it declared. It is said once, and nothing is aborted by guesswork."""
        for key, lane in self._lanes.items():
            control = lane.control
            if control is None or not control.until or control.until > since:
                self._stuck.discard(key)
            elif key not in self._stuck:
                self._stuck.add(key)
                seconds = since - control.until + self._services.limits.watchdog_grace_s
                log.error("session %s is stuck: %s, %.0f s past its bound", key, control.doing, seconds)
                self._services.hub.emit(key, Stuck(control.doing, seconds, session=key))
