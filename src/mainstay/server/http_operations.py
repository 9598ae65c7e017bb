"""The HTTP codec of operations: requests are decoded into operations, results and streams are encoded as responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import TypeVar

import msgspec
from starlette.requests import Request

from mainstay.core.asgi import Receive, Scope, Send
from mainstay.core.errors import AgentClosed
from mainstay.core.events import Event
from mainstay.core.outcome import Reply
from mainstay.core.turn_location import TurnLocation
from mainstay.operations.caller import Caller
from mainstay.operations.event_feed import EventStream
from mainstay.operations.execute import execute, open_stream
from mainstay.operations.operation import SEQUENCE_MAX, Operation
from mainstay.operations.operation_entry import OperationEntry
from mainstay.operations.turns import Accepted, Prompt, ReadEvents, Steer
from mainstay.server.authentication import KEY_CHECK_S, authenticate_request, get_state, is_still_authorised
from mainstay.server.http_request import check_content_type, decode_body, decode_segment, get_header, read_body
from mainstay.server.http_state import HttpServerState
from mainstay.server.problems import (
    JSON_CONTENT_TYPE,
    PRIVATE_HEADERS,
    PROMPT_STORED,
    RETRY_AFTER_S,
    Problem,
    trace_headers,
)
from mainstay.server.quota_problem import find_quota_problem
from mainstay.server.server_sent_events import EventStreamResponse

T = TypeVar("T")

SSE_CONTENT_TYPE = "text/event-stream"
_BODY_METHODS = ("POST", "PUT", "PATCH")
_encoder = msgspec.json.Encoder()


class JsonResponse(msgspec.Struct, frozen=True):
    value: object = None
    status: int = 200
    trace: str = ""  # the trace id of the turn that it reports


class EmptyQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The query of a request that has a body."""


class OperationCodec:
    """Decodes the requests of one route. Path parameters, and the body or the query, together make the operation."""

    def __init__(self, entry: OperationEntry) -> None:
        assert entry.http is not None
        self.entry = entry
        self.route = entry.http
        self.path_fields = {name: self.route.field_for(name) for name in self.route.parameters}
        fields = [
            field for field in msgspec.structs.fields(entry.request) if field.name not in self.path_fields.values()
        ]
        self.has_body = self.route.method in _BODY_METHODS
        suffix = "Body" if self.has_body else "Query"
        self.rest_type: type[msgspec.Struct] = msgspec.defstruct(
            f"{entry.name}{suffix}",
            [_field_definition(field) for field in fields],
            kw_only=True,
            forbid_unknown_fields=True,
        )
        self.rest_type.__doc__ = entry.request.__doc__
        self._decode_rest = msgspec.json.Decoder(self.rest_type).decode
        self.requires_rest = any(field.required for field in fields)

    async def decode(self, request: Request) -> Operation[object]:
        """Raises Problem for a request that does not fit the operation."""
        raw = await read_body(request.receive)
        if self.has_body:
            rest = self._decode_body(raw, request)
            decode_query(request, EmptyQuery)
        elif raw:
            raise Problem(400, "invalid_request", "this request must have no body")
        else:
            rest = decode_query(request, self.rest_type)
        path = {
            self.path_fields[name]: decode_segment(value.encode())
            for name, value in request.scope["path_params"].items()
        }
        operation: Operation[object] = self.entry.request(**path, **msgspec.structs.asdict(rest))
        return _apply_headers(operation, request)

    def _decode_body(self, raw: bytes, request: Request) -> msgspec.Struct:
        if not raw and not self.requires_rest:
            return self.rest_type()
        check_content_type(request.scope)
        return decode_body(raw, self._decode_rest)


def _field_definition(field: msgspec.structs.FieldInfo) -> tuple[str, type] | tuple[str, type, object]:
    if field.default is not msgspec.NODEFAULT:
        return field.name, field.type, field.default
    if field.default_factory is not msgspec.NODEFAULT:
        return field.name, field.type, msgspec.field(default_factory=field.default_factory)
    return field.name, field.type


def decode_query(request: Request, struct_type: type[T]) -> T:
    pairs = request.query_params.multi_items()
    if len({name for name, _ in pairs}) != len(pairs):
        raise Problem(400, "invalid_request", "a query parameter is given twice")
    try:
        return msgspec.convert(dict(pairs), struct_type, strict=False)
    except msgspec.ValidationError as error:
        raise Problem(400, "invalid_request", f"the query is invalid: {error}") from None


def _apply_headers(operation: Operation[object], request: Request) -> Operation[object]:
    """Apply the headers that HTTP clients use instead of fields: `Idempotency-Key`, and `Last-Event-ID` where a
    stream continues."""
    match operation:
        case Prompt(id="") | Steer(id=""):
            key = request.headers.get("idempotency-key", "")[:200]
            return msgspec.structs.replace(operation, id=key) if key else operation
        case ReadEvents():
            seen = get_last_event_id(request)
            return msgspec.structs.replace(operation, after=seen) if seen else operation
    return operation


def get_last_event_id(request: Request) -> int:
    """Return the sequence that a client saw last before it lost its stream; 0 for none."""
    value = request.headers.get("last-event-id", "")
    if not value:
        return 0
    if not (value.isascii() and value.isdigit()) or int(value[:20]) > SEQUENCE_MAX:
        raise Problem(400, "invalid_request", "`Last-Event-ID` is the number of an event")
    return int(value)


class OperationRoutes:
    """The operations of one path, by method."""

    def __init__(self, entries: Sequence[OperationEntry]) -> None:
        codecs = [OperationCodec(entry) for entry in entries]
        self._codecs = {codec.route.method: codec for codec in codecs}
        self._allow = ", ".join(sorted(self._codecs))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        codec = self._codecs.get(scope["method"])
        if codec is None:
            raise Problem(405, "wrong_method", f"allowed here: {self._allow}", headers={"Allow": self._allow})
        request = Request(scope, receive, send)
        as_stream = codec.entry.stream is not None and wants_stream(scope, codec.entry)
        caller = await authenticate_request(request, stream=as_stream)
        operation = await codec.decode(request)
        if as_stream:
            await send_stream(await open_stream(caller, operation), operation, caller, request)
        else:
            await send_json(await run_operation(codec.entry, caller, operation, get_state(request)), send)


def wants_stream(scope: Scope, entry: OperationEntry) -> bool:
    if entry.streams_by_default:
        return not _accepts(scope, "application/json") or _accepts(scope, SSE_CONTENT_TYPE)
    return _accepts(scope, SSE_CONTENT_TYPE)


def _accepts(scope: Scope, content_type: str) -> bool:
    """True if the client names this type; `*/*` gets the default."""
    accepted = get_header(scope, b"accept").decode("latin-1").lower()
    return any(item.partition(";")[0].strip() == content_type for item in accepted.split(","))


async def run_operation(
    entry: OperationEntry, caller: Caller, operation: Operation[object], state: HttpServerState
) -> JsonResponse:
    """Run an operation and return its response. Raises Problem for a turn that a budget refused."""
    work = execute(caller, operation)
    result = await (_wait_for_turn(work, caller, state) if entry.stream is not None else work)
    status, trace = entry.http.status if entry.http is not None else 200, ""
    if isinstance(result, Reply):
        trace = result.trace
        session = getattr(operation, "session", "")
        problem = find_quota_problem(result.outcome, result.usage, TurnLocation(session, result.turn, 0, result.trace))
        if problem is not None:
            raise problem
    elif isinstance(result, Accepted):
        trace = result.trace
        if entry.stream is not None:  # the client chose not to wait for the reply
            status = 202
    return JsonResponse(
        entry.to_view(caller, operation, result) if entry.to_view is not None else result, status, trace
    )


async def _wait_for_turn(work: Awaitable[T], caller: Caller, state: HttpServerState) -> T:
    """Wait for a reply, but not longer than the server runs and the caller's key is valid. The turn goes on either
    way."""
    task = asyncio.ensure_future(work)
    closing = asyncio.ensure_future(state.closing.wait())
    try:
        while not (task.done() or closing.done()):
            interval_s = KEY_CHECK_S if caller.principal.key else None
            await asyncio.wait((task, closing), timeout=interval_s, return_when=asyncio.FIRST_COMPLETED)
            if not is_still_authorised(state, caller.principal):
                raise Problem(401, "unauthorised", "this API key is not valid any more")
        if not task.done():
            raise Problem(503, "stopping", f"the server is being stopped; {PROMPT_STORED}", RETRY_AFTER_S)
        return task.result()
    except AgentClosed:  # a reload opens it again with other settings
        raise Problem(503, "stopping", f"the turn was interrupted; {PROMPT_STORED}", RETRY_AFTER_S) from None
    finally:
        closing.cancel()
        task.cancel()


async def send_stream(stream: EventStream, operation: Operation[object], caller: Caller, request: Request) -> None:
    """Send events as server-sent events until the stream ends or the client is gone."""
    seen = get_last_event_id(request) if isinstance(operation, Prompt) else 0
    events: AsyncIterator[Event] = skip_seen(stream, seen) if seen else aiter(stream)
    response = EventStreamResponse(
        get_state(request), request.receive, request._send, caller, ends_with_turn=stream.pending_reply is not None
    )
    try:
        await response.run(events, stream.trace_id)
    finally:
        await stream.aclose()


async def skip_seen(events: EventStream, seen: int) -> AsyncIterator[Event]:
    """Leave out the durable events that the client has."""
    async for event in events:
        if not event.sequence or event.sequence > seen:
            yield event


async def send_json(response: JsonResponse, send: Send) -> None:
    body = b"" if response.status == 204 else _encoder.encode(response.value)
    headers = list(PRIVATE_HEADERS)
    if response.status != 204:
        headers += [JSON_CONTENT_TYPE, (b"content-length", str(len(body)).encode())]
    headers += trace_headers(None, response.trace)
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
