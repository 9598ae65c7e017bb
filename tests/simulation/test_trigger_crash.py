"""U12: every due time is handled exactly once, wherever the process is stopped.

A life with triggers of every kind (immediate, one-shot, periodic, checks, a lane that is full, a room) is killed at
writes of its store, at awaits, and before and after calls on its event files, some twice; the next one finishes it.
Then a year of schedules with a stop every few days, compared with what each policy says. `make test` takes a sample
of the points; `make test-all` takes all of them, more than a thousand.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from support.paths import SUPPORT
from support.trigger_world import at_once, periodic, virtual, wakes

from mainstay.core.triggers import MissedPolicy, SubmittedPrompt, Trigger
from mainstay.store.memory.trigger_log import InMemoryTriggerLog
from mainstay.testing import VirtualClock
from mainstay.testing.virtual_time import START_MS
from mainstay.triggers.async_event_folder import AsyncEventFolder
from mainstay.triggers.engine import TriggerEngine
from mainstay.triggers.event_folder import EventFolder
from mainstay.triggers.misfire_policy import TriggerEngineSettings, apply_jitter, format_due_time
from mainstay.triggers.schedule import TriggerSchedule

WHOLE = bool(os.environ.get("MAINSTAY_TEST_ALL"))
SCRIPT = SUPPORT / "trigger_process.py"
WAYS = ("kill", "torn", "power", "await", "before", "after")
SHARES = 4 if WHOLE else 1
SAMPLE = 4  # points for each way to die
GAP_S = 300  # from the beginning of one life to that of the next


class CrashRuns:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def order(self, home: Path, do: str = "live", **more: Any) -> Any:
        order = {"home": str(home), "do": do, "action": "", "at": 0, "seed": 0, "start_s": 0, **more}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        result = json.loads(self._process.stdout.readline())
        assert "error" not in result, f"{more}: {result['error']}"
        return result

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=120)
        self._process.stdout.close()


@pytest.fixture(scope="module")
def crash_runs() -> Iterator[CrashRuns]:
    made = CrashRuns()
    yield made
    made.close()


@pytest.fixture(scope="module")
def points(crash_runs: CrashRuns) -> dict[str, int]:
    """How many writes, awaits and calls an undisturbed life has at least, for no two are the same; and that it leaves
    nothing wrong behind."""
    results = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            results.append(crash_runs.order(Path(folder)))
            assert crash_runs.order(Path(folder), "check")["wrong"] == []
    assert sum(result["full"] for result in results) > 0, "some found their lane full"
    writes, awaits, calls = (min(result[name] for result in results) for name in ("ops", "awaits", "calls"))
    return {"kill": writes, "torn": writes, "power": writes, "await": awaits, "before": calls, "after": calls}


def end(crash_runs: CrashRuns, deaths: list[tuple[str, int]], seed: int) -> int:
    """Die as told, live on, and look. How often it really died."""
    died = 0
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for action, at in deaths:
            died += "killed" in crash_runs.order(home, action=action, at=at, seed=seed, start_s=died * GAP_S)
        crash_runs.order(home, start_s=len(deaths) * GAP_S)
        wrong = crash_runs.order(home, "check")["wrong"]
        assert wrong == [], f"after {deaths}, seed {seed}: {wrong}"
    return died


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("action", WAYS)
def test_u12_killed_anywhere_on_the_way_every_due_time_is_dealt_with_once(
    crash_runs: CrashRuns, points: dict[str, int], action: str, share: int
) -> None:
    most = points[action]
    assert most > 80, "the life has that many points"
    chance = random.Random(f"{action} {share}")
    every = range(1 + share, most + 1, SHARES)
    chosen = list(every) if WHOLE else sorted(chance.sample(every, SAMPLE))
    died = sum(end(crash_runs, [(action, at)], seed=at) for at in chosen)
    assert died > len(chosen) // 3, "some are over before they come to it, but not all"


@pytest.mark.parametrize("share", range(SHARES))
def test_u12_killed_again_while_it_recovers_it_still_loses_and_repeats_nothing(
    crash_runs: CrashRuns, points: dict[str, int], share: int
) -> None:
    chance = random.Random(share)
    for seed in range(40 if WHOLE else 4):
        ways = chance.choices(WAYS, k=2)
        end(crash_runs, [(way, chance.randrange(1, points[way])) for way in ways], seed)


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (
            "DELETE FROM trigger_runs WHERE name='all' AND due=(SELECT max(due) FROM trigger_runs WHERE name='all')",
            "0 fates",
        ),
        ("DELETE FROM trigger_runs WHERE name='room'", "was heard and is not in the log"),
        ("UPDATE trigger_runs SET key=key || 'x' WHERE name='once' AND came='fired'", "was fired and not heard"),
        ("UPDATE events SET body=replace(body, 'trigger:now:', 'trigger:too:')", "was fired and not heard"),
        ("DELETE FROM trigger_runs WHERE name='soon'", "soon has 0 runs"),
    ],
    ids=["a time", "a log", "a key", "an input", "a file"],
)
def test_u12_the_checks_detect_violations(crash_runs: CrashRuns, harm: str, told: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        crash_runs.order(home)
        db = apsw.Connection(str(home / "workspace.db"))
        db.execute(harm)
        assert db.changes()
        db.close()
        wrong = crash_runs.order(home, "check")["wrong"]
        assert any(told in one for one in wrong), wrong


# --- a year --------------------------------------------------------------------------------------

DAY_MS = 86_400_000
YEAR_MS = 365 * DAY_MS
SCHEDULES = (
    ("17 */2 * * *", "UTC", 0),
    ("0 9 * * MON-FRI", "Europe/Lisbon", 0),
    ("30 2 * * *", "America/New_York", 0),
    ("*/30 1-3 * * *", "Australia/Lord_Howe", 0),
    ("0 */6 * * *", "Asia/Kolkata", 600),
    ("0 0 1 * *", "Europe/Berlin", 0),
    ("45 23 * * SUN", "Africa/Cairo", 1800),
)
POLICIES: tuple[MissedPolicy, ...] = ("once", "skip", "all")


class DurableSubmissions:
    """Lanes that remember submissions over restarts: once under each key."""

    def __init__(self) -> None:
        self.book: dict[tuple[str, str], int] = {}

    async def submit(self, trigger: Trigger, key: str) -> SubmittedPrompt:
        await asyncio.sleep(0)
        return SubmittedPrompt("s", self.book.setdefault((trigger.name, key), len(self.book) + 1))

    async def find_submitted(self, trigger: Trigger, key: str) -> SubmittedPrompt | None:
        seq = self.book.get((trigger.name, key))
        return SubmittedPrompt("s", seq) if seq is not None else None

    async def get_outcome(self, session: str, seq: int) -> str:
        return "answered"


def stretches(chance: random.Random) -> list[tuple[int, int]]:
    """When it runs, in a year: some days at a time, with a moment or some days in between."""
    found, at = [], START_MS + 17_000
    while at < START_MS + YEAR_MS:
        end = at + chance.randrange(DAY_MS // 4, 6 * DAY_MS) // 60_000 * 60_000
        found.append((at, end))
        at = end + chance.choice((60_000, 120_000, 3 * 3_600_000, 2 * DAY_MS, 9 * DAY_MS)) + 1_000
        at = at // 60_000 * 60_000 + 17_000
    return found


def owed(trigger: Trigger, rules: TriggerEngineSettings, up: list[tuple[int, int]]) -> tuple[list[str], int]:
    """What is to be fired, and how many times are to be passed over: straight from the policies."""
    begun, fired, passed, before = up[0][0], [], 0, up[0][0]
    meant = [
        (due, apply_jitter(trigger, due))
        for due in TriggerSchedule(trigger.schedule, trigger.timezone).between(begun, up[-1][1], 10**6)
    ]
    for start, stop in up:
        late = [due for due, at in meant if before < at < start - rules.grace_s * 1000]
        keep = {"once": 1, "skip": 0, "all": rules.catch_up_max}[trigger.missed]
        run = late[max(len(late) - keep, 0) :]
        passed += len(late) - len(run)
        fired += run + [due for due, at in meant if max(start - rules.grace_s * 1000, before) <= at <= stop]
        before = stop
    return [format_due_time(due) for due in fired], passed


@virtual
async def year(where: Path, seed: int) -> None:
    rules = TriggerEngineSettings(catch_up_max=3, scan_interval_s=4 * 3600, sleep_s_max=3600)
    clock, door, log = VirtualClock(START_MS + 17_000), DurableSubmissions(), InMemoryTriggerLog(runs_max=10**6)
    folder = EventFolder(str(where / "events"), clock)
    triggers = [
        periodic(f"{number}-{missed}", schedule, timezone=zone, jitter_s=jitter, missed=missed)
        for number, (schedule, zone, jitter) in enumerate(SCHEDULES)
        for missed in POLICIES
    ]
    for trigger in triggers:
        folder.write(trigger)
    up = stretches(random.Random(seed))
    for start, stop in up:
        await asyncio.sleep((start - clock.now_ms()) / 1000)
        engine = TriggerEngine(AsyncEventFolder(folder, at_once), log, door, check=wakes, clock=clock, rules=rules)
        running = asyncio.ensure_future(engine.run())
        await asyncio.sleep((stop - clock.now_ms()) / 1000)
        await asyncio.sleep(0.5)  # what is due at this very moment is still done
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    runs = await log.list_runs(limit=10**6)
    assert len(up) > 50
    for trigger in triggers:
        own = [run for run in reversed(runs) if run.trigger == trigger.name]
        fired, passed = owed(trigger, rules, up)
        assert [run.key for run in own if run.result == "fired"] == fired, trigger.name
        assert [key for name, key in door.book if name == trigger.name] == fired
        told = [run.note.split()[0] if " times, " in run.note else "1" for run in own if run.result == "missed"]
        assert sum(int(one) for one in told) == passed, trigger.name
        assert all(run.outcome == "answered" for run in own[:-5] if run.result == "fired")


@pytest.mark.parametrize("seed", range(6 if WHOLE else 1))
def test_f30_u12_a_year_of_schedules_with_a_stop_every_few_days_is_what_each_policy_says(
    tmp_path: Path, seed: int
) -> None:
    year(tmp_path, seed)
