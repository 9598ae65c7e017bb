"""What may be spent: by whom, in which time, how much; and how that is said. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal

import msgspec

from mainstay.core.ledger import HOUR_MS
from mainstay.core.ledger import Scope as Scope
from mainstay.core.reservations import NANO

Period = Literal["", "hour", "day", "month"]
Kind = Literal["money", "tokens", "calls"]

PERIODS: tuple[Period, ...] = ("hour", "day", "month")
_EACH = {"": "", "hour": " an hour", "day": " a day", "month": " a month"}
_OWNER = "the owner"


class Budget(msgspec.Struct, frozen=True):
    """A bound on one kind of thing. Money is in nanodollars. A turn and a session have no period."""

    scope: Scope
    period: Period
    kind: Kind
    limit: int

    @property
    def key(self) -> str:
        """As it is configured: `workspace.day.money`."""
        kind = "tool_calls" if self.kind == "calls" else self.kind
        return ".".join(filter(None, (self.scope, self.period, kind)))


class Budgets(msgspec.Struct, frozen=True):
    """All that hold in a workspace."""

    all: tuple[Budget, ...] = ()
    warn_at: float = 0.8

    def of(self, *scopes: Scope) -> tuple[Budget, ...]:
        return tuple(one for one in self.all if one.scope in scopes)


# --- time ----------------------------------------------------------------------------------------


def hour_of(ms: int) -> int:
    """Hours since 1970: what the ledger counts by."""
    return ms // HOUR_MS


def begins(period: Period, ms: int) -> int:
    """The hour in which a period began that holds this moment; 0 for what has none."""
    match period:
        case "hour":
            return ms // HOUR_MS
        case "day":
            return ms // (24 * HOUR_MS) * 24
        case "month":
            now = datetime.fromtimestamp(ms / 1000, UTC)
            return int(datetime(now.year, now.month, 1, tzinfo=UTC).timestamp()) // 3600
    return 0


def ends(period: Period, ms: int) -> int:
    """When (ms) the next one begins; 0 for never."""
    match period:
        case "hour":
            return (ms // HOUR_MS + 1) * HOUR_MS
        case "day":
            return (ms // (24 * HOUR_MS) + 1) * 24 * HOUR_MS
        case "month":
            first = datetime.fromtimestamp(begins("month", ms) * 3600, UTC)
            return int((first + timedelta(days=32)).replace(day=1).timestamp() * 1000)
    return 0


# --- words ---------------------------------------------------------------------------------------


def amount(kind: Kind, number: int) -> str:
    """`$9.98`, `1,200 tokens`, `1 tool call`."""
    match kind:
        case "money":
            return dollars(number)
        case "tokens":
            return f"{number:,} token{'' if number == 1 else 's'}"
    return f"{number:,} tool call{'' if number == 1 else 's'}"


def dollars(nanodollars: int) -> str:
    """Two digits of cents where that says enough, else as many as say something: `$9.98`, `$0.0042`, `$0`."""
    if not nanodollars:
        return "$0"
    if abs(nanodollars) >= NANO // 10:
        return f"${nanodollars / NANO:,.2f}"
    digits = f"${nanodollars / NANO:.9f}"
    return (digits[:8] if nanodollars >= 100_000 else digits).rstrip("0")


def limit(kind: Kind, number: int) -> str:
    """As it was configured, to the last digit."""
    if kind != "money":
        return amount(kind, number)
    whole, _, digits = f"{number / NANO:,.9f}".partition(".")
    return f"${whole}.{digits.rstrip('0').ljust(2, '0')}"


def named(budget: Budget, name: str) -> str:
    """`the workspace's budget of $10.00 a day`."""
    whose = {
        "turn": "the turn's",
        "session": "the session's",
        "person": f"{name or _OWNER}'s",
        "workspace": "the workspace's",
        "home": "the home's",
    }[budget.scope]
    return f"{whose} budget of {limit(budget.kind, budget.limit)}{_EACH[budget.period]}"


def when(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def refusal(budget: Budget, name: str, spent: int, now: int, wanted: int = 0) -> str:
    """Why something is not done, and when it would be. `wanted` is the least that it takes."""
    said, left = named(budget, name), budget.limit - spent
    if wanted > budget.limit:
        return f"{said} is too small for a call that can take {amount(budget.kind, wanted)}"
    freed = ends(budget.period, now)
    if freed:
        after = f"it frees at {when(freed)}"
    else:
        after = "the next turn has its own" if budget.scope == "turn" else "another session has its own"
    if wanted and left > 0:
        found, needed = amount(budget.kind, left), amount(budget.kind, wanted)
        return f"{said} has {found} left, too little for a call that can take {needed}; {after}"
    return f"{said} is used up ({amount(budget.kind, spent)}); {after}"


def warning(budget: Budget, name: str, spent: int, now: int) -> str:
    share = spent * 100 // budget.limit
    freed = ends(budget.period, now)
    until = f" until {when(freed)}" if freed else ""
    return f"{share} % of {named(budget, name)} is used ({amount(budget.kind, spent)}){until}"
