"""`OperationEntry`, one row of the operations table: request, function, required access, interfaces, HTTP route."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, get_args

import msgspec

from mainstay.operations.caller import Caller
from mainstay.operations.event_feed import EventStream
from mainstay.operations.operation import NETWORK, Access, Interface, Operation


class Route(msgspec.Struct, frozen=True):
    """The HTTP route of an operation. Path parameters fill the fields that `fields` maps them to."""

    method: str
    path: str
    fields: dict[str, str] = {}  # path parameter → field, where the names differ
    status: int = 200

    @property
    def parameters(self) -> list[str]:
        """Names of the path parameters, in order."""
        return re.findall(r"\{(\w+)\}", self.path)

    def field_for(self, parameter: str) -> str:
        return self.fields.get(parameter, parameter)


# takes the entry's own request, and returns what that request declares
RunFunction = Callable[[Caller, Any], Awaitable[Any]]


class OperationEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table.

    `run` executes the request. `stream` opens it as a stream of events instead, where that is possible: it ends with
    the turn, or with `streams_live` continues with live events until the client closes it. With `streams_by_default`
    an HTTP client gets the stream unless it asks for JSON. `to_view` converts the result for
    network clients into a `view_type`; without it they get the result itself.
    """

    request: type[Operation[object]]
    run: RunFunction
    access: Access = "chat"
    interfaces: frozenset[Interface] = NETWORK
    http: Route | None = None
    stream: Callable[[Caller, Any], Awaitable[EventStream]] | None = None
    streams_by_default: bool = False
    streams_live: bool = False
    to_view: Callable[[Caller, Any, Any], object] | None = None
    view_type: object = None

    @property
    def name(self) -> str:
        """`ForkSession`: the gRPC method, and the tag on the home's socket."""
        return self.request.__name__

    @property
    def operation_id(self) -> str:
        """`fork_session`: the operation id in the OpenAPI description."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", self.name).lower()

    @property
    def summary(self) -> str:
        """The first sentence of the request's docstring."""
        return (self.request.__doc__ or "").strip().split("\n\n")[0].replace("\n    ", " ").rstrip(".")

    @property
    def result_type(self) -> object:
        """The type that running it returns; None for nothing."""
        return next(
            get_args(base)[0]
            for base in self.request.__orig_bases__  # type: ignore[attr-defined]
            if getattr(base, "__origin__", None) is Operation
        )

    @property
    def is_stream_only(self) -> bool:
        """True if it has events and no result."""
        return self.stream is not None and self.result_type is type(None)

    @property
    def public_type(self) -> object:
        """The type that network clients see."""
        return self.result_type if self.view_type is None else self.view_type
