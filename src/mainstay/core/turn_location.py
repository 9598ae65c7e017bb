"""Current session, turn, step and trace id, in a context variable, for log lines and errors.

The lane sets it around a turn (`TurnLocationContext`); logging and error handling read it (`current_location`). It is
only computed when it is read.

Trace and span ids are derived from session, turn and step: a turn that a crash interrupted is still one trace, and its
id can be computed anywhere without a lookup.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

if TYPE_CHECKING:
    from mainstay.core.session import Session


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


def locate_session(session: Session) -> TurnLocation:
    """Return the location of the open turn's current step; only the session if no turn is open."""
    turn = session.open_turn
    if turn is None:
        return TurnLocation(session.key)
    trace = trace_id(session.key, session.created, turn.turn) if session.created else ""
    return TurnLocation(session.key, turn.turn, find_current_step(session), trace)


def find_current_step(session: Session) -> int:
    """Return the step of the model's last message while it is being handled, else the step being requested."""
    turn = session.open_turn
    assert turn is not None
    last = session.messages[-1] if session.messages else None
    answered = last is not None and last.role == "assistant" and last.turn == turn.turn
    return turn.step if turn.open_calls or answered else turn.step + 1


def trace_id(session: str, created: int, turn: int) -> str:
    """Return the trace id of a turn: 32 hexadecimal digits.

    `created` (ms), the session's creation time, distinguishes sessions of the same name in other workspaces and homes.
    """
    return _digest(f"{session}\0{created}\0{turn}", 16)


def span_id(trace: str, name: str) -> str:
    """Return the id of a span in a trace: 16 hexadecimal digits. `name`: "turn", "step 2", "call call_1_1_0"."""
    return _digest(f"{trace}\0{name}", 8)


def _digest(text: str, size: int) -> str:
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=size).hexdigest()
