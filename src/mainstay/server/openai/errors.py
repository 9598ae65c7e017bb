"""Error responses in the shape of the OpenAI API."""

from __future__ import annotations

import math

import msgspec

from mainstay.core.asgi import Send
from mainstay.core.errors import AgentClosed, MainstayError, StoreError
from mainstay.core.outcome import Failed
from mainstay.operations.caller import Caller
from mainstay.server.error_reporting import problem_from_failure, report_error
from mainstay.server.problems import PRIVATE_HEADERS, Problem, trace_headers
from mainstay.server.quota_problem import QUOTA_PROBLEM

_ERROR_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
PROMPT_ACCEPTED = (
    "the server is stopping, or cannot write; the prompt was accepted and continues when the server is back"
)
_ERROR_CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}
_PROBLEMS_AS_CODES = (QUOTA_PROBLEM,)  # problem types that are sent as the code, whatever the status


class OpenAIProblem(Problem):
    """A request that cannot be served; `param` names the field at fault."""

    def __init__(self, sentence: str, param: str | None = None, *, code: str | None = None, status: int = 400) -> None:
        super().__init__(status, code or "invalid_request", sentence)
        self.param = param
        self.code = code


class AcceptedTurnProblem(Problem):
    """A problem after the prompt was accepted: clients must not retry, because that would be a second prompt."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.status, problem.kind, problem.sentence, headers=problem.headers)
        self.location = problem.location


def model_unknown(name: str) -> OpenAIProblem:
    """Return the 404 for a model, with the same sentence whether it does not exist or is another workspace."""
    return OpenAIProblem(f"the model {name[:80]!r} does not exist", "model", code="model_not_found", status=404)


def build_error(problem: Problem) -> dict[str, object]:
    """Return the value of "error"."""
    status = problem.status
    kind = _ERROR_TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    error: dict[str, object] = {"message": problem.sentence, "type": kind, "param": None}
    if isinstance(problem, OpenAIProblem):
        error |= {"param": problem.param, "code": problem.code}
    else:
        error["code"] = problem.kind if problem.kind in _PROBLEMS_AS_CODES else _ERROR_CODES.get(status, problem.kind)
    return error | location_details(problem)


def location_details(problem: Problem) -> dict[str, object]:
    """Return session, turn, step and trace id as an extra field, which OpenAI clients pass through."""
    return {"details": problem.location} if problem.location is not None else {}


def build_headers(problem: Problem) -> dict[str, str]:
    """Return the response headers. The official clients retry some statuses unless `x-should-retry` is false."""
    headers = {"content-type": "application/json", **problem.headers}
    if problem.retry_after_s is not None:
        headers["retry-after"] = str(max(1, math.ceil(problem.retry_after_s)))
    elif isinstance(problem, AcceptedTurnProblem) or problem.status in (408, 409):
        headers["x-should-retry"] = "false"
    return headers


async def send_problem(problem: Problem, send: Send) -> None:
    body = msgspec.json.encode({"error": build_error(problem)})
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in build_headers(problem).items()]
    headers += [*PRIVATE_HEADERS, *trace_headers(problem), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def find_turn_problem(
    error: MainstayError | None, failed: Failed | None, caller: Caller, session: str
) -> AcceptedTurnProblem | None:
    """Return the problem of an accepted prompt, if its turn failed or following it did."""
    if error is None:
        return AcceptedTurnProblem(problem_from_failure(failed, session)) if failed is not None else None
    problem = report_error(error, "a turn", caller)
    if isinstance(error, AgentClosed | StoreError):
        problem.sentence = PROMPT_ACCEPTED
    return AcceptedTurnProblem(problem)
