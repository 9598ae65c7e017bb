"""Appointments of a conversation with itself, kept as event files: what the `schedule` tool adds, lists and removes."""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Awaitable, Callable

from mainstay.core.errors import InputRefused
from mainstay.core.outside import Appointment
from mainstay.core.ports import Clock
from mainstay.core.triggers import Kind, Target, Trigger
from mainstay.core.workers import in_thread
from mainstay.triggers.definition import TriggerRefused, check_ahead
from mainstay.triggers.folder import EventFolder
from mainstay.triggers.times import ScheduleUnreadable, Times, is_moment

PREFIX = "schedule-"
ORIGIN = "schedule"  # of what an agent has said to itself: it is nobody's own words, even if nothing is wrong with them
SESSION_MAX = 100
ALL_MAX = 1_000

Fired = Callable[[str], Awaitable[bool]]


class FileScheduler:
    """The Scheduler port. `fired` says whether a trigger of this name has ever run: its file may be gone by then."""

    def __init__(self, folder: EventFolder, clock: Clock, fired: Fired, *, workspace: str = "") -> None:
        self._folder = folder
        self._clock = clock
        self._fired = fired
        self._workspace = workspace
        self._writing = threading.Lock()

    def check(self, when: str, timezone: str) -> None:
        when = when.strip()
        kind: Kind = "one-shot" if is_moment(when) else "periodic"
        try:
            Times(when, timezone or "UTC")
            check_ahead(Trigger(name="x", kind=kind, text="x", schedule=when, timezone=timezone), self._clock.now_ms())
        except (TriggerRefused, ScheduleUnreadable) as error:
            raise InputRefused(f"{str(error).rstrip('.')}. Nothing was scheduled.") from None

    async def add(self, appointment: Appointment) -> str:
        """Its id; the same key is taken once, also after it has fired. Raises InputRefused, and nothing changes."""
        key = appointment.key or secrets.token_hex(16)
        place = f"{self._workspace}\n{appointment.session}\n{key}"  # two workspaces may have sessions of one name
        name = PREFIX + hashlib.sha256(place.encode(errors="replace")).hexdigest()[:16]
        if await in_thread(lambda: self._folder.knows(name)) or await self._fired(name):
            return name
        when = appointment.when.strip()
        trigger = Trigger(
            name=name,
            kind="one-shot" if is_moment(when) else "periodic",
            text=appointment.text.encode(errors="replace").decode(),
            target=Target(session=appointment.session, workspace=self._workspace),
            schedule=when,
            timezone=appointment.timezone or "UTC",
            person=appointment.person,
            origin=appointment.origin or ORIGIN,
        )
        try:
            await in_thread(lambda: self._write(trigger))
        except (TriggerRefused, ScheduleUnreadable) as error:
            raise InputRefused(f"{str(error).rstrip('.')}. Nothing was scheduled.") from None
        return name

    def _write(self, trigger: Trigger) -> None:
        check_ahead(trigger, self._clock.now_ms())
        with self._writing:
            if self._folder.knows(trigger.name):  # somebody with the same key was quicker
                return
            kept = self._kept()
            if sum(one.target.workspace == self._workspace for one in kept) >= ALL_MAX:
                raise TriggerRefused(f"there are {ALL_MAX} appointments already.")
            if sum(one.target == trigger.target for one in kept) >= SESSION_MAX:
                raise TriggerRefused(f"this conversation has {SESSION_MAX} appointments already; remove one first.")
            self._folder.write(trigger)

    def _kept(self) -> list[Trigger]:
        """Of all conversations. What a person wrote has no origin, whatever its file is called."""
        found = self._folder.scan().triggers
        return [trigger for name, (trigger, _) in found.items() if name.startswith(PREFIX) and trigger.origin]

    async def list(self, session: str) -> list[Appointment]:
        kept: list[Trigger] = await in_thread(self._kept)
        return [
            Appointment(
                when=one.schedule,
                text=one.text,
                session=session,
                timezone=one.timezone,
                id=one.name,
                person=one.person,
                origin=one.origin,
            )
            for one in kept
            if one.target == Target(session=session, workspace=self._workspace)
        ]

    async def remove(self, session: str, id: str) -> bool:
        """False if this conversation has no such appointment; those of others are none of its business."""
        if all(one.id != id for one in await self.list(session)):
            return False
        gone: bool = await in_thread(lambda: self._folder.remove(id))
        return gone
