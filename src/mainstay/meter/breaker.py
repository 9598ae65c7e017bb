"""Leaves a provider, or a tool, alone for a while after it failed again and again."""

from __future__ import annotations

from mainstay.core.limits import Limits
from mainstay.core.ports import Clock


class Breaker:
    """Closed lets all through, open none; half-open lets one through and waits for what becomes of it."""

    __slots__ = ("_clock", "_failures", "_limits", "_open_until", "_probing")

    def __init__(self, clock: Clock, limits: Limits) -> None:
        self._clock = clock
        self._limits = limits
        self._failures = 0
        self._open_until: float | None = None
        self._probing = False

    def admit(self) -> bool:
        """May a call go out now? Who is admitted reports with `spoke`, `succeeded`, `failed` or `left`."""
        if self._open_until is None:
            return True
        if self._probing or self._clock.monotonic() < self._open_until:
            return False
        self._probing = True
        return True

    def closed_for_s(self) -> float:
        """How long it still lets nobody through; 0 when somebody may try."""
        if self._open_until is None:
            return 0.0
        return max(0.0, self._open_until - self._clock.monotonic())

    def spoke(self) -> None:
        """The provider began to answer: it lives, and others may come back."""
        if self._open_until is not None:
            self._close()

    def succeeded(self) -> None:
        self._close()

    def failed(self) -> bool:
        """True if nobody is let through from now on."""
        self._failures += 1
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
    """One for each name, made when it is first asked for: of the tools of a workspace, there are so many as tools."""

    def __init__(self, clock: Clock, limits: Limits) -> None:
        self._clock = clock
        self._limits = limits
        self._made: dict[str, Breaker] = {}

    def of(self, name: str) -> Breaker:
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = Breaker(self._clock, self._limits)
        return made
