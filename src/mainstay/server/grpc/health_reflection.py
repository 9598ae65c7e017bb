"""gRPC health and reflection services.

The health service reports what `/readyz` does. `Check` needs no key. Calls that stay open (`Watch`, reflection) need
one, and count as streams of their key: unknown clients could hold many open.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mainstay.core.errors import MainstayError
from mainstay.core.supervision import start_supervised_task
from mainstay.server.grpc.authentication import GrpcAuthenticator
from mainstay.server.grpc.errors import CallErrorLocation, status_from_problem
from mainstay.server.grpc.message_types import SERVICE
from mainstay.server.grpc.operations_schema import SERVICE as OPERATIONS
from mainstay.server.problems import Problem, problem_from_error

if TYPE_CHECKING:
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import Message
    from grpc.aio import Server, ServicerContext
    from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
    from grpc_reflection.v1alpha._async import ReflectionServicer

NOTIFY_S = 1.0  # for watchers to be notified
REFRESH_S = 5.0  # how often the readiness is checked while a client watches it

FindUnready = Callable[[], Awaitable[dict[str, str]]]


def add_health_and_reflection(
    server: Server, authenticator: GrpcAuthenticator, pool: DescriptorPool, find_unready: FindUnready | None = None
) -> HealthServicer:
    """Register both services."""
    from grpc_health.v1 import health, health_pb2_grpc
    from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

    stream_authenticator = _StreamAuthenticator(authenticator)
    servicer = HealthServicer(stream_authenticator, find_unready)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    services = (SERVICE, OPERATIONS, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(
        _ReflectionServicer(reflection.aio.ReflectionServicer(services, pool=pool), stream_authenticator), server
    )
    return servicer


class _StreamAuthenticator:
    """Authenticates calls that stay open, and counts them as streams while they do."""

    def __init__(self, authenticator: GrpcAuthenticator) -> None:
        self._authenticator = authenticator

    @asynccontextmanager
    async def authenticated_stream(self, context: ServicerContext) -> AsyncIterator[None]:
        status = None
        try:
            with self._authenticator.hold_stream(self._authenticator.authenticate(context)):
                yield
        except Problem as problem:
            status = status_from_problem(problem, CallErrorLocation())
        except MainstayError as error:
            status = status_from_problem(problem_from_error(error), CallErrorLocation())
        if status is not None:
            from grpc import StatusCode

            await context.abort(StatusCode[status.code], status.sentence, status.metadata)


class HealthServicer:
    """grpc.health.v1.Health: SERVING while `find_unready` returns nothing."""

    def __init__(self, authenticator: _StreamAuthenticator, find_unready: FindUnready | None = None) -> None:
        from grpc_health.v1 import health, health_pb2

        self._inner = health.aio.HealthServicer()
        self._response = health_pb2.HealthCheckResponse
        self._authenticator = authenticator
        self._find_unready = find_unready
        self._watchers = 0
        self._refresh_task: asyncio.Task[None] | None = None

    async def set_serving(self) -> None:
        for name in (SERVICE, OPERATIONS):
            await self._inner.set(name, self._response.SERVING)

    async def set_not_serving(self) -> None:
        """Report NOT_SERVING from now on."""
        try:
            async with asyncio.timeout(NOTIFY_S):  # a watcher may not read
                await self._inner.enter_graceful_shutdown()
        except TimeoutError:
            pass

    async def Check(self, request: HealthCheckRequest, context: ServicerContext) -> HealthCheckResponse:
        found = await self._inner.Check(request, context)
        if found.status == self._response.SERVING and await self._is_unready():
            return self._response(status=self._response.NOT_SERVING)
        return found

    async def Watch(self, request: HealthCheckRequest, context: ServicerContext) -> None:
        async with self._authenticator.authenticated_stream(context), self._refreshed():
            await self._inner.Watch(request, context)

    @asynccontextmanager
    async def _refreshed(self) -> AsyncIterator[None]:
        """Refresh the status at once, and then regularly while any client watches it."""
        await self._refresh()
        self._watchers += 1
        if self._refresh_task is None:
            self._refresh_task = start_supervised_task("the health service of gRPC", self._refresh_regularly)
        try:
            yield
        finally:
            self._watchers -= 1
            if not self._watchers:
                self._refresh_task.cancel()
                self._refresh_task = None

    async def _refresh_regularly(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_S)
            await self._refresh()

    async def _refresh(self) -> None:
        status = self._response.NOT_SERVING if await self._is_unready() else self._response.SERVING
        for name in ("", SERVICE, OPERATIONS):
            try:
                async with asyncio.timeout(NOTIFY_S):  # a watcher may not read
                    await self._inner.set(name, status)
            except TimeoutError:
                pass

    async def _is_unready(self) -> bool:
        return self._find_unready is not None and bool(await self._find_unready())

    async def List(self, request: object, context: ServicerContext) -> None:
        from grpc import StatusCode

        await context.abort(StatusCode.UNIMPLEMENTED, "List is not supported; use Check")


class _ReflectionServicer:
    """grpc.reflection.v1alpha.ServerReflection."""

    def __init__(self, inner: ReflectionServicer, authenticator: _StreamAuthenticator) -> None:
        self._inner = inner
        self._authenticator = authenticator

    async def ServerReflectionInfo(
        self, requests: AsyncIterable[Message], context: ServicerContext
    ) -> AsyncGenerator[Message, None]:
        async with self._authenticator.authenticated_stream(context):
            async for response in self._inner.ServerReflectionInfo(requests, context):
                yield response
