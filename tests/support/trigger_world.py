"""A test world for triggers: an event folder, lanes, a log, and a clock that tests move.

`async with world` is one process; the next one finds what it left in the folder, the store and the log.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from mainstay.core.events import Received
from mainstay.core.input_envelope import InputEnvelope, session_key
from mainstay.core.limits import Limits
from mainstay.core.memory_tiers import format_origin
from mainstay.core.messages import AnyPart, Text
from mainstay.core.outcome import Answered, Failed
from mainstay.core.ports import Context, Options, Piece, Store
from mainstay.core.triggers import (
    TRIGGER_ID_PREFIX,
    SubmittedPrompt,
    Trigger,
    TriggerLog,
    TriggerRun,
    TriggerTarget,
    WakeCheck,
    WakeCheckResult,
)
from mainstay.lane.event_hub import EventHub
from mainstay.lane.registry import LaneRegistry
from mainstay.lane.replies import find_reply
from mainstay.lane.services import LaneServices
from mainstay.store.memory.trigger_log import InMemoryTriggerLog
from mainstay.testing import MemoryStore, ScriptedProvider, VirtualClock, virtual_run
from mainstay.triggers.async_event_folder import AsyncEventFolder
from mainstay.triggers.engine import TriggerEngine
from mainstay.triggers.event_folder import EventFolder
from mainstay.triggers.misfire_policy import TriggerEngineSettings
from mainstay.triggers.trigger_json import encode_trigger
from mainstay.triggers.trigger_state import TriggerStatus
from mainstay.turn.toolbox import Toolbox

BELLS = TriggerTarget(session="bells")


def virtual(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test on a loop whose time jumps."""

    @functools.wraps(test)
    def run(*args: Any, **named: Any) -> None:
        virtual_run(test(*args, **named))

    return run


async def at_once(work: Callable[[], Any]) -> Any:
    """Threads know nothing of virtual time."""
    return work()


async def wakes(trigger: Trigger) -> WakeCheckResult:
    return WakeCheckResult(True)


def periodic(name: str, schedule: str, **more: Any) -> Trigger:
    return Trigger(name=name, kind="periodic", text=f"this is {name}", schedule=schedule, **{"target": BELLS, **more})


def one_shot(name: str, schedule: str, **more: Any) -> Trigger:
    return Trigger(name=name, kind="one-shot", text=f"this is {name}", schedule=schedule, **{"target": BELLS, **more})


class ConcurrencyCounter(ScriptedProvider):
    """Counts how many ask it at the same time."""

    now = most = 0

    async def stream(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            async for piece in super().stream(context, options):
                yield piece
        finally:
            self.now -= 1


class LaneAdapter:
    """An adapter from triggers to lanes as an application has it, without sanitising of untrusted input."""

    def __init__(self, lanes: LaneRegistry, store: Store) -> None:
        self._lanes = lanes
        self._store = store

    async def submit(self, trigger: Trigger, key: str) -> SubmittedPrompt:
        if (taken := await self.find_submitted(trigger, key)) is not None:
            return taken
        session = session_of(trigger, key)
        parts: list[AnyPart] = [Text(trigger.text, origin=trigger.origin)]
        if trigger.data:
            parts.append(Text(trigger.data, origin=format_origin(f"{TRIGGER_ID_PREFIX}{trigger.name}", untrusted=True)))
        envelope = InputEnvelope(parts=tuple(parts), thread=session, sender=trigger.person, id=id_of(trigger.name, key))
        ticket = await self._lanes.get(session).accept(envelope)
        return SubmittedPrompt(session, ticket.seq, ticket.reply)

    async def find_submitted(self, trigger: Trigger, key: str) -> SubmittedPrompt | None:
        session = session_of(trigger, key)
        seen = await self._store.find_input(session, id_of(trigger.name, key))
        return SubmittedPrompt(session, seen[0]) if seen is not None else None

    async def get_outcome(self, session: str, seq: int) -> str:
        reply = await find_reply(self._store, session, seq)
        match reply.outcome if reply is not None else None:
            case None:
                return ""
            case Answered():
                return "answered"
            case Failed(sentence=sentence):
                return f"failed: {sentence}"
            case other:
                return type(other).__name__.lower()


def id_of(name: str, key: str) -> str:
    return f"{TRIGGER_ID_PREFIX}{name}:{key}"


def session_of(trigger: Trigger, key: str) -> str:
    target = trigger.target
    if not target.is_new_thread:
        return target.session
    thread = f"{trigger.name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
    return session_key(InputEnvelope(parts=(), channel=target.channel, room=target.room, thread=thread), "thread")


class World:
    """One process. `start` opens it on what an earlier one left in the folder, the store and the log."""

    def __init__(
        self,
        where: Path,
        *,
        script: Any = None,
        delay_s: float = 0.0,
        check: WakeCheck = wakes,
        rules: TriggerEngineSettings | None = None,
        limits: Limits | None = None,
        clock: VirtualClock | None = None,
    ) -> None:
        self.where = where
        self.clock = clock or VirtualClock()
        self.store: Store = MemoryStore()
        self.log: TriggerLog = InMemoryTriggerLog()
        self.script = script or (lambda context, options: "done")
        self.delay_s = delay_s  # before every answer
        self.check = check
        self.rules = rules or TriggerEngineSettings(
            scan_interval_s=20
        )  # hours pass here, and files are written by ourselves
        self.limits = limits or Limits()
        self.aside: Callable[[Callable[[], Any]], Awaitable[Any]] = at_once
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> World:
        self.provider = ConcurrencyCounter(self.script, clock=self.clock, delay_s=self.delay_s)
        self.lanes = LaneRegistry(
            LaneServices(
                store=self.store,
                provider_for=lambda spec: self.provider,
                tools=Toolbox((), self.limits),
                limits=self.limits,
                clock=self.clock,
                hub=EventHub(64),
            )
        )
        await self.lanes.resume_unfinished()
        self.folder = EventFolder(str(self.where / "events"), self.clock)
        self.door = LaneAdapter(self.lanes, self.store)
        files = AsyncEventFolder(self.folder, self.aside)
        self.engine = TriggerEngine(files, self.log, self.door, check=self.check, clock=self.clock, rules=self.rules)
        self._running = asyncio.ensure_future(self.engine.run())
        return self

    async def stop(self) -> None:
        assert self._running is not None
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        await self.lanes.close()

    async def __aenter__(self) -> World:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # --- what a person does ----------------------------------------------------------------------

    def put(self, *triggers: Trigger) -> None:
        """Write files, as a user would, and have that noticed."""
        for trigger in triggers:
            path = self.where / "events" / f".{trigger.name}.draft"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(encode_trigger(trigger))
            path.rename(path.with_name(f"{trigger.name}.json"))
        self.engine.wake()

    async def pass_s(self, seconds: float) -> None:
        await self.clock.sleep(seconds)

    async def until(self, met: Callable[[], Any], within_s: float = 600, step_s: float = 0.05) -> None:
        """Returns when something is so; raises if it takes longer than that."""
        end = self.clock.monotonic() + within_s
        while not met():
            assert self.clock.monotonic() < end, "it does not happen"
            await self.clock.sleep(step_s)

    # --- what is to be seen ----------------------------------------------------------------------

    async def runs(self, name: str = "", came: str = "") -> list[TriggerRun]:
        """The oldest first."""
        found = (await self.log.list_runs(name, 100_000))[::-1]
        return [run for run in found if not came or run.result == came]

    async def keys(self, name: str, came: str = "fired") -> list[str]:
        return [run.key for run in await self.runs(name, came)]

    def status(self, name: str) -> TriggerStatus:
        return next(one for one in self.engine.status() if one.name == name)

    async def prompts(self, session: str = "bells") -> list[Received]:
        records = await self.store.read_records(session, limit=1_000_000)
        return [record.event for record in records if isinstance(record.event, Received)]

    async def heard(self, session: str = "bells") -> list[str]:
        """The ids of what was taken in, in order."""
        return [event.id for event in await self.prompts(session)]

    def files(self, folder: str = "") -> list[str]:
        found = self.where / "events" / folder
        return sorted(one.name for one in found.iterdir() if one.is_file()) if found.exists() else []
