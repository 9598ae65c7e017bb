"""Converts errors into problems for clients, and logs those that are the server's fault, under the same trace id."""

from __future__ import annotations

import logging
import secrets
import sys

import msgspec

from mainstay.core.asgi import Scope
from mainstay.core.errors import AgentClosed, ConfigError, MainstayError
from mainstay.core.outcome import Failed
from mainstay.core.resource_errors import describe_shortage
from mainstay.core.turn_location import TurnLocation
from mainstay.operations.caller import Caller
from mainstay.server.problems import RETRY_AFTER_S, Problem, problem_from_error
from mainstay.server.rejection_log import escape_for_log

log = logging.getLogger("mainstay.server")


def describe_request(scope: Scope) -> str:
    """Return method and path of a request, for the log."""
    return f"{scope.get('method', 'WS')} {escape_for_log(scope['path'])}"


def report_error(error: MainstayError, request: str, caller: Caller | None) -> Problem:
    """Return the problem for an error, and log it if its status is 500 or above. `request` describes the request in the
    log. The location is given as the caller may know it. A configuration error is described to admins only; without a
    caller (its workspace could not be opened) it is not described."""
    if isinstance(error, ConfigError) and caller is not None and caller.principal.role == "admin":
        return Problem(400, "invalid_request", str(error))
    problem = problem_from_error(error, caller.visible_location(error.location) if caller is not None else None)
    if problem.status >= 500:
        level = logging.WARNING if isinstance(error, AgentClosed) else logging.ERROR
        log.log(level, "%s: %s", request, error, extra=_log_fields(error.location, _ensure_trace(problem)))
    return problem


def report_bug(request: str, location: TurnLocation | None = None) -> Problem:
    """Return the problem for the exception being handled: a bug, or a shortage of memory or files. The log has the
    traceback, under the same trace id."""
    error = sys.exception()
    shortage = describe_shortage(error) if error is not None else ""
    problem = Problem(500, "internal", "")
    if shortage:
        problem = Problem(503, "unavailable", f"the server cannot handle this now: {shortage}", RETRY_AFTER_S)
    problem.location = location
    trace = _ensure_trace(problem)
    if not shortage:
        problem.sentence = f"internal error; the server's log says more, under the trace id {trace}"
    log.exception("error %s in %s", trace, request, extra=_log_fields(None, trace))
    return problem


def problem_from_failure(failed: Failed, session: str) -> Problem:
    """Return the problem for a turn that failed. `session` is the caller's name for the session."""
    problem = Problem(502, "model_failed", failed.sentence)
    problem.location = TurnLocation(session, failed.turn, failed.step, failed.trace)
    return problem


def _ensure_trace(problem: Problem) -> str:
    """Return the problem's trace id; give it a new one if it has none: it belongs to no turn that the caller knows."""
    location = problem.location or TurnLocation()
    problem.location = location if location.trace else msgspec.structs.replace(location, trace=secrets.token_hex(16))
    return problem.location.trace


def _log_fields(location: TurnLocation | None, trace: str) -> dict[str, object]:
    """Return the log record's location, with the session's full key for the operator."""
    return {**msgspec.to_builtins(location or TurnLocation()), "trace": trace}
