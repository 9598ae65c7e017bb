"""Scheduler of the `schedule` tool: a session's scheduled prompts, stored as event files."""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Awaitable, Callable

from mainstay.core.errors import InputRefused
from mainstay.core.ports import Clock
from mainstay.core.tool_ports import ScheduledPrompt
from mainstay.core.triggers import Trigger, TriggerKind, TriggerTarget
from mainstay.core.worker_threads import run_in_thread
from mainstay.triggers.event_folder import EventFolder
from mainstay.triggers.schedule import ScheduleInvalid, TriggerSchedule, is_iso_time
from mainstay.triggers.trigger_json import TriggerRefused, check_is_future

NAME_PREFIX = "schedule-"
ORIGIN = "schedule"  # of text that an agent wrote to itself: not a user's own words, even where it is not tainted
SESSION_PROMPTS_MAX = 100
WORKSPACE_PROMPTS_MAX = 1_000

HasFired = Callable[[str], Awaitable[bool]]


class FileScheduler:
    """The Scheduler port. `has_fired` tells whether a trigger of a name has ever run: its file may be pruned since."""

    def __init__(self, folder: EventFolder, clock: Clock, has_fired: HasFired, *, workspace: str = "") -> None:
        self._folder = folder
        self._clock = clock
        self._has_fired = has_fired
        self._workspace = workspace
        self._write_lock = threading.Lock()

    def check_time(self, when: str, timezone: str) -> None:
        when = when.strip()
        kind: TriggerKind = "one-shot" if is_iso_time(when) else "periodic"
        try:
            TriggerSchedule(when, timezone or "UTC")
            check_is_future(
                Trigger(name="x", kind=kind, text="x", schedule=when, timezone=timezone), self._clock.now_ms()
            )
        except (TriggerRefused, ScheduleInvalid) as error:
            raise InputRefused(f"{str(error).rstrip('.')}. Nothing was scheduled.") from None

    async def add(self, prompt: ScheduledPrompt) -> str:
        """Store a scheduled prompt and return its id. The same key is accepted once, even after it has fired. Raises
        InputRefused, and then nothing has changed."""
        key = prompt.key or secrets.token_hex(16)
        identity = f"{self._workspace}\n{prompt.session}\n{key}"  # two workspaces may have sessions of one name
        name = NAME_PREFIX + hashlib.sha256(identity.encode(errors="replace")).hexdigest()[:16]
        if await run_in_thread(lambda: self._folder.exists(name)) or await self._has_fired(name):
            return name
        when = prompt.when.strip()
        trigger = Trigger(
            name=name,
            kind="one-shot" if is_iso_time(when) else "periodic",
            text=prompt.text.encode(errors="replace").decode(),
            target=TriggerTarget(session=prompt.session, workspace=self._workspace),
            schedule=when,
            timezone=prompt.timezone or "UTC",
            person=prompt.person,
            origin=prompt.origin or ORIGIN,
        )
        try:
            await run_in_thread(lambda: self._write(trigger))
        except (TriggerRefused, ScheduleInvalid) as error:
            raise InputRefused(f"{str(error).rstrip('.')}. Nothing was scheduled.") from None
        return name

    def _write(self, trigger: Trigger) -> None:
        check_is_future(trigger, self._clock.now_ms())
        with self._write_lock:
            if self._folder.exists(trigger.name):  # a concurrent call with the same key was faster
                return
            scheduled = self._list_scheduled()
            if sum(other.target.workspace == self._workspace for other in scheduled) >= WORKSPACE_PROMPTS_MAX:
                raise TriggerRefused(f"there are {WORKSPACE_PROMPTS_MAX} scheduled prompts already.")
            if sum(other.target == trigger.target for other in scheduled) >= SESSION_PROMPTS_MAX:
                raise TriggerRefused(
                    f"this session has {SESSION_PROMPTS_MAX} scheduled prompts already; remove one first."
                )
            self._folder.write(trigger)

    def _list_scheduled(self) -> list[Trigger]:
        """Return the scheduled prompts of all sessions. A user's own trigger has no origin, whatever its name."""
        triggers = self._folder.scan().triggers
        return [trigger for name, (trigger, _) in triggers.items() if name.startswith(NAME_PREFIX) and trigger.origin]

    async def list(self, session: str) -> list[ScheduledPrompt]:
        scheduled: list[Trigger] = await run_in_thread(self._list_scheduled)
        return [
            ScheduledPrompt(
                when=trigger.schedule,
                text=trigger.text,
                session=session,
                timezone=trigger.timezone,
                id=trigger.name,
                person=trigger.person,
                origin=trigger.origin,
            )
            for trigger in scheduled
            if trigger.target == TriggerTarget(session=session, workspace=self._workspace)
        ]

    async def remove(self, session: str, id: str) -> bool:
        """Remove one of this session's scheduled prompts; False if it has none with this id. Those of other sessions
        cannot be removed."""
        if all(scheduled.id != id for scheduled in await self.list(session)):
            return False
        removed: bool = await run_in_thread(lambda: self._folder.remove(id))
        return removed
