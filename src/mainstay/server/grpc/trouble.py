"""What went wrong, as gRPC tells it: a code, a sentence, and where it happened."""

from __future__ import annotations

import math
from urllib.parse import quote

import msgspec

from mainstay.core.errors import ContextOverflow, InputRefused
from mainstay.core.events import Event, StepRestarted, ToolFinished, TurnEnded
from mainstay.core.outcome import Failed
from mainstay.core.protobuf import encode
from mainstay.server.grpc.messages import AnyMessage, Duration, Error, ErrorInfo, RetryInfo, Status
from mainstay.server.problems import Problem

DOMAIN = "mainstay"
ERRORS_MAX = 100  # that a reply tells of
SENTENCE_CHARS_MAX = 1000  # a status goes with the headers, whose size is bounded
_CODES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "FAILED_PRECONDITION",
    413: "RESOURCE_EXHAUSTED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
}
NUMBERS = {
    "INVALID_ARGUMENT": 3,
    "NOT_FOUND": 5,
    "PERMISSION_DENIED": 7,
    "RESOURCE_EXHAUSTED": 8,
    "FAILED_PRECONDITION": 9,
    "INTERNAL": 13,
    "UNAVAILABLE": 14,
    "UNAUTHENTICATED": 16,
}
_MODEL_FAILED = "The model could not answer: "  # how turn/loop begins to say so
_UNFIT = (ContextOverflow.__name__, InputRefused.__name__)  # what was asked is the trouble


class Whereabouts(msgspec.Struct):
    """How far a call has come."""

    session: str = ""
    turn: int = 0
    step: int = 0
    trace: str = ""


class TurnFailed(Exception):
    """The turn came to its end, and that is its failure."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.message)
        self.error = error


class Told(msgspec.Struct, frozen=True):
    """An error of a call."""

    code: str
    sentence: str
    metadata: tuple[tuple[str, str | bytes], ...]


def told(problem: Problem, at: Whereabouts) -> Told:
    if (found := problem.where) is not None:
        at = Whereabouts(at.session, found.turn or at.turn, found.step or at.step, found.trace or at.trace)
    return _told(_CODES.get(problem.status, "INTERNAL"), problem.kind, problem.sentence, at, problem.retry_after_s)


def told_failure(error: Error, at: Whereabouts) -> Told:
    name = next(name for name, number in NUMBERS.items() if number == error.code)
    where = Whereabouts(at.session, error.turn or at.turn, error.step or at.step, error.trace or at.trace)
    return _told(name, error.type, error.message, where, None)


def _told(code: str, kind: str, sentence: str, at: Whereabouts, retry_after_s: float | None) -> Told:
    sentence = sentence if len(sentence) <= SENTENCE_CHARS_MAX else sentence[:SENTENCE_CHARS_MAX] + "…"
    where = {"session": at.session[:512], "turn": str(at.turn or ""), "step": str(at.step or ""), "trace": at.trace}
    known = {name: value for name, value in where.items() if value}
    details = [_packed("google.rpc.ErrorInfo", ErrorInfo(kind.upper(), DOMAIN, known))]
    metadata: list[tuple[str, str | bytes]] = [("mainstay-error-type", kind)]
    metadata += [(f"mainstay-{name}", quote(value, safe=" :/@+")) for name, value in known.items()]
    if retry_after_s is not None:
        seconds = math.floor(retry_after_s)
        delay = Duration(seconds, int((retry_after_s - seconds) * 1e9))
        details.append(_packed("google.rpc.RetryInfo", RetryInfo(delay)))
        metadata.append(("retry-after", str(math.ceil(retry_after_s))))
    status = Status(NUMBERS[code], sentence, tuple(details))
    metadata.append(("grpc-status-details-bin", encode(status)))
    return Told(code, sentence, tuple(metadata))


def _packed(name: str, message: msgspec.Struct) -> AnyMessage:
    return AnyMessage(f"type.googleapis.com/{name}", encode(message))


# --- in the course of a turn ---------------------------------------------------------------------


def error_in(event: Event) -> Error | None:
    """What this event says went wrong. A tool's failure is news for the model, and whoever listens hears of it too."""
    match event:
        case ToolFinished(result=result) if result.is_error:
            return _error("INTERNAL", "tool_failed", f"{result.name}: {result.content}", event)
        case StepRestarted(reason=reason):
            return _error("UNAVAILABLE", "step_restarted", reason, event)
        case TurnEnded(outcome=Failed() as failed):
            return failure(failed, event)
    return None


def failure(failed: Failed, event: Event) -> Error:
    """`details` are for the operator: whoever called learns the sentence."""
    return msgspec.structs.replace(_failure(failed, failed if failed.step else event), trace=failed.trace)


def _failure(failed: Failed, at: Event) -> Error:
    if failed.sentence.startswith(_MODEL_FAILED):
        return _error("UNAVAILABLE", "model_failed", failed.sentence, at)
    if failed.details in _UNFIT:
        return _error("INVALID_ARGUMENT", "invalid_request", failed.sentence, at)
    return _error("INTERNAL" if failed.details else "FAILED_PRECONDITION", "turn_failed", failed.sentence, at)


def _error(code: str, kind: str, message: str, at: Event) -> Error:
    return Error(NUMBERS[code], kind, message[:SENTENCE_CHARS_MAX], at.turn, at.step)
