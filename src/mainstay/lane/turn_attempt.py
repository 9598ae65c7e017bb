"""One attempt at a turn: turns every failure except a store failure into the turn's outcome."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import msgspec

from mainstay.core.budget_ports import TurnBudget
from mainstay.core.budget_reservation_ids import FOLD_ID_PREFIX, settle_lost
from mainstay.core.errors import HomeUnusable, MainstayError, ProviderBroken, StoreError
from mainstay.core.limits import NO_SESSION_BUDGET
from mainstay.core.outcome import Failed, Outcome
from mainstay.core.resource_errors import describe_shortage
from mainstay.core.session import Session
from mainstay.core.supervision import must_end_task
from mainstay.core.turn_location import (
    ENDS_TURN,
    TurnLocation,
    TurnLocationContext,
    find_current_step,
    locate_session,
)
from mainstay.lane.context_compiler import LaneContextCompiler
from mainstay.lane.journal_writer import JournalWriter
from mainstay.lane.services import LaneServices
from mainstay.turn.control import TurnControl
from mainstay.turn.dependencies import AnswerValidator, TurnDependencies
from mainstay.turn.loop import run_turn

log = logging.getLogger("mainstay.lane")

E = TypeVar("E", bound=MainstayError)

AGENT_CLOSED = "the agent was closed; the turn resumes when the agent is opened again"
RUNTIME_FAILED = "internal error in the runtime; see its log for details"


async def attempt_turn(
    services: LaneServices,
    context_compiler: LaneContextCompiler,
    writer: JournalWriter,
    control: TurnControl,
    validate_answer: AnswerValidator | None,
) -> Outcome:
    """Run the session's open turn once. Raises StoreError or HomeUnusable, so that the lane retries."""
    outcome = await _run_attempt(services, context_compiler, writer, control, validate_answer)
    return _add_trace(outcome, writer.session) if isinstance(outcome, Failed) else outcome


async def _run_attempt(
    services: LaneServices,
    context_compiler: LaneContextCompiler,
    writer: JournalWriter,
    control: TurnControl,
    validate_answer: AnswerValidator | None,
) -> Outcome:
    session = writer.session
    turn = session.open_turn
    assert turn is not None
    turn_budget: TurnBudget | None = None
    try:
        if services.check_turn_allowed is not None:
            await services.check_turn_allowed(session.key)
        provider = services.provider_for(session.model)
        context_compiler = context_compiler.bind_session(writer, provider.model(), control)
        if (manager := services.budget_manager) is not None and (
            manager.limits_every_session or session.budget != NO_SESSION_BUDGET or session.spawned is not None
        ):
            turn_budget = await manager.open_turn_budget(session)
        settle_lost_reservations(writer, context_compiler)
        judges = services.judges if session.spawned is None else None  # a sub-agent's answer is judged by its parent
        dependencies = TurnDependencies(
            provider,
            context_compiler.tools,
            services.limits,
            context_compiler,
            validate_answer,
            services.trust,
            turn_budget,
            judges,
        )
        outcome = await run_turn(session, dependencies, control, recorder=writer, emit=writer)
        return services.trust.redact_failure(outcome) if isinstance(outcome, Failed) else outcome
    except (StoreError, HomeUnusable) as error:
        raise add_location(error, session.key, writer) from error.__cause__
    except ProviderBroken as error:
        log.exception("turn %d of %s failed", turn.turn, session.key, extra=ENDS_TURN)
        cause = error.__cause__ or error
        details = f"{type(cause).__name__}: {cause}"
        return services.trust.redact_failure(
            Failed(str(error), details, turn=turn.turn, step=find_current_step(session))
        )
    except MainstayError as error:
        return services.trust.redact_failure(
            Failed(str(error), type(error).__name__, turn=turn.turn, step=find_current_step(session))
        )
    except BaseException as error:  # a bug of ours or of a provider's code: only this session fails
        if must_end_task(error):
            raise
        log.exception("turn %d of %s failed", turn.turn, session.key, extra=ENDS_TURN)
        details = f"{type(error).__name__}: {error}"
        shortage = describe_shortage(error)
        sentence = (
            f"The turn could not continue: {shortage}." if shortage else "Something went wrong inside the runtime."
        )
        return services.trust.redact_failure(Failed(sentence, details, turn=turn.turn, step=find_current_step(session)))
    finally:
        if turn_budget is not None:
            turn_budget.close()


def settle_lost_reservations(writer: JournalWriter, context_compiler: LaneContextCompiler) -> None:
    """Settle the reservations of a process that stopped, in full; except those of a fold that is running."""
    if reservations := writer.session.reserved:
        folding = context_compiler.fold_runner.running_task is not None
        writer.record_nowait(
            *settle_lost(
                entry for entry in reservations.values() if not (folding and entry.id.startswith(FOLD_ID_PREFIX))
            )
        )


def _add_trace(failed: Failed, session: Session) -> Failed:
    """Add turn, step and trace id to the failure, and log it."""
    at = locate_session(session)
    log.warning("turn %d of %s failed: %s", at.turn, session.key, failed.sentence)
    return msgspec.structs.replace(failed, turn=at.turn, step=failed.step or at.step, trace=at.trace)


# --- location of errors and log records ---------------------------------------------------------------


def log_store_failure(key: str, error: MainstayError, failures: int) -> None:
    """Log a store failure: the first one as an error, which `mainstay error` lists, retries as warnings."""
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
