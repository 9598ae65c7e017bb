"""Where a session stands, for whatever goes wrong in it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from mainstay.core.errors import MainstayError
from mainstay.core.session import Session
from mainstay.core.tracing import trace_id
from mainstay.core.where import Spot, Where
from mainstay.lane.scribe import Pen

log = logging.getLogger("mainstay.lane")

E = TypeVar("E", bound=MainstayError)

CLOSED = "the agent was closed; the turn goes on when it opens again"
BROKEN = "something went wrong inside the runtime; its log says what"


def where_of(session: Session) -> Where:
    """Of the turn that is open in it, and the step that it is at."""
    turn = session.open
    if turn is None:
        return Where(session.key)
    trace = trace_id(session.key, session.created, turn.turn) if session.created else ""
    return Where(session.key, turn.turn, step_of(session), trace)


def step_of(session: Session) -> int:
    """The model's last message while its calls run or its answer is looked at; else the one that it is asked for."""
    turn = session.open
    assert turn is not None
    last = session.messages[-1] if session.messages else None
    said = last is not None and last.role == "assistant" and last.turn == turn.turn
    return turn.step if turn.open_calls or said else turn.step + 1


def warn_of_store(key: str, error: MainstayError, failures: int) -> None:
    """The first time it is an error, which is in the list of errors; then it is tried again, and again."""
    level = logging.ERROR if failures == 1 else logging.WARNING
    log.log(level, "session %s waits for its store: %s", key, error, extra={"kind": "store"})


async def running(work: Callable[[], Awaitable[None]], key: str, pen: Callable[[], Pen | None]) -> None:
    """For as long as it runs, whatever is logged says where."""
    with Spot(partial(_where, key, pen)):
        await work()


def _where(key: str, pen: Callable[[], Pen | None]) -> Where:
    found = pen()
    return where_of(found.session) if found is not None else Where(key)


def placed(error: E, key: str, pen: Pen | None) -> E:
    """The same, which says where it arose. A copy: one failure of a store may be that of many sessions."""
    if error.where is not None:
        return error
    made = type(error).__new__(type(error), *error.args)
    made.__dict__.update(vars(error))
    made.__cause__, made.__traceback__ = error.__cause__, error.__traceback__
    made.where = where_of(pen.session) if pen is not None else Where(key)
    return made
