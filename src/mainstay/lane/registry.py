"""Registry of an agent's lanes: creates them on demand, drops idle ones and reports stuck ones."""

from __future__ import annotations

import asyncio
import logging

from mainstay.core.errors import AgentClosed
from mainstay.core.events import Stuck
from mainstay.core.supervision import start_supervised_task
from mainstay.lane.lane import Lane
from mainstay.lane.services import LaneServices

log = logging.getLogger("mainstay.lane")


class LaneRegistry:
    def __init__(self, services: LaneServices) -> None:
        self._services = services
        self._lanes: dict[str, Lane] = {}
        self._maintenance: asyncio.Task[None] | None = None
        self._stuck_keys: set[str] = set()
        self._is_closed = False

    def get(self, key: str) -> Lane:
        """Return the session's lane, created if needed. Raises AgentClosed."""
        if self._is_closed:
            raise AgentClosed("the agent is closed")
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(key, self._services)
            self._start_maintenance()
        lane.active_at = asyncio.get_running_loop().time()  # it is not dropped while the caller uses it
        return lane

    def _start_maintenance(self) -> None:
        if self._maintenance is None:
            self._maintenance = start_supervised_task("lane maintenance", self._maintain)

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def __len__(self) -> int:
        return len(self._lanes)

    def count_load(self) -> tuple[int, int]:
        """Return the number of running turns and of waiting inputs, over the lanes in memory."""
        writers = [lane._writer for lane in self._lanes.values() if lane._writer is not None]
        running = sum(lane.control is not None for lane in self._lanes.values())
        return running, sum(len(writer.session.queued_inputs) for writer in writers)

    async def resume_unfinished(self) -> list[str]:
        """Resume the turns and inputs that an earlier process left unfinished; return their sessions.

        Sessions that wait for an approval are only registered; they resume when it is answered or expires.
        """
        store, resumed = self._services.store, []
        for key in await store.list_unfinished():
            standing = await store.get_session(key)
            if standing is not None and standing.approval is not None:  # it resumes when the approval is answered
                self._services.approvals.set_pending(key, standing.approval)
                self._start_maintenance()
                continue
            resumed.append(key)
            self.get(key).resume_after_restart()
        return resumed

    async def mark_stopping(self) -> None:
        """Note in the sessions whose turns run that the process was told to stop: its end is not blamed on them."""
        await asyncio.gather(*(lane.mark_stopping() for lane in self._lanes.values()))

    async def wait_until_settled(self) -> None:
        """Wait until no turn is running or waiting to run."""
        while tasks := [task for lane in self._lanes.values() for task in lane.tasks]:
            await asyncio.wait(tasks)

    def drop(self, key: str) -> None:
        """Drop the lane of a deleted session, which was closed; the next message opens another."""
        if (lane := self._lanes.get(key)) is not None and lane.is_closed:
            del self._lanes[key]

    def refresh(self, key: str) -> None:
        """Reload a session after its journal was changed outside its lane; no effect if the lane is not in memory."""
        if (lane := self._lanes.get(key)) is not None:
            lane.refresh()

    async def close(self) -> None:
        self._is_closed = True
        if self._maintenance is not None:
            self._maintenance.cancel()
        await asyncio.gather(*(lane.close() for lane in self._lanes.values()))
        self._lanes.clear()

    # --- maintenance -----------------------------------------------------------------------------

    async def _maintain(self) -> None:
        """One task for all lanes: drop idle lanes, report stuck ones, expire approvals. Ends with the last lane."""
        limits = self._services.limits
        period_s = min(limits.watchdog_period_s, max(limits.lane_idle_s / 2, 0.05))
        while self._lanes or len(self._services.approvals):
            await self._services.clock.sleep(period_s)
            now = asyncio.get_running_loop().time()
            self._drop_idle(now - limits.lane_idle_s)
            self._report_stuck(now - limits.watchdog_grace_s)
            for key in self._services.approvals.expired_sessions(self._services.clock.now_ms()):
                self.get(key).wake()
        self._maintenance = None

    def _drop_idle(self, since: float) -> None:
        for key in [key for key, lane in self._lanes.items() if not lane.is_busy and lane.active_at <= since]:
            del self._lanes[key]

    def _report_stuck(self, since: float) -> None:
        """Report once each lane that is past every deadline it declared; it is never aborted by guesswork."""
        for key, lane in self._lanes.items():
            control = lane.control
            if control is None or not control.activity_deadline or control.activity_deadline > since:
                self._stuck_keys.discard(key)
            elif key not in self._stuck_keys:
                self._stuck_keys.add(key)
                seconds = since - control.activity_deadline + self._services.limits.watchdog_grace_s
                log.error("session %s is stuck: %s, %.0f s past its bound", key, control.activity, seconds)
                self._services.hub.emit(key, Stuck(control.activity, seconds, session=key))
