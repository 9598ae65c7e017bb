"""Adaptive rate (AIMD) for providers that report no quota, or that refuse calls in spite of the quota they report.

Additive increase, multiplicative decrease. There is no limit before the first refusal. Then the rate is a little below
what was answered lately, and grows: in equal steps up to where it was refused (the ceiling), in larger steps beyond.
After a streak of refusals in which nothing was answered, it grows exponentially until it is near the ceiling again.
"""

from __future__ import annotations

from collections import deque

DECREASE = 0.85  # of the ceiling, after a refusal
INCREASE = 0.06  # of the ceiling, per second
CEILING_SLACK = 1.05  # of the ceiling: at this rate the ceiling is raised
DECREASE_FLOOR = 0.7  # of the rate that was accepted: the ceiling falls at most this far at once
ACCEPTED_SHARE_MIN = 0.85  # of calls: with less, the rate was too high before the last refusals
RATE_MIN = 0.02  # calls per second
RATE_START = 2.0  # calls per second, if nothing was measured
RATE_START_DISTRUSTED = 10.0  # calls per second, if the provider answers more than it reports
MEASURED_MIN_S = 1.0  # a shorter measurement is not used
BURST_S = 0.1  # of calls that may be sent at once
MEASURED_MAX_S = 4.0
BIN_S = 0.25
REFUSED_SHARE_MAX = 0.05  # of calls: with more refusals the rate is not raised
EXPIRY_S = 120.0  # without a refusal, until the limit is dropped


class ThroughputMeter:
    """Measures calls per second over the last few seconds."""

    __slots__ = ("_bins",)

    def __init__(self) -> None:
        self._bins: deque[list[float]] = deque(maxlen=int(MEASURED_MAX_S / BIN_S) + 1)

    def count_call(self, now: float) -> None:
        start = now - now % BIN_S
        if self._bins and self._bins[-1][0] >= start:
            self._bins[-1][1] += 1
        else:
            self._bins.append([start, 1.0])

    def rate(self, now: float, since: float) -> float:
        """Return the rate since `since`, over at most `MEASURED_MAX_S`."""
        begin = max(since, now - MEASURED_MAX_S)
        total = sum(count for start, count in self._bins if start + BIN_S > begin)
        return total / max(now - begin, 2 * BIN_S)


class AdaptiveRate:
    """Token bucket whose rate adapts to refusals; all times are monotonic seconds."""

    __slots__ = (
        "_ceiling",
        "_credit",
        "_increased_at",
        "_previous",
        "_refilled_at",
        "_resumed_at",
        "_slowed_at",
        "_step",
        "is_recovering",
        "meter",
        "rate",
    )

    def __init__(self) -> None:
        self.rate: float | None = None  # calls per second; None: unlimited
        self.meter = ThroughputMeter()
        self._ceiling = 0.0  # rate of the last refusal; 0: not measured
        self._previous = (0.0, 0.0)  # rate and ceiling before it; 0: none
        self._credit = 1.0
        self._refilled_at = 0.0
        self._increased_at = 0.0
        self._slowed_at = -EXPIRY_S
        self._resumed_at = 0.0
        self._step = INCREASE
        self.is_recovering = False  # growing exponentially towards the ceiling

    def wait_s(self, now: float) -> float:
        """Return how long until the next call may be sent."""
        if self.rate is None:
            return 0.0
        self._refill(now)
        return (1.0 - self._credit) / self.rate if self._credit < 1.0 - 1e-9 else 0.0

    def consume(self, now: float) -> None:
        if self.rate is not None:
            self._refill(now)
            self._credit -= 1.0

    def record_answer(self, now: float) -> None:
        self.meter.count_call(now)

    def start_limiting(self, now: float) -> None:
        """Start limiting without a refusal, after reported quotas proved too low and are ignored."""
        if self.rate is None:
            self._ceiling = 0.0
            self._slowed_at = now  # the expiry counts from here
            self._start_recovery(max(2 * self.meter.rate(now, 0.0), RATE_START_DISTRUSTED), now)

    def slow_down(self, now: float, resume_s: float, *, in_streak: bool, accepted_share: float = 1.0) -> None:
        """Lower the rate after a refusal at the current rate; no call is sent for `resume_s`.

        `in_streak`: no call was answered since the last refusal. Then neither refusal says what rate the provider
        sustains, and the ceiling before them is restored. `accepted_share`: of the last calls.
        """
        if in_streak:
            before, self._ceiling = self._previous
            self._start_recovery(before / 2, now)
        else:
            rate = self.rate or 0.0
            self._previous = (rate, self._ceiling if self.is_recovering else rate)
            self._ceiling = self._find_sustainable(now, accepted_share)
            if self._ceiling:
                self.is_recovering = False
                self._set_rate(DECREASE * self._ceiling, now)
            else:
                self._start_recovery(RATE_START, now)
            if accepted_share < ACCEPTED_SHARE_MIN:  # it was too high for a while: it is not restored in a streak
                self._previous = (2 * (self.rate or 0.0), self._ceiling)
        self._step = INCREASE
        self._slowed_at = now
        self._increased_at = self._resumed_at = self._refilled_at = now + resume_s
        self._credit = 1.0

    def _find_sustainable(self, now: float, accepted_share: float) -> float:
        """Return the rate that was answered lately; not measured: less than the current rate, 0 if unlimited."""
        is_measured = now - self._resumed_at >= MEASURED_MIN_S
        measured = self.meter.rate(now, self._resumed_at) if is_measured else 0.0
        if self.rate is None:  # below `RATE_START` it may be all that was asked for
            return measured if measured > RATE_START else 0.0
        floor = DECREASE_FLOOR if is_measured else DECREASE
        return max(min(measured, self.rate), floor * accepted_share * self.rate, RATE_MIN)

    def increase(self, now: float, refused_share: float = 0.0) -> None:
        """Raise the rate; called while calls wait only for it. `refused_share`: of the calls since the last slow-down.

        With more than a few refusals the rate stays as it is, unless it is recovering.
        """
        if self.rate is None or now <= self._increased_at:
            return
        if refused_share > REFUSED_SHARE_MAX and not self.is_recovering:
            self._increased_at = now
            return
        passed, self._increased_at = min(now - self._increased_at, 1.0), now
        if self.is_recovering:
            self.rate *= 4.0**passed
            if self._ceiling and self.rate >= self._ceiling:
                self.rate = self._ceiling
                self.is_recovering = False
            return
        if self.rate > CEILING_SLACK * self._ceiling:
            self._step = min(self._step * 2.0**passed, 1.0)
            self._ceiling = self.rate / CEILING_SLACK
        self.rate += self._step * self._ceiling * passed

    def expire(self, now: float) -> None:
        """Drop the limit after `EXPIRY_S` without a refusal."""
        if self.rate is not None and now - self._slowed_at > EXPIRY_S:
            self.rate = None

    def restore(self, rate: float, now: float) -> None:
        """Set the rate from before slow-downs that did not help."""
        self.is_recovering = False
        self._ceiling = rate
        self._slowed_at = now
        self._set_rate(rate, now)

    def _start_recovery(self, rate: float, now: float) -> None:
        self.is_recovering = True
        self._set_rate(max(rate, RATE_START), now)

    def _set_rate(self, rate: float, now: float) -> None:
        self.rate = rate
        self._refilled_at = self._increased_at = now

    def _refill(self, now: float) -> None:
        assert self.rate is not None
        if now > self._refilled_at:
            self._credit = min(max(1.0, self.rate * BURST_S), self._credit + self.rate * (now - self._refilled_at))
            self._refilled_at = now
