"""Session accounts and turn budgets of a workspace, charged to the home's budget ledger.

A sub-agent is charged to the turn that started it. Spending of a turn and its session is read from the session when its
first turn budget is opened and dropped with the last, so memory does not grow with the number of sessions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

import msgspec

from mainstay.core.budget_ports import CallEstimate
from mainstay.core.budget_reservation_ids import to_nanodollars
from mainstay.core.events import Reserved
from mainstay.core.input_envelope import sender_person
from mainstay.core.ledger_entries import BUDGET_SCOPES, BudgetScope
from mainstay.core.limits import NO_SESSION_BUDGET
from mainstay.core.messages import Usage
from mainstay.core.ports import Store
from mainstay.core.session import Session
from mainstay.core.usage_bounds import bound_charge
from mainstay.metering.budget_definitions import (
    SpendingBudget,
    WorkspaceBudgets,
    describe_warning,
    hour_at,
    period_start_hour,
    session_budgets,
)
from mainstay.metering.budget_ledger import BudgetLedger, build_exhausted_error, describe_blocker
from mainstay.metering.spending_counters import (
    AppliedBudget,
    SpendingCounter,
    SpendingGrant,
    SpendingRequest,
    SpendingTotals,
)

log = logging.getLogger("mainstay.metering")

OUTPUT_TOKENS_DEFAULT = 8_192  # tokens of an answer, if the caller sets no maximum
OUTPUT_TOKENS_THINKING = 16_384  # the same for a thinking model
RECENT_MAX = 1024  # sessions whose last settlements are remembered
DEPTH_MAX = 16  # of sub-agents; protects against a corrupt journal


class SessionAccount(msgspec.Struct):
    """Counters of a session with its sub-agents, while it has an open turn budget."""

    session: SpendingCounter
    turn: SpendingCounter
    turn_number: int
    session_budgets: tuple[SpendingBudget, ...] = ()  # that apply to the session
    open_budgets: int = 0  # turn budgets that are open


class ChargedCounters(msgspec.Struct, frozen=True):
    """Counters that a turn is charged to, from the narrowest scope on, and the budgets that apply to them."""

    counters: tuple[SpendingCounter, ...]
    model_budgets: tuple[AppliedBudget, ...]  # for money and tokens
    tool_budgets: tuple[AppliedBudget, ...]  # for tool calls


class WorkspaceBudgetManager:
    """Implements `BudgetManager` for one workspace."""

    limits_every_session = True

    def __init__(self, ledger: BudgetLedger, budgets: WorkspaceBudgets, store: Store, workspace: str) -> None:
        self.ledger = ledger
        self.budgets = budgets
        self._store = store
        self._shared_counters = (ledger.get_counter("workspace", workspace), ledger.get_counter("home", ""))
        self._shared_payers: dict[str, ChargedCounters] = {}  # by person; kept, like the counters
        self._budgets_by_scope = {scope: budgets.for_scopes(scope) for scope in BUDGET_SCOPES}
        self._accounts: dict[str, SessionAccount] = {}  # by root session, which is no sub-agent
        self._root_keys: dict[str, str] = {}  # root session by session, while it has a turn budget
        # by session: settlements of its last turn, by reservation id
        self._recently_settled: dict[str, dict[str, SpendingTotals]] = {}
        self._read_lock = asyncio.Lock()

    async def open_turn_budget(self, session: Session) -> LedgerTurnBudget:
        """Open the budget of the session's open turn, or of work between its turns (a fold)."""
        self._charge_unrecorded(session)
        turn = session.open_turn
        if session.spawned is None and (turn is None or not turn.open_calls):
            return self._create_turn_budget(
                session, session.key, self._get_account(session, _sum_session(session), _sum_turn(session))
            )
        async with self._read_lock:  # so that concurrent spending is in all of the read totals or in none
            return await self._open_with_sub_agents(session)

    async def _open_with_sub_agents(self, session: Session) -> LedgerTurnBudget:
        """Open the budget of a sub-agent, or of a turn whose open calls may have some; reads the store."""
        key = session.key
        if session.spawned is not None:
            key = self._root_keys.get(session.spawned.parent) or await self._find_root(session)
        root = session
        if key != session.key:
            if (account := self._accounts.get(key)) is not None:
                return self._create_turn_budget(session, key, account)
            root = await self._load_view(key) or Session(key)
        sub_agents = await self._sum_sub_agents(root, DEPTH_MAX)
        session_totals, turn = _sum_session(root), _sum_turn(root)
        for totals in (session_totals, turn):
            totals.add(sub_agents.money, sub_agents.tokens, sub_agents.calls)
        return self._create_turn_budget(session, key, self._get_account(root, session_totals, turn))

    def _create_turn_budget(self, session: Session, root: str, account: SessionAccount) -> LedgerTurnBudget:
        account.open_budgets += 1
        self._root_keys[session.key] = root
        return LedgerTurnBudget(self, session, root, account)

    def _get_account(
        self, root: Session, session_totals: SpendingTotals, turn_totals: SpendingTotals
    ) -> SessionAccount:
        number = root.open_turn.turn if root.open_turn is not None else 0
        turn_budgets, budgets = self._budgets_by_scope["turn"], self._budgets_by_scope["session"]
        if root.budget != NO_SESSION_BUDGET:
            budgets = session_budgets(budgets, root.budget)
        account = self._accounts.get(root.key)
        if account is None:
            account = self._accounts[root.key] = SessionAccount(
                self._create_counter("session", session_totals, budgets),
                self._create_counter("turn", turn_totals, turn_budgets),
                number,
                budgets,
            )
        elif number and number != account.turn_number:  # a fold of an earlier turn still holds the account
            account.turn, account.turn_number = self._create_counter("turn", turn_totals, turn_budgets), number
            account.session_budgets = budgets
        return account

    def _create_counter(
        self, scope: BudgetScope, totals: SpendingTotals, budgets: Sequence[SpendingBudget]
    ) -> SpendingCounter:
        counter = SpendingCounter(scope)
        counter.add(hour_at(self.ledger.now_ms()), totals.money, totals.tokens, totals.calls)
        for budget in budgets:
            if totals.amount_of(budget.kind) >= self.budgets.warn_at * budget.limit:
                counter.warned[budget] = 0  # the warning was given in an earlier turn
        return counter

    def close_turn_budget(self, turn_budget: LedgerTurnBudget) -> None:
        account = turn_budget.account
        account.open_budgets -= 1
        key = turn_budget.session.key
        if not account.open_budgets:
            self._accounts.pop(turn_budget.root_key, None)
        if key != turn_budget.root_key or not account.open_budgets:
            self._root_keys.pop(key, None)
        if turn_budget.settled:
            # a fold may close after the turn
            self._recently_settled[key] = self._recently_settled.pop(key, {}) | turn_budget.settled
            if len(self._recently_settled) > RECENT_MAX:
                del self._recently_settled[next(iter(self._recently_settled))]

    # --- earlier spending ------------------------------------------------------------------------

    def _charge_unrecorded(self, session: Session) -> None:
        """Charge calls in full whose settlement was not journaled (the disk was full).

        The journal counts their whole reservation as spent, so the ledger must too.
        """
        recent = self._recently_settled.pop(session.key, None)
        if recent is None or not session.reserved:
            return
        for reservation in session.reserved.values():
            if (settled := recent.get(reservation.id)) is not None:
                more = SpendingTotals(
                    reservation.cost - settled.money, reservation.prompt + reservation.output - settled.tokens
                )
                payers = (self.ledger.get_counter("person", reservation.person), *self._shared_counters)
                self.ledger.spend(payers, more.money, more.tokens)

    async def _find_root(self, session: Session) -> str:
        key, spawned = session.key, session.spawned
        for _ in range(DEPTH_MAX):
            if spawned is None:
                break
            key = spawned.parent
            info = await self._store.get_session(key)
            spawned = info.spawned if info is not None else None
        return key

    async def _load_view(self, key: str) -> Session | None:
        tail = await self._store.load_tail(key, 1)
        return Session.from_tail(tail) if tail is not None else None

    async def _sum_sub_agents(self, session: Session, depth: int) -> SpendingTotals:
        """Sum up the spending of sub-agents whose calls have no result yet; results contain that of the others."""
        total = SpendingTotals()
        calls = session.open_turn.open_calls if session.open_turn is not None and depth else ()
        for call in calls:
            child = await self._load_view(f"{session.key}/{call.id}")
            if child is not None and child.spawned is not None:
                for totals in (_sum_session(child), await self._sum_sub_agents(child, depth - 1)):
                    total.add(totals.money, totals.tokens, totals.calls)
        return total

    # --- counters and budgets of a turn ----------------------------------------------------------

    def build_payers(self, account: SessionAccount, person: str) -> ChargedCounters:
        shared = self._shared_payers.get(person)
        if shared is None:
            counters = (self.ledger.get_counter("person", person), *self._shared_counters)
            shared = self._shared_payers[person] = self._apply_budgets(
                [(counter, self._budgets_by_scope[counter.scope]) for counter in counters]
            )
        turn_budgets = self._budgets_by_scope["turn"]
        session_totals = self._apply_budgets([(account.turn, turn_budgets), (account.session, account.session_budgets)])
        return ChargedCounters(
            session_totals.counters + shared.counters,
            session_totals.model_budgets + shared.model_budgets,
            session_totals.tool_budgets + shared.tool_budgets,
        )

    def _apply_budgets(self, limited: Sequence[tuple[SpendingCounter, Sequence[SpendingBudget]]]) -> ChargedCounters:
        model_budgets: list[AppliedBudget] = []
        tool_budgets: list[AppliedBudget] = []
        for counter, budgets in limited:
            for budget in budgets:
                (tool_budgets if budget.kind == "calls" else model_budgets).append(
                    AppliedBudget(budget, counter, self.budgets.warn_at)
                )
        return ChargedCounters(tuple(counter for counter, _ in limited), tuple(model_budgets), tuple(tool_budgets))


class LedgerTurnBudget:
    """Implements `TurnBudget` for one turn, or for a fold between turns."""

    __slots__ = ("_grants", "_manager", "_payers", "_person", "_warnings", "account", "root_key", "session", "settled")

    def __init__(self, manager: WorkspaceBudgetManager, session: Session, root: str, account: SessionAccount) -> None:
        self.session = session
        self.root_key = root
        self.account = account
        self.settled: dict[str, SpendingTotals] = {}
        self._manager = manager
        self._grants: dict[str, SpendingGrant] = {}
        self._warnings: list[str] = []
        self._person: str | None = None
        self._payers = ChargedCounters((), (), ())

    def try_reserve(self, estimate: CallEstimate) -> Reserved | None:
        grant = self._manager.ledger.try_grant(self._build_request(estimate))
        return None if isinstance(grant, AppliedBudget) else self._build_reservation(estimate, grant)

    async def reserve(self, estimate: CallEstimate) -> Reserved:
        request, ledger = self._build_request(estimate), self._manager.ledger
        grant = ledger.try_grant(request)
        if isinstance(grant, AppliedBudget):
            if estimate.on_wait is not None:
                estimate.on_wait(f"waiting for {describe_blocker(grant)}", 0.0)
            grant = await ledger.wait_for_grant(request, grant)
        return self._build_reservation(estimate, grant)

    def _build_request(self, estimate: CallEstimate) -> SpendingRequest:
        payers, model = self._find_payers(), estimate.model
        output = estimate.output_tokens_max or min(
            model.output, OUTPUT_TOKENS_THINKING if model.thinking else OUTPUT_TOKENS_DEFAULT
        )
        return SpendingRequest(model, estimate.prompt_tokens, output, payers.counters, payers.model_budgets)

    def _build_reservation(self, estimate: CallEstimate, grant: SpendingGrant) -> Reserved:
        assert estimate.id not in self._grants, "a call is reserved once"
        self._grants[estimate.id] = grant
        model, person = estimate.model, self._person or ""
        amounts = grant.output, grant.money, model.guessed, person
        return Reserved(
            estimate.id, model.name, estimate.prompt_tokens, *amounts, turn=estimate.turn, step=estimate.step
        )

    def settle(self, reserved: Reserved, usage: Usage | None, cost: float) -> None:
        grant = self._grants.pop(reserved.id)
        if usage is not None:
            usage, cost = bound_charge(usage, cost)
        money, tokens = to_nanodollars(cost), usage.prompt + usage.completion if usage is not None else 0
        self._manager.ledger.settle(grant, money, tokens)
        self.settled[reserved.id] = SpendingTotals(money, tokens)
        if money or tokens:
            self._warn_if_near(self._payers.model_budgets)

    def charge(self, usage: Usage, cost: float) -> None:
        payers = self._find_payers()
        usage, cost = bound_charge(usage, cost)
        self._manager.ledger.spend(payers.counters, to_nanodollars(cost), usage.prompt + usage.completion)
        self._warn_if_near(payers.model_budgets)

    def count_tool_call(self) -> str | None:
        payers, ledger = self._find_payers(), self._manager.ledger
        if payers.tool_budgets:
            now = ledger.now_ms()
            for applied in payers.tool_budgets:
                if ledger.remaining(applied, now) <= 0:
                    return str(build_exhausted_error(applied, now))
        ledger.spend(payers.counters, calls=1)
        if payers.tool_budgets:
            self._warn_if_near(payers.tool_budgets)
        return None

    def take_warnings(self) -> tuple[str, ...]:
        warnings, self._warnings = tuple(self._warnings), []
        return warnings

    def close(self) -> None:
        for grant in self._grants.values():  # their outcome is unknown: spent in full
            self._manager.ledger.settle(grant, grant.money, grant.tokens)
        self.settled |= {id: SpendingTotals(grant.money, grant.tokens) for id, grant in self._grants.items()}
        self._grants.clear()
        self._manager.close_turn_budget(self)

    def _find_payers(self) -> ChargedCounters:
        """Return the counters to charge: those of the turn's last sender, or between turns of the session's creator."""
        session = self.session
        alone = session.open_turn is None and session.spawned is None
        person = session.started_by if alone else sender_person(session.person)
        if person != self._person:
            self._person = person
            self._payers = self._manager.build_payers(self.account, person)
        return self._payers

    def _warn_if_near(self, budgets: Iterable[AppliedBudget]) -> None:
        """Warn about budgets that are nearly used up, once per budget and period."""
        for applied in budgets:
            if applied.used() >= applied.warn_from:
                self._warn_once(applied)

    def _warn_once(self, applied: AppliedBudget) -> None:
        budget, counter, now = applied.budget, applied.counter, self._manager.ledger.now_ms()
        since = period_start_hour(budget.period, now)
        if counter.warned.get(budget) != since:
            counter.warned[budget] = since
            sentence = describe_warning(budget, counter.name, applied.used(), now)
            log.warning("session %s: %s", self.session.key, sentence)
            self._warnings.append(sentence)


def _sum_session(session: Session) -> SpendingTotals:
    """Return what the session has spent, with open reservations in full."""
    usage = session.usage
    totals = SpendingTotals(to_nanodollars(session.cost), usage.prompt + usage.completion, session.calls)
    for reservation in session.reserved.values():
        totals.add(reservation.cost, reservation.prompt + reservation.output, 0)
    return totals


def _sum_turn(session: Session) -> SpendingTotals:
    turn = session.open_turn
    if turn is None:
        return SpendingTotals()
    totals = SpendingTotals(to_nanodollars(turn.cost), turn.usage.prompt + turn.usage.completion, turn.calls_run)
    for reservation in session.reserved.values():
        totals.add(reservation.cost, reservation.prompt + reservation.output, 0)
    return totals
