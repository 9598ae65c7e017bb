"""Who pays, and what bounds them: what each has spent and has put aside, and a call that somebody wants to make."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from operator import attrgetter

import msgspec

from mainstay.core.ledger import HOUR_MS, KEPT_HOURS, SCOPES, Scope
from mainstay.core.ports import ModelInfo
from mainstay.metering.budgets import Budget, Kind, Period, begins
from mainstay.metering.prices import PICO, rates

LEAST_OUTPUT = 1024  # tokens: less than that is no answer worth asking for
_WIDTH = {scope: width for width, scope in enumerate(SCOPES)}
_SHARED = _WIDTH["person"]  # and wider: by hours, because their budgets are for periods
_OF: dict[Kind, Callable[[Sums], int]] = {
    "money": attrgetter("money"),
    "tokens": attrgetter("tokens"),
    "calls": attrgetter("calls"),
}


class Sums(msgspec.Struct, gc=False):
    """Nanodollars, tokens, tool calls."""

    money: int = 0
    tokens: int = 0
    calls: int = 0

    def add(self, money: int, tokens: int, calls: int) -> None:
        self.money += money
        self.tokens += tokens
        self.calls += calls

    def of(self, kind: Kind) -> int:
        return self.money if kind == "money" else self.tokens if kind == "tokens" else self.calls


class Tally:
    """One of those who pay: a turn, a session, a person, a workspace, the home. It is open at an hour, like a diary,
    and keeps the sums of those periods that hold that hour and in which something is bounded. A turn and a session have
    one sum, for good."""

    __slots__ = ("_hours", "_open", "_running", "held", "hour", "name", "scope", "waiting", "warned", "width")

    def __init__(self, scope: Scope, name: str = "") -> None:
        self.scope = scope
        self.name = name
        self.width = _WIDTH[scope]
        self.held = Sums()  # put aside for calls that are under way
        self.waiting: list[Ask] = []  # until some of that is free: who is first goes first
        self.warned: dict[Budget, int] = {}  # in which period somebody was
        self.hour = 0
        self._open: Sequence[Sums] = (Sums(),)  # where something goes that is spent in its hour
        self._hours: dict[int, Sums] = {0: self._open[0]}
        self._running: dict[Period, tuple[int, Sums]] = {}  # and the hour in which the period began

    def spent(self, since: int) -> Sums:
        """From this hour on, with no end: what was spent by a clock that was ahead is spent all the same."""
        total = Sums()
        for hour, sums in self._hours.items():
            if hour >= since:
                total.add(sums.money, sums.tokens, sums.calls)
        return total

    def running(self, period: Period) -> Sums:
        """It stays, and is always that of the period that holds the tally's hour."""
        if not period:
            return self._hours[0]
        if period not in self._running:
            self._running[period] = (0, Sums())
            self.turn_to(self.hour)
        return self._running[period][1]

    def turn_to(self, hour: int) -> None:
        self.hour = hour
        if self.width >= _SHARED:
            for period, (_, sums) in self._running.items():
                since = begins(period, hour * HOUR_MS)
                spent = self.spent(since)
                sums.money, sums.tokens, sums.calls = spent.money, spent.tokens, spent.calls
                self._running[period] = since, sums
            self._open = self._holding(hour)

    def add(self, hour: int, money: int, tokens: int, calls: int = 0) -> None:
        for sums in self._open if hour == self.hour or self.width < _SHARED else self._holding(hour):
            sums.money += money
            sums.tokens += tokens
            if calls:
                sums.calls += calls

    def _holding(self, hour: int) -> Sequence[Sums]:
        if hour not in self._hours:
            if len(self._hours) >= KEPT_HOURS:
                del self._hours[min(self._hours)]  # whatever a clock says, the others are younger
            self._hours[hour] = Sums()
        return self._hours[hour], *(sums for since, sums in self._running.values() if hour >= since)


class Bound:
    """A budget, and whose it is. `near` is how much of it may be used before somebody is told."""

    __slots__ = ("_of", "budget", "held", "kind", "limit", "near", "spent", "tally")

    def __init__(self, budget: Budget, tally: Tally, warn_at: float = 1.0) -> None:
        self.budget = budget
        self.tally = tally
        self.kind = budget.kind
        self.limit = budget.limit
        self.near = warn_at * budget.limit
        self.spent = tally.running(budget.period)  # while the tally is open at this hour
        self.held = tally.held
        self._of = _OF[budget.kind]

    def used(self) -> int:
        return self._of(self.spent)

    def left(self) -> int:
        return self.limit - self._of(self.spent) - self._of(self.held)


class Ask:
    """A call that somebody wants to make, and everyone who would pay for it."""

    __slots__ = ("_each", "_paid", "behind", "bounds", "done", "least", "number", "output", "prompt", "tallies")

    def __init__(
        self, model: ModelInfo, prompt: int, output: int, tallies: Sequence[Tally], bounds: Sequence[Bound]
    ) -> None:
        """`bounds` are of some of `tallies`, and like them from the narrowest to the widest."""
        each, self._each = rates(model, prompt)  # looked up once: this is asked of many
        self._paid = prompt * each
        self.prompt = prompt
        self.output = output
        self.least = min(output, LEAST_OUTPUT)
        self.tallies = tallies
        self.bounds = bounds
        self.number = 0
        self.behind: Bound | None = None  # what it waits for
        self.done: asyncio.Future[Grant] | None = None

    def cost(self, output: int) -> int:
        """Nanodollars, at the most."""
        return -(-(self._paid + output * self._each) // PICO)

    def fits(self, kind: Kind, left: int) -> int | None:
        """How long an answer may be if so much is left; None for as long as it likes, less than 0 if not even the
        prompt can be paid."""
        if kind == "tokens":
            return left - self.prompt
        if not self._each:
            return None if self._paid <= max(left, 0) * PICO else -1
        return (left * PICO - self._paid) // self._each

    def lacks(self, kind: Kind, left: int) -> bool:
        found = self.fits(kind, left)
        return found is not None and found < self.least

    def needs(self, kind: Kind) -> int:
        """The least that has to be left."""
        return self.cost(self.least) if kind == "money" else self.prompt + self.least


class Grant(msgspec.Struct, frozen=True, gc=False):
    """What was put aside, and with whom."""

    tallies: Sequence[Tally]
    output: int
    money: int
    tokens: int
