"""Errors over gRPC: status code, message, and details with session, turn, step and trace id."""

from __future__ import annotations

import math
from urllib.parse import quote

import msgspec

from mainstay.core.errors import ContextOverflow, InputRefused
from mainstay.core.events import Event, StepRestarted, ToolFinished, TurnEnded
from mainstay.core.outcome import Failed
from mainstay.core.protobuf import encode
from mainstay.server.grpc.message_types import AnyMessage, Duration, ErrorInfo, GrpcError, RetryInfo, RpcStatus
from mainstay.server.problems import Problem

ERROR_DOMAIN = "mainstay"
ERRORS_MAX = 100  # in one reply
SENTENCE_CHARS_MAX = 1000  # the status is sent in trailers, whose size is bounded
_CODE_OF_STATUS = {
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
CODE_NUMBERS = {
    "INVALID_ARGUMENT": 3,
    "NOT_FOUND": 5,
    "PERMISSION_DENIED": 7,
    "RESOURCE_EXHAUSTED": 8,
    "FAILED_PRECONDITION": 9,
    "INTERNAL": 13,
    "UNAVAILABLE": 14,
    "UNAUTHENTICATED": 16,
}
_MODEL_FAILED_PREFIX = "The model could not answer: "  # prefix of the sentences of the turn loop
_REQUEST_FAULTS = (ContextOverflow.__name__, InputRefused.__name__)  # details of failures that the request caused


class CallErrorLocation(msgspec.Struct):
    """Session, turn, step and trace id that a call has reached, for its errors."""

    session: str = ""
    turn: int = 0
    step: int = 0
    trace: str = ""


class TurnFailed(Exception):
    """The turn of a call ended with a failure."""

    def __init__(self, error: GrpcError) -> None:
        super().__init__(error.message)
        self.error = error


class AbortStatus(msgspec.Struct, frozen=True):
    """Code, message and metadata with which a call is aborted."""

    code: str
    sentence: str
    metadata: tuple[tuple[str, str | bytes], ...]


def status_from_problem(problem: Problem, progress: CallErrorLocation) -> AbortStatus:
    if (location := problem.location) is not None:
        progress = CallErrorLocation(
            progress.session,
            location.turn or progress.turn,
            location.step or progress.step,
            location.trace or progress.trace,
        )
    return _build_status(
        _CODE_OF_STATUS.get(problem.status, "INTERNAL"), problem.kind, problem.sentence, progress, problem.retry_after_s
    )


def status_from_failure(error: GrpcError, progress: CallErrorLocation) -> AbortStatus:
    name = next(name for name, number in CODE_NUMBERS.items() if number == error.code)
    reached = CallErrorLocation(
        progress.session, error.turn or progress.turn, error.step or progress.step, error.trace or progress.trace
    )
    return _build_status(name, error.type, error.message, reached, None)


def _build_status(
    code: str, kind: str, sentence: str, progress: CallErrorLocation, retry_after_s: float | None
) -> AbortStatus:
    sentence = sentence if len(sentence) <= SENTENCE_CHARS_MAX else sentence[:SENTENCE_CHARS_MAX] + "…"
    fields = {
        "session": progress.session[:512],
        "turn": str(progress.turn or ""),
        "step": str(progress.step or ""),
        "trace": progress.trace,
    }
    known = {name: value for name, value in fields.items() if value}
    details = [_pack_any("google.rpc.ErrorInfo", ErrorInfo(kind.upper(), ERROR_DOMAIN, known))]
    metadata: list[tuple[str, str | bytes]] = [("mainstay-error-type", kind)]
    metadata += [(f"mainstay-{name}", quote(value, safe=" :/@+")) for name, value in known.items()]
    if retry_after_s is not None:
        seconds = math.floor(retry_after_s)
        delay = Duration(seconds, int((retry_after_s - seconds) * 1e9))
        details.append(_pack_any("google.rpc.RetryInfo", RetryInfo(delay)))
        metadata.append(("retry-after", str(math.ceil(retry_after_s))))
    status = RpcStatus(CODE_NUMBERS[code], sentence, tuple(details))
    metadata.append(("grpc-status-details-bin", encode(status)))
    return AbortStatus(code, sentence, tuple(metadata))


def _pack_any(name: str, message: msgspec.Struct) -> AnyMessage:
    return AnyMessage(f"type.googleapis.com/{name}", encode(message))


# --- errors in events ----------------------------------------------------------------------------


def find_error(event: Event) -> GrpcError | None:
    """Return the error that an event reports, if any. Tool errors go to the model, and to the client as well."""
    match event:
        case ToolFinished(result=result) if result.is_error:
            return _build_error("INTERNAL", "tool_failed", f"{result.name}: {result.content}", event)
        case StepRestarted(reason=reason):
            return _build_error("UNAVAILABLE", "step_restarted", reason, event)
        case TurnEnded(outcome=Failed() as failed):
            return error_from_failure(failed, event)
    return None


def error_from_failure(failed: Failed, event: Event) -> GrpcError:
    """Return a failed turn as an error message. Its `details` are for the operator and are left out."""
    return msgspec.structs.replace(_classify_failure(failed, failed if failed.step else event), trace=failed.trace)


def _classify_failure(failed: Failed, location: Event) -> GrpcError:
    if failed.sentence.startswith(_MODEL_FAILED_PREFIX):
        return _build_error("UNAVAILABLE", "model_failed", failed.sentence, location)
    if failed.details in _REQUEST_FAULTS:
        return _build_error("INVALID_ARGUMENT", "invalid_request", failed.sentence, location)
    return _build_error(
        "INTERNAL" if failed.details else "FAILED_PRECONDITION", "turn_failed", failed.sentence, location
    )


def _build_error(code: str, kind: str, message: str, location: Event) -> GrpcError:
    return GrpcError(CODE_NUMBERS[code], kind, message[:SENTENCE_CHARS_MAX], location.turn, location.step)
