"""One try at a turn: whatever goes wrong in it is its outcome, and no other session's trouble."""

from __future__ import annotations

import logging

import msgspec

from mainstay.core.accounts import Purse
from mainstay.core.errors import HomeUnusable, MainstayError, StoreError
from mainstay.core.outcome import Failed, Outcome
from mainstay.core.reservations import FOLD, lost
from mainstay.core.session import Session
from mainstay.core.where import ENDS_TURN
from mainstay.lane.contexts import LaneContexts
from mainstay.lane.scribe import Pen
from mainstay.lane.services import Services
from mainstay.lane.whereabouts import placed, step_of, where_of
from mainstay.turn.control import Control
from mainstay.turn.loop import run_turn
from mainstay.turn.means import Means, Review

log = logging.getLogger("mainstay.lane")


async def attempt(
    services: Services, contexts: LaneContexts, pen: Pen, control: Control, review: Review | None
) -> Outcome:
    outcome = await _attempt(services, contexts, pen, control, review)
    return _traced(outcome, pen.session) if isinstance(outcome, Failed) else outcome


async def _attempt(
    services: Services, contexts: LaneContexts, pen: Pen, control: Control, review: Review | None
) -> Outcome:
    session = pen.session
    turn = session.open
    assert turn is not None
    if turn.resumes > services.limits.resumes_max:
        sentence = f"This turn was given up: it was interrupted {turn.resumes} times without getting further."
        _give_up(pen, contexts)
        return Failed(sentence, turn=turn.turn)
    purse: Purse | None = None
    try:
        if services.gate is not None:
            await services.gate(session.key)
        provider = services.choose(session.model)
        contexts = contexts.of(pen, provider.model(), control)
        if services.accounts is not None:
            purse = await services.accounts.purse(session)
        _give_up(pen, contexts)
        panel = services.panel if session.errand is None else None  # what a sub-agent says is judged by who sent it
        means = Means(provider, contexts.tools, services.limits, contexts, review, services.trust, purse, panel)
        outcome = await run_turn(session, means, control, scribe=pen, emit=pen)
        return services.trust.clean(outcome) if isinstance(outcome, Failed) else outcome
    except (StoreError, HomeUnusable) as error:
        raise placed(error, session.key, pen) from error.__cause__
    except MainstayError as error:
        return services.trust.clean(Failed(str(error), type(error).__name__, turn=turn.turn, step=step_of(session)))
    except Exception as error:  # a bug of ours, or of a provider: this session's trouble and no other's
        log.exception("turn %d of %s failed", turn.turn, session.key, extra=ENDS_TURN)
        details = f"{type(error).__name__}: {error}"
        sentence = "Something went wrong inside the runtime."
        return services.trust.clean(Failed(sentence, details, turn=turn.turn, step=step_of(session)))
    finally:
        if purse is not None:
            purse.close()


def _give_up(pen: Pen, contexts: LaneContexts) -> None:
    """Calls that were paid for and have no end: the process that made them is no more. A fold may be under way."""
    if reserved := pen.session.reserved:
        folding = contexts.folding.running is not None
        pen.note(*lost(one for one in reserved.values() if not (folding and one.id.startswith(FOLD))))


def _traced(failed: Failed, session: Session) -> Failed:
    """With all that is needed to find out more."""
    at = where_of(session)
    log.warning("turn %d of %s failed: %s", at.turn, session.key, failed.sentence)
    return msgspec.structs.replace(failed, turn=at.turn, step=failed.step or at.step, trace=at.trace)
