"""The end of a turn: its answer is judged, where there are judges, and either stands or is tried again."""

from __future__ import annotations

from mainstay.core.outcome import Answered, Exhausted, Outcome
from mainstay.core.ports import Scribe
from mainstay.core.session import Session
from mainstay.turn.means import Means


async def conclude(session: Session, means: Means, scribe: Scribe, spent: str | None) -> Outcome | None:
    """None: the model was told what is wrong with it, and is to be asked again."""
    return Exhausted(spent) if spent is not None else Answered()
