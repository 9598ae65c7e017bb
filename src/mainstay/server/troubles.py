"""What went wrong with something that somebody asked for: they are told as much as they may know, the log all of it,
and both under one trace."""

from __future__ import annotations

import logging
import secrets
from typing import Any

import msgspec

from mainstay.core.errors import AgentClosed, MainstayError
from mainstay.core.outcome import Failed
from mainstay.core.where import Where
from mainstay.gateway.visit import Visit
from mainstay.server.problems import Problem, problem_of
from mainstay.server.refusals import plain

log = logging.getLogger("mainstay.server")


def asked_for(scope: Any) -> str:
    """As it can stand in a log."""
    return f"{scope.get('method', 'WS')} {plain(scope['path'])}"


def trouble_for(error: MainstayError, doing: str, visit: Visit | None) -> Problem:
    """`doing` is what was asked for, as it can stand in a log. Where it arose is told to whoever may know that."""
    problem = problem_of(error, visit.where(error.where) if visit is not None else None)
    if problem.status >= 500:
        level = logging.WARNING if isinstance(error, AgentClosed) else logging.ERROR
        log.log(level, "%s: %s", doing, error, extra=_beside(error.where, _mark(problem)))
    return problem


def unforeseen(doing: str, where: Where | None = None) -> Problem:
    """Of a bug of ours. The log has all of it, under the trace that the answer names."""
    problem = Problem(500, "internal", "")
    problem.where = where
    trace = _mark(problem)
    problem.sentence = f"something went wrong here; the log says what, under {trace}"
    log.exception("error %s in %s", trace, doing, extra=_beside(None, trace))
    return problem


def failure_of(failed: Failed, session: str) -> Problem:
    """Of a turn that came to its end with it, in a session that they know by this name."""
    problem = Problem(502, "model_failed", failed.sentence)
    problem.where = Where(session, failed.turn, failed.step, failed.trace)
    return problem


def _mark(problem: Problem) -> str:
    """What belongs to no turn, or to none that they may know of, is found under a trace of its own."""
    known = problem.where or Where()
    problem.where = known if known.trace else msgspec.structs.replace(known, trace=secrets.token_hex(16))
    return problem.where.trace


def _beside(where: Where | None, trace: str) -> dict[str, Any]:
    """For the operator: by the session's own name."""
    return {**msgspec.to_builtins(where or Where()), "trace": trace}
