"""One try at a turn: whatever goes wrong in it is its outcome, and no other session's trouble."""

from __future__ import annotations

import logging

from mainstay.core.accounts import Purse
from mainstay.core.errors import HomeUnusable, MainstayError, StoreError
from mainstay.core.outcome import Failed, Outcome
from mainstay.lane.contexts import LaneContexts
from mainstay.lane.scribe import Pen
from mainstay.lane.services import Services
from mainstay.turn.control import Control
from mainstay.turn.loop import run_turn
from mainstay.turn.means import Means, Review

log = logging.getLogger("mainstay.lane")


async def attempt(
    services: Services, contexts: LaneContexts, pen: Pen, control: Control, review: Review | None
) -> Outcome:
    session = pen.session
    turn = session.open
    assert turn is not None
    if turn.resumes > services.limits.resumes_max:
        sentence = f"This turn was given up: it was interrupted {turn.resumes} times without getting further."
        return Failed(sentence, turn=turn.turn)
    purse: Purse | None = None
    try:
        if services.gate is not None:
            services.gate()
        provider = services.choose(session.model)
        contexts = contexts.of(pen, provider.model(), control)
        if services.accounts is not None:
            purse = await services.accounts.purse(session)
        panel = services.panel if session.errand is None else None  # what a sub-agent says is judged by who sent it
        means = Means(provider, contexts.tools, services.limits, contexts, review, services.trust, purse, panel)
        outcome = await run_turn(session, means, control, scribe=pen, emit=pen)
        return services.trust.clean(outcome) if isinstance(outcome, Failed) else outcome
    except (StoreError, HomeUnusable):
        raise
    except MainstayError as error:
        return services.trust.clean(Failed(str(error), type(error).__name__, turn=turn.turn, step=turn.step))
    except Exception as error:  # a bug of ours, or of a provider: this session's trouble and no other's
        log.exception("turn %d of %s failed", turn.turn, session.key)
        details = f"{type(error).__name__}: {error}"
        sentence = "Something went wrong inside the runtime."
        return services.trust.clean(Failed(sentence, details, turn=turn.turn, step=turn.step))
    finally:
        if purse is not None:
            purse.close()
