"""What goes over the wire: the messages of `proto/mainstay/v1`, read strictly (core/protobuf)."""

from __future__ import annotations

import msgspec

PACKAGE = "mainstay.v1"
FILE = "mainstay/v1/agent.proto"
SERVICE = "mainstay.v1.Agent"

# The number of a field is its place.


class Part(msgspec.Struct, frozen=True):
    text: str = ""
    mime: str = ""
    data: bytes = b""


class WeaveRequest(msgspec.Struct, frozen=True):
    session: str = ""
    text: str = ""
    parts: tuple[Part, ...] = ()
    id: str = ""


class StreamWeaveRequest(msgspec.Struct, frozen=True):
    session: str = ""
    text: str = ""
    parts: tuple[Part, ...] = ()
    id: str = ""
    after: int | None = None


class Error(msgspec.Struct, frozen=True):
    code: int = 0
    type: str = ""
    message: str = ""
    turn: int = 0
    step: int = 0
    trace: str = ""


class Usage(msgspec.Struct, frozen=True):
    prompt: int = 0
    completion: int = 0
    cached: int = 0
    reasoning: int = 0


class Reply(msgspec.Struct, frozen=True):
    session: str = ""
    turn: int = 0
    text: str = ""
    outcome: str = ""
    detail: str = ""
    usage: Usage | None = None
    cost: float = 0.0
    errors: tuple[Error, ...] = ()
    trace: str = ""


class Event(msgspec.Struct, frozen=True):
    type: str = ""
    sequence: int = 0
    turn: int = 0
    step: int = 0
    text: str = ""
    data: str = ""
    error: Error | None = None
    reply: Reply | None = None


class SteerRequest(msgspec.Struct, frozen=True):
    session: str = ""
    text: str = ""
    parts: tuple[Part, ...] = ()
    id: str = ""


class SteerResponse(msgspec.Struct, frozen=True):
    sequence: int = 0


class AbortRequest(msgspec.Struct, frozen=True):
    session: str = ""


class AbortResponse(msgspec.Struct, frozen=True):
    aborted: bool = False


MESSAGES: tuple[type[msgspec.Struct], ...] = (
    WeaveRequest,
    StreamWeaveRequest,
    Part,
    Event,
    Reply,
    Usage,
    Error,
    SteerRequest,
    SteerResponse,
    AbortRequest,
    AbortResponse,
)


class Method(msgspec.Struct, frozen=True):
    name: str
    request: type[msgspec.Struct]
    response: type[msgspec.Struct]
    streams: bool = False


METHODS = (
    Method("Weave", WeaveRequest, Reply),
    Method("StreamWeave", StreamWeaveRequest, Event, streams=True),
    Method("Steer", SteerRequest, SteerResponse),
    Method("Abort", AbortRequest, AbortResponse),
)


# --- details of errors, as everybody writes them -------------------------------------------------


class AnyMessage(msgspec.Struct, frozen=True):
    """google.protobuf.Any"""

    type_url: str = ""
    value: bytes = b""


class Status(msgspec.Struct, frozen=True):
    """google.rpc.Status"""

    code: int = 0
    message: str = ""
    details: tuple[AnyMessage, ...] = ()


class ErrorInfo(msgspec.Struct, frozen=True):
    """google.rpc.ErrorInfo"""

    reason: str = ""
    domain: str = ""
    metadata: dict[str, str] = {}


class Duration(msgspec.Struct, frozen=True):
    """google.protobuf.Duration"""

    seconds: int = 0
    nanos: int = 0


class RetryInfo(msgspec.Struct, frozen=True):
    """google.rpc.RetryInfo"""

    retry_delay: Duration = Duration()
