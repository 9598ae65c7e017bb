"""What a plugin keeps: text under keys of its own, in the workspace's database. Nobody else's can be reached."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import Any, TypeVar

import msgspec

from mainstay.core.contract import (
    STATE,
    STATE_SOCKET,
    DeleteRequest,
    DeleteResponse,
    GetRequest,
    GetResponse,
    KeysRequest,
    KeysResponse,
    SetRequest,
    SetResponse,
    decode,
    encode,
)
from mainstay.kit.actions import ActionFailed
from mainstay.kit.library import load_grpc

R = TypeVar("R", bound=msgspec.Struct)
T = TypeVar("T")
WAIT_S = 10.0


class StateRefused(ActionFailed):
    """It could not be kept or found: beyond the quota, or nobody there to keep it."""


class State:
    """In an async action `await state.aget(key)`, in any other `state.get(key)`; likewise the rest.

    It is one client: what is not async waits in its own thread for the loop that serves the plugin.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._channel: Any = None

    def get(self, key: str) -> str | None:
        """None if there is nothing under this key."""
        return self._wait(self.aget(key))

    def set(self, key: str, value: str) -> None:
        """On disk when it returns. Raises StateRefused beyond the quota."""
        self._wait(self.aset(key, value))

    def delete(self, key: str) -> bool:
        """False if there was nothing."""
        return self._wait(self.adelete(key))

    def keys(self, prefix: str = "") -> list[str]:
        return self._wait(self.akeys(prefix))

    async def aget(self, key: str) -> str | None:
        answer = await self._ask("Get", GetRequest(key), GetResponse)
        return answer.value if answer.found else None

    async def aset(self, key: str, value: str) -> None:
        await self._ask("Set", SetRequest(key, value), SetResponse)

    async def adelete(self, key: str) -> bool:
        return (await self._ask("Delete", DeleteRequest(key), DeleteResponse)).found

    async def akeys(self, prefix: str = "") -> list[str]:
        return list((await self._ask("Keys", KeysRequest(prefix), KeysResponse)).keys)

    # --- the way there ---------------------------------------------------------------------------

    def open(self) -> None:
        """On the loop that serves; `serve` does it."""
        self._loop = asyncio.get_running_loop()

    async def close(self) -> None:
        self._loop = None
        if self._channel is not None:
            channel, self._channel = self._channel, None
            await channel.close()

    async def _ask(self, method: str, request: msgspec.Struct, kind: type[R]) -> R:
        grpc = load_grpc()
        if self._loop is not asyncio.get_running_loop():
            raise StateRefused("state is there for the actions of a plugin that serves; nothing serves here")
        if self._channel is None:
            path = os.environ.get(STATE_SOCKET)
            if not path:
                raise StateRefused(f"nothing can be kept here: {STATE_SOCKET} is not set")
            self._channel = grpc.aio.insecure_channel(f"unix:{path}", options=[("grpc.enable_http_proxy", 0)])
        call = self._channel.unary_unary(f"{STATE}/{method}")
        try:
            return decode(await call(encode(request), timeout=WAIT_S), kind)
        except grpc.aio.AioRpcError as error:
            raise StateRefused(error.details() or error.code().name) from None

    def _wait(self, asked: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            asked.close()
            raise StateRefused("state is there for the actions of a plugin that serves; nothing serves here")
        if asyncio._get_running_loop() is not None:
            asked.close()
            raise RuntimeError("an async action must not wait: use `await state.aget(…)` and the like")
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result()


state = State()
