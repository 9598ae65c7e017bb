"""What is wrong, in the shape that clients of this API expect."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from mainstay.core.errors import AgentClosed, MainstayError, StoreError
from mainstay.core.outcome import Failed
from mainstay.gateway.visit import Visit
from mainstay.server.bounds import Send
from mainstay.server.problems import PRIVATE, Problem, traced
from mainstay.server.quota import KIND
from mainstay.server.troubles import failure_of, trouble_for

_KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
TAKEN = "the server stops, or cannot write; this was taken, and goes on when the server does"
_CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}
_OWN_CODES = (KIND,)  # which a status alone does not tell


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
        self.where = problem.where


def model_unknown(name: str) -> Refused:
    """The same words whether it never was or is not theirs."""
    return Refused(f"the model {name[:80]!r} does not exist", "model", code="model_not_found", status=404)


def error_of(problem: Problem) -> dict[str, Any]:
    """The object that stands under "error"."""
    status = problem.status
    kind = _KINDS.get(status, "invalid_request_error" if status < 500 else "server_error")
    made: dict[str, Any] = {"message": problem.sentence, "type": kind, "param": None}
    if isinstance(problem, Refused):
        made |= {"param": problem.param, "code": problem.code}
    else:
        made["code"] = problem.kind if problem.kind in _OWN_CODES else _CODES.get(status, problem.kind)
    return made | details_of(problem)


def details_of(problem: Problem) -> dict[str, Any]:
    """Where it happened, which these clients do not ask for, and hand on."""
    return {"details": problem.where} if problem.where is not None else {}


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
    headers += [*PRIVATE, *traced(problem), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def spent(trouble: MainstayError | None, failed: Failed | None, visit: Visit, session: str) -> Spent | None:
    """What went wrong with a prompt that was taken, if anything did."""
    if trouble is None:
        return Spent(failure_of(failed, session)) if failed is not None else None
    problem = trouble_for(trouble, "a turn", visit)
    if isinstance(trouble, AgentClosed | StoreError):
        problem.sentence = TAKEN
    return Spent(problem)
