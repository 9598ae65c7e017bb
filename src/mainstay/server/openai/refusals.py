"""What is wrong, in the shape that clients of this API expect."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from mainstay.core.errors import AgentClosed, MainstayError, StoreError
from mainstay.core.outcome import Failed
from mainstay.server.bounds import Send
from mainstay.server.problems import PRIVATE, Problem, problem_of

_KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
TAKEN = "the server stops, or cannot write; this was taken, and goes on when the server does"
_CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}


class Refused(Problem):
    """A request that cannot be served; `param` is the part of it that is to blame."""

    def __init__(self, sentence: str, param: str | None = None, *, code: str | None = None, status: int = 400) -> None:
        super().__init__(status, code or "invalid_request", sentence)
        self.param = param
        self.code = code


class Spent(Problem):
    """The prompt was taken: what became of it is told, and asking again would be a second prompt."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.status, problem.kind, problem.sentence, headers=problem.headers)


def model_unknown(name: str) -> Refused:
    """The same words whether it never was or is not theirs."""
    return Refused(f"the model {name[:80]!r} does not exist", "model", code="model_not_found", status=404)


def as_problem(error: Problem | MainstayError) -> Problem:
    return error if isinstance(error, Problem) else problem_of(error)


def error_of(problem: Problem) -> dict[str, Any]:
    """The object that stands under "error"."""
    status = problem.status
    kind = _KINDS.get(status, "invalid_request_error" if status < 500 else "server_error")
    if isinstance(problem, Refused):
        return {"message": problem.sentence, "type": kind, "param": problem.param, "code": problem.code}
    return {"message": problem.sentence, "type": kind, "param": None, "code": _CODES.get(status, problem.kind)}


def headers_of(problem: Problem) -> dict[str, str]:
    """The official clients try again on some statuses unless they are told not to."""
    headers = {"content-type": "application/json", **problem.headers}
    if problem.retry_after_s is not None:
        headers["retry-after"] = str(max(1, math.ceil(problem.retry_after_s)))
    elif isinstance(problem, Spent) or problem.status in (408, 409):
        headers["x-should-retry"] = "false"
    return headers


async def refuse(problem: Problem, send: Send) -> None:
    body = msgspec.json.encode({"error": error_of(problem)})
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers_of(problem).items()]
    headers += [*PRIVATE, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def spent(trouble: MainstayError | None, failed: Failed | None) -> Spent | None:
    """What went wrong with a prompt that was taken, if anything did."""
    match trouble:
        case AgentClosed() | StoreError():
            return Spent(Problem(503, "unavailable", TAKEN))
        case MainstayError():
            return Spent(problem_of(trouble))
    return Spent(Problem(502, "model_failed", failed.sentence)) if failed is not None else None
