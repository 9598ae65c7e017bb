"""Location of errors: adds session, turn, step and trace id to errors and log records of a lane."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from mainstay.core.errors import MainstayError
from mainstay.core.session import Session
from mainstay.core.trace_ids import trace_id
from mainstay.core.turn_location import TurnLocation, TurnLocationContext
from mainstay.lane.journal_writer import JournalWriter

log = logging.getLogger("mainstay.lane")

E = TypeVar("E", bound=MainstayError)

AGENT_CLOSED = "the agent was closed; the turn resumes when the agent is opened again"
RUNTIME_FAILED = "internal error in the runtime; see its log for details"


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


def log_store_failure(key: str, error: MainstayError, failures: int) -> None:
    """Log a store failure: the first one as an error, which `mainstay errors` lists, retries as warnings."""
    level = logging.ERROR if failures == 1 else logging.WARNING
    log.log(level, "session %s is waiting for its store: %s", key, error, extra={"kind": "store"})


async def run_with_location(
    work: Callable[[], Awaitable[None]], key: str, writer: Callable[[], JournalWriter | None]
) -> None:
    """Run `work`; log records that are written meanwhile carry the session's location."""
    with TurnLocationContext(partial(_locate_writer, key, writer)):
        await work()


def _locate_writer(key: str, writer: Callable[[], JournalWriter | None]) -> TurnLocation:
    current = writer()
    return locate_session(current.session) if current is not None else TurnLocation(key)


def add_location(error: E, key: str, writer: JournalWriter | None) -> E:
    """Return a copy of the error with its location; a copy, because sessions may share one store failure."""
    if error.location is not None:
        return error
    copy = type(error).__new__(type(error), *error.args)
    copy.__dict__.update(vars(error))
    copy.__cause__, copy.__traceback__ = error.__cause__, error.__traceback__
    copy.location = locate_session(writer.session) if writer is not None else TurnLocation(key)
    return copy
