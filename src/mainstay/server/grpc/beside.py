"""Health and reflection, which are served beside the agent.

Whether it serves may be asked by anybody. What holds a call open is for those who may come in: strangers could hold
many.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mainstay.core.errors import MainstayError
from mainstay.server.grpc.describing import pool_of
from mainstay.server.grpc.entry import Entry
from mainstay.server.grpc.library import Library
from mainstay.server.grpc.messages import SERVICE
from mainstay.server.grpc.trouble import Whereabouts, told
from mainstay.server.problems import Problem, problem_of

SHUT_S = 1.0


def add_beside(library: Library, server: Any, entry: Entry) -> Health:
    porter = _Porter(library, entry)
    health = Health(library, porter)
    names, pb = library.health.health, library.reflection.reflection_pb2
    library.health.health_pb2_grpc.add_HealthServicer_to_server(health, server)
    served = (SERVICE, names.SERVICE_NAME, library.reflection.reflection.SERVICE_NAME)
    pool = pool_of((library.health.health_pb2.DESCRIPTOR, pb.DESCRIPTOR))
    reflection = _Reflection(library.reflection.reflection.aio.ReflectionServicer(served, pool=pool), porter)
    library.reflection.reflection_pb2_grpc.add_ServerReflectionServicer_to_server(reflection, server)
    return health


class _Porter:
    """Lets in who may, for as long as their call is held open."""

    def __init__(self, library: Library, entry: Entry) -> None:
        self.codes = library.grpc.StatusCode
        self._entry = entry

    @asynccontextmanager
    async def held(self, context: Any) -> AsyncIterator[None]:
        trouble = None
        try:
            with self._entry.stream(self._entry.enter(context)):
                yield
        except Problem as problem:
            trouble = told(problem, Whereabouts())
        except MainstayError as error:
            trouble = told(problem_of(error), Whereabouts())
        if trouble is not None:
            await context.abort(self.codes[trouble.code], trouble.sentence, trouble.metadata)


class Health:
    """grpc.health.v1.Health; names of methods are the protocol's."""

    def __init__(self, library: Library, porter: _Porter) -> None:
        self._inner = library.health.health.aio.HealthServicer()
        self._serving = library.health.health_pb2.HealthCheckResponse.SERVING
        self._porter = porter

    async def open(self) -> None:
        await self._inner.set(SERVICE, self._serving)

    async def shut(self) -> None:
        """From now on it serves nobody new, and says so."""
        try:
            async with asyncio.timeout(SHUT_S):  # somebody who is told of it may not be listening
                await self._inner.enter_graceful_shutdown()
        except TimeoutError:
            pass

    async def Check(self, request: Any, context: Any) -> Any:
        return await self._inner.Check(request, context)

    async def Watch(self, request: Any, context: Any) -> None:
        async with self._porter.held(context):
            await self._inner.Watch(request, context)

    async def List(self, request: Any, context: Any) -> None:
        await context.abort(self._porter.codes.UNIMPLEMENTED, "ask for one service: Check")


class _Reflection:
    """grpc.reflection.v1alpha.ServerReflection."""

    def __init__(self, inner: Any, porter: _Porter) -> None:
        self._inner = inner
        self._porter = porter

    async def ServerReflectionInfo(self, requests: Any, context: Any) -> AsyncGenerator[Any, None]:
        async with self._porter.held(context):
            async for response in self._inner.ServerReflectionInfo(requests, context):
                yield response
