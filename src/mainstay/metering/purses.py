"""Purses: what the turns of a workspace may spend, each its own and its share in what others share.

A sub-agent pays from the purse of the turn that sent it. What a turn and its session have spent is read from the
session when its first purse is opened and forgotten with the last, so nothing here grows with the number of sessions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

import msgspec

from mainstay.core.accounts import Wish
from mainstay.core.envelope import named_in
from mainstay.core.events import Reserved
from mainstay.core.ledger import SCOPES, Scope
from mainstay.core.messages import Usage
from mainstay.core.ports import Store
from mainstay.core.reservations import nanodollars
from mainstay.core.session import Session
from mainstay.metering.books import Books, exhausted, in_the_way
from mainstay.metering.budgets import Budgets, begins, hour_of, warning
from mainstay.metering.tallies import Ask, Bound, Grant, Sums, Tally

log = logging.getLogger("mainstay.metering")

OUTPUT_DEFAULT = 8_192  # tokens of an answer, at the most, where nobody says otherwise
OUTPUT_THINKING = 16_384  # and of one that is thought about
RECENT_MAX = 1024  # sessions of which it is known what was settled last
DEPTH_MAX = 16  # of sub-agents, should a journal say something odd


class Sheet(msgspec.Struct):
    """A session with its sub-agents, while somebody spends in it."""

    session: Tally
    turn: Tally
    number: int  # of the turn
    purses: int = 0


class Payers(msgspec.Struct, frozen=True):
    """Some of those who pay, from the narrowest on, and what bounds them: what calls of models take, and how many calls
    of tools there are."""

    tallies: tuple[Tally, ...]
    paid: tuple[Bound, ...]
    called: tuple[Bound, ...]


class Purses:
    """The accounts of one workspace."""

    def __init__(self, books: Books, budgets: Budgets, store: Store, workspace: str) -> None:
        self.books = books
        self.budgets = budgets
        self._store = store
        self._shared = (books.tally("workspace", workspace), books.tally("home", ""))
        self._payers: dict[str, Payers] = {}  # by person, who like a tally stays
        self._of = {scope: budgets.of(scope) for scope in SCOPES}
        self._sheets: dict[str, Sheet] = {}  # by the session that is nobody's sub-agent
        self._roots: dict[str, str] = {}  # of sessions that have a purse now
        self._recent: dict[str, dict[str, Sums]] = {}  # by session: settled in its last turn
        self._reading = asyncio.Lock()

    async def purse(self, session: Session) -> TurnPurse:
        """For the turn that is open in it, or for what is done beside its turns."""
        self._doubt(session)
        turn = session.open
        if session.errand is None and (turn is None or not turn.open_calls):
            return self._opened(session, session.key, self._sheet(session, _sums(session), _sums_of_turn(session)))
        async with self._reading:  # so that what others spend meanwhile is in none of it, or in all
            return await self._read(session)

    async def _read(self, session: Session) -> TurnPurse:
        """A sub-agent's, or that of a turn some of whose calls may have sub-agents: they are looked up."""
        key = session.key
        if session.errand is not None:
            key = self._roots.get(session.errand.parent) or await self._root(session)
        root = session
        if key != session.key:
            if (sheet := self._sheets.get(key)) is not None:
                return self._opened(session, key, sheet)
            root = await self._view(key) or Session(key)
        below = await self._below(root, DEPTH_MAX)
        own, turn = _sums(root), _sums_of_turn(root)
        for sums in (own, turn):
            sums.add(below.money, below.tokens, below.calls)
        return self._opened(session, key, self._sheet(root, own, turn))

    def _opened(self, session: Session, root: str, sheet: Sheet) -> TurnPurse:
        sheet.purses += 1
        self._roots[session.key] = root
        return TurnPurse(self, session, root, sheet)

    def _sheet(self, root: Session, own: Sums, turn: Sums) -> Sheet:
        number = root.open.turn if root.open is not None else 0
        sheet = self._sheets.get(root.key)
        if sheet is None:
            sheet = self._sheets[root.key] = Sheet(self._made("session", own), self._made("turn", turn), number)
        elif number and number != sheet.number:  # something goes on beside the turns
            sheet.turn, sheet.number = self._made("turn", turn), number
        return sheet

    def _made(self, scope: Scope, sums: Sums) -> Tally:
        tally = Tally(scope)
        tally.add(hour_of(self.books.now_ms()), sums.money, sums.tokens, sums.calls)
        for budget in self._of[scope]:
            if sums.of(budget.kind) >= self.budgets.warn_at * budget.limit:
                tally.warned[budget] = 0  # in an earlier turn
        return tally

    def close(self, purse: TurnPurse) -> None:
        sheet = purse.sheet
        sheet.purses -= 1
        key = purse.session.key
        if not sheet.purses:
            self._sheets.pop(purse.root, None)
        if key != purse.root or not sheet.purses:
            self._roots.pop(key, None)
        if purse.settled:
            self._recent[key] = self._recent.pop(key, {}) | purse.settled  # a fold may end after the turn
            if len(self._recent) > RECENT_MAX:
                del self._recent[next(iter(self._recent))]

    # --- what was spent before -------------------------------------------------------------------

    def _doubt(self, session: Session) -> None:
        """A call that was settled here, but the journal never heard of it (a disk was full): it says that all that was
        put aside is lost, and so do the books."""
        recent = self._recent.pop(session.key, None)
        if recent is None or not session.reserved:
            return
        for reserved in session.reserved.values():
            if (settled := recent.get(reserved.id)) is not None:
                more = Sums(reserved.cost - settled.money, reserved.prompt + reserved.output - settled.tokens)
                payers = (self.books.tally("person", reserved.person), *self._shared)
                self.books.spend(payers, more.money, more.tokens)

    async def _root(self, session: Session) -> str:
        key, errand = session.key, session.errand
        for _ in range(DEPTH_MAX):
            if errand is None:
                break
            key = errand.parent
            standing = await self._store.get(key)
            errand = standing.errand if standing is not None else None
        return key

    async def _view(self, key: str) -> Session | None:
        tail = await self._store.load(key, 1)
        return Session.of(tail) if tail is not None else None

    async def _below(self, session: Session, depth: int) -> Sums:
        """What sub-agents of calls that have no result yet have spent: of the others, the results tell."""
        total = Sums()
        calls = session.open.open_calls if session.open is not None and depth else ()
        for call in calls:
            child = await self._view(f"{session.key}/{call.id}")
            if child is not None and child.errand is not None:
                for sums in (_sums(child), await self._below(child, depth - 1)):
                    total.add(sums.money, sums.tokens, sums.calls)
        return total

    # --- who pays --------------------------------------------------------------------------------

    def payers(self, sheet: Sheet, person: str) -> Payers:
        shared = self._payers.get(person)
        if shared is None:
            shared = self._payers[person] = self._bounded((self.books.tally("person", person), *self._shared))
        own = self._bounded((sheet.turn, sheet.session))
        return Payers(own.tallies + shared.tallies, own.paid + shared.paid, own.called + shared.called)

    def _bounded(self, tallies: tuple[Tally, ...]) -> Payers:
        paid: list[Bound] = []
        called: list[Bound] = []
        for tally in tallies:
            for budget in self._of[tally.scope]:
                (called if budget.kind == "calls" else paid).append(Bound(budget, tally, self.budgets.warn_at))
        return Payers(tallies, tuple(paid), tuple(called))


class TurnPurse:
    """Of one turn, or of a fold beside the turns. See `core.accounts.Purse`."""

    __slots__ = ("_granted", "_news", "_payers", "_person", "_purses", "root", "session", "settled", "sheet")

    def __init__(self, purses: Purses, session: Session, root: str, sheet: Sheet) -> None:
        self.session = session
        self.root = root
        self.sheet = sheet
        self.settled: dict[str, Sums] = {}
        self._purses = purses
        self._granted: dict[str, Grant] = {}
        self._news: list[str] = []
        self._person: str | None = None
        self._payers = Payers((), (), ())

    def reserve_now(self, wish: Wish) -> Reserved | None:
        granted = self._purses.books.grant(self._ask(wish))
        return None if isinstance(granted, Bound) else self._reserved(wish, granted)

    async def reserve(self, wish: Wish) -> Reserved:
        ask, books = self._ask(wish), self._purses.books
        granted = books.grant(ask)
        if isinstance(granted, Bound):
            if wish.notice is not None:
                wish.notice(f"waiting for {in_the_way(granted)}", 0.0)
            granted = await books.wait(ask, granted)
        return self._reserved(wish, granted)

    def _ask(self, wish: Wish) -> Ask:
        payers, model = self._who_pays(), wish.model
        output = wish.output or min(model.output, OUTPUT_THINKING if model.thinking else OUTPUT_DEFAULT)
        return Ask(model, wish.prompt, output, payers.tallies, payers.paid)

    def _reserved(self, wish: Wish, granted: Grant) -> Reserved:
        assert wish.id not in self._granted, "a call is paid for once"
        self._granted[wish.id] = granted
        model, person = wish.model, self._person or ""
        put = granted.output, granted.money, model.guessed, person
        return Reserved(wish.id, model.name, wish.prompt, *put, turn=wish.turn, step=wish.step)

    def settle(self, reserved: Reserved, usage: Usage | None, cost: float) -> None:
        granted = self._granted.pop(reserved.id)
        money, tokens = nanodollars(cost), usage.prompt + usage.completion if usage is not None else 0
        self._purses.books.settle(granted, money, tokens)
        self.settled[reserved.id] = Sums(money, tokens)
        if money or tokens:
            self._warn(self._payers.paid)

    def spend(self, usage: Usage, cost: float) -> None:
        payers = self._who_pays()
        self._purses.books.spend(payers.tallies, nanodollars(cost), usage.prompt + usage.completion)
        self._warn(payers.paid)

    def allow_call(self) -> str | None:
        payers, books = self._who_pays(), self._purses.books
        if payers.called:
            now = books.now_ms()
            for bound in payers.called:
                if books.left(bound, now) <= 0:
                    return str(exhausted(bound, now))
        books.spend(payers.tallies, calls=1)
        if payers.called:
            self._warn(payers.called)
        return None

    def told(self) -> tuple[str, ...]:
        news, self._news = tuple(self._news), []
        return news

    def close(self) -> None:
        for granted in self._granted.values():  # nobody knows what came of these
            self._purses.books.settle(granted, granted.money, granted.tokens)
        self.settled |= {id: Sums(one.money, one.tokens) for id, one in self._granted.items()}
        self._granted.clear()
        self._purses.close(self)

    def _who_pays(self) -> Payers:
        """Whoever spoke last in the turn; beside the turns, who began the session."""
        session = self.session
        alone = session.open is None and session.errand is None
        person = session.begun_by if alone else named_in(session.person)
        if person != self._person:
            self._person = person
            self._payers = self._purses.payers(self.sheet, person)
        return self._payers

    def _warn(self, bounds: Iterable[Bound]) -> None:
        """Once for each budget and period."""
        for bound in bounds:
            if bound.used() >= bound.near:
                self._warn_of(bound)

    def _warn_of(self, bound: Bound) -> None:
        budget, tally, now = bound.budget, bound.tally, self._purses.books.now_ms()
        since = begins(budget.period, now)
        if tally.warned.get(budget) != since:
            tally.warned[budget] = since
            sentence = warning(budget, tally.name, bound.used(), now)
            log.warning("session %s: %s", self.session.key, sentence)
            self._news.append(sentence)


def _sums(session: Session) -> Sums:
    """What it has spent, and what it may have: calls that nobody has closed."""
    usage = session.usage
    sums = Sums(nanodollars(session.cost), usage.prompt + usage.completion, session.calls)
    for reserved in session.reserved.values():
        sums.add(reserved.cost, reserved.prompt + reserved.output, 0)
    return sums


def _sums_of_turn(session: Session) -> Sums:
    turn = session.open
    if turn is None:
        return Sums()
    sums = Sums(nanodollars(turn.cost), turn.usage.prompt + turn.usage.completion, turn.ran)
    for reserved in session.reserved.values():
        sums.add(reserved.cost, reserved.prompt + reserved.output, 0)
    return sums
