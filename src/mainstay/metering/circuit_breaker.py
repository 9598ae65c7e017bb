"""Circuit breaker for providers and tools."""

from __future__ import annotations

from mainstay.core.limits import Limits
from mainstay.core.ports import Clock

PROBE_S = 5.0  # how long other calls wait for the probe of a half-open breaker
TOGETHER_S = 5.0  # calls in flight together that fail within this time have one cause


class CircuitBreaker:
    """Counts failures in a row. Closed admits all calls, open none; half-open admits one probe and waits `PROBE_S`.

    After that the next call may probe; with `trusts_slow_probes` all calls are admitted, because a call that runs for
    long has not failed at once.
    """

    __slots__ = (
        "_clock",
        "_failed_at",
        "_failures",
        "_is_probing",
        "_limits",
        "_open_until",
        "_probe_at",
        "_trusts_slow_probes",
        "failures_total",
    )

    def __init__(self, clock: Clock, limits: Limits, *, trusts_slow_probes: bool = False) -> None:
        self._clock = clock
        self._limits = limits
        self._trusts_slow_probes = trusts_slow_probes
        self._failures = 0  # in a row
        self.failures_total = 0  # counted since the start
        self._failed_at = 0.0  # when the last of them was counted
        self._open_until: float | None = None
        self._is_probing = False
        self._probe_at = 0.0

    def admit(self) -> bool:
        """Return True if a call may be made now; an admitted call reports with one of the `record_` methods."""
        if self._open_until is None:
            return True
        now = self._clock.monotonic()
        if now < self._open_until or self.probe_wait_s() > 0:
            return False
        if not (self._is_probing and self._trusts_slow_probes):
            self._is_probing, self._probe_at = True, now
        return True

    def open_for_s(self) -> float:
        """Return for how many seconds no call is admitted; 0 if one may be tried."""
        if self._open_until is None:
            return 0.0
        return max(0.0, self._open_until - self._clock.monotonic())

    def probe_wait_s(self) -> float:
        """Return for how many seconds other calls should wait for the probe; 0 if there is none."""
        return max(0.0, self._probe_at + PROBE_S - self._clock.monotonic()) if self._is_probing else 0.0

    def record_first_output(self) -> None:
        """The provider began to answer: close the breaker."""
        if self._open_until is not None:
            self._close()

    def record_success(self) -> None:
        self._close()

    def record_failure(self, *, is_retry: bool = False, failures_before: int | None = None) -> bool:
        """Record a failure; return True if it opened the breaker.

        `is_retry`: the same call failed before and is not counted again, so that one call that a provider cannot handle
        does not open the breaker for all. `failures_before` is `failures_total` when the call was admitted: if another
        call failed since, a moment ago, both were in flight together and have one cause (a crash, a restart, a lost
        connection), counted once.
        """
        now = self._clock.monotonic()
        is_together = failures_before is not None and failures_before != self.failures_total
        if is_together and now - self._failed_at < TOGETHER_S:
            return False
        if not is_retry:
            self._failures += 1
            self.failures_total += 1
            self._failed_at = now
        opens = self._is_probing or self._failures >= self._limits.breaker_failures_max
        if opens:
            self._open_until = now + self._limits.breaker_open_s
        self._is_probing = False
        return opens

    def record_ignored(self) -> None:
        """The call's outcome does not count for or against the provider."""
        self._is_probing = False

    def _close(self) -> None:
        self._failures = 0
        self._open_until = None
        self._is_probing = False


class CircuitBreakerRegistry:
    """Circuit breakers of a workspace's tools by name, created on first use; they trust slow probes."""

    def __init__(self, clock: Clock, limits: Limits) -> None:
        self._clock = clock
        self._limits = limits
        self._breakers: dict[str, CircuitBreaker] = {}

    def get_breaker(self, name: str) -> CircuitBreaker:
        breaker = self._breakers.get(name)
        if breaker is None:
            breaker = self._breakers[name] = CircuitBreaker(self._clock, self._limits, trusts_slow_probes=True)
        return breaker
