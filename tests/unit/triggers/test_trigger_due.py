"""What a periodic trigger owes: every time is run or passed over, in order, whatever the policy and the jitter."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.trigger_world import periodic

from mainstay.testing.virtual import BEGINNING_MS
from mainstay.triggers.due import COUNTED_MAX, Passed, Rules, delayed, overtaken, plan, shape_of, without, written
from mainstay.triggers.times import Times

MINUTE = 60_000
HOURLY = Times("0 * * * *")


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
def test_every_time_that_has_come_is_run_or_passed_over_in_order(
    schedule: str, missed: Any, jitter_s: float, gone: int, grace_s: float
) -> None:
    trigger, times, now = (
        periodic("t", schedule, missed=missed, jitter_s=jitter_s),
        Times(schedule),
        BEGINNING_MS + gone,
    )
    rules = Rules(grace_s=grace_s, catch_up_max=3)
    made = plan(trigger, times, BEGINNING_MS, now, rules)
    due = times.between(BEGINNING_MS, now, 10**6)
    dealt = due[: due.index(made.run[-1]) + 1] if made.run else []
    if not made.run and made.passed is not None:
        dealt = due[: due.index(made.passed.last) + 1]
    gone_by = [one for one in dealt if one not in made.run]
    assert list(made.run) == dealt[len(gone_by) :], "in order, and nothing left out"
    if made.passed is not None:
        assert (made.passed.first, made.passed.last) == (gone_by[0], gone_by[-1])
        assert made.passed.more == (made.passed.count != len(gone_by))
        assert made.passed.count == min(len(gone_by), made.passed.count)
    else:
        assert gone_by == []
    assert all(delayed(trigger, one) <= now for one in made.run), "none before it is meant to be"
    if len(dealt) < len(due):  # the next is kept back by jitter, its own or that of one before it
        assert max(delayed(trigger, one) for one in due[: len(dealt) + 1]) > now
    late = [one for one in made.run if now - delayed(trigger, one) > grace_s * 1000]
    if not jitter_s:
        assert len(late) <= {"once": 1, "skip": 0, "all": 3}[missed]


def test_of_very_many_times_only_so_many_are_counted() -> None:
    trigger, now = periodic("t", "* * * * *"), BEGINNING_MS + 400 * 86_400_000 + 30_000
    made = plan(trigger, Times("* * * * *"), BEGINNING_MS, now, Rules(grace_s=1))
    last = now - 30_000
    assert made.run == (last,)
    assert made.passed == Passed(COUNTED_MAX, BEGINNING_MS + MINUTE, last - MINUTE, more=True)
    assert overtaken(Times("* * * * *"), BEGINNING_MS, now) == Passed(COUNTED_MAX, BEGINNING_MS + MINUTE, last, True)


def test_what_is_in_the_log_is_not_counted_again() -> None:
    passed = Passed(5, 10, 50)
    assert without(passed, {10, 30, 60}) == Passed(3, 10, 50)
    assert without(passed, {10, 20, 30, 40, 50}).count == 0


def test_what_came_while_an_earlier_one_waited_is_one_thing() -> None:
    assert overtaken(HOURLY, BEGINNING_MS, BEGINNING_MS + 59 * MINUTE) is None
    first = BEGINNING_MS + 60 * MINUTE
    assert overtaken(HOURLY, BEGINNING_MS, BEGINNING_MS + 185 * MINUTE) == Passed(3, first, first + 120 * MINUTE)


def test_a_mark_holds_for_a_schedule_a_zone_and_a_target_and_not_for_words() -> None:
    one = periodic("t", "0 * * * *")
    same = [periodic("t", "0 * * * *", data="x"), periodic("t", "0 * * * *", jitter_s=9, missed="skip")]
    other = [
        periodic("t", "1 * * * *"), periodic("t", "0 * * * *", timezone="Asia/Kolkata"),
        periodic("t", "0 * * * *", paused=True),
    ]  # fmt: skip
    assert {shape_of(each) for each in same} == {shape_of(one)}
    assert len({shape_of(each) for each in (one, *other)}) == 4


def test_a_due_time_is_written_in_utc() -> None:
    assert written(BEGINNING_MS) == "2026-01-01T00:00:00Z"
