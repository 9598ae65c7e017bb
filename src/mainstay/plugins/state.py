"""What a plugin keeps, served on a socket of its own: `Get`, `Set`, `Delete`, `Keys`, and nothing else.

Whose state it is was decided when the socket was made; no message names a plugin. Whoever asks too often is answered
later, so that a plugin in a loop costs the core no more than one that is merely busy.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from mainstay.core.contract import (
    STATE,
    ContractBroken,
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
from mainstay.core.errors import InputRefused, MainstayError
from mainstay.core.outside import PluginState, Quota
from mainstay.core.plugin_state import KEY_BYTES_MAX, check_key
from mainstay.plugins.relay import Relay

CALLS_PER_S, BURST = 200.0, 400.0  # above, each waits its turn
CONNECTIONS_MAX = 4
STREAMS_MAX = 8  # calls at once on one of them
KEYS_BYTES_MAX = 3 * 1024 * 1024  # of one answer: clients take 4 MB, if nothing else is said
STOP_S = 1.0

Answer = Callable[[bytes], Awaitable[msgspec.Struct]]


class StateService:
    """The state of one plugin, as that plugin sees it."""

    def __init__(self, plugin: str, state: PluginState, quota: Quota) -> None:
        self._plugin = plugin
        self._state = state
        self._quota = quota
        self._left = BURST
        self._counted = time.monotonic()
        self._server: Any = None
        self._relay = Relay(CONNECTIONS_MAX)

    async def serve(self, path: str, inner: str, grpc: Any) -> None:
        """At `path`; `inner` is a socket that the plugin cannot see. `grpc` is the library: it is loaded by whoever
        needs a plugin."""
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
        answers: dict[str, Answer] = {
            "Get": self._get,
            "Set": self._set,
            "Delete": self._delete,
            "Keys": self._keys,
        }
        methods = {name: self._handler(answer, grpc) for name, answer in answers.items()}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(STATE.strip("/"), methods),))
        server.add_insecure_port(f"unix:{inner}")
        await server.start()
        self._server = server
        await self._relay.serve(path, inner)

    async def close(self) -> None:
        await self._relay.close()
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(STOP_S)

    def _handler(self, answer: Answer, grpc: Any) -> Any:
        async def handle(request: bytes, context: Any) -> bytes:
            await self._turn()
            try:
                return encode(await answer(request))
            except (ContractBroken, InputRefused) as error:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            except MainstayError:  # what is wrong with our disk is not a plugin's business
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the state cannot be reached at the moment")
            raise AssertionError("abort raises")

        return grpc.unary_unary_rpc_method_handler(handle)

    async def _turn(self) -> None:
        now = time.monotonic()
        self._left = min(BURST, self._left + (now - self._counted) * CALLS_PER_S) - 1
        self._counted = now
        if self._left < 0:
            await asyncio.sleep(-self._left / CALLS_PER_S)

    async def _get(self, data: bytes) -> GetResponse:
        request = decode(data, GetRequest)
        check_key(request.key)
        value = await self._state.get(self._plugin, request.key)
        return GetResponse(value or "", value is not None)

    async def _set(self, data: bytes) -> SetResponse:
        request = decode(data, SetRequest)
        await self._state.set(self._plugin, request.key, request.value, self._quota)
        return SetResponse()

    async def _delete(self, data: bytes) -> DeleteResponse:
        request = decode(data, DeleteRequest)
        check_key(request.key)
        return DeleteResponse(await self._state.delete(self._plugin, request.key))

    async def _keys(self, data: bytes) -> KeysResponse:
        request = decode(data, KeysRequest)
        if request.prefix:
            check_key(request.prefix)
        keys = tuple(await self._state.keys(self._plugin, request.prefix))
        if sum(len(key.encode()) + 8 for key in keys) > KEYS_BYTES_MAX:
            raise InputRefused("these are too many keys for one answer; ask for those with a common beginning")
        return KeysResponse(keys)
