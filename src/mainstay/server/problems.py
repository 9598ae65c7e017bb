"""Error responses: the problem that a request ends with, its JSON shape, and the mapping from MainstayError."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from mainstay.core.errors import (
    AgentClosed,
    ApprovalUnknown,
    AuditUnavailable,
    ContextOverflow,
    ErrorUnknown,
    HomeUnusable,
    InputRefused,
    KeyUnknown,
    LaneFull,
    MainstayError,
    MemoryUnknown,
    PersonUnknown,
    ProviderError,
    SessionArchived,
    SessionBlocked,
    SessionUnknown,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreLost,
    TriggerUnknown,
    WorkspaceUnknown,
)
from mainstay.core.turn_location import TurnLocation
from mainstay.gateway.api_rate_limiter import TooManyStreams
from mainstay.operations.caller import NotAllowed

RETRY_AFTER_S = 5.0  # default of Retry-After
PROMPT_STORED = "the prompt is stored and will be answered later"
JSON_CONTENT_TYPE = (b"content-type", b"application/json")
TRACE_HEADER = b"x-trace-id"
PRIVATE_HEADERS = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]


class Problem(Exception):
    """A request failed. `kind` is the problem type, for programs; `sentence` is for people."""

    def __init__(
        self,
        status: int,
        kind: str,
        sentence: str,
        retry_after_s: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(sentence)
        self.status = status
        self.kind = kind
        self.sentence = sentence
        self.retry_after_s = retry_after_s
        self.headers = dict(headers or {})
        self.location: TurnLocation | None = None  # as the caller may know it


class ErrorBody(msgspec.Struct, frozen=True, omit_defaults=True):
    type: str
    message: str
    details: TurnLocation | None = None  # session, turn, step and trace id, if known


class ErrorResponse(msgspec.Struct, frozen=True):
    """The body of every error response."""

    error: ErrorBody


def build_error_response(problem: Problem) -> ErrorResponse:
    return ErrorResponse(build_error_body(problem))


def build_error_body(problem: Problem) -> ErrorBody:
    return ErrorBody(problem.kind, problem.sentence, problem.location)


def encode_problem(problem: Problem) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Return status, headers and body of the error response."""
    body = msgspec.json.encode(build_error_response(problem))
    headers = [JSON_CONTENT_TYPE, *PRIVATE_HEADERS, (b"content-length", str(len(body)).encode())]
    if problem.retry_after_s is not None:
        headers.append((b"retry-after", str(max(math.ceil(problem.retry_after_s), 1)).encode()))
    headers += [(name.lower().encode(), value.encode("latin-1")) for name, value in problem.headers.items()]
    return problem.status, [*headers, *trace_headers(problem)], body


def trace_headers(problem: Problem | None, trace: str = "") -> list[tuple[bytes, bytes]]:
    """Return the header with the trace id, under which logs, traces and `mainstay error` have the request."""
    trace = problem.location.trace if problem is not None and problem.location is not None else trace
    return [(TRACE_HEADER, trace.encode())] if trace else []


def problem_from_error(error: MainstayError, location: TurnLocation | None = None) -> Problem:
    """Map an error to a problem. Internal errors are not described to clients, only in the log. `location` must be
    given as the caller may know it."""
    problem = _map_error(error)
    problem.location = location
    return problem


def _map_error(error: MainstayError) -> Problem:
    sentence = str(error)
    match error:
        case TriggerUnknown() | PersonUnknown() | KeyUnknown() | ErrorUnknown() | MemoryUnknown():
            return Problem(404, "not_found", sentence)
        case SessionBlocked():
            return Problem(409, "set_aside", sentence)
        case InputRefused() | ContextOverflow():
            return Problem(400, "invalid_request", sentence)
        case NotAllowed():
            return Problem(403, "forbidden", sentence)
        case SessionUnknown() | ApprovalUnknown() | WorkspaceUnknown():
            return Problem(404, "not_found", sentence)
        case SessionArchived():
            return Problem(409, "archived", sentence)
        case LaneFull():
            return Problem(429, "busy", sentence, RETRY_AFTER_S)
        case TooManyStreams():
            return Problem(429, "too_many_streams", sentence, error.retry_after_s)
        case StoreFull() if error.is_input_stored:
            sentence = f"the server's disk is full; {PROMPT_STORED}"
            return Problem(503, "unavailable", sentence, RETRY_AFTER_S)
        case StoreFull():
            return Problem(
                503, "unavailable", "not accepted: the server's disk is full; try again later", RETRY_AFTER_S
            )
        case StoreCorrupt() | StoreLost():
            sentence = "not accepted: the workspace's database is damaged or lost, and the operator has to restore it"
            return Problem(503, "unavailable", sentence, RETRY_AFTER_S)
        case StoreError() | HomeUnusable() if error.is_input_stored:
            return Problem(503, "unavailable", f"the server cannot go on now; {PROMPT_STORED}", RETRY_AFTER_S)
        case AgentClosed() | StoreError() | AuditUnavailable():
            return Problem(503, "unavailable", "the server cannot handle this now; try again", RETRY_AFTER_S)
        case ProviderError():
            return Problem(502, "model_failed", sentence)
    return Problem(500, "internal", "internal error; the server's log says more")
