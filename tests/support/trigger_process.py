"""The engine of triggers on real files, a real store and real lanes, in forked processes that are killed.

Started once by test_trigger_crash as a clean process without threads. Each line on standard input is an experiment
(JSON), each line on standard output its result: whether it was killed, or what is wrong with what was left behind.

Time runs many times as fast here. What a process finds due depends on how quick it is; what must be true afterwards
does not: every due time has had one fate, and what was fired was heard once.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from mainstay.core.events import Received
from mainstay.core.limits import Limits
from mainstay.core.messages import FinishReason, Usage
from mainstay.core.ports import Context, ModelInfo, Options, Piece, StreamFinished, TextPiece
from mainstay.core.triggers import SubmittedPrompt, Trigger, TriggerLog, TriggerRun, TriggerTarget, WakeCheckResult
from mainstay.lane.event_hub import EventHub
from mainstay.lane.registry import LaneRegistry
from mainstay.lane.services import LaneServices
from mainstay.store.sqlite.store import SqliteStore
from mainstay.triggers.async_event_folder import AsyncEventFolder
from mainstay.triggers.engine import TriggerEngine
from mainstay.triggers.event_folder import EventFolder
from mainstay.triggers.misfire_policy import TriggerEngineSettings, format_due_time
from mainstay.triggers.schedule import TriggerSchedule
from mainstay.turn.toolbox import Toolbox
from support.crash_lab import kill_at_handle, say
from support.faulty_vfs import FaultyVFS, Plan
from support.trigger_world import LaneAdapter, id_of, one_shot, periodic

START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
SPEED = 1200  # twenty minutes a second
LIFE_MS = 200_000
LIMITS = Limits(ride_along_s=0.001, resumes_max=100, mailbox_depth_max=1)
RULES = TriggerEngineSettings(catch_up_max=1000, scan_interval_s=20.0, sleep_s_max=10.0)
EVERY_MINUTE = "* * * * *"
JITTER_MS = 20_000
PERIODIC = {
    "all": periodic("all", EVERY_MINUTE, missed="all", target=TriggerTarget(session="all")),
    "once": periodic("once", EVERY_MINUTE, missed="once", target=TriggerTarget(session="once")),
    "skip": periodic(
        "skip", EVERY_MINUTE, missed="skip", jitter_s=JITTER_MS / 1000, target=TriggerTarget(session="skip")
    ),
    "check": periodic("check", EVERY_MINUTE, missed="all", check="odd", target=TriggerTarget(session="check")),
    **{
        name: periodic(name, EVERY_MINUTE, missed="all", target=TriggerTarget(session="one"))
        for name in ("full", "fuller", "fullest")
    },
    "room": periodic("room", EVERY_MINUTE, missed="all", target=TriggerTarget(channel="c", room="r")),
}
FILES = (
    Trigger(name="now", kind="immediate", text="at once", target=TriggerTarget(session="one")),
    Trigger(name="too", kind="immediate", text="as well", target=TriggerTarget(session="one")),
    one_shot("soon", "2026-01-01T00:01:30", target=TriggerTarget(session="one")),
    one_shot("asked", "2026-01-01T00:02:10", check="odd", target=TriggerTarget(session="two")),
)
DEADLINE_S = 120.0


class FastClock:
    """Runs SPEED times as fast as it should. The clock on the wall stands still until all is set up, and again after
    a few minutes, so that everything can be finished."""

    def __init__(self, start_ms: int) -> None:
        self._start_ms = start_ms
        self._begun: float | None = None

    def begin(self) -> None:
        self._begun = self.monotonic()

    def now_ms(self) -> int:
        gone_s = self.monotonic() - self._begun if self._begun is not None else 0.0
        return self._start_ms + min(int(gone_s * 1000), LIFE_MS)

    def monotonic(self) -> float:
        return time.monotonic() * SPEED

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / SPEED)


class Model:
    """Takes long enough for others to find its lane full."""

    def model(self) -> ModelInfo:
        return ModelInfo(name="life")

    async def close(self) -> None: ...

    async def stream(self, context: Context, options: Options) -> AsyncIterator[Piece]:
        await asyncio.sleep(0.03)
        yield TextPiece("done")
        yield StreamFinished(FinishReason.END, Usage(10, 5))


class Counted:
    """The lanes, and how often a submission was refused."""

    def __init__(self, door: LaneAdapter) -> None:
        self._door = door
        self.full = 0

    async def submit(self, trigger: Trigger, key: str) -> SubmittedPrompt:
        try:
            return await self._door.submit(trigger, key)
        except Exception:
            self.full += 1
            raise

    async def find_submitted(self, trigger: Trigger, key: str) -> SubmittedPrompt | None:
        return await self._door.find_submitted(trigger, key)

    async def get_outcome(self, session: str, seq: int) -> str:
        return await self._door.get_outcome(session, seq)


async def check(trigger: Trigger) -> WakeCheckResult:
    """Every other time there is something to do; not known beforehand."""
    await asyncio.sleep(0)
    return WakeCheckResult(True, "odd") if time.monotonic_ns() // 1_000_000 % 2 else WakeCheckResult(False)


async def run_process(home: Path, plan: Plan, start_ms: int) -> int:
    """Run until the clock stands still, everything due by then was dealt with, and every turn has ended."""
    plan.vfs = FaultyVFS("life", plan)
    clock, model = FastClock(start_ms), Model()
    store = SqliteStore(str(home / "workspace.db"), limits=LIMITS, vfs="life")
    await store.open()
    services = LaneServices(
        store=store,
        provider_for=lambda spec: model,
        tools=Toolbox((), LIMITS),
        limits=LIMITS,
        clock=clock,
        hub=EventHub(64),
    )
    lanes = LaneRegistry(services)
    await lanes.resume_unfinished()
    folder = EventFolder(str(home / "events"), clock)
    put_files(home, folder)
    log, door = store.trigger_log(), Counted(LaneAdapter(lanes, store))
    engine = TriggerEngine(AsyncEventFolder(folder), log, door, check=check, clock=clock, rules=RULES)
    running = asyncio.ensure_future(engine.run())
    late = time.monotonic() + DEADLINE_S
    while len(await log.list_cursors()) < len(PERIODIC):
        assert time.monotonic() < late, engine.status()
        await asyncio.sleep(0.002)
    clock.begin()
    while not await over(engine, log, start_ms + LIFE_MS) or any(entry.busy for entry in engine._states.values()):
        assert not running.done(), running.exception()
        assert time.monotonic() < late, [one for one in engine.status() if one.waiting or one.trouble]
        await asyncio.sleep(0.005)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await lanes.wait_until_settled()
    await lanes.close()
    await store.close()
    return door.full


def put_files(home: Path, folder: EventFolder) -> None:
    """Each once, by any process: what is to be put is noted first, and then looked for."""
    noted = (home / "put").read_text().split() if (home / "put").exists() else []
    folder.scan()  # what was about to be claimed is put back
    for trigger in (*PERIODIC.values(), *FILES):
        if trigger.name not in noted:
            say(home / "put", trigger.name)
        elif folder.exists(trigger.name):
            continue
        folder.write(trigger, replace=True)


async def over(engine: TriggerEngine, log: TriggerLog, end: int) -> bool:
    marks = await log.list_cursors()
    if not all(name in marks and marks[name].upto > end - 60_000 - JITTER_MS for name in PERIODIC):
        return False
    left = {one.name for one in engine.status()}
    return not left & {trigger.name for trigger in FILES}


# --- afterwards ----------------------------------------------------------------------------------


async def check_home(home: Path) -> list[str]:
    store = SqliteStore(str(home / "workspace.db"), limits=LIMITS)
    await store.open()
    log = store.trigger_log()
    runs, marks = await log.list_runs(limit=100_000), await log.list_cursors()
    heard: Counter[str] = Counter()
    sessions: dict[str, str] = {}
    for standing in await store.list_sessions(limit=10_000):
        for record in await store.read_records(standing.key, limit=100_000):
            if isinstance(record.event, Received):
                heard[record.event.id] += 1
                sessions[record.event.id] = standing.key
        if standing.unfinished:
            sessions[f"unfinished {standing.key}"] = standing.key
    await store.close()
    wrong = [f"{id} was heard {count} times" for id, count in heard.items() if count > 1]
    fired = {id_of(run.trigger, run.key): run for run in runs if run.result == "fired"}
    wrong += [f"{id} was fired and not heard" for id in fired if id not in heard]
    wrong += [f"{id} was heard and is not in the log" for id in heard if id not in fired]
    wrong += [f"{id} is said to be in {run.session}" for id, run in fired.items() if sessions.get(id) != run.session]
    for name, trigger in PERIODIC.items():
        wrong += fates(name, trigger, [run for run in runs if run.trigger == name], marks[name].since, marks[name].upto)
    for trigger in FILES:
        wrong += once(home, trigger, [run for run in runs if run.trigger == trigger.name])
    return wrong


def fates(name: str, trigger: Trigger, runs: list[TriggerRun], since: int, upto: int) -> list[str]:
    """Every due time from when it was first seen has had one fate, by its policy."""
    due = TriggerSchedule(trigger.schedule).between(since, upto, 100_000)
    fate: Counter[int] = Counter()
    for run in runs:
        if run.result == "missed":
            first, _, last = run.key.removeprefix("missed:").partition("/")
            covered = [one for one in due if first <= format_due_time(one) <= last]
            said = int(run.note.split()[0]) if " times, " in run.note else 1
            fate.update(covered)
            if len(covered) != said:
                fate[-1] += 1
        else:
            fate[run.due] += 1
    wrong = [f"{name}: {format_due_time(one)} had {fate[one]} fates" for one in due if fate[one] != 1]
    wrong += [f"{name}: {one} is no due time" for one in fate if one not in due]
    allowed = {"fired", "asleep"} if name == "check" else {"fired"}
    for run in runs:
        overtaken = run.result == "missed" and run.note.endswith("waited for a full lane")
        if run.result not in allowed and not overtaken and (run.result != "missed" or trigger.missed == "all"):
            wrong.append(f"{name}: {run}")
    return wrong


def once(home: Path, trigger: Trigger, runs: list[TriggerRun]) -> list[str]:
    """A file was dealt with once, and lies where it belongs."""
    wrong = [] if len(runs) == 1 else [f"{trigger.name} has {len(runs)} runs"]
    places = [
        place for place in ("", "firing", "done", "failed") for path in (home / "events" / place).glob("*.json")
        if path.stem.split("--")[-1].split(".")[0] == trigger.name
    ]  # fmt: skip
    return wrong if places == ["done"] else [*wrong, f"the file of {trigger.name} is in {places}"]


# --- processes -----------------------------------------------------------------------------------

CALLS = ("rename", "open", "unlink", "fsync", "utime", "scandir", "listdir", "makedirs", "lstat")


def kill_at_call(at: int) -> list[int]:
    """Count every call that files are handled by; end the process before the nth, or after it, if that is negative."""
    seen = [0]

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            if not any("events" in str(one) for one in args[:2]) and real is not os.fsync:
                return real(*args, **named)
            seen[0] += 1
            if seen[0] == at:
                os.kill(os.getpid(), signal.SIGKILL)
            done = real(*args, **named)
            if seen[0] == -at:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        return call

    for name in CALLS:
        setattr(os, name, counted(getattr(os, name)))
    return seen


def child(order: dict[str, Any]) -> dict[str, Any]:
    home, action, at = Path(order["home"]), order["action"], order["at"]
    if order["do"] == "check":
        return {"wrong": asyncio.run(check_home(home))}
    awaits = kill_at_handle(at if action == "await" else 0)
    calls = kill_at_call({"before": at, "after": -at}.get(action, 0))
    plan = Plan(action if action in ("kill", "torn", "power") else "", at, seed=order["seed"])
    full = asyncio.run(run_process(home, plan, START_MS + order["start_s"] * 1000))
    return {"ops": plan.count, "awaits": awaits[0], "calls": calls[0], "full": full}


def experiment(order: dict[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        signal.alarm(120)
        try:
            result = child(order)
        except BaseException:  # a child must report every result to its parent, and then exit
            result = {"error": traceback.format_exc()}
        os.write(writing, json.dumps(result).encode())
        os._exit(0)
    os.close(writing)
    told = b"".join(iter(lambda: os.read(reading, 65536), b""))
    os.close(reading)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return {"killed": os.WTERMSIG(status)}
    return json.loads(told)  # type: ignore[no-any-return]


if __name__ == "__main__":
    import cronsim  # noqa: F401  # once, for all that are forked from here

    TriggerSchedule(EVERY_MINUTE).next_after(START_MS)
    for line in sys.stdin:
        print(json.dumps(experiment(json.loads(line))), flush=True)
