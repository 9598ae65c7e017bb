"""Message structs of `proto/mainstay/v1/agent.proto`, encoded by core/protobuf, which decodes strictly."""

from __future__ import annotations

import msgspec

PACKAGE = "mainstay.v1"
FILE = "mainstay/v1/agent.proto"
SERVICE = "mainstay.v1.Agent"

# The number of a field is its position in the struct.


class GrpcPart(msgspec.Struct, frozen=True):
    text: str = ""
    mime: str = ""
    data: bytes = b""


class WeaveRequest(msgspec.Struct, frozen=True):
    session: str = ""
    text: str = ""
    parts: tuple[GrpcPart, ...] = ()
    id: str = ""


class StreamWeaveRequest(msgspec.Struct, frozen=True):
    session: str = ""
    text: str = ""
    parts: tuple[GrpcPart, ...] = ()
    id: str = ""
    after: int | None = None


class GrpcError(msgspec.Struct, frozen=True):
    code: int = 0
    type: str = ""
    message: str = ""
    turn: int = 0
    step: int = 0
    trace: str = ""


class GrpcUsage(msgspec.Struct, frozen=True):
    prompt: int = 0
    completion: int = 0
    cached: int = 0
    reasoning: int = 0


class GrpcCallResult(msgspec.Struct, frozen=True):
    call_id: str = ""
    name: str = ""
    content: str = ""
    is_error: bool = False


class GrpcReply(msgspec.Struct, frozen=True):
    session: str = ""
    turn: int = 0
    text: str = ""
    outcome: str = ""
    detail: str = ""
    usage: GrpcUsage | None = None
    cost: float = 0.0
    errors: tuple[GrpcError, ...] = ()
    trace: str = ""
    results: tuple[GrpcCallResult, ...] = ()


class GrpcEvent(msgspec.Struct, frozen=True):
    type: str = ""
    sequence: int = 0
    turn: int = 0
    step: int = 0
    text: str = ""
    data: str = ""
    error: GrpcError | None = None
    reply: GrpcReply | None = None


class SteerRequest(msgspec.Struct, frozen=True):
    session: str = ""
    text: str = ""
    parts: tuple[GrpcPart, ...] = ()
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
    GrpcPart,
    GrpcEvent,
    GrpcReply,
    GrpcUsage,
    GrpcError,
    GrpcCallResult,
    SteerRequest,
    SteerResponse,
    AbortRequest,
    AbortResponse,
)


class AgentMethod(msgspec.Struct, frozen=True):
    """A method of `mainstay.v1.Agent`."""

    name: str
    request: type[msgspec.Struct]
    response: type[msgspec.Struct]
    is_stream: bool = False


METHODS = (
    AgentMethod("Weave", WeaveRequest, GrpcReply),
    AgentMethod("StreamWeave", StreamWeaveRequest, GrpcEvent, is_stream=True),
    AgentMethod("Steer", SteerRequest, SteerResponse),
    AgentMethod("Abort", AbortRequest, AbortResponse),
)


# --- standard error details (google.rpc) ---------------------------------------------------------


class AnyMessage(msgspec.Struct, frozen=True):
    """google.protobuf.Any"""

    type_url: str = ""
    value: bytes = b""


class RpcStatus(msgspec.Struct, frozen=True):
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
