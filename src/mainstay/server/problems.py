"""What is wrong with a request, as those who made it are told: one shape for every route, one place for every error."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from mainstay.core.errors import (
    AgentClosed,
    ApprovalUnknown,
    AuditUnavailable,
    ContextOverflow,
    InputRefused,
    LaneFull,
    MainstayError,
    ProviderError,
    SessionArchived,
    SessionUnknown,
    StoreError,
    WorkspaceUnknown,
)
from mainstay.core.where import Where
from mainstay.gateway.rates import TooMany
from mainstay.gateway.visit import NotAllowed

BUSY_S = 5.0  # when to come again, where nobody knows better
JSON = (b"content-type", b"application/json")
TRACE = b"x-trace-id"
PRIVATE = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]


class Problem(Exception):
    """`kind` is a word for programs, the sentence is for people."""

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
        self.where: Where | None = None  # as whoever is told may know it


class Trouble(msgspec.Struct, frozen=True, omit_defaults=True):
    type: str
    message: str
    details: Where | None = None  # where it happened, if that is known


class Told(msgspec.Struct, frozen=True):
    """The one shape of everything that is wrong."""

    error: Trouble


def told(problem: Problem) -> Told:
    return Told(trouble_of(problem))


def trouble_of(problem: Problem) -> Trouble:
    return Trouble(problem.kind, problem.sentence, problem.where)


def said(problem: Problem) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Its status, headers and body."""
    body = msgspec.json.encode(told(problem))
    headers = [JSON, *PRIVATE, (b"content-length", str(len(body)).encode())]
    if problem.retry_after_s is not None:
        headers.append((b"retry-after", str(max(math.ceil(problem.retry_after_s), 1)).encode()))
    headers += [(name.lower().encode(), value.encode("latin-1")) for name, value in problem.headers.items()]
    return problem.status, [*headers, *traced(problem)], body


def traced(problem: Problem | None, trace: str = "") -> list[tuple[bytes, bytes]]:
    """The header that says what to look for in logs, traces and the list of errors."""
    trace = problem.where.trace if problem is not None and problem.where is not None else trace
    return [(TRACE, trace.encode())] if trace else []


def problem_of(error: MainstayError, where: Where | None = None) -> Problem:
    """A fault of ours is not described to whoever is not the owner: the log says what it was. `where` it arose is told
    as they may know it, and not at all unless somebody has looked at that."""
    problem = _mapped(error)
    problem.where = where
    return problem


def _mapped(error: MainstayError) -> Problem:
    sentence = str(error)
    match error:
        case InputRefused() | ContextOverflow():
            return Problem(400, "invalid_request", sentence)
        case NotAllowed():
            return Problem(403, "forbidden", sentence)
        case SessionUnknown() | ApprovalUnknown() | WorkspaceUnknown():
            return Problem(404, "not_found", sentence)
        case SessionArchived():
            return Problem(409, "archived", sentence)
        case LaneFull():
            return Problem(429, "busy", sentence, BUSY_S)
        case TooMany():
            return Problem(429, "too_many_streams", sentence, error.retry_after_s)
        case AgentClosed() | StoreError() | AuditUnavailable():
            return Problem(503, "unavailable", "the server cannot take this now; try again", BUSY_S)
        case ProviderError():
            return Problem(502, "model_failed", sentence)
    return Problem(500, "internal", "something went wrong here; the log says what")
