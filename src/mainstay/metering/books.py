"""The books: what everybody who pays has spent and has put aside, and who waits for what others have put aside.

All of it is whole numbers in memory, changed between two awaits and so never by two at once. What stands behind them is
the journal: whoever opens a home makes the books from it, and from then on they are ahead of everything else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from mainstay.core.errors import BudgetExhausted
from mainstay.core.ledger import HOUR_MS, Row, Scope
from mainstay.core.ports import Clock
from mainstay.metering.budgets import Budget, ends, named, refusal
from mainstay.metering.tallies import Ask, Bound, Grant, Tally

PLENTY = 1 << 62  # more than anybody has


class Books:
    """Of one home. A workspace that is `live` books what it spends itself; what others spend is heard of."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tallies: dict[tuple[Scope, str], Tally] = {}
        self._count = 0
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
        now = self.now_ms()
        payers = [one for one in self._tallies.values() if one.scope == budget.scope]
        least = min((self.left(Bound(budget, one), now) for one in payers), default=budget.limit)
        return (budget.limit - least) / budget.limit

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

    def grant(self, ask: Ask) -> Grant | Bound:
        """At once; or what is in the way because of calls under way. Raises BudgetExhausted.

        Nobody overtakes: where others wait already, it is their turn first."""
        found = self._look(ask)
        blocking = () if isinstance(found, int) else found
        for bound in ask.bounds:
            if bound in blocking:
                return bound
            if bound.tally.waiting:
                return bound.tally.waiting[0].behind or bound
        assert isinstance(found, int)
        return self._put_aside(ask, found)

    async def wait(self, ask: Ask, bound: Bound) -> Grant:
        """Until it is granted what `bound` was in the way of; raises BudgetExhausted."""
        self._count += 1
        ask.number, ask.behind = self._count, bound
        ask.done = asyncio.get_running_loop().create_future()
        bound.tally.waiting.append(ask)
        try:
            return await ask.done
        except asyncio.CancelledError:
            self._leave(ask)
            raise

    def settle(self, grant: Grant, money: int, tokens: int) -> None:
        """What the call came to; what was put aside beyond that is free."""
        hour = self._clock.now_ms() // HOUR_MS
        waited_for = False
        for tally in grant.tallies:
            held = tally.held
            held.money -= grant.money
            held.tokens -= grant.tokens
            if money or tokens:
                tally.add(hour, money, tokens)
            if tally.waiting:
                waited_for = True
        if waited_for:
            self._wake(grant.tallies)

    def spend(self, tallies: Sequence[Tally], money: int = 0, tokens: int = 0, calls: int = 0) -> None:
        """Something that was not put aside before."""
        hour = self._clock.now_ms() // HOUR_MS
        for tally in tallies:
            tally.add(hour, money, tokens, calls)

    def left(self, bound: Bound, now: int) -> int:
        _open_at(now, (bound.tally,))
        return bound.left()

    # --- deciding --------------------------------------------------------------------------------

    def _look(self, ask: Ask) -> int | list[Bound]:
        """How long its answer may be; or what is in the way of that, for now."""
        now = self._clock.now_ms()
        _open_at(now, ask.tallies)
        money = tokens = PLENTY
        for bound in ask.bounds:  # of each kind the tightest decides
            spent, held = bound.spent, bound.held
            if bound.kind == "money":
                left = bound.limit - spent.money - held.money
                if left < money:
                    money = left
            else:
                left = bound.limit - spent.tokens - held.tokens
                if left < tokens:
                    tokens = left
        output = min(ask.output, tokens - ask.prompt)
        if money != PLENTY:
            paid = ask.fits("money", money)
            output = output if paid is None else min(output, paid)
        return output if output >= ask.least else self._narrow(ask, now)

    def _narrow(self, ask: Ask, now: int) -> list[Bound]:
        """What has no room now. Raises BudgetExhausted for what would have none if nothing were put aside."""
        narrow = [bound for bound in ask.bounds if ask.lacks(bound.kind, bound.left())]
        empty = [bound for bound in narrow if ask.lacks(bound.kind, bound.limit - bound.used())]
        if not empty:
            return narrow
        refusals = [exhausted(bound, now, ask.needs(bound.kind)) for bound in empty]
        raise max(refusals, key=lambda one: one.frees_at or PLENTY)  # when it is worth asking again

    def _put_aside(self, ask: Ask, output: int) -> Grant:
        made = Grant(ask.tallies, output, ask.cost(output), ask.prompt + output)
        for tally in ask.tallies:
            held = tally.held
            held.money += made.money
            held.tokens += made.tokens
        return made

    # --- those who wait --------------------------------------------------------------------------
    #
    # There is a line for each tally, and who waits stands in one. From a narrow one it goes on to the end of a wider
    # one: a person with a hundred calls waiting has one of them, or as many as may run, in the home's line. If
    # something narrower is in its way again, it goes back to its place there, so that nobody else waits behind it.

    def _wake(self, lines: Iterable[Tally]) -> None:
        """Whoever can go on does. Who goes for good, or back, may have kept others from going in all lines in which it
        may have stood."""
        due = [line for line in lines if line.waiting]
        while due:
            line = due.pop(0)
            beyond: list[Tally] = []  # lines that one of this line went on to: the next would only stand behind it
            while line.waiting and not any(bound.tally in beyond for bound in line.waiting[0].bounds):
                ask = line.waiting[0]
                hold = self._hold(ask, line)
                if hold is not None and hold.tally is line:
                    ask.behind = hold
                    break
                line.waiting.pop(0)
                if hold is not None and hold.tally.width > line.width:
                    ask.behind = hold
                    hold.tally.waiting.append(ask)
                    beyond.append(hold.tally)
                    continue
                if hold is not None:
                    ask.behind, others = hold, hold.tally.waiting
                    places = (place for place, one in enumerate(others) if one.number > ask.number)
                    others.insert(next(places, len(others)), ask)
                due += [one.tally for one in ask.bounds if one.tally.waiting and one.tally not in (line, *due)]

    def _hold(self, ask: Ask, line: Tally) -> Bound | None:
        """What the first of a line waits for; None if it is gone: it has what it wanted, or will never have it."""
        assert ask.done is not None
        if ask.done.done():  # cancelled a moment ago
            return None
        try:
            found = self._look(ask)
        except BudgetExhausted as error:
            ask.done.set_exception(error)
            return None
        blocking = () if isinstance(found, int) else found
        for bound in blocking:
            if bound.tally is line:
                return bound
        for bound in ask.bounds:
            if bound in blocking:
                return bound
            if bound.tally.width > line.width and bound.tally.waiting:
                return bound.tally.waiting[0].behind or bound
        assert isinstance(found, int)
        ask.done.set_result(self._put_aside(ask, found))
        return None

    def _leave(self, ask: Ask) -> None:
        """It was cancelled: what it was just granted is given back, and whoever is behind it comes forward."""
        assert ask.done is not None
        assert ask.behind is not None
        if ask.done.done() and not ask.done.cancelled() and ask.done.exception() is None:
            self.settle(ask.done.result(), 0, 0)
            return
        line = ask.behind.tally
        if ask in line.waiting:
            line.waiting.remove(ask)
            self._wake({bound.tally: None for bound in ask.bounds})


def _open_at(now: int, tallies: Iterable[Tally]) -> None:
    hour = now // HOUR_MS
    for tally in tallies:
        if tally.hour != hour:
            tally.turn_to(hour)


def exhausted(bound: Bound, now: int, wanted: int = 0) -> BudgetExhausted:
    """Of a tally that is open at this moment; `wanted` is the least that a call takes."""
    budget = bound.budget
    sentence = refusal(budget, bound.tally.name, bound.used(), now, wanted)
    frees_at = ends(budget.period, now) if wanted <= bound.limit else 0
    return BudgetExhausted(sentence, budget=budget.key, frees_at=frees_at)


def in_the_way(bound: Bound) -> str:
    """For people: why something waits."""
    return f"{named(bound.budget, bound.tally.name)}: calls under way have all of it that is left"
