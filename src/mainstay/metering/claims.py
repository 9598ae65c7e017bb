"""What a provider claims is left, followed between two of its answers, and believed as far as it proves true.

Every call is taken off as soon as it is sent, and what has come back meanwhile is added. When the provider speaks of a
call, what it says then is compared with what was believed right after sending that very call, and the difference is
what everyone else has taken, or what was counted otherwise here. So it does not matter how long an answer takes, nor
how many calls are under way beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from mainstay.core.allowance import Kind, Left

Weigh = Callable[[Kind], float]

WINDOW_S = 60.0  # within which a limit is whole again, where nobody says; most are by the minute
SLOWEST_S = 86400.0  # and the longest of anyone's
SMOOTH = 0.3  # of a rate that is read again
GAIN = 0.25  # of what a report differs
MARGIN = 0.02  # of a limit, at most another call's worth
USED = 0.05  # of a limit, before what is said about its reset is exact enough
TESTS = 5  # answered in a row, and the claims are not believed for a while
TEST_S, TEST_MIN_S, TEST_MAX_S = 1.0, 0.25, 60.0
WHOLE = 0.95  # of a limit: nothing of it was used
OUTWEIGHED = 3  # refusals of a call that is larger than a limit, whatever was left of it, while others were answered
DEEP = 0.25  # a test proves something only if less than this part of the call is claimed to be left
DOUBT_S, DOUBT_MAX_S = 60.0, 3600.0


class Sent(Protocol):
    """A call that is under way. `marks` says what was believed when it was sent, by bound."""

    marks: dict[str, float]

    def weigh(self, kind: Kind) -> float: ...


class Bucket:
    """One bound: `level` is left of `limit`, and comes back at `rate` a second."""

    __slots__ = ("_at", "_mended", "beyond", "kind", "level", "limit", "rate")

    def __init__(self, left: Left, now: float) -> None:
        self.kind = left.kind
        self.level = left.left
        self.limit = max(left.limit, left.left, 1.0)
        self.rate = 0.0
        self.beyond = math.inf  # a call of so much was refused when all of it was there
        self._at = now
        self._mended = 0.0  # by all reports together
        self._learn(left)

    def at(self, now: float) -> float:
        """What is left now. A clock that was set back adds nothing and takes nothing away."""
        if now > self._at:
            self.level = min(self.limit, self.level + self.rate * (now - self._at))
            self._at = now
        return self.level

    def wait_s(self, weight: float, now: float) -> float:
        """How long until there is enough of it, and a little more: calls do not arrive in the order in which they were
        sent. Of more than there can ever be, until it is whole; where that was of no use, not at all."""
        if weight >= self.beyond:
            return 0.0
        short = min(weight + min(weight, MARGIN * self.limit), self.limit) - self.at(now)
        return short / self.rate if short > 1e-9 else 0.0

    def take(self, weight: float, now: float) -> float:
        """Gives a mark by which a report is compared with what is believed now."""
        self.level = self.at(now) - weight
        return self.level - self._mended

    def give_back(self, weight: float) -> None:
        """It was not taken after all; nor did it count for any who were sent since."""
        self.level += weight
        self._mended += weight

    def mend(self, left: Left, mark: float, now: float) -> None:
        """`mark` is that of the call that this was said of. One report says little, because of the order; many do."""
        limit = max(left.limit, left.left, 1.0) if left.limit else max(self.limit, left.left)
        if limit > self.limit:
            self.beyond = math.inf
        self.limit = limit
        self._learn(left)
        difference = GAIN * (left.left - (mark + self._mended))
        self.level = min(self.limit, self.at(now) + difference)
        self._mended += difference

    def _learn(self, left: Left) -> None:
        """A bound comes back evenly: what is missing of it, over the time until it is whole."""
        used = self.limit - left.left
        if left.limit and left.whole_in_s and (used >= USED * self.limit or (used > 0 and not self.rate)):
            slowest, fastest = self.limit / SLOWEST_S, self.limit * 20
            said = min(max(used / left.whole_in_s, slowest), fastest)
            self.rate = said if not self.rate else self.rate + SMOOTH * (said - self.rate)
        elif not self.rate:
            self.rate = self.limit / WINDOW_S


class Claims:
    """All bounds of an account. While calls are held back by them, one is sent all the same now and then: if it is
    refused, they are right, and the next test is later; if several in a row are answered, they are too low, and for a
    while nobody is held back by them."""

    __slots__ = ("_buckets", "_doubt_s", "_doubted_until", "_in_row", "_test_at", "_test_s", "since")

    def __init__(self) -> None:
        self.since = math.inf  # when the provider first said something
        self._buckets: dict[str, Bucket] = {}
        self._test_s = TEST_S
        self._test_at = 0.0
        self._in_row = 0
        self._doubted_until = 0.0
        self._doubt_s = DOUBT_S

    def __bool__(self) -> bool:
        return bool(self._buckets)

    @property
    def buckets(self) -> Mapping[str, Bucket]:
        return self._buckets

    def believed(self, now: float) -> bool:
        return now >= self._doubted_until

    def wait_s(self, weigh: Weigh, now: float) -> float:
        if now < self._doubted_until:
            return 0.0
        return max((bucket.wait_s(weigh(bucket.kind), now) for bucket in self._buckets.values()), default=0.0)

    def take(self, weigh: Weigh, now: float) -> dict[str, float]:
        marks = {}
        for name, bucket in self._buckets.items():
            if (weight := weigh(bucket.kind)) < bucket.beyond:  # else it goes only to be told so
                marks[name] = bucket.take(weight, now)
        return marks

    def hear(self, lefts: Iterable[Left], call: Sent, others: Iterable[Sent], now: float) -> None:
        """What was said of a call; `others` are those of which nothing was said yet, as they were sent."""
        for left in lefts:
            bucket = self._buckets.get(left.name)
            self.since = min(self.since, now)
            if bucket is None:  # perhaps none of the others was counted yet when it said so
                bucket = self._buckets[left.name] = Bucket(left, now)
                for other in others:
                    other.marks[left.name] = bucket.take(other.weigh(left.kind), now)
                self._test_at = max(self._test_at, now + self._test_s)
            elif (mark := call.marks.get(left.name)) is not None:
                bucket.mend(left, mark, now)

    def outweighed(self, lefts: Iterable[Left], call: Sent, tries: int) -> Left | None:
        """What a call that was refused is larger than, so that waiting is of no use to it. It was so many times when
        others were answered."""
        for left in lefts:
            if left.kind not in ("tokens", "input") or not left.limit:
                continue
            weight, bucket = call.weigh(left.kind), self._buckets.get(left.name)
            known = bucket is not None and weight >= bucket.beyond
            if weight > left.limit and (known or left.left >= WHOLE * left.limit or tries >= OUTWEIGHED):
                return left
        return None

    def give_back(self, call: Sent) -> None:
        """It was refused, and so large that it would be missed for long."""
        for name in call.marks:
            bucket = self._buckets[name]
            if (weight := call.weigh(bucket.kind)) > bucket.limit:
                bucket.give_back(weight)

    def remember(self, left: Left, call: Sent) -> None:
        """Nobody waits for this again with a call of that size."""
        bucket = self._buckets[left.name]
        bucket.beyond = min(bucket.beyond, call.weigh(left.kind))

    # --- are they true? --------------------------------------------------------------------------

    def may_test(self, weigh: Weigh, now: float) -> bool:
        """Whether a call that is held back should be sent all the same. It may until somebody does (`test`)."""
        if now < self._test_at:
            return False
        return any(bucket.at(now) < DEEP * min(weigh(bucket.kind), bucket.limit) for bucket in self._buckets.values())

    def until_test_s(self, now: float) -> float:
        return max(0.0, self._test_at - now)

    def test(self, now: float) -> None:
        self._test_at = now + self._test_s

    def was_answered(self, now: float) -> bool:
        """A test was. True if that was one too many."""
        self._in_row += 1
        self._test_s = max(TEST_MIN_S, self._test_s / 2)
        self._test_at = min(self._test_at, now + self._test_s)
        if self._in_row < TESTS:
            return False
        self._in_row = 0
        self._doubted_until = now + self._doubt_s
        self._doubt_s = min(2 * self._doubt_s, DOUBT_MAX_S)
        return True

    def was_refused(self, now: float) -> None:
        """A test was: they are true."""
        self._in_row = 0
        self._test_s = min(max(2 * self._test_s, TEST_S), TEST_MAX_S)
        self._test_at = now + self._test_s
        self._doubt_s = DOUBT_S
