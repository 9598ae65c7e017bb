"""The engine of triggers: each due time once, despite changes of clock, files, lanes and disk."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from support.trigger_world import BELLS, World, at_once, id_of, one_shot, periodic, virtual, wakes

from mainstay.agent.system_clock import SystemClock
from mainstay.core.errors import InputRefused, LaneFull, RequestRefused, StoreBusy, StoreFull
from mainstay.core.events import SessionChanged
from mainstay.core.input_envelope import InputEnvelope, to_parts
from mainstay.core.limits import Limits
from mainstay.core.memory_tiers import is_untrusted
from mainstay.core.messages import Text
from mainstay.core.ports import Context
from mainstay.core.triggers import Trigger, TriggerCursor, TriggerRun, TriggerTarget, WakeCheckResult
from mainstay.core.worker_threads import run_in_thread
from mainstay.providers.scripted import Raise, Stall
from mainstay.store.memory.trigger_log import InMemoryTriggerLog
from mainstay.store.sqlite.store import SqliteStore
from mainstay.testing import MemoryStore
from mainstay.testing.virtual_time import START_MS
from mainstay.triggers.async_event_folder import AsyncEventFolder
from mainstay.triggers.engine import TriggerEngine
from mainstay.triggers.event_folder import EventFolder
from mainstay.triggers.misfire_policy import TriggerEngineSettings, apply_jitter, format_due_time
from mainstay.triggers.run_executor import CONCURRENT_LATE_RUNS_MAX
from mainstay.triggers.schedule import TriggerSchedule
from mainstay.triggers.status_listing import list_statuses

PATIENT = Limits(model_timeout_s=1e6, model_idle_timeout_s=1e6)


@virtual
async def test_a_periodic_trigger_fires_at_every_due_time_after_it_was_first_seen(tmp_path: Path) -> None:
    """GUPPY-025: it enters the same way as messages of people."""
    async with World(tmp_path) as world:
        world.put(periodic("hourly", "0 * * * *"))
        await world.pass_s(3 * 3600 + 60)
        times = ["2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z", "2026-01-01T03:00:00Z"]
        assert await world.keys("hourly") == times, "not at the beginning, which is when it was first seen"
        assert await world.heard() == [id_of("hourly", key) for key in times]
        assert [run.outcome for run in await world.runs()] == ["answered"] * 3
        assert all(0 <= run.at - run.due < 100 for run in await world.runs()), "and in time"


@virtual
async def test_an_immediate_trigger_fires_when_its_file_appears_and_its_file_is_kept(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        await world.pass_s(10)
        world.put(Trigger(name="alarm", kind="immediate", text="wake up", target=BELLS))
        await world.until(lambda: world.files("done"), within_s=1)
        (run,) = await world.runs("alarm")
        assert await world.heard() == [id_of("alarm", run.key)]
        assert (world.files(), world.files("firing"), world.files("done")) == ([], [], ["alarm.json"])
        world.put(Trigger(name="alarm", kind="immediate", text="wake up", target=BELLS))
        await world.until(lambda: len(world.files("done")) == 2, within_s=1)
        assert len(await world.heard()) == 2, "the same file a second time is another occasion"


@virtual
async def test_a_one_shot_trigger_fires_once_at_its_time(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        world.put(one_shot("tea", "2026-01-01T04:30:00", timezone="Europe/Lisbon"))
        await world.pass_s(4.5 * 3600 - 1)
        assert await world.runs() == []
        assert world.status("tea").next == START_MS + int(4.5 * 3_600_000)
        await world.pass_s(2)
        (run,) = await world.runs("tea", "fired")
        assert run.due == START_MS + int(4.5 * 3_600_000)
        assert world.files("done") == ["tea.json"]


@virtual
async def test_files_that_are_there_at_the_start_are_fired_a_few_at_a_time_and_all_of_them(tmp_path: Path) -> None:
    """GUPPY-104."""
    world = World(tmp_path, delay_s=5.0)
    folder = EventFolder(str(tmp_path / "events"), world.clock)
    for number in range(40):
        folder.write(
            Trigger(name=f"f{number}", kind="immediate", text="go", target=TriggerTarget(session=f"s{number}"))
        )
    async with world:
        await world.until(lambda: len(world.files("done")) == 40)
        assert await world.keys("f0") != []
        assert world.provider.most == CONCURRENT_LATE_RUNS_MAX
        assert world.clock.monotonic() >= 40 / CONCURRENT_LATE_RUNS_MAX * 5.0 - 5.0


@virtual
async def test_in_a_room_every_run_is_a_thread_of_its_own(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        world.put(periodic("report", "0 * * * *", target=TriggerTarget(channel="slack", room="C1")))
        await world.pass_s(2 * 3600 + 60)
        sessions = [run.session for run in await world.runs("report")]
        assert len(set(sessions)) == 2
        assert all(one.startswith("slack:C1:report-") for one in sessions)


# --- what was missed -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missed", "fired", "passed"),
    [
        ("once", [4, 5], "3 times, 2026-01-01T01:00:00Z to 2026-01-01T03:00:00Z"),
        ("skip", [5], "4 times, 2026-01-01T01:00:00Z to 2026-01-01T04:00:00Z"),
        ("all", [3, 4, 5], "2 times, 2026-01-01T01:00:00Z to 2026-01-01T02:00:00Z"),
    ],
)
@virtual
async def test_f30_times_missed_while_no_process_ran_follow_the_policy(
    tmp_path: Path, missed: Any, fired: list[int], passed: str
) -> None:
    world = World(tmp_path, rules=TriggerEngineSettings(catch_up_max=2))
    async with world:
        world.put(periodic("hourly", "0 * * * *", missed=missed))
        await world.pass_s(60)
    await world.pass_s(4.5 * 3600)
    async with world:
        await world.pass_s(3600)
        assert await world.keys("hourly") == [f"2026-01-01T0{hour}:00:00Z" for hour in fired]
        (run,) = await world.runs("hourly", "missed")
        assert run.note == f"{passed}, were skipped while no process was running"


@pytest.mark.parametrize(("missed", "fired"), [("once", 1), ("skip", 0), ("all", 1)])
@virtual
async def test_f30_a_one_shot_time_that_was_missed_goes_by_the_policy_too(
    tmp_path: Path, missed: Any, fired: int
) -> None:
    world = World(tmp_path)
    async with world:
        world.put(one_shot("tea", "2026-01-01T01:00:00", missed=missed))
        await world.pass_s(60)
    await world.pass_s(7200)
    async with world:
        await world.pass_s(60)
        assert len(await world.keys("tea")) == fired
        assert len(await world.keys("tea", "missed")) == 1 - fired
        assert world.files("done")[0] == "tea.json"


@virtual
async def test_f30_after_thirty_days_five_hundred_triggers_catch_up_without_a_stampede(tmp_path: Path) -> None:
    world = World(tmp_path, delay_s=2.0)
    schedules = {f"t{n}": f"{n % 60} {n % 24} * * *" if n % 100 else "* * * * *" for n in range(500)}
    policies: dict[str, Any] = {name: ("once", "skip", "all")[n % 3] for n, name in enumerate(schedules)}
    async with world:
        for name, schedule in schedules.items():
            world.put(periodic(name, schedule, missed=policies[name], target=TriggerTarget(session=name)))
        await world.pass_s(60)
    since = {name: mark.upto for name, mark in (await world.log.list_cursors()).items()}
    await world.pass_s(30 * 86_400 + 12 * 3600 + 33 * 60 + 15)  # nothing is due at this very moment
    async with world:
        await world.pass_s(40)
        assert world.provider.most == CONCURRENT_LATE_RUNS_MAX, "whatever was missed, no more at a time"
        await world.until(lambda: not any(e.busy for e in world.engine._states.values()), within_s=86_400, step_s=7)
        now = {name: mark.upto for name, mark in (await world.log.list_cursors()).items()}
    runs: dict[str, list[TriggerRun]] = {name: [] for name in schedules}
    for run in await world.runs():
        runs[run.trigger].append(run)
    for name, schedule in schedules.items():
        due = TriggerSchedule(schedule).between(START_MS, now[name], 100_000)
        fired = [run.key for run in runs[name] if run.result == "fired"]
        passed = [run for run in runs[name] if run.result == "missed"]
        assert len(fired) == len(set(fired))
        assert set(fired) <= {format_due_time(one) for one in due}
        if schedule != "* * * * *":  # of more than a thousand it is not said how many they were
            assert len(fired) + sum(count_of(run) for run in passed) == len(due)
            assert len(fired) - {"once": 1, "skip": 0, "all": 10}[policies[name]] in (0, 1)
        elif policies[name] == "all":
            assert len(fired) >= 10
        assert since[name] < START_MS + 60_000


def count_of(run: TriggerRun) -> int:
    """How many times a record of passed ones stands for."""
    return int(run.note.split()[0]) if " times, " in run.note else 1


# --- clocks that are set -------------------------------------------------------------------------


@virtual
async def test_a_clock_that_is_set_forward_over_due_times_has_missed_them(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        world.put(periodic("hourly", "0 * * * *"))
        await world.pass_s(60)
        world.clock.jump(5.5 * 3600)
        await world.pass_s(6)  # no sleep is longer
        assert await world.keys("hourly") == ["2026-01-01T05:00:00Z"]
        assert (await world.runs("hourly", "missed"))[0].note.startswith("4 times")


@virtual
async def test_a_clock_that_is_set_back_has_nothing_run_again_and_nothing_lost(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        world.put(periodic("hourly", "0 * * * *", missed="all"))
        await world.pass_s(3 * 3600 + 60)
        world.clock.jump(-2 * 3600)
        await world.pass_s(4 * 3600)
        expected = [f"2026-01-01T0{hour}:00:00Z" for hour in (1, 2, 3, 4, 5)]
        assert await world.keys("hourly") == expected
        assert await world.heard() == [id_of("hourly", key) for key in expected]
        assert await world.runs("hourly", "missed") == []


@virtual
async def test_a_clock_that_is_set_back_while_it_is_stopped_is_followed_as_well(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world:
        world.put(periodic("hourly", "0 * * * *"))
        await world.pass_s(5 * 3600 + 60)
    world.clock.jump(-3 * 3600)
    async with world:
        await world.pass_s(60)
    await world.pass_s(2.5 * 3600)  # over times that have run, and on
    async with world:
        await world.pass_s(2 * 3600)
        assert await world.keys("hourly") == [f"2026-01-01T0{hour}:00:00Z" for hour in (1, 2, 3, 4, 5, 6)]
        assert await world.runs("hourly", "missed") == []


@virtual
async def test_a_clock_that_was_wrong_by_years_does_not_silence_a_trigger_for_years(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world:
        world.put(periodic("hourly", "0 * * * *"), periodic("minutely", "* * * * *", missed="skip"))
        await world.pass_s(60)
        world.clock.jump(9 * 365 * 86_400 + 1800)
        await world.pass_s(30)
    world.clock.jump(-9 * 365 * 86_400 - 1800)
    async with world:
        await world.pass_s(3 * 3600)
        assert (await world.keys("hourly"))[1:] == [f"2026-01-01T0{hour}:00:00Z" for hour in (1, 2, 3)]
        assert len(await world.keys("minutely")) > 150
        assert "more than 1000 times" in (await world.runs("hourly", "missed"))[0].note


def test_jitter_is_the_same_for_the_same_time_and_within_its_bound() -> None:
    trigger = periodic("hourly", "0 * * * *", jitter_s=600)
    times = TriggerSchedule("0 * * * *").between(START_MS, START_MS + 30 * 86_400_000, 1000)
    later = [apply_jitter(trigger, due) - due for due in times]
    assert later == [apply_jitter(trigger, due) - due for due in times]
    assert all(0 <= one < 600_000 for one in later)
    assert max(later) - min(later) > 500_000, "and it is spread over all of it"
    assert later != [apply_jitter(periodic("other", "0 * * * *", jitter_s=600), due) - due for due in times]


@virtual
async def test_with_jitter_each_time_is_run_once_and_as_much_later(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        trigger = periodic("often", "*/5 * * * *", jitter_s=900)  # longer than from one to the next
        world.put(trigger)
        await world.pass_s(3600)
        runs = await world.runs("often")
        dues = [run.due for run in runs]
        assert dues == TriggerSchedule("*/5 * * * *").between(START_MS, dues[-1], 100)
        assert len(dues) >= 9
        assert all(run.at >= apply_jitter(trigger, run.due) for run in runs)
        assert {run.result for run in runs} == {"fired"}


# --- checks --------------------------------------------------------------------------------------


@virtual
async def test_a_check_skips_the_model_or_adds_its_output_to_the_prompt(tmp_path: Path) -> None:
    """U12: a cheap check can keep the model asleep; what it says is data from outside."""
    answers = iter(
        [
            WakeCheckResult(False),
            WakeCheckResult(True, "two new mails"),
            WakeCheckResult(False, trouble="its check ended with 3"),
        ]
    )

    async def check(trigger: Trigger) -> WakeCheckResult:
        return next(answers)

    async with World(tmp_path, check=check) as world:
        world.put(periodic("mail", "0 * * * *", check="./new-mail", data="inbox: a"))
        await world.pass_s(3 * 3600 + 60)
        assert [run.result for run in await world.runs("mail")] == ["asleep", "fired", "failed"]
        assert (await world.runs("mail"))[2].note == "its check ended with 3"
        (prompt,) = await world.prompts()
        assert [part.text for part in prompt.parts if isinstance(part, Text)] == [
            "this is mail",
            "inbox: a\n\ntwo new mails",
        ]
        assert [is_untrusted(part.origin) for part in prompt.parts if isinstance(part, Text)] == [False, True]
        assert len(world.provider.asked) == 1, "the model was woken once"


@virtual
async def test_a_one_shot_with_a_negative_check_is_done_and_one_with_a_failing_check_is_not(tmp_path: Path) -> None:
    async def check(trigger: Trigger) -> WakeCheckResult:
        return WakeCheckResult(False, trouble="its check did not end within 30 s" if trigger.name == "slow" else "")

    async with World(tmp_path, check=check) as world:
        world.put(
            one_shot("quiet", "2026-01-01T01:00:00", check="x"), one_shot("slow", "2026-01-01T01:00:00", check="x")
        )
        await world.pass_s(3660)
        assert world.files("done") == ["quiet.json", "quiet.note.txt"]
        assert world.files("failed") == ["slow.json", "slow.reason.txt"]
        assert "did not end within 30 s" in (tmp_path / "events/failed/slow.reason.txt").read_text()
        assert await world.heard() == []


@virtual
async def test_checks_that_hang_delay_no_other_trigger(tmp_path: Path) -> None:
    async def check(trigger: Trigger) -> WakeCheckResult:
        await asyncio.sleep(3000)
        return WakeCheckResult(True)

    async with World(tmp_path, check=check) as world:
        hanging = [periodic(f"hangs{number}", "0 * * * *", check="sleep") for number in range(40)]
        world.put(*hanging, periodic("well", "0 * * * *"))
        await world.pass_s(3600 + 20)
        assert await world.keys("well") == ["2026-01-01T01:00:00Z"]
        assert world.status("hangs7").waiting == "its check runs"
        assert await world.runs("hangs7") == []


# --- lanes ---------------------------------------------------------------------------------------


@virtual
async def test_a_trigger_waits_while_its_session_is_full_and_the_others_go_on(tmp_path: Path) -> None:
    """GUPPY-107: the same limit of waiting prompts as for a person; then it waits its turn, as long as it takes."""
    gate = Stall("done")
    scripts = {"busy": gate}

    def answer(context: Context, options: Any) -> Any:
        return scripts.get(context.messages[-1].text, "done")

    async with World(tmp_path, script=answer, limits=PATIENT) as world:
        lane = world.lanes.get("bells")
        for number in range(6):  # one runs, and five wait
            await lane.accept(InputEnvelope(parts=to_parts("busy" if not number else "more"), thread="bells"))
        world.put(
            periodic("often", "*/10 * * * *"), periodic("other", "*/10 * * * *", target=TriggerTarget(session="free"))
        )
        await world.pass_s(45 * 60)
        assert await world.runs("often") == []
        assert "is busy" in world.status("often").waiting
        assert len(await world.keys("other")) == 4
        gate.release()
        await world.until(lambda: not world.status("often").waiting, within_s=61)
        await world.pass_s(1)
        assert await world.keys("often") == ["2026-01-01T00:10:00Z"]
        (passed,) = await world.runs("often", "missed")
        assert passed.note == (
            "3 times, 2026-01-01T00:20:00Z to 2026-01-01T00:40:00Z, were skipped "
            "while an earlier one waited for a full lane"
        )
        await world.pass_s(10 * 60)
        assert (await world.keys("often"))[-1] == "2026-01-01T00:50:00Z"


@virtual
async def test_files_for_a_busy_thread_keep_their_order(tmp_path: Path) -> None:
    """GUPPY-107: each file is put while the lane is full; retries with backoff do not let a later one overtake."""
    gate = Stall("done")

    def answer(context: Context, options: Any) -> Any:
        return gate if context.messages[-1].text == "busy" else "done"

    names = ["ninth", "eighth", "seventh", "sixth"]
    async with World(tmp_path, script=answer, limits=PATIENT) as world:
        lane = world.lanes.get("bells")
        for number in range(6):  # one runs, and five wait
            await lane.accept(InputEnvelope(parts=to_parts("busy" if not number else "more"), thread="bells"))
        for number, name in enumerate(names):
            if number % 2:
                world.put(one_shot(name, format_due_time(world.clock.now_ms() + 5_000)))
            else:
                world.put(Trigger(name=name, kind="immediate", text=f"this is {name}", target=BELLS))
            await world.pass_s(23)
        elsewhere = TriggerTarget(session="free")
        world.put(Trigger(name="other", kind="immediate", text="this is other", target=elsewhere))
        await world.until(lambda: "other.json" not in world.files(), within_s=60)
        gate.release()
        await world.until(lambda: len(world.files("done")) == 5, within_s=600)
        fired = [event.parts[0].text for event in await world.prompts() if event.id.startswith("trigger:")]
        assert fired == [f"this is {name}" for name in names]


@virtual
async def test_catch_up_runs_keep_their_order(tmp_path: Path) -> None:
    """GUPPY-107, with the policy `all`: only what comes due while it waits is passed over."""
    world = World(tmp_path, delay_s=200.0)  # longer than from one to the next is waited for an answer
    async with world:
        world.put(periodic("hourly", "0 * * * *", missed="all"))
        await world.pass_s(60)
    await world.pass_s(10 * 3600 + 1800)
    async with world:
        await world.pass_s(3600)
        assert await world.keys("hourly") == [f"2026-01-01T{hour:02}:00:00Z" for hour in range(1, 12)]
        assert await world.runs("hourly", "missed") == []


@virtual
async def test_a_run_that_a_session_refuses_has_failed_and_its_file_says_why(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        await world.lanes.get("bells").record_changes(SessionChanged(status="archived"))
        world.put(periodic("hourly", "0 * * * *"), one_shot("tea", "2026-01-01T01:00:00"))
        await world.pass_s(3660)
        for name in ("hourly", "tea"):
            (run,) = await world.runs(name)
            assert (run.result, "is archived" in run.note) == ("failed", True)
        assert world.files("failed") == ["tea.json", "tea.reason.txt"]
        await world.lanes.get("bells").record_changes(SessionChanged(status="active"))
        await world.pass_s(3600)
        assert await world.keys("hourly") == ["2026-01-01T02:00:00Z"], "the next time is another"


# --- what files say ------------------------------------------------------------------------------


@virtual
async def test_a_trigger_for_another_workspace_is_ignored(tmp_path: Path) -> None:
    async with World(tmp_path, rules=TriggerEngineSettings(workspace="home")) as world:
        world.put(
            periodic("hourly", "0 * * * *", target=TriggerTarget(session="bells", workspace="work")),
            Trigger(name="now", kind="immediate", text="go", target=TriggerTarget(session="bells", workspace="work")),
            periodic("ours", "0 * * * *", target=TriggerTarget(session="bells", workspace="home")),
        )
        await world.pass_s(3660)
        assert [run.trigger for run in await world.runs()] == ["ours"]
        assert (world.status("hourly").waiting, world.status("hourly").next) == ("for the workspace work", 0)
        assert world.files() == ["hourly.json", "now.json", "ours.json"]


@virtual
async def test_due_times_during_a_pause_are_not_missed(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world:
        world.put(periodic("hourly", "0 * * * *", missed="all"))
        await world.pass_s(3660)
        world.folder.pause("hourly")
        await world.pass_s(2 * 3600)
        assert (world.status("hourly").paused, world.status("hourly").next) == (True, 0)
    await world.pass_s(2 * 3600)
    async with world:  # also if it stops and starts meanwhile
        await world.pass_s(2 * 3600)
        world.folder.pause("hourly", False)
        await world.pass_s(3600)
        assert await world.keys("hourly") == ["2026-01-01T01:00:00Z", "2026-01-01T08:00:00Z"]
        assert await world.runs("hourly", "missed") == []


@virtual
async def test_a_changed_schedule_starts_again_and_a_changed_text_does_not(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world:
        world.put(periodic("one", "0 * * * *", missed="all"), periodic("two", "0 * * * *", missed="all"))
        await world.pass_s(60)
    await world.pass_s(2 * 3600)
    async with world:
        world.put(periodic("one", "30 * * * *", missed="all"), periodic("two", "0 * * * *", missed="all", data="new"))
        await world.pass_s(2000)
        assert await world.keys("one") == ["2026-01-01T02:30:00Z"]
        assert await world.keys("two") == ["2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"]


@virtual
async def test_a_trigger_that_is_removed_is_forgotten_but_for_what_it_did(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        world.put(periodic("hourly", "0 * * * *", missed="all"))
        await world.pass_s(3660)
        world.folder.remove("hourly")
        await world.pass_s(2 * 3600)
        assert await world.log.list_cursors() == {}
        assert [one.name for one in world.engine.status()] == []
        world.put(periodic("hourly", "0 * * * *", missed="all"))
        await world.pass_s(3600)
        assert await world.keys("hourly") == ["2026-01-01T01:00:00Z", "2026-01-01T04:00:00Z"]


@virtual
async def test_a_briefly_missing_file_counts_as_being_replaced(tmp_path: Path) -> None:
    async with World(tmp_path, rules=TriggerEngineSettings(scan_interval_s=0.5)) as world:
        world.put(periodic("hourly", "1 * * * *"))
        await world.pass_s(58)
        raw = (tmp_path / "events/hourly.json").read_bytes()
        world.folder.remove("hourly")
        await world.pass_s(3)  # over its due time
        (tmp_path / "events/hourly.json").write_bytes(raw)
        await world.pass_s(3)
        assert await world.keys("hourly") == ["2026-01-01T00:01:00Z"]


@virtual
async def test_a_waiting_trigger_that_is_removed_waits_no_longer(tmp_path: Path) -> None:
    gate = Stall("done")
    async with World(tmp_path, script=lambda context, options: gate, limits=PATIENT) as world:
        for _ in range(6):
            await world.lanes.get("bells").accept(InputEnvelope(parts=to_parts("busy"), thread="bells"))
        world.put(periodic("hourly", "0 * * * *"))
        await world.pass_s(3660)
        world.folder.remove("hourly")
        await world.pass_s(180)
        assert world.engine.status() == []
        assert await world.log.list_cursors() == {}
        gate.release()
        await world.pass_s(180)
        assert await world.runs() == []


# --- how it ended --------------------------------------------------------------------------------


@virtual
async def test_how_a_turn_ended_is_written_down_also_by_the_next_process(tmp_path: Path) -> None:
    gate = Stall(Raise(RequestRefused("the model said no")))
    world = World(tmp_path, script=lambda context, options: gate)
    async with world:
        world.put(periodic("hourly", "0 * * * *"))
        await world.pass_s(3660)
        assert [run.outcome for run in await world.runs()] == [""]
    world.script = lambda context, options: "done after all"
    async with world:
        await world.pass_s(60)
        assert [run.outcome for run in await world.runs()] == ["answered"]


@virtual
async def test_a_turn_that_failed_says_so(tmp_path: Path) -> None:
    async with World(tmp_path, script=lambda context, options: Raise(RequestRefused("the model said no"))) as world:
        world.put(periodic("hourly", "0 * * * *"))
        await world.pass_s(3660)
        (run,) = await world.runs()
        assert run.outcome.startswith("failed: ")
        assert "the model said no" in run.outcome
        assert world.status("hourly").last is not None


# --- trouble -------------------------------------------------------------------------------------


class FailingLog(InMemoryTriggerLog):
    """Its disk says no until it is mended."""

    fail = False

    async def record_run(self, run: TriggerRun, cursor: TriggerCursor | None = None) -> bool:
        if self.fail:
            raise StoreBusy("somebody holds it")
        return await super().record_run(run, cursor)

    async def save_cursor(self, cursor: TriggerCursor) -> None:
        if self.fail:
            raise StoreBusy("somebody holds it")
        await super().save_cursor(cursor)


@virtual
async def test_a_log_that_fails_is_waited_for_and_nothing_runs_twice(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.log = failing = FailingLog()
    async with world:
        world.put(periodic("hourly", "0 * * * *", missed="all"))
        await world.pass_s(60)
        failing.fail = True
        world.put(periodic("late", "0 * * * *"))
        await world.pass_s(2 * 3600)
        assert world.status("hourly").waiting == "somebody holds it"
        assert world.status(".").trouble == "somebody holds it", "a new one has no mark, and is not run without"
        failing.fail = False
        await world.pass_s(3600)
        expected = [f"2026-01-01T0{hour}:00:00Z" for hour in (1, 2, 3)]
        assert await world.keys("hourly") == expected
        assert [id for id in await world.heard() if "hourly" in id] == [id_of("hourly", key) for key in expected]
        assert await world.keys("late") == expected[-1:]


@virtual
async def test_a_store_that_fails_is_waited_for(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world:
        assert isinstance(world.store, MemoryStore)
        world.put(periodic("hourly", "0 * * * *"))
        await world.pass_s(60)
        world.store.fail = StoreFull("no space left")
        await world.pass_s(3660)
        assert world.status("hourly").waiting == "no space left"
        world.store.fail = None
        await world.pass_s(120)
        assert await world.keys("hourly") == ["2026-01-01T01:00:00Z"]
        assert await world.heard() == [id_of("hourly", "2026-01-01T01:00:00Z")]


@virtual
async def test_an_error_of_one_trigger_affects_no_other(tmp_path: Path) -> None:
    async def check(trigger: Trigger) -> WakeCheckResult:
        raise RuntimeError("a bug in the check")

    async with World(tmp_path, check=check) as world:
        world.put(periodic("broken", "0 * * * *", check="x"), periodic("well", "0 * * * *"))
        (tmp_path / "events" / "torn.json").write_bytes(b'{"type": "imm')
        (tmp_path / "events" / "wrong.json").write_bytes(b"\x00\xff\x13")
        await world.pass_s(3660)
        assert await world.keys("well") == ["2026-01-01T01:00:00Z"]
        assert world.status("broken").trouble == "a bug in the check"
        assert "failed/wrong.json" in world.status("wrong").trouble
        await world.pass_s(3600)
        assert len(await world.keys("well")) == 2, "and the loop goes on"


# --- by hand -------------------------------------------------------------------------------------


@virtual
async def test_a_run_by_hand_is_one_of_its_own_and_moves_no_mark(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        world.put(periodic("hourly", "0 * * * *"), one_shot("tea", "2026-01-01T01:00:00"))
        await world.pass_s(60)
        marks = await world.log.list_cursors()
        first, second = await world.engine.run_now("hourly"), await world.engine.run_now("hourly")
        assert first.key != second.key
        assert await world.log.list_cursors() == marks
        await world.engine.run_now("tea")
        assert world.files() == ["hourly.json", "tea.json"], "its file waits for its time"
        await world.pass_s(3600)
        assert len(await world.keys("hourly")) == 3
        assert len(await world.keys("tea")) == 2
        with pytest.raises(InputRefused, match="there is no trigger 'nobody'"):
            await world.engine.run_now("nobody")


@virtual
async def test_a_manual_run_is_refused_while_the_session_is_busy(tmp_path: Path) -> None:
    gate = Stall("done")
    async with World(tmp_path, script=lambda context, options: gate) as world:
        world.put(periodic("hourly", "0 * * * *"))
        await world.pass_s(60)
        for _ in range(6):
            await world.engine.run_now("hourly")
        with pytest.raises(LaneFull):
            await world.engine.run_now("hourly")
        assert len(await world.runs()) == 6
        gate.release()


@virtual
async def test_triggers_can_be_listed_without_running_anything(tmp_path: Path) -> None:
    world = World(tmp_path)
    folder = EventFolder(str(tmp_path / "events"), world.clock)
    folder.write(periodic("hourly", "0 * * * *"))
    folder.write(Trigger(name="now", kind="immediate", text="go", target=BELLS))
    files, log = AsyncEventFolder(folder, at_once), InMemoryTriggerLog()
    found = await list_statuses(files, log, world.clock, TriggerEngineSettings())
    assert [(one.name, one.next) for one in found] == [("hourly", START_MS + 3_600_000), ("now", 0)]
    assert await world.runs() == []
    assert world.files() == ["hourly.json", "now.json"]


@virtual
async def test_a_trigger_that_was_only_listed_starts_when_it_is_run(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        pass
    folder, log = EventFolder(str(tmp_path / "events"), world.clock), InMemoryTriggerLog()
    folder.write(periodic("hourly", "0 * * * *"))
    engine = TriggerEngine(AsyncEventFolder(folder, at_once), log, world.door, check=wakes, clock=world.clock)
    await engine.scan_status()
    assert await log.list_cursors() == {}
    running = asyncio.ensure_future(engine.run())
    await world.pass_s(10)
    assert list(await log.list_cursors()) == ["hourly"], "on disk, before anything is due"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


# --- with real time, threads and files -----------------------------------------------------------


def loops() -> list[Any]:
    try:
        import uvloop
    except ImportError:
        return [asyncio.new_event_loop]
    return [asyncio.new_event_loop, uvloop.new_event_loop]


@pytest.mark.parametrize("loop", loops(), ids=lambda made: made.__module__.split(".")[0])
def test_woken_from_another_thread_it_sees_a_file_at_once(tmp_path: Path, loop: Any) -> None:
    async def whole() -> None:
        store = SqliteStore(str(tmp_path / "workspace.db"))
        await store.open()
        world = World(tmp_path, rules=TriggerEngineSettings(scan_interval_s=600.0), clock=SystemClock())  # type: ignore[arg-type]
        world.store, world.log, world.aside = store, store.trigger_log(), run_in_thread
        async with world:
            deadline = time.monotonic() + 120
            while not world.engine._has_scanned:
                await asyncio.sleep(0.01)
                assert time.monotonic() < deadline
            world.folder.write(Trigger(name="alarm", kind="immediate", text="wake up", target=BELLS))
            threading.Thread(target=world.engine.wake).start()
            while not world.files("done"):
                await asyncio.sleep(0.01)
                assert time.monotonic() < deadline
            assert len(await world.runs("alarm", "fired")) == 1
        await store.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(whole())
