"""How fast calls go out where a provider does not say what is left, or says so and refuses all the same.

Additive increase, multiplicative decrease. Nobody is slowed down before the first refusal. Then the pace is a little
less than what was answered lately, and grows: in equal steps up to where it was refused, in larger ones beyond. After
a storm in which nothing at all was answered it doubles until it is near there again.
"""

from __future__ import annotations

from collections import deque

CUT = 0.85
STEP = 0.06  # of the ceiling, a second
BEYOND = 1.05  # of the ceiling: it is higher than was thought
LOSS = 0.7  # of the pace: less than that is not believed to be the ceiling at once
LOWEST = 0.02  # calls a second
START = 2.0  # where nothing is known
BOLD = 10.0  # where it is known that more is answered than is said
KNOWN_S = 1.0
BURST_S = 0.1
MEASURED_S = 4.0
BIN_S = 0.25
FORGET_S = 120.0  # without a refusal, until there is no pace any more


class Meter:
    """How many a second, lately."""

    __slots__ = ("_bins",)

    def __init__(self) -> None:
        self._bins: deque[list[float]] = deque(maxlen=int(MEASURED_S / BIN_S) + 1)

    def count(self, now: float) -> None:
        start = now - now % BIN_S
        if self._bins and self._bins[-1][0] >= start:
            self._bins[-1][1] += 1
        else:
            self._bins.append([start, 1.0])

    def rate(self, now: float, since: float) -> float:
        """Over what has passed since then, at most a few seconds."""
        begin = max(since, now - MEASURED_S)
        total = sum(count for start, count in self._bins if start + BIN_S > begin)
        return total / max(now - begin, 2 * BIN_S)


class Pace:
    __slots__ = (
        "_at",
        "_before",
        "_ceiling",
        "_credit",
        "_cut_at",
        "_grown_at",
        "_racing",
        "_resumed_at",
        "_step",
        "meter",
        "rate",
    )

    def __init__(self) -> None:
        self.rate: float | None = None  # calls a second; None: nobody was refused
        self.meter = Meter()
        self._ceiling = 0.0  # where it was refused last
        self._before = (0.0, 0.0)  # the pace before that, and where it was on the way to; 0: there was none
        self._credit = 1.0
        self._at = 0.0
        self._grown_at = 0.0
        self._cut_at = -FORGET_S
        self._resumed_at = 0.0
        self._step = STEP
        self._racing = False  # far below the ceiling, and on the way back

    def wait_s(self, now: float) -> float:
        if self.rate is None:
            return 0.0
        self._refill(now)
        return (1.0 - self._credit) / self.rate if self._credit < 1.0 - 1e-9 else 0.0

    def take(self, now: float) -> None:
        if self.rate is not None:
            self._refill(now)
            self._credit -= 1.0

    def answered(self, now: float) -> None:
        self.meter.count(now)

    def begin(self, now: float) -> None:
        """Whatever held calls back before is not believed any more: from here on this does."""
        if self.rate is None:
            self._ceiling = 0.0
            self._cut_at = now  # from here on it counts
            self._race(max(2 * self.meter.rate(now, 0.0), BOLD), now)

    def cut(self, now: float, resume_s: float, *, storm: bool) -> None:
        """Somebody was refused who went out at the present pace. Nobody goes out for `resume_s`.

        `storm`: nobody was answered since the last time. Then it says nothing about what the provider can bear, and nor
        did the last time.
        """
        if storm:
            before, self._ceiling = self._before
            self._race(before / 2, now)
        else:
            rate = self.rate or 0.0
            self._before = (rate, self._ceiling if self._racing else rate)
            self._ceiling = self._bearable(now)
            if self._ceiling:
                self._racing = False
                self._go(CUT * self._ceiling, now)
            else:
                self._race(START, now)
        self._step = STEP
        self._cut_at = now
        self._grown_at = self._resumed_at = self._at = now + resume_s
        self._credit = 1.0

    def _bearable(self, now: float) -> float:
        """What it was seen to answer; where that is too short ago to be known, somewhat less than what it was sent."""
        known = now - self._resumed_at >= KNOWN_S
        lately = self.meter.rate(now, self._resumed_at) if known else 0.0
        if self.rate is None:
            return max(lately, LOWEST) if lately else 0.0
        return max(min(lately, self.rate), LOSS * self.rate, LOWEST)

    def grow(self, now: float) -> None:
        """To be called while calls wait for nothing but this."""
        if self.rate is None or now <= self._grown_at:
            return
        passed, self._grown_at = min(now - self._grown_at, 1.0), now
        if self._racing:
            self.rate *= 4.0**passed
            if self._ceiling and self.rate >= self._ceiling:
                self.rate = self._ceiling
                self._racing = False
            return
        if self.rate > BEYOND * self._ceiling:
            self._step = min(self._step * 2.0**passed, 1.0)
            self._ceiling = self.rate / BEYOND
        self.rate += self._step * self._ceiling * passed

    def forget(self, now: float) -> None:
        """There was no refusal for long."""
        if self.rate is not None and now - self._cut_at > FORGET_S:
            self.rate = None

    def _race(self, rate: float, now: float) -> None:
        self._racing = True
        self._go(max(rate, START), now)

    def _go(self, rate: float, now: float) -> None:
        self.rate = rate
        self._at = self._grown_at = now

    def _refill(self, now: float) -> None:
        assert self.rate is not None
        if now > self._at:
            self._credit = min(max(1.0, self.rate * BURST_S), self._credit + self.rate * (now - self._at))
            self._at = now
