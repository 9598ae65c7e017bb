"""Ports for spending budgets: a turn reserves the cost of a model call before sending it and settles it afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from mainstay.core.budget_reservation_ids import NANODOLLARS_PER_DOLLAR as NANODOLLARS_PER_DOLLAR
from mainstay.core.events import Reserved
from mainstay.core.messages import Usage
from mainstay.core.ports import ModelInfo
from mainstay.core.session import Session


class CallEstimate(msgspec.Struct, frozen=True, gc=False):
    """Upper estimate of a model call that is about to be made."""

    id: str  # as in `Reserved`
    model: ModelInfo
    prompt_tokens: int  # tokens by our count, rounded up
    output_tokens_max: int | None = None  # maximal tokens of the answer; None: the model's limit
    on_wait: Callable[[str, float], None] | None = None  # called when it has to wait: a sentence, seconds
    turn: int = 0
    step: int = 0


class TurnBudget(Protocol):
    """Budget of one turn: its own, and its share of the budgets of its session, person, workspace and home.

    `reserve` sets aside the maximal cost of a call, so that concurrent calls cannot spend it too. Every reservation is
    settled exactly once, however the call ends; the unused part becomes available again.
    """

    def try_reserve(self, estimate: CallEstimate) -> Reserved | None:
        """Like `reserve`, but return None instead of waiting."""
        ...

    async def reserve(self, estimate: CallEstimate) -> Reserved:
        """Reserve the maximal cost of a call; raises BudgetExhausted.

        The result must be on disk before the call is sent; its `output` is the token limit to send to the provider.
        Waits only for reservations of other running calls to be settled.
        """
        ...

    def settle(self, reserved: Reserved, usage: Usage | None, cost: float) -> None:
        """Replace a reservation by what the call cost; None and 0 if the provider did not answer."""
        ...

    def charge(self, usage: Usage, cost: float) -> None:
        """Charge a cost that was not reserved and that a journal record reports."""
        ...

    def count_tool_call(self) -> str | None:
        """Count a tool call that is about to run, or return a sentence that names the exhausted budget."""
        ...

    def take_warnings(self) -> tuple[str, ...]:
        """Return warnings about nearly exhausted budgets that were not returned before."""
        ...

    def close(self) -> None:
        """End the turn, or its part before an approval. Unsettled reservations are charged in full."""
        ...


class BudgetManager(Protocol):
    """Opens turn budgets; one for a home, held by the process that owns it. With `limits_every_session` False, only
    sessions with a budget of their own, and their sub-agents, can have one."""

    limits_every_session: bool

    async def open_turn_budget(self, session: Session) -> TurnBudget | None:
        """Return a budget for the session's open turn, or for work beside its turns; None if nothing is limited."""
        ...
