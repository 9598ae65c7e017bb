"""What calls may cost, as ports: a turn has a purse, and asks it before it spends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from mainstay.core.events import Reserved
from mainstay.core.messages import Usage
from mainstay.core.ports import ModelInfo
from mainstay.core.reservations import NANO as NANO
from mainstay.core.session import Session


class Wish(msgspec.Struct, frozen=True, gc=False):
    """A model call that somebody wants to make."""

    id: str  # as in `Reserved`
    model: ModelInfo
    prompt: int  # tokens, as we count them, rather more than less
    output: int | None = None  # tokens that the answer may have at most; None: what the model allows
    notice: Callable[[str, float], None] | None = None  # told about waiting (a sentence, seconds)
    turn: int = 0
    step: int = 0


class Purse(Protocol):
    """What one turn may spend: its own, and its share in what its session, person and workspace may.

    `reserve` puts aside what the call can cost at most, so that what runs beside it cannot spend it too. Whoever was
    granted something settles it exactly once, whatever becomes of the call; what was not used is free again.
    """

    def reserve_now(self, wish: Wish) -> Reserved | None:
        """As `reserve` does; None where that would wait."""
        ...

    async def reserve(self, wish: Wish) -> Reserved:
        """To be on disk before the call is sent; its `output` is what the provider is to be told. Waits while only
        others' calls under way are in the way; raises BudgetExhausted."""
        ...

    def settle(self, reserved: Reserved, usage: Usage | None, cost: float) -> None:
        """What it came to; nothing, if nothing was answered."""
        ...

    def spend(self, usage: Usage, cost: float) -> None:
        """Something that nobody had put aside, and a record tells of."""
        ...

    def allow_call(self) -> str | None:
        """Counts a tool call that is about to run; or a sentence that says which budget has no more."""
        ...

    def told(self) -> tuple[str, ...]:
        """What people should hear since they were last told: budgets that are nearly used up."""
        ...

    def close(self) -> None:
        """The turn is over, or waits for somebody. What was never settled is spent in full."""
        ...


class Accounts(Protocol):
    """All that may be spent in a home, held by the process that owns it."""

    async def purse(self, session: Session) -> Purse | None:
        """For the turn that is open in it; None where nothing is bounded."""
        ...
