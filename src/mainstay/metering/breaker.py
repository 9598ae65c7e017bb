"""Leaves a provider, or a tool, alone for a while after it failed again and again."""

from __future__ import annotations

from mainstay.core.limits import Limits
from mainstay.core.ports import Clock

PROBE_S = 5.0  # after so long nobody waits for the one that finds out any more


class Breaker:
    """Closed lets all through, open none; half-open lets one through, and waits a while for what becomes of it: then
    it lets the next one try, or everybody, where to take long is a good sign (`patient`)."""

    __slots__ = ("_clock", "_failures", "_limits", "_open_until", "_patient", "_probe_at", "_probing")

    def __init__(self, clock: Clock, limits: Limits, *, patient: bool = False) -> None:
        self._clock = clock
        self._limits = limits
        self._patient = patient
        self._failures = 0
        self._open_until: float | None = None
        self._probing = False
        self._probe_at = 0.0

    def admit(self) -> bool:
        """May a call go out now? Who is admitted reports with `spoke`, `succeeded`, `failed` or `left`."""
        if self._open_until is None:
            return True
        now = self._clock.monotonic()
        if now < self._open_until or self.probed_for_s() > 0:
            return False
        if not (self._probing and self._patient):
            self._probing, self._probe_at = True, now
        return True

    def closed_for_s(self) -> float:
        """How long it still lets nobody through; 0 when somebody may try."""
        if self._open_until is None:
            return 0.0
        return max(0.0, self._open_until - self._clock.monotonic())

    def probed_for_s(self) -> float:
        """How long it is still worth waiting for the one that finds out; 0 if there is none."""
        return max(0.0, self._probe_at + PROBE_S - self._clock.monotonic()) if self._probing else 0.0

    def spoke(self) -> None:
        """The provider began to answer: it lives, and others may come back."""
        if self._open_until is not None:
            self._close()

    def succeeded(self) -> None:
        self._close()

    def failed(self, *, again: bool = False) -> bool:
        """True if nobody is let through from now on. The same call `again` is not one more: one question that breaks a
        provider must not take it from everybody."""
        self._failures += not again
        opens = self._probing or self._failures >= self._limits.breaker_failures_max
        if opens:
            self._open_until = self._clock.monotonic() + self._limits.breaker_open_s
        self._probing = False
        return opens

    def left(self) -> None:
        """The call ended in a way that says nothing about the provider."""
        self._probing = False

    def _close(self) -> None:
        self._failures = 0
        self._open_until = None
        self._probing = False


class Breakers:
    """One for each name, made when it is first asked for: of the tools of a workspace, there are so many as tools. One
    that runs for long does not crash at once, so it keeps nobody else away."""

    def __init__(self, clock: Clock, limits: Limits) -> None:
        self._clock = clock
        self._limits = limits
        self._made: dict[str, Breaker] = {}

    def of(self, name: str) -> Breaker:
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = Breaker(self._clock, self._limits, patient=True)
        return made
