"""Quotas that a provider reports in its rate limit headers, estimated between responses and tested for truth.

A call is subtracted as soon as it is sent, and refill is added over time. A report that arrives with a response is
compared with the estimate right after that very call was sent; the difference is what other clients have used, or what
is counted differently here. So neither the duration of a response nor the number of parallel calls matters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from mainstay.core.rate_limits import QuotaKind, RateLimitQuota

WeighCall = Callable[[QuotaKind], float]

REFILL_S = 60.0  # assumed time until a quota is whole again, if not reported; most are per minute
REFILL_MAX_S = 86400.0  # longest time until a quota is whole again
RATE_SMOOTHING = 0.3  # weight of a newly reported refill rate
CORRECTION_GAIN = 0.25  # share of a report's difference that is corrected at once
MARGIN = 0.02  # of a limit, kept free; at most the size of another call
USED_SHARE_MIN = 0.05  # of a limit: below this its reported reset time is too inexact
TESTS_ANSWERED_MAX = 5  # answered in a row: then the reports are ignored for a while
TEST_S, TEST_MIN_S, TEST_MAX_S = 1.0, 0.25, 60.0
WHOLE_SHARE = 0.95  # of a limit: at or above this it counts as unused
OVERSIZE_REFUSALS = 3  # of a call larger than a limit, while others were answered: then it counts as too large
TEST_SHARE_MAX = 0.25  # of a call: a test is conclusive only if less than this is reported as left
DISTRUST_S, DISTRUST_MAX_S = 60.0, 3600.0


class SentCall(Protocol):
    """A call in flight. `marks` are the estimates right after it was sent, by quota name."""

    marks: dict[str, float]

    def weigh(self, kind: QuotaKind) -> float: ...


class QuotaEstimate:
    """Estimate of one quota: `level` is left of `limit`, and refills by `rate` per second."""

    __slots__ = ("_corrected", "_refilled_at", "kind", "level", "limit", "oversize_weight", "rate")

    def __init__(self, quota: RateLimitQuota, now: float) -> None:
        self.kind = quota.kind
        self.level = quota.remaining
        self.limit = max(quota.limit, quota.remaining, 1.0)
        self.rate = 0.0
        self.oversize_weight = math.inf  # a call of this size was refused with the whole quota available
        self._refilled_at = now
        self._corrected = 0.0  # sum of all corrections
        self._learn_rate(quota)

    def level_at(self, now: float) -> float:
        """Refill up to `now` and return the level; a clock that was set back changes nothing."""
        if now > self._refilled_at:
            self.level = min(self.limit, self.level + self.rate * (now - self._refilled_at))
            self._refilled_at = now
        return self.level

    def wait_s(self, weight: float, now: float) -> float:
        """Return how long until the quota has room for the call plus a margin, as calls arrive out of order.

        A call larger than the limit waits until the quota is whole; if that did not help before, it does not wait.
        """
        if weight >= self.oversize_weight:
            return 0.0
        short = min(weight + min(weight, MARGIN * self.limit), self.limit) - self.level_at(now)
        return short / self.rate if short > 1e-9 else 0.0

    def consume(self, weight: float, now: float) -> float:
        """Subtract a sent call; return a mark with which a later report is compared."""
        self.level = self.level_at(now) - weight
        return self.level - self._corrected

    def refund(self, weight: float) -> None:
        """Add back a refused call; marks of later calls are corrected too."""
        self.level += weight
        self._corrected += weight

    def correct(self, quota: RateLimitQuota, mark: float, now: float) -> None:
        """Correct the level by a report; `mark` is that of its call. Only partly, as reports arrive out of order."""
        limit = max(quota.limit, quota.remaining, 1.0) if quota.limit else max(self.limit, quota.remaining)
        if limit > self.limit:
            self.oversize_weight = math.inf
        self.limit = limit
        self._learn_rate(quota)
        difference = CORRECTION_GAIN * (quota.remaining - (mark + self._corrected))
        self.level = min(self.limit, self.level_at(now) + difference)
        self._corrected += difference

    def _learn_rate(self, quota: RateLimitQuota) -> None:
        """Learn the refill rate: what is missing, over the reported time until the quota is whole."""
        used = self.limit - quota.remaining
        if quota.limit and quota.resets_in_s and (used >= USED_SHARE_MIN * self.limit or (used > 0 and not self.rate)):
            slowest, fastest = self.limit / REFILL_MAX_S, self.limit * 20
            reported = min(max(used / quota.resets_in_s, slowest), fastest)
            self.rate = reported if not self.rate else self.rate + RATE_SMOOTHING * (reported - self.rate)
        elif not self.rate:
            self.rate = self.limit / REFILL_S


class ReportedLimits:
    """All quotas of an account.

    While they hold calls back, a call is sent as a test now and then. If it is refused, the reports are right, and the
    next test is later; if several in a row are answered, the reports are too low and are ignored for a while.
    """

    __slots__ = (
        "_buckets",
        "_distrust_s",
        "_distrusted_until",
        "_test_at",
        "_test_s",
        "_tests_answered",
        "first_report_at",
    )

    def __init__(self) -> None:
        self.first_report_at = math.inf  # time of the first report
        self._buckets: dict[str, QuotaEstimate] = {}
        self._test_s = TEST_S
        self._test_at = 0.0
        self._tests_answered = 0
        self._distrusted_until = 0.0
        self._distrust_s = DISTRUST_S

    def __bool__(self) -> bool:
        return bool(self._buckets)

    @property
    def buckets(self) -> Mapping[str, QuotaEstimate]:
        return self._buckets

    def is_trusted(self, now: float) -> bool:
        return now >= self._distrusted_until

    def wait_s(self, weigh: WeighCall, now: float) -> float:
        """Return how long a call must wait for its quotas; 0 while the reports are ignored."""
        if now < self._distrusted_until:
            return 0.0
        return max((bucket.wait_s(weigh(bucket.kind), now) for bucket in self._buckets.values()), default=0.0)

    def consume(self, weigh: WeighCall, now: float) -> dict[str, float]:
        """Subtract a sent call from its quotas; return its marks."""
        marks = {}
        for name, bucket in self._buckets.items():
            if (weight := weigh(bucket.kind)) < bucket.oversize_weight:  # else it is sent only to be refused
                marks[name] = bucket.consume(weight, now)
        return marks

    def apply_report(
        self, quotas: Iterable[RateLimitQuota], call: SentCall, others: Iterable[SentCall], now: float
    ) -> None:
        """Apply the report of a call's response; `others` are the calls without a response, in the order of sending."""
        for quota in quotas:
            bucket = self._buckets.get(quota.name)
            self.first_report_at = min(self.first_report_at, now)
            if bucket is None:  # assume that none of the others was counted in the report
                bucket = self._buckets[quota.name] = QuotaEstimate(quota, now)
                for other in others:
                    other.marks[quota.name] = bucket.consume(other.weigh(quota.kind), now)
                self._test_at = max(self._test_at, now + self._test_s)
            elif (mark := call.marks.get(quota.name)) is not None:
                bucket.correct(quota, mark, now)

    def find_oversize(self, quotas: Iterable[RateLimitQuota], call: SentCall, tries: int) -> RateLimitQuota | None:
        """Return the quota that a refused call exceeds even when whole, so that waiting is useless; else None.

        `tries`: how often the call was refused while others were answered.
        """
        for quota in quotas:
            if quota.kind not in ("tokens", "input") or not quota.limit:
                continue
            weight, bucket = call.weigh(quota.kind), self._buckets.get(quota.name)
            known = bucket is not None and weight >= bucket.oversize_weight
            if weight > quota.limit and (
                known or quota.remaining >= WHOLE_SHARE * quota.limit or tries >= OVERSIZE_REFUSALS
            ):
                return quota
        return None

    def refund_oversize(self, call: SentCall) -> None:
        """Add back a refused call that is larger than a limit: it would distort the estimate for long."""
        for name in call.marks:
            bucket = self._buckets[name]
            if (weight := call.weigh(bucket.kind)) > bucket.limit:
                bucket.refund(weight)

    def remember_oversize(self, quota: RateLimitQuota, call: SentCall) -> None:
        """Remember the size of a call that never fits, so that calls of that size do not wait again."""
        bucket = self._buckets[quota.name]
        bucket.oversize_weight = min(bucket.oversize_weight, call.weigh(quota.kind))

    # --- testing the reports ---------------------------------------------------------------------

    def should_test(self, weigh: WeighCall, now: float) -> bool:
        """Return True if a held call should be sent as a test; stays True until `start_test`."""
        if now < self._test_at:
            return False
        return any(
            bucket.level_at(now) < TEST_SHARE_MAX * min(weigh(bucket.kind), bucket.limit)
            for bucket in self._buckets.values()
        )

    def until_test_s(self, now: float) -> float:
        return max(0.0, self._test_at - now)

    def start_test(self, now: float) -> None:
        self._test_at = now + self._test_s

    def record_test_answered(self, now: float) -> bool:
        """Record an answered test; return True if the reports are ignored from now on."""
        self._tests_answered += 1
        self._test_s = max(TEST_MIN_S, self._test_s / 2)
        self._test_at = min(self._test_at, now + self._test_s)
        if self._tests_answered < TESTS_ANSWERED_MAX:
            return False
        self._tests_answered = 0
        self._distrusted_until = now + self._distrust_s
        self._distrust_s = min(2 * self._distrust_s, DISTRUST_MAX_S)
        return True

    def record_test_refused(self, now: float) -> None:
        """Record a refused test: the reports are right."""
        self._tests_answered = 0
        self._test_s = min(max(2 * self._test_s, TEST_S), TEST_MAX_S)
        self._test_at = now + self._test_s
        self._distrust_s = DISTRUST_S
