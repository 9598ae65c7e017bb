"""A turn that a budget refused before any model was asked, as programs are told of it: too many requests, and when
there is something in the budget again."""

from __future__ import annotations

import time

from mainstay.core.messages import Usage
from mainstay.core.outcome import Exhausted, Outcome
from mainstay.core.where import Where
from mainstay.server.problems import Problem

KIND = "insufficient_quota"
STATUS = 429
_NOT_AT_ONCE = {"x-should-retry": "false"}  # the prompt was taken, and refused: to say it again is another


def refused(outcome: Outcome | None, usage: Usage, where: Where | None = None) -> Problem | None:
    """None: it was not, or something was answered before."""
    if not isinstance(outcome, Exhausted) or not outcome.budget or usage.prompt or usage.completion:
        return None
    left_s = outcome.frees_at / 1000 - time.time() if outcome.frees_at else None
    problem = Problem(STATUS, KIND, outcome.bound, left_s if left_s is None else max(left_s, 1.0), _NOT_AT_ONCE)
    problem.where = where
    return problem
