"""`mainstay.v1.Agent`: turns over gRPC."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from mainstay.core.errors import SessionUnknown
from mainstay.core.protobuf import decode, encode
from mainstay.operations.execute import execute
from mainstay.operations.turns import Abort, Steer
from mainstay.server.grpc.call_handler import CallHandler, GrpcCall, GrpcMethod
from mainstay.server.grpc.message_types import (
    METHODS,
    SERVICE,
    AbortRequest,
    AbortResponse,
    GrpcEvent,
    SteerRequest,
    SteerResponse,
    StreamWeaveRequest,
    WeaveRequest,
)
from mainstay.server.grpc.turn_stream import parse_parts, run_prompt

if TYPE_CHECKING:
    from grpc import GenericRpcHandler


class AgentService:
    """The methods of the service; `handler` runs them."""

    def __init__(self, handler: CallHandler) -> None:
        self._handler = handler

    def create_handler(self) -> GenericRpcHandler:
        run = {
            "Weave": self._weave,
            "StreamWeave": self._stream_weave,
            "Steer": self._steer,
            "Abort": self._abort,
        }
        methods = [
            GrpcMethod(
                method.name,
                partial(decode, kind=method.request),
                encode,
                run[method.name],
                is_stream=method.is_stream,
                stays_open=method.name == "Weave",
            )
            for method in METHODS
        ]
        return self._handler.create_service(SERVICE, methods)

    async def _weave(self, call: GrpcCall) -> msgspec.Struct | None:
        request: WeaveRequest = call.request
        return await run_prompt(call.caller, request, call.progress)

    async def _stream_weave(self, call: GrpcCall) -> None:
        request: StreamWeaveRequest = call.request

        async def emit(event: GrpcEvent) -> None:
            await self._handler.write(call.context, encode(event))

        reply = await run_prompt(call.caller, request, call.progress, emit)
        if reply is not None:
            await emit(GrpcEvent("Reply", turn=reply.turn, reply=reply))

    async def _steer(self, call: GrpcCall) -> msgspec.Struct:
        request: SteerRequest = call.request
        parts = parse_parts(request.text, request.parts)
        accepted = await execute(call.caller, Steer(session=request.session, parts=parts, id=request.id))
        return SteerResponse(accepted.sequence)

    async def _abort(self, call: GrpcCall) -> msgspec.Struct:
        request: AbortRequest = call.request
        try:
            result = await execute(call.caller, Abort(session=request.session))
        except SessionUnknown:
            return AbortResponse(aborted=False)
        return AbortResponse(result.aborted)
