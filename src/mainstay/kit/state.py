"""Key-value state of a plugin, stored in the workspace's database. A plugin can only access its own keys."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import TYPE_CHECKING, TypeVar

import msgspec

from mainstay.core.plugin_protocol import (
    STATE_SERVICE,
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
from mainstay.kit.grpc_import import require_grpc

if TYPE_CHECKING:
    from grpc.aio import Channel

R = TypeVar("R", bound=msgspec.Struct)
T = TypeVar("T")
REQUEST_TIMEOUT_S = 10.0


class StateRefused(ActionFailed):
    """The state cannot be read or written: it is beyond the quota, or not available."""


class PluginStateClient:
    """Key-value state of the plugin: `await state.aget(key)` in an async action, `state.get(key)` in any other.

    There is one client: the blocking methods wait in the action's thread for the event loop that serves the plugin.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._channel: Channel | None = None

    def get(self, key: str) -> str | None:
        """Return the value of a key; None if there is none."""
        return self._run_blocking(self.aget(key))

    def set(self, key: str, value: str) -> None:
        """Set a key; the value is on disk when this returns. Raises StateRefused beyond the quota."""
        self._run_blocking(self.aset(key, value))

    def delete(self, key: str) -> bool:
        """Delete a key; return False if it does not exist."""
        return self._run_blocking(self.adelete(key))

    def keys(self, prefix: str = "") -> list[str]:
        return self._run_blocking(self.akeys(prefix))

    async def aget(self, key: str) -> str | None:
        answer = await self._request("Get", GetRequest(key), GetResponse)
        return answer.value if answer.found else None

    async def aset(self, key: str, value: str) -> None:
        await self._request("Set", SetRequest(key, value), SetResponse)

    async def adelete(self, key: str) -> bool:
        return (await self._request("Delete", DeleteRequest(key), DeleteResponse)).found

    async def akeys(self, prefix: str = "") -> list[str]:
        return list((await self._request("Keys", KeysRequest(prefix), KeysResponse)).keys)

    # --- connection ------------------------------------------------------------------------------

    def open(self) -> None:
        """Bind to the running event loop; called by `serve`."""
        self._loop = asyncio.get_running_loop()

    async def close(self) -> None:
        self._loop = None
        if self._channel is not None:
            channel, self._channel = self._channel, None
            await channel.close()

    async def _request(self, method: str, request: msgspec.Struct, response_type: type[R]) -> R:
        require_grpc()
        import grpc

        if self._loop is not asyncio.get_running_loop():
            raise StateRefused("state is available only to the actions of a running plugin")
        if self._channel is None:
            path = os.environ.get(STATE_SOCKET)
            if not path:
                raise StateRefused(f"state is not available: {STATE_SOCKET} is not set")
            self._channel = grpc.aio.insecure_channel(f"unix:{path}", options=[("grpc.enable_http_proxy", 0)])
        call = self._channel.unary_unary(f"{STATE_SERVICE}/{method}")
        try:
            answer = await call(encode(request), timeout=REQUEST_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            raise StateRefused(error.details() or error.code().name) from None
        if not isinstance(answer, bytes):  # status OK without a message
            raise StateRefused("the host gave no answer")
        return decode(answer, response_type)

    def _run_blocking(self, coroutine: Coroutine[object, None, T]) -> T:
        if self._loop is None:
            coroutine.close()
            raise StateRefused("state is available only to the actions of a running plugin")
        if asyncio._get_running_loop() is not None:
            coroutine.close()
            raise RuntimeError("an async action must not block: use `await state.aget(…)` instead of `state.get(…)`")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


state = PluginStateClient()
