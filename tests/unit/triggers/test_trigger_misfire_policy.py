"""The misfire policy: every due time is run or skipped, in order, for any policy and jitter."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.trigger_world import periodic

from mainstay.testing.virtual_time import START_MS
from mainstay.triggers.misfire_policy import (
    COUNTED_MAX,
    SkippedDueTimes,
    TriggerEngineSettings,
    apply_jitter,
    cursor_digest,
    exclude_recorded,
    find_overtaken,
    format_due_time,
    plan_catch_up,
)
from mainstay.triggers.schedule import TriggerSchedule

MINUTE = 60_000
HOURLY = TriggerSchedule("0 * * * *")


@settings(max_examples=150, deadline=None)
@given(
    schedule=st.sampled_from(["* * * * *", "*/7 * * * *", "0 * * * *", "30 2 * * *"]),
    missed=st.sampled_from(["once", "skip", "all"]),
    jitter_s=st.sampled_from([0.0, 30.0, 600.0, 90_000.0]),
    gone=st.integers(0, 20 * 86_400_000),
    grace_s=st.sampled_from([1.0, 60.0, 7200.0]),
)
@example(schedule="* * * * *", missed="skip", jitter_s=0.0, gone=1001 * MINUTE, grace_s=1.0)  # one more than is counted
@example(schedule="* * * * *", missed="once", jitter_s=0.0, gone=1001 * MINUTE, grace_s=1.0)
@example(schedule="* * * * *", missed="all", jitter_s=0.0, gone=2001 * MINUTE, grace_s=7200.0)
def test_every_past_due_time_is_run_or_skipped_in_order(
    schedule: str, missed: Any, jitter_s: float, gone: int, grace_s: float
) -> None:
    trigger, times, now = (
        periodic("t", schedule, missed=missed, jitter_s=jitter_s),
        TriggerSchedule(schedule),
        START_MS + gone,
    )
    rules = TriggerEngineSettings(grace_s=grace_s, catch_up_max=3)
    made = plan_catch_up(trigger, times, START_MS, now, rules)
    due = times.between(START_MS, now, 10**6)
    dealt = due[: due.index(made.due_times[-1]) + 1] if made.due_times else []
    if not made.due_times and made.skipped is not None:
        dealt = due[: due.index(made.skipped.last) + 1]
    gone_by = [one for one in dealt if one not in made.due_times]
    assert list(made.due_times) == dealt[len(gone_by) :], "in order, and nothing left out"
    if made.skipped is not None:
        assert (made.skipped.first, made.skipped.last) == (gone_by[0], gone_by[-1])
        assert made.skipped.has_more == (made.skipped.count != len(gone_by))
        assert made.skipped.count == min(len(gone_by), made.skipped.count)
    else:
        assert gone_by == []
    assert all(apply_jitter(trigger, one) <= now for one in made.due_times), "none before it is meant to be"
    if len(dealt) < len(due):  # the next is kept back by jitter, its own or that of one before it
        assert max(apply_jitter(trigger, one) for one in due[: len(dealt) + 1]) > now
    late = [one for one in made.due_times if now - apply_jitter(trigger, one) > grace_s * 1000]
    if not jitter_s:
        assert len(late) <= {"once": 1, "skip": 0, "all": 3}[missed]


def test_of_very_many_times_only_so_many_are_counted() -> None:
    trigger, now = periodic("t", "* * * * *"), START_MS + 400 * 86_400_000 + 30_000
    made = plan_catch_up(trigger, TriggerSchedule("* * * * *"), START_MS, now, TriggerEngineSettings(grace_s=1))
    last = now - 30_000
    assert made.due_times == (last,)
    assert made.skipped == SkippedDueTimes(COUNTED_MAX, START_MS + MINUTE, last - MINUTE, has_more=True)
    assert find_overtaken(TriggerSchedule("* * * * *"), START_MS, now) == SkippedDueTimes(
        COUNTED_MAX, START_MS + MINUTE, last, True
    )


def test_recorded_runs_are_not_counted_again() -> None:
    passed = SkippedDueTimes(5, 10, 50)
    assert exclude_recorded(passed, {10, 30, 60}) == SkippedDueTimes(3, 10, 50)
    assert exclude_recorded(passed, {10, 20, 30, 40, 50}).count == 0


def test_times_due_while_an_earlier_run_waited_are_one_run() -> None:
    assert find_overtaken(HOURLY, START_MS, START_MS + 59 * MINUTE) is None
    first = START_MS + 60 * MINUTE
    assert find_overtaken(HOURLY, START_MS, START_MS + 185 * MINUTE) == SkippedDueTimes(3, first, first + 120 * MINUTE)


def test_a_mark_holds_for_a_schedule_a_zone_and_a_target_and_not_for_words() -> None:
    one = periodic("t", "0 * * * *")
    same = [periodic("t", "0 * * * *", data="x"), periodic("t", "0 * * * *", jitter_s=9, missed="skip")]
    other = [
        periodic("t", "1 * * * *"), periodic("t", "0 * * * *", timezone="Asia/Kolkata"),
        periodic("t", "0 * * * *", paused=True),
    ]  # fmt: skip
    assert {cursor_digest(each) for each in same} == {cursor_digest(one)}
    assert len({cursor_digest(each) for each in (one, *other)}) == 4


def test_a_due_time_is_written_in_utc() -> None:
    assert format_due_time(START_MS) == "2026-01-01T00:00:00Z"
