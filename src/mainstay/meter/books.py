"""The books: what everybody who pays has spent and has put aside, and who waits for what others have put aside.

All of it is whole numbers in memory, changed between two awaits and so never by two at once. What stands behind them is
the journal: whoever opens a home makes the books from it, and from then on they are ahead of everything else.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Iterable, Sequence

import msgspec

from mainstay.core.errors import BudgetExhausted
from mainstay.core.ports import Clock, ModelInfo
from mainstay.meter.budgets import HOUR_MS, Budget, Kind, Period, Scope, begins, ends, hour_of, named, refusal
from mainstay.meter.prices import PICO, rates

LEAST_OUTPUT = 1024  # tokens: less than that is no answer worth asking for
HOURS_MAX = 32 * 24  # that are remembered: the longest month, and a day
Row = tuple[Scope, str, int, int, int, int]  # scope, name, hour, nanodollars, tokens, tool calls


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
    """One of those who pay: a turn, a session, a person, a workspace, the home."""

    __slots__ = ("_hours", "_since", "held", "name", "scope", "waiting", "warned")

    def __init__(self, scope: Scope, name: str = "") -> None:
        self.scope = scope
        self.name = name
        self.held = Sums()  # put aside for calls that are under way
        self.waiting: list[Ask] = []  # until some of that is free, in their order
        self.warned: dict[Budget, int] = {}  # in which period somebody was
        self._hours: dict[int, Sums] = {}
        self._since: dict[int, Sums] = {}  # sums of all hours from some on

    def spent(self, since: int) -> Sums:
        """From this hour on, with no end: what was spent by a clock that was ahead is spent all the same."""
        found = self._since.get(since)
        if found is None:
            if len(self._since) >= 4:  # hour, day, month, or all of it; the others are over
                self._since.clear()
            found = self._since[since] = Sums()
            for hour, sums in self._hours.items():
                if hour >= since:
                    found.add(sums.money, sums.tokens, sums.calls)
        return found

    def add(self, hour: int, money: int, tokens: int, calls: int = 0) -> None:
        sums = self._hours.get(hour)
        if sums is None:
            if len(self._hours) >= HOURS_MAX:
                self._forget(hour)
            sums = self._hours[hour] = Sums()
        sums.add(money, tokens, calls)
        for since, kept in self._since.items():
            if hour >= since:
                kept.add(money, tokens, calls)

    def _forget(self, now: int) -> None:
        """Hours of earlier months; of a session, which has none, they become one."""
        old = [hour for hour in self._hours if hour < now - HOURS_MAX]
        if self.scope in ("turn", "session"):
            old = list(self._hours)
            self._hours[0] = sum_of(self._hours.values())
            old = [hour for hour in old if hour]
        for hour in old:
            del self._hours[hour]


class Bound(msgspec.Struct, frozen=True, gc=False):
    """A budget, and whose it is."""

    budget: Budget
    tally: Tally


class Ask:
    """A call that somebody wants to make, and everyone who would pay for it."""

    __slots__ = ("_each", "_paid", "bounds", "done", "least", "number", "output", "prompt", "queue", "tallies")

    def __init__(
        self, model: ModelInfo, prompt: int, output: int, tallies: Sequence[Tally], bounds: Sequence[Bound]
    ) -> None:
        each, self._each = rates(model, prompt)  # looked up once: this is asked of many
        self._paid = prompt * each
        self.prompt = prompt
        self.output = output
        self.least = min(output, LEAST_OUTPUT)
        self.tallies = tallies
        self.bounds = bounds
        self.number = 0
        self.queue: Tally | None = None  # where it waits
        self.done: asyncio.Future[Grant] | None = None

    def __lt__(self, other: Ask) -> bool:
        return self.number < other.number

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


class Grant(msgspec.Struct, frozen=True, gc=False):
    """What was put aside, and with whom."""

    tallies: Sequence[Tally]
    output: int
    money: int
    tokens: int


class Books:
    """Of one home. A workspace that is `live` books what it spends itself; what others spend is heard of."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tallies: dict[tuple[Scope, str], Tally] = {}
        self._count = 0
        self._hour = -1
        self._begun: dict[str, int] = {}  # when the periods of this hour began
        self.live: set[str] = set()
        self.known = False  # what was spent before this process began

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def tally(self, scope: Scope, name: str) -> Tally:
        found = self._tallies.get((scope, name))
        if found is None:
            found = self._tallies[scope, name] = Tally(scope, name)
        return found

    def fullest(self, budget: Budget) -> float:
        """The share of it that is used or put aside, by whoever has used most of theirs."""
        since, kind = begins(budget.period, self.now_ms()), budget.kind
        payers = [one for one in self._tallies.values() if one.scope == budget.scope]
        return max((one.spent(since).of(kind) + one.held.of(kind) for one in payers), default=0) / budget.limit

    # --- from the ledger -------------------------------------------------------------------------

    def load(self, rows: Iterable[Row]) -> None:
        """What was spent, as the ledger has it; once."""
        assert not self.known, "the books were made before"
        for row in rows:
            self._book(row)
        self.known = True

    def heard(self, workspace: str, rows: Iterable[Row]) -> None:
        """What a workspace has spent that does not book by itself."""
        if self.known and workspace not in self.live:
            for row in rows:
                self._book(row)

    def _book(self, row: Row) -> None:
        scope, name, hour, money, tokens, calls = row
        self.tally(scope, name).add(hour, money, tokens, calls)

    # --- a call ----------------------------------------------------------------------------------

    def grant(self, ask: Ask) -> Grant | Tally:
        """At once; or whose calls under way are in the way. Raises BudgetExhausted.

        Nobody overtakes: where others wait already, it is their turn first."""
        found = self._look(ask)
        if isinstance(found, Tally):
            return found
        queue = next((bound.tally for bound in ask.bounds if bound.tally.waiting), None)
        return self._put_aside(ask, found) if queue is None else queue

    async def wait(self, ask: Ask, queue: Tally) -> Grant:
        """Until it is granted what `queue` was in the way of; raises BudgetExhausted."""
        self._count += 1
        ask.number, ask.queue = self._count, queue
        ask.done = asyncio.get_running_loop().create_future()
        queue.waiting.append(ask)
        try:
            return await ask.done
        except asyncio.CancelledError:
            self._leave(ask)
            raise

    def settle(self, grant: Grant, money: int, tokens: int) -> None:
        """What the call came to; what was put aside beyond that is free."""
        hour = hour_of(self._clock.now_ms())
        for tally in grant.tallies:
            tally.held.add(-grant.money, -grant.tokens, 0)
            if money or tokens:
                tally.add(hour, money, tokens)
        for tally in grant.tallies:
            if tally.waiting:
                self._wake(tally)

    def spend(self, tallies: Sequence[Tally], money: int = 0, tokens: int = 0, calls: int = 0) -> None:
        """Something that was not put aside before."""
        hour = hour_of(self._clock.now_ms())
        for tally in tallies:
            tally.add(hour, money, tokens, calls)

    def left(self, bound: Bound, now: int) -> int:
        budget, tally = bound.budget, bound.tally
        kind = budget.kind
        return budget.limit - tally.spent(self.since(budget.period, now)).of(kind) - tally.held.of(kind)

    def since(self, period: Period, now: int) -> int:
        """The hour in which the running period began."""
        if now // HOUR_MS != self._hour:
            self._hour, self._begun = now // HOUR_MS, {one: begins(one, now) for one in ("", "hour", "day", "month")}
        return self._begun[period]

    # --- deciding --------------------------------------------------------------------------------

    def _look(self, ask: Ask) -> int | Tally:
        """How long its answer may be; or who is in the way."""
        now = self._clock.now_ms()
        output = ask.output
        narrow: list[Bound] = []
        for bound in ask.bounds:
            found = ask.fits(bound.budget.kind, self.left(bound, now))
            if found is not None and found < ask.least:
                narrow.append(bound)
            elif found is not None:
                output = min(output, found)
        if not narrow:
            return output
        empty = [bound for bound in narrow if self._is_empty(ask, bound, now)]
        if not empty:
            return narrow[0].tally
        worst = max(empty, key=lambda bound: ends(bound.budget.period, now) or 1 << 62)  # when it is worth asking again
        wanted = {"money": ask.cost(ask.least), "tokens": ask.prompt + ask.least}
        raise exhausted(worst, now, wanted.get(worst.budget.kind, 0))

    def _is_empty(self, ask: Ask, bound: Bound, now: int) -> bool:
        """Even if nothing were put aside."""
        kind = bound.budget.kind
        found = ask.fits(kind, self.left(bound, now) + bound.tally.held.of(kind))
        return found is not None and found < ask.least

    def _put_aside(self, ask: Ask, output: int) -> Grant:
        made = Grant(ask.tallies, output, ask.cost(output), ask.prompt + output)
        for tally in ask.tallies:
            tally.held.add(made.money, made.tokens, 0)
        return made

    # --- those who wait --------------------------------------------------------------------------

    def _wake(self, tally: Tally) -> None:
        """The first, as long as it can go on; so all are served in the order in which they came."""
        while tally.waiting:
            ask = tally.waiting[0]
            assert ask.done is not None
            if ask.done.done():  # it went away
                tally.waiting.pop(0)
                continue
            try:
                found = self._look(ask)
            except BudgetExhausted as error:
                tally.waiting.pop(0)
                ask.done.set_exception(error)
                continue
            if found is tally:
                return
            tally.waiting.pop(0)
            if isinstance(found, Tally):  # somebody else is in its way now
                ask.queue = found
                insort(found.waiting, ask)
            else:
                ask.done.set_result(self._put_aside(ask, found))

    def _leave(self, ask: Ask) -> None:
        """It was cancelled: what it was just granted is given back, and whoever is behind it comes forward."""
        assert ask.done is not None
        if ask.done.done() and not ask.done.cancelled() and ask.done.exception() is None:
            self.settle(ask.done.result(), 0, 0)
        elif ask.queue is not None:
            self._wake(ask.queue)


def sum_of(all: Iterable[Sums]) -> Sums:
    total = Sums()
    for one in all:
        total.add(one.money, one.tokens, one.calls)
    return total


def exhausted(bound: Bound, now: int, wanted: int = 0) -> BudgetExhausted:
    budget, tally = bound.budget, bound.tally
    spent = tally.spent(begins(budget.period, now)).of(budget.kind)
    sentence = refusal(budget, tally.name, spent, now, wanted)
    return BudgetExhausted(sentence, budget=budget.key, frees_at=ends(budget.period, now))


def in_the_way(ask: Ask, queue: Tally) -> str:
    """For people: why it waits."""
    bound = next(bound for bound in ask.bounds if bound.tally is queue)
    return f"{named(bound.budget, queue.name)}: calls under way have all of it that is left"
