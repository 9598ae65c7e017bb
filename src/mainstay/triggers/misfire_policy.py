"""Misfire policy of periodic triggers: which due times are run now and which are skipped. Pure: reads no clock."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from datetime import UTC, datetime

import msgspec

from mainstay.core.triggers import MissedPolicy, Trigger
from mainstay.triggers.schedule import TriggerSchedule

COUNTED_MAX = 1000  # skipped times are counted up to this; beyond it is "more than"


class TriggerEngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for all triggers of an engine."""

    workspace: str = ""  # the engine's; triggers for other workspaces are ignored
    main_workspace: str = ""  # the workspace of triggers that name none; empty: this one
    grace_s: float = 60.0  # a run that is later than this was missed
    catch_up_max: int = 10  # missed times run at most where the policy is `all`
    scan_interval_s: float = 2.0  # interval of scanning the event folder
    sleep_s_max: float = 5.0  # longest sleep, so that a changed wall clock is noticed


class SkippedDueTimes(msgspec.Struct, frozen=True):
    """A range of due times that are not run."""

    count: int
    first: int  # ms
    last: int  # ms
    has_more: bool = False  # there are more than `count`


class CatchUpPlan(msgspec.Struct, frozen=True):
    """What to do about all times that are due: first record the skipped ones, then run the others."""

    skipped: SkippedDueTimes | None = None
    due_times: tuple[int, ...] = ()  # ms, the oldest first


def format_due_time(ms: int) -> str:
    """Return a due time as a run's key."""
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def cursor_digest(trigger: Trigger) -> str:
    """Return a hash of what a cursor depends on: with another schedule or target, or after a pause, it starts again."""
    shape = (trigger.schedule, trigger.timezone, trigger.target, trigger.paused)
    return hashlib.sha256(msgspec.json.encode(shape)).hexdigest()[:16]


def apply_jitter(trigger: Trigger, due: int) -> int:
    """Return when a due time is run: later by the trigger's jitter, which is deterministic for each time."""
    if trigger.jitter_s <= 0:
        return due
    digest = hashlib.sha256(f"{trigger.name}\n{due}".encode()).digest()
    return due + int(trigger.jitter_s * 1000 * int.from_bytes(digest[:6]) / (1 << 48))


def plan_catch_up(
    trigger: Trigger, schedule: TriggerSchedule, upto: int, now: int, rules: TriggerEngineSettings
) -> CatchUpPlan:
    """Plan what to do about the times after `upto` that are due by `now`."""
    due_times, older = _find_due_times(trigger, schedule, upto, now, rules)
    late = [due for due, at in due_times if now - at > rules.grace_s * 1000]  # the first of them
    late_runs = min(len(late), _late_runs_max(trigger.missed, rules))
    missed, run = late[: len(late) - late_runs], [due for due, _ in due_times[len(late) - late_runs :]]
    skipped = older
    if missed and older is not None:
        skipped = SkippedDueTimes(older.count, older.first, missed[-1], has_more=True)
    elif missed:
        skipped = SkippedDueTimes(
            min(len(missed), COUNTED_MAX), missed[0], missed[-1], has_more=len(missed) > COUNTED_MAX
        )
    return CatchUpPlan(skipped, tuple(run))


def exclude_recorded(skipped: SkippedDueTimes, recorded: Collection[int]) -> SkippedDueTimes:
    """Return the range without the times that are in the log already, because the clock was set back."""
    if skipped.has_more:
        return skipped
    count = skipped.count - sum(skipped.first <= due <= skipped.last for due in recorded)
    return msgspec.structs.replace(skipped, count=max(count, 0))


def find_overtaken(schedule: TriggerSchedule, upto: int, now: int) -> SkippedDueTimes | None:
    """Return the times after `upto` that became due while an earlier run waited; None if there are none."""
    due_times = schedule.between(upto, now, COUNTED_MAX + 1)
    if not due_times:
        return None
    more = len(due_times) > COUNTED_MAX
    last = schedule.last_before(now + 1) if more else due_times[-1]
    assert last is not None
    return SkippedDueTimes(min(len(due_times), COUNTED_MAX), due_times[0], last, more)


def _late_runs_max(missed: MissedPolicy, rules: TriggerEngineSettings) -> int:
    match missed:
        case "once":
            return 1
        case "skip":
            return 0
        case "all":
            return rules.catch_up_max


def _find_due_times(
    trigger: Trigger, schedule: TriggerSchedule, upto: int, now: int, rules: TriggerEngineSettings
) -> tuple[list[tuple[int, int]], SkippedDueTimes | None]:
    """Return the newest due times, each with its time after jitter, and the range before them if there are too many to
    handle one by one. Jitter never reorders them."""
    handled_max = 2 * COUNTED_MAX  # more than are counted, however many of the newest are run
    oldest = schedule.between(upto, now, handled_max + 1)
    due_times = list(_apply_jitter_in_order(trigger, oldest, now))
    if len(due_times) <= handled_max:
        return due_times, None
    newest: list[int] = []
    late_left = _late_runs_max(trigger.missed, rules) + 1
    for due in _iter_backwards(schedule, now):
        newest.append(due)
        late_left -= now - due > (rules.grace_s + trigger.jitter_s) * 1000
        if not late_left or len(newest) == COUNTED_MAX:
            break
    last = schedule.last_before(newest[-1])
    assert last is not None, "there are more than these"
    return list(_apply_jitter_in_order(trigger, newest[::-1], now)), SkippedDueTimes(
        COUNTED_MAX, oldest[0], last, has_more=True
    )


def _apply_jitter_in_order(trigger: Trigger, due_times: list[int], now: int) -> Iterator[tuple[int, int]]:
    at = 0
    for due in due_times:
        at = max(at, apply_jitter(trigger, due))
        if at > now:
            return
        yield due, at


def _iter_backwards(schedule: TriggerSchedule, now: int) -> Iterator[int]:
    due = schedule.last_before(now + 1)
    while due is not None:
        yield due
        due = schedule.last_before(due)
