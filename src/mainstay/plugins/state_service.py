"""gRPC service for a plugin's key-value state: `Get`, `Set`, `Delete` and `Keys`, on one socket per plugin.

The socket decides which plugin's state is served; no request names a plugin. Calls over the rate limit are delayed, so
that a plugin in a loop costs the host no more than a busy one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from mainstay.core.errors import InputRefused, MainstayError
from mainstay.core.plugin_protocol import (
    STATE_SERVICE,
    DeleteRequest,
    DeleteResponse,
    GetRequest,
    GetResponse,
    KeysRequest,
    KeysResponse,
    ProtobufMessageInvalid,
    SetRequest,
    SetResponse,
    decode,
    encode,
)
from mainstay.core.plugin_state_quota import KEY_BYTES_MAX, key_bytes
from mainstay.core.tool_ports import PluginState, PluginStateQuota
from mainstay.plugins.http2_rate_limiter import Http2RateLimiter

if TYPE_CHECKING:
    from grpc import RpcMethodHandler
    from grpc.aio import Server, ServicerContext

CALLS_PER_S, BURST_CALLS = 200.0, 400.0  # calls above this rate are delayed
CONNECTIONS_MAX = 4
STREAMS_MAX = 8  # concurrent calls on one connection
KEYS_BYTES_MAX = 3 * 1024 * 1024  # of one answer: gRPC clients accept 4 MB by default
STOP_GRACE_S = 1.0  # grace for running calls

StateHandler = Callable[[bytes], Awaitable[msgspec.Struct]]


class PluginStateService:
    """Serves the state of one plugin to that plugin."""

    def __init__(self, plugin: str, state: PluginState, quota: PluginStateQuota) -> None:
        self._plugin = plugin
        self._state = state
        self._quota = quota
        self._tokens = BURST_CALLS
        self._refilled_at = time.monotonic()
        self._server: Server | None = None
        self._relay = Http2RateLimiter(CONNECTIONS_MAX)

    async def serve(self, socket_path: str, server_path: str) -> None:
        """Serve at `socket_path`, behind a rate-limiting relay; `server_path` is the socket of the gRPC server, which
        the plugin cannot see."""
        import grpc  # loaded only where a plugin is used

        entry_bytes = self._quota.value_bytes_max + KEY_BYTES_MAX + 64
        server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", entry_bytes),
                ("grpc.max_concurrent_streams", STREAMS_MAX),
                ("grpc.max_allowed_incoming_connections", CONNECTIONS_MAX),
                ("grpc.max_metadata_size", 8192),
                ("grpc.so_reuseport", 0),
            ],
            maximum_concurrent_rpcs=CONNECTIONS_MAX * STREAMS_MAX,
        )
        handlers: dict[str, StateHandler] = {
            "Get": self._get,
            "Set": self._set,
            "Delete": self._delete,
            "Keys": self._keys,
        }
        methods = {name: self._build_handler(handler) for name, handler in handlers.items()}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(STATE_SERVICE.strip("/"), methods),))
        server.add_insecure_port(f"unix:{server_path}")
        await server.start()
        self._server = server
        await self._relay.serve(socket_path, server_path)

    async def close(self) -> None:
        await self._relay.close()
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(STOP_GRACE_S)

    def _build_handler(self, handler: StateHandler) -> RpcMethodHandler:
        import grpc

        async def handle(request: bytes, context: ServicerContext) -> bytes:
            await self._throttle()
            try:
                return encode(await handler(request))
            except (ProtobufMessageInvalid, InputRefused) as error:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            except MainstayError:  # details of a host error are not for the plugin
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the state cannot be reached at the moment")

        return grpc.unary_unary_rpc_method_handler(handle)

    async def _throttle(self) -> None:
        now = time.monotonic()
        self._tokens = min(BURST_CALLS, self._tokens + (now - self._refilled_at) * CALLS_PER_S) - 1
        self._refilled_at = now
        if self._tokens < 0:
            await asyncio.sleep(-self._tokens / CALLS_PER_S)

    async def _get(self, data: bytes) -> GetResponse:
        request = decode(data, GetRequest)
        key_bytes(request.key)
        value = await self._state.get(self._plugin, request.key)
        return GetResponse(value or "", value is not None)

    async def _set(self, data: bytes) -> SetResponse:
        request = decode(data, SetRequest)
        await self._state.set(self._plugin, request.key, request.value, self._quota)
        return SetResponse()

    async def _delete(self, data: bytes) -> DeleteResponse:
        request = decode(data, DeleteRequest)
        key_bytes(request.key)
        return DeleteResponse(await self._state.delete(self._plugin, request.key))

    async def _keys(self, data: bytes) -> KeysResponse:
        request = decode(data, KeysRequest)
        if request.prefix:
            key_bytes(request.prefix)
        keys = tuple(await self._state.keys(self._plugin, request.prefix))
        if sum(len(key.encode()) + 8 for key in keys) > KEYS_BYTES_MAX:
            raise InputRefused("there are too many keys for one answer; list those with a common prefix")
        return KeysResponse(keys)
