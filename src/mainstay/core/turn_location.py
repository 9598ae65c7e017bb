"""Current session, turn, step and trace id, in a context variable, for log lines and errors.

The lane sets it around a turn (`TurnLocationContext`); logging and error handling read it (`current_location`). It is
only computed when it is read.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Self

import msgspec


class TurnLocation(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Session, turn, step and trace id of an operation; unknown ones are empty. A trace id needs no turn."""

    session: str = ""
    turn: int = 0
    step: int = 0
    trace: str = ""


class TurnLocationContext:
    """Context manager that sets the current location, also for tasks and threads started in the block.

    When the block ends, tasks that outlive it have no location: a connection opened in one turn may serve others.
    """

    __slots__ = ("_get_location", "_token")

    def __init__(self, get_location: Callable[[], TurnLocation]) -> None:
        self._get_location: Callable[[], TurnLocation] | None = get_location
        self._token: Token[TurnLocationContext | None] | None = None

    @property
    def location(self) -> TurnLocation | None:
        return self._get_location() if self._get_location is not None else None

    def __enter__(self) -> Self:
        self._token = _scope.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._token is not None
        self._get_location = None
        _scope.reset(self._token)


LOCATION_FIELDS = ("session", "turn", "step", "trace")  # attributes of a log record
ENDS_TURN = {"ends_turn": True}  # `extra` of a log record about an error that ends the turn and is in its outcome too

_scope: ContextVar[TurnLocationContext | None] = ContextVar("mainstay.where", default=None)


def current_location() -> TurnLocation | None:
    """Return the current location, or None outside of a turn."""
    scope = _scope.get()
    return scope.location if scope is not None else None
