"""Runs gRPC calls: authentication, stream limits, error mapping and orderly shutdown, the same for every service."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from mainstay.core.errors import MainstayError
from mainstay.core.protobuf import ProtobufMessageInvalid
from mainstay.core.turn_location import TurnLocation
from mainstay.gateway.operation_gateway import OperationGateway
from mainstay.operations.caller import Caller
from mainstay.server.error_reporting import report_bug, report_error
from mainstay.server.grpc.authentication import GrpcAuthenticator
from mainstay.server.grpc.errors import (
    AbortStatus,
    CallErrorLocation,
    TurnFailed,
    status_from_failure,
    status_from_problem,
)
from mainstay.server.problems import Problem

if TYPE_CHECKING:
    import grpc
    from grpc.aio import ServicerContext

STOPPING_SENTENCE = "the server is being stopped; a prompt that was accepted continues when it is back"


class SlowReader(Exception):
    """The client does not read what it is sent."""


class GrpcCall(msgspec.Struct):
    """One call of an authenticated client."""

    caller: Caller
    request: Any
    progress: CallErrorLocation
    context: ServicerContext


GrpcMethodRun = Callable[[GrpcCall], Awaitable[object]]


class GrpcMethod(msgspec.Struct, frozen=True):
    """A method of a service: how its messages are decoded and encoded, and what it does."""

    name: str
    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes]
    run: GrpcMethodRun  # None: it wrote to the context itself
    is_stream: bool = False
    stays_open: bool = False  # it stays open while a turn runs: counts as a stream


class CallHandler:
    """Makes gRPC handlers from methods, and tracks the running calls."""

    def __init__(self, gateway: OperationGateway, authenticator: GrpcAuthenticator, *, read_timeout_s: float) -> None:
        self._gateway = gateway
        self._authenticator = authenticator
        self._read_timeout_s = read_timeout_s
        self._calls: set[asyncio.Task[object]] = set()
        self._stopping = False

    def create_service(self, name: str, methods: list[GrpcMethod]) -> grpc.GenericRpcHandler:
        """Return the handler of a service."""
        import grpc  # slow to load

        return grpc.method_handlers_generic_handler(
            name, {method.name: self._create_handler(method) for method in methods}
        )

    async def write(self, context: ServicerContext, message: bytes) -> None:
        """Send one message of a stream; waits for a slow reader. Raises SlowReader if it does not read on, and Problem
        if the key of the call is not valid any more."""
        try:
            async with asyncio.timeout(self._read_timeout_s):
                with self._authenticator.open_calls.writing():
                    await context.write(message)
        except TimeoutError:
            raise SlowReader from None

    async def stop(self, drain_s: float) -> None:
        """Let calls end by themselves for so long, then end them with a retryable error."""
        if self._calls:
            await asyncio.wait(self._calls, timeout=drain_s)
        self._stopping = True
        for task in self._calls:
            task.cancel()
        if self._calls:
            await asyncio.wait(self._calls, timeout=1.0)

    def _create_handler(self, method: GrpcMethod) -> grpc.RpcMethodHandler:
        import grpc  # slow to load

        async def handle(data: bytes, context: ServicerContext) -> bytes | None:
            task = asyncio.current_task()
            assert task is not None
            self._calls.add(task)
            try:
                return await self._run_call(method, data, context)
            finally:
                self._calls.discard(task)

        if method.is_stream:
            return grpc.unary_stream_rpc_method_handler(handle)
        return grpc.unary_unary_rpc_method_handler(handle)

    async def _run_call(self, method: GrpcMethod, data: bytes, context: ServicerContext) -> bytes | None:
        at = CallErrorLocation()
        caller: Caller | None = None
        try:
            principal = self._authenticator.authenticate(context)
            request = method.decode(data)
            at.session = getattr(request, "session", "")
            with self._authenticator.hold_stream(principal) if method.stays_open or method.is_stream else nullcontext():
                caller = await self._gateway.build_caller(principal)
                result = await method.run(GrpcCall(caller, request, at, context))
                return method.encode(result) if result is not None or not method.is_stream else None
        except TurnFailed as failed:
            status = status_from_failure(failed.error, at)
        except ProtobufMessageInvalid as error:
            status = status_from_problem(
                Problem(400, "invalid_request", f"this is not a {method.name}Request: {error}"), at
            )
        except Problem as problem:
            status = status_from_problem(problem, at)
        except MainstayError as error:
            status = status_from_problem(report_error(error, f"gRPC {method.name}", caller), at)
        except SlowReader:
            status = status_from_problem(
                Problem(429, "too_slow", "the stream was not read; continue with `after`", 0.0), at
            )
        except asyncio.CancelledError:
            if not self._stopping:  # the client went away; what it sent goes on
                raise
            asyncio.current_task().uncancel()  # type: ignore[union-attr]
            status = status_from_problem(Problem(503, "unavailable", STOPPING_SENTENCE, 1.0), at)
        except Exception:  # a bug: described in the log only
            status = status_from_problem(
                report_bug(f"gRPC {method.name}", TurnLocation(at.session, at.turn, at.step, at.trace)), at
            )
        await self._abort(context, status)

    async def _abort(self, context: ServicerContext, status: AbortStatus) -> NoReturn:
        import grpc  # slow to load

        async with asyncio.timeout(self._read_timeout_s):  # a client that reads nothing does not read this either
            await context.abort(grpc.StatusCode[status.code], status.sentence, status.metadata)
