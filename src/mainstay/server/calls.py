"""One operation of the native API: what it is asked with, what it answers, and who does it. The routes and their
description are made from the same table of these."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.requests import Request

from mainstay.core.events import Event
from mainstay.core.messages import AnyPart, Binary, Text
from mainstay.core.outcome import Reply
from mainstay.gateway.visit import Visit
from mainstay.server.bounds import (
    Receive,
    Scope,
    Send,
    check_content_type,
    decode_body,
    header,
    plain,
    read_body,
)
from mainstay.server.doors import Doors
from mainstay.server.entry import doors_of, enter
from mainstay.server.events_stream import EventStream
from mainstay.server.problems import JSON, PRIVATE, Problem, traced
from mainstay.server.shown import Shown

SSE = "text/event-stream"
SEQUENCE_MAX = 1 << 53
_encoder = msgspec.json.Encoder()

Word = Annotated[str, Meta(max_length=200)]
Line = Annotated[str, Meta(max_length=2_000)]
Sequenced = Annotated[int, Meta(ge=0, le=SEQUENCE_MAX)]


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an operation is asked with: a body, or the query of an address."""


class Nothing(Asked, frozen=True, kw_only=True):
    pass


class Call(msgspec.Struct, frozen=True):
    """An operation, as one client asks for it, who may."""

    visit: Visit
    doors: Doors
    request: Request
    names: Mapping[str, str]  # what stands in the path
    body: Any
    query: Any
    streamed: bool  # a stream is wanted

    @property
    def session(self) -> str:
        return self.names["id"]


class Answer(msgspec.Struct, frozen=True):
    value: Any = None
    status: int = 200
    trace: str = ""  # of the turn that it came of


class Streamed(msgspec.Struct, frozen=True):
    """An answer that goes on. `reply`: until that has come."""

    events: AsyncIterator[Event]
    shown: Shown
    reply: asyncio.Future[Reply] | None = None
    trace: str = ""  # of its turn, if that has begun


Do = Callable[[Call], Awaitable[Any]]  # what it gives is the answer's JSON, an Answer, or Streamed


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    path: str  # {id} and {name} are names, escaped
    do: Do
    says: str  # for people
    answers: Any = None  # the type of the answer
    status: int = 200
    body: type[Asked] | None = None
    query: type[Asked] = Nothing
    streams: bool = False  # for whoever accepts that
    always: bool = False  # and for everybody but those who accept JSON


# --- what the bodies of several have in common ---------------------------------------------------


class TextPart(msgspec.Struct, frozen=True, tag="text", tag_field="type", forbid_unknown_fields=True):
    text: str


class BinaryPart(msgspec.Struct, frozen=True, tag="binary", tag_field="type", forbid_unknown_fields=True):
    """A file: its bytes, as base64."""

    mime: Annotated[str, Meta(max_length=100, pattern=r"^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+$")]
    data: bytes


class Said(Asked, frozen=True, kw_only=True):
    """Text, or parts."""

    text: str | None = None
    parts: Annotated[tuple[TextPart | BinaryPart, ...], Meta(max_length=100)] | None = None
    id: Word = ""  # the client's own: under the same one it is taken once

    def as_parts(self) -> tuple[AnyPart, ...]:
        if (self.text is None) == (self.parts is None):
            raise Problem(400, "invalid_request", "give either `text` or `parts`")
        given = (TextPart(self.text),) if self.text is not None else self.parts or ()
        return tuple(Text(one.text) if isinstance(one, TextPart) else Binary(one.mime, one.data) for one in given)


# --- as ASGI -------------------------------------------------------------------------------------


class Methods:
    """Everything that can be done at one path."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._by_method = {one.method: one for one in operations}
        self._allow = ", ".join(sorted(self._by_method))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        operation = self._by_method.get(scope["method"])
        if operation is None:
            raise Problem(405, "wrong_method", f"here one can {self._allow}", headers={"Allow": self._allow})
        request = Request(scope, receive, send)
        streamed = operation.streams and wants_stream(scope, operation)
        visit = await enter(request, stream=streamed)
        call = Call(
            visit,
            doors_of(request),
            request,
            {name: plain(value.encode()) for name, value in scope["path_params"].items()},
            await _body(operation, scope, receive),
            query_of(request, operation.query),
            streamed,
        )
        given = await operation.do(call)
        if isinstance(given, Streamed):
            await _stream(given, call, receive, send)
            return
        answer = given if isinstance(given, Answer) else Answer(given, operation.status)
        await reply(answer, send)


def wants_stream(scope: Scope, operation: Operation) -> bool:
    if operation.always:
        return not _accepts(scope, "application/json") or _accepts(scope, SSE)
    return _accepts(scope, SSE)


def _accepts(scope: Scope, kind: str) -> bool:
    """By name: whoever takes anything gets what is usual."""
    given = header(scope, b"accept").decode("latin-1").lower()
    return any(one.partition(";")[0].strip() == kind for one in given.split(","))


async def _body(operation: Operation, scope: Scope, receive: Receive) -> Any:
    raw = await read_body(receive)
    if operation.body is None:
        if raw:
            raise Problem(400, "invalid_request", "nothing is to be said here: send no body")
        return None
    if not raw and all(field.default is not msgspec.NODEFAULT for field in msgspec.structs.fields(operation.body)):
        return operation.body()
    check_content_type(scope)
    return decode_body(raw, operation.body)


def query_of(request: Request, shape: type[Asked]) -> Any:
    given = request.query_params.multi_items()
    if len({name for name, _ in given}) != len(given):
        raise Problem(400, "invalid_request", "a parameter of the address is given twice")
    try:
        return msgspec.convert(dict(given), shape, strict=False)
    except msgspec.ValidationError as error:
        raise Problem(400, "invalid_request", f"the address cannot be used: {error}") from None


async def _stream(made: Streamed, call: Call, receive: Receive, send: Send) -> None:
    stream = EventStream(call.doors, receive, send, call.visit, turn=made.reply is not None)
    if made.reply is not None:
        made.reply.add_done_callback(stream.heard)
    await stream.run(made.events, made.shown, made.trace)


async def reply(answer: Answer, send: Send) -> None:
    body = b"" if answer.status == 204 else _encoder.encode(answer.value)
    headers = list(PRIVATE)
    if answer.status != 204:
        headers += [JSON, (b"content-length", str(len(body)).encode())]
    headers += traced(None, answer.trace)
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
