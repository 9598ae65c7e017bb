"""The 429 problem of a turn that a budget refused before any model call; Retry-After says when the budget refills."""

from __future__ import annotations

import time

from mainstay.core.messages import Usage
from mainstay.core.outcome import Exhausted, Outcome
from mainstay.core.turn_location import TurnLocation
from mainstay.server.problems import Problem

QUOTA_PROBLEM = "insufficient_quota"
QUOTA_STATUS = 429
_NO_RETRY_HEADERS = {"x-should-retry": "false"}  # the prompt is in the journal: a retry would be a second one


def find_quota_problem(outcome: Outcome | None, usage: Usage, location: TurnLocation | None = None) -> Problem | None:
    """Return the problem if a budget refused the turn before any model call, else None."""
    if not isinstance(outcome, Exhausted) or not outcome.budget or usage.prompt or usage.completion:
        return None
    wait_s = outcome.frees_at / 1000 - time.time() if outcome.frees_at else None
    problem = Problem(
        QUOTA_STATUS, QUOTA_PROBLEM, outcome.bound, wait_s if wait_s is None else max(wait_s, 1.0), _NO_RETRY_HEADERS
    )
    problem.location = location
    return problem
