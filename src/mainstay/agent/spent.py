"""What was spent and what is left, as the ledger has it; it can be looked at beside whoever owns the home."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mainstay.agent.accounts import budgets_of
from mainstay.agent.places import GATEWAY
from mainstay.config.schema import Config
from mainstay.metering.budgets import PERIODS, Budget, Scope, begins, ends


class Spent(msgspec.Struct, frozen=True):
    """By somebody, in a period that has begun. Money is in nanodollars; `lost` of it was put aside by processes that
    died, and nobody knows whether it was charged."""

    scope: str
    name: str
    period: str
    money: int = 0
    tokens: int = 0
    calls: int = 0
    lost: int = 0


class Left(msgspec.Struct, frozen=True):
    """A budget, and how much of it is used. `frees_at` (ms) is when it begins anew; 0: never by itself."""

    budget: str
    scope: str
    name: str
    period: str
    kind: str
    used: int
    limit: int
    frees_at: int


class Report(msgspec.Struct, frozen=True):
    spent: list[Spent]
    budgets: list[Left]
    under_way: int = 0  # nanodollars, put aside for calls that have no end yet

    @property
    def lost(self) -> int:
        """This month."""
        return sum(one.lost for one in self.spent if one.scope == "home" and one.period == "month")


def report(home: Path, configs: list[Config], now: int) -> Report:
    """`configs` are those of the workspaces that are of interest; the first is the home's own."""
    spent, under_way = _read(home, now)
    by_key = {(one.scope, one.name, one.period): one for one in spent}
    people = sorted({one.name for one in spent if one.scope == "person"})
    left: dict[tuple[str, str], Left] = {}
    for config in configs:
        for budget in budgets_of(config.budgets).of("person", "workspace", "home"):
            whose = {"workspace": [config.workspace], "home": [""]}.get(budget.scope, people)
            for name in whose:
                used = by_key.get((budget.scope, name, budget.period), Spent(budget.scope, name, budget.period))
                left.setdefault((budget.key, name), _left(budget, name, used, now))
    return Report(spent, list(left.values()), under_way)


def _left(budget: Budget, name: str, used: Spent, now: int) -> Left:
    amount = {"money": used.money, "tokens": used.tokens, "calls": used.calls}[budget.kind]
    frees = ends(budget.period, now)
    return Left(budget.key, budget.scope, name, budget.period, budget.kind, amount, budget.limit, frees)


def _read(home: Path, now: int) -> tuple[list[Spent], int]:
    path = home / GATEWAY
    if not path.exists():
        return [], 0
    from mainstay.store.sqlite.database import connect, named  # only for those who have something kept
    from mainstay.store.sqlite.ledger import is_there, put_aside, totals

    db = connect(str(path), busy_s=5.0, read_only=True)
    try:
        with named(str(path)):
            found: list[Spent] = []
            if not is_there(db):
                return found, 0
            for period in PERIODS:
                found += [
                    Spent(one.scope, one.name, period, one.nanodollars, one.tokens, one.calls, one.lost)
                    for one in totals(db, begins(period, now))
                ]
            return found, put_aside(db)
    finally:
        db.close()


def scope_name(scope: Scope | str, name: str) -> str:
    match scope:
        case "home":
            return "home"
        case "person":
            return f"person {name or '(owner)'}"
    return f"{scope} {name}"
