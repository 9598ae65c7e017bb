"""Where something happens: the session, its turn, the step of that, and the trace that all of it is found under.

Whoever runs a turn says so once (`Spot`); whoever has something to say meanwhile, a log for instance, asks `here`.
Nothing is worked out until somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Self

import msgspec


class Where(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What is not known is left out. What belongs to no turn may have a trace of its own all the same."""

    session: str = ""
    turn: int = 0
    step: int = 0
    trace: str = ""


class Spot:
    """For as long as the block runs, `here` is what `look` says, also in tasks and threads that are begun in it. What
    outlives the block is nowhere afterwards: a connection that was opened for one turn may serve others."""

    __slots__ = ("_look", "_token")

    def __init__(self, look: Callable[[], Where]) -> None:
        self._look: Callable[[], Where] | None = look
        self._token: Token[Spot | None] | None = None

    @property
    def where(self) -> Where | None:
        return self._look() if self._look is not None else None

    def __enter__(self) -> Self:
        self._token = _spot.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._token is not None
        self._look = None
        _spot.reset(self._token)


PLACE = ("session", "turn", "step", "trace")  # what a line of a log says of where it was written
ENDS_TURN = {"ends_turn": True}  # told beside a line of a log: this is why the turn ends, and its end says so too

_spot: ContextVar[Spot | None] = ContextVar("mainstay.where", default=None)


def here() -> Where | None:
    """None: no turn runs here."""
    spot = _spot.get()
    return spot.where if spot is not None else None
