"""What a periodic trigger owes: which of its times are run now, and which are passed over. It looks at no clock."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from datetime import UTC, datetime

import msgspec

from mainstay.core.triggers import Missed, Trigger
from mainstay.triggers.times import Times

COUNTED_MAX = 1000  # of times that passed, so many are counted; of more it is only said that there were


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for all triggers of an engine."""

    workspace: str = ""  # where it is; triggers for another are left alone
    main: str = ""  # which one those belong to that name none; empty: this one
    grace_s: float = 60.0  # what is later than this was missed
    catch_up_max: int = 10  # so many missed times are run at most where the policy is `all`
    poll_s: float = 2.0  # files are looked at so often
    nap_s: float = 5.0  # no sleep is longer, so that a clock that was set is noticed


class Passed(msgspec.Struct, frozen=True):
    """Times that are not run, from the first to the last."""

    count: int
    first: int  # ms
    last: int
    more: bool = False  # than are counted


class Plan(msgspec.Struct, frozen=True):
    """What is done about all times that are due: first the passed ones are written down, then these are run."""

    passed: Passed | None = None
    run: tuple[int, ...] = ()  # the oldest first


def written(ms: int) -> str:
    """A due time as a key."""
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def shape_of(trigger: Trigger) -> str:
    """Of what a mark holds for: with another schedule or target, and after a pause, it begins anew."""
    shape = (trigger.schedule, trigger.timezone, trigger.target, trigger.paused)
    return hashlib.sha256(msgspec.json.encode(shape)).hexdigest()[:16]


def delayed(trigger: Trigger, due: int) -> int:
    """When a time is meant to be run: later by the trigger's jitter, which is always the same for the same time."""
    if trigger.jitter_s <= 0:
        return due
    digest = hashlib.sha256(f"{trigger.name}\n{due}".encode()).digest()
    return due + int(trigger.jitter_s * 1000 * int.from_bytes(digest[:6]) / (1 << 48))


def plan(trigger: Trigger, times: Times, upto: int, now: int, rules: Rules) -> Plan:
    """What to do about the times after `upto` that have come by `now`."""
    come, older = _come(trigger, times, upto, now, rules)
    late = [due for due, at in come if now - at > rules.grace_s * 1000]  # those come first
    kept = min(len(late), _runs(trigger.missed, rules))
    gone, run = late[: len(late) - kept], [due for due, _ in come[len(late) - kept :]]
    passed = older
    if gone and older is not None:
        passed = Passed(older.count, older.first, gone[-1], more=True)
    elif gone:
        passed = Passed(min(len(gone), COUNTED_MAX), gone[0], gone[-1], more=len(gone) > COUNTED_MAX)
    return Plan(passed, tuple(run))


def without(passed: Passed, known: Collection[int]) -> Passed:
    """The same, less what is in the log already: the clock had been set back."""
    if passed.more:
        return passed
    count = passed.count - sum(passed.first <= due <= passed.last for due in known)
    return msgspec.structs.replace(passed, count=max(count, 0))


def overtaken(times: Times, upto: int, now: int) -> Passed | None:
    """All times after `upto` that came while an earlier one waited."""
    come = times.between(upto, now, COUNTED_MAX + 1)
    if not come:
        return None
    more = len(come) > COUNTED_MAX
    last = times.last_before(now + 1) if more else come[-1]
    assert last is not None
    return Passed(min(len(come), COUNTED_MAX), come[0], last, more)


def _runs(missed: Missed, rules: Rules) -> int:
    match missed:
        case "once":
            return 1
        case "skip":
            return 0
        case "all":
            return rules.catch_up_max


def _come(
    trigger: Trigger, times: Times, upto: int, now: int, rules: Rules
) -> tuple[list[tuple[int, int]], Passed | None]:
    """The newest times that have come, each with when it was meant to be run, and those before them, where there are
    too many to look at each. No time overtakes one before it, however jitter has it."""
    each = 2 * COUNTED_MAX  # more than are counted, whatever is run of the newest
    oldest = times.between(upto, now, each + 1)
    come = list(_in_order(trigger, oldest, now))
    if len(come) <= each:
        return come, None
    newest: list[int] = []
    wanted = _runs(trigger.missed, rules) + 1
    for due in _backwards(times, now):
        newest.append(due)
        wanted -= now - due > (rules.grace_s + trigger.jitter_s) * 1000
        if not wanted or len(newest) == COUNTED_MAX:
            break
    last = times.last_before(newest[-1])
    assert last is not None, "there are more than these"
    return list(_in_order(trigger, newest[::-1], now)), Passed(COUNTED_MAX, oldest[0], last, more=True)


def _in_order(trigger: Trigger, dues: list[int], now: int) -> Iterator[tuple[int, int]]:
    at = 0
    for due in dues:
        at = max(at, delayed(trigger, due))
        if at > now:
            return
        yield due, at


def _backwards(times: Times, now: int) -> Iterator[int]:
    due = times.last_before(now + 1)
    while due is not None:
        yield due
        due = times.last_before(due)
