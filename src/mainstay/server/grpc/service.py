"""`mainstay.v1.Agent`: every call is let in, bounded, answered, and told what went wrong, in one place."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

import msgspec

from mainstay.core.errors import MainstayError
from mainstay.core.protobuf import ContractBroken, decode, encode
from mainstay.core.where import Where
from mainstay.gateway.gateway import Gateway
from mainstay.gateway.visit import Visit
from mainstay.server.grpc.entry import Entry
from mainstay.server.grpc.messages import (
    METHODS,
    SERVICE,
    AbortRequest,
    AbortResponse,
    Event,
    Method,
    SteerRequest,
    SteerResponse,
    StreamWeaveRequest,
    WeaveRequest,
)
from mainstay.server.grpc.trouble import Told, TurnFailed, Whereabouts, told, told_failure
from mainstay.server.grpc.weaving import parts_of, weave
from mainstay.server.problems import Problem
from mainstay.server.troubles import trouble_for, unforeseen

STOPPING = "the server is being stopped; what was sent is kept, and goes on when it is back"


class Unread(Exception):
    """Whoever asked does not read what they are told."""


class _Call(msgspec.Struct):
    visit: Visit
    request: Any
    at: Whereabouts
    context: Any


_Do = Callable[[_Call], Awaitable[msgspec.Struct | None]]


class AgentService:
    def __init__(self, gateway: Gateway, entry: Entry, grpc: Any, *, unread_s: float) -> None:
        self._gateway = gateway
        self._entry = entry
        self._grpc = grpc
        self._unread_s = unread_s
        self._calls: set[asyncio.Task[Any]] = set()
        self._stopping = False

    def handlers(self) -> Any:
        do: dict[str, _Do] = {
            "Weave": self._weave,
            "StreamWeave": self._stream_weave,
            "Steer": self._steer,
            "Abort": self._abort,
        }
        made = {method.name: self._handler(method, do[method.name]) for method in METHODS}
        return self._grpc.method_handlers_generic_handler(SERVICE, made)

    async def stop(self, drain_s: float) -> None:
        """Calls may end by themselves for so long; then they are told to come again."""
        if self._calls:
            await asyncio.wait(self._calls, timeout=drain_s)
        self._stopping = True
        for task in self._calls:
            task.cancel()
        if self._calls:
            await asyncio.wait(self._calls, timeout=1.0)

    # --- the methods -----------------------------------------------------------------------------

    async def _weave(self, call: _Call) -> msgspec.Struct | None:
        request: WeaveRequest = call.request
        return await weave(call.visit, request, call.at)

    async def _stream_weave(self, call: _Call) -> None:
        request: StreamWeaveRequest = call.request

        async def emit(event: Event) -> None:
            """Waits for a reader who is behind; what happens meanwhile is kept by nobody but the journal."""
            try:
                async with asyncio.timeout(self._unread_s):
                    await call.context.write(encode(event))
            except TimeoutError:
                raise Unread from None

        reply = await weave(call.visit, request, call.at, emit)
        if reply is not None:
            await emit(Event("Reply", turn=reply.turn, reply=reply))

    async def _steer(self, call: _Call) -> msgspec.Struct:
        request: SteerRequest = call.request
        parts = parts_of(request.text, request.parts)
        return SteerResponse((await call.visit.steer(request.session, parts, id=request.id)).seq)

    async def _abort(self, call: _Call) -> msgspec.Struct:
        request: AbortRequest = call.request
        return AbortResponse(await call.visit.abort(request.session))

    # --- every call ------------------------------------------------------------------------------

    def _handler(self, method: Method, do: _Do) -> Any:
        held = do in (self._weave, self._stream_weave)

        async def handle(data: bytes, context: Any) -> bytes | None:
            task = asyncio.current_task()
            assert task is not None
            self._calls.add(task)
            try:
                return await self._answer(method, do, data, context, held=held)
            finally:
                self._calls.discard(task)

        if method.streams:
            return self._grpc.unary_stream_rpc_method_handler(handle)
        return self._grpc.unary_unary_rpc_method_handler(handle)

    async def _answer(self, method: Method, do: _Do, data: bytes, context: Any, *, held: bool) -> bytes | None:
        at = Whereabouts()
        visit: Visit | None = None
        try:
            principal = self._entry.enter(context)
            request = decode(data, method.request)
            at.session = getattr(request, "session", "")
            with self._entry.stream(principal) if held else nullcontext():
                visit = await self._gateway.visit(principal)
                made = await do(_Call(visit, request, at, context))
                return encode(made) if made is not None else None
        except TurnFailed as failed:
            trouble = told_failure(failed.error, at)
        except ContractBroken as error:
            trouble = told(Problem(400, "invalid_request", f"this is not a {method.request.__name__}: {error}"), at)
        except Problem as problem:
            trouble = told(problem, at)
        except MainstayError as error:
            trouble = told(trouble_for(error, f"gRPC {method.name}", visit), at)
        except Unread:
            trouble = told(Problem(429, "too_slow", "what was told was not read; go on with `after`", 0.0), at)
        except asyncio.CancelledError:
            if not self._stopping:  # whoever asked went away; what they sent goes on
                raise
            asyncio.current_task().uncancel()  # type: ignore[union-attr]
            trouble = told(Problem(503, "unavailable", STOPPING, 1.0), at)
        except Exception:  # a bug of ours: the log says what, and nobody else does
            trouble = told(unforeseen(f"gRPC {method.name}", Where(at.session, at.turn, at.step, at.trace)), at)
        await self._abandon(context, trouble)
        return None

    async def _abandon(self, context: Any, trouble: Told) -> None:
        async with asyncio.timeout(self._unread_s):  # a client that reads nothing does not read this either
            await context.abort(self._grpc.StatusCode[trouble.code], trouble.sentence, trouble.metadata)
