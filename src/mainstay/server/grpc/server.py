"""Serves the gateway over gRPC, with limits on connections, calls, message sizes and slow clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mainstay.core.errors import ConfigError
from mainstay.gateway.api_rate_limiter import ApiRateLimiter
from mainstay.gateway.operation_gateway import OperationGateway
from mainstay.server.grpc.agent_schema import create_descriptor_pool
from mainstay.server.grpc.agent_service import AgentService
from mainstay.server.grpc.authentication import GrpcAuthenticator, GrpcSettings, is_local_address
from mainstay.server.grpc.call_handler import CallHandler
from mainstay.server.grpc.health_reflection import add_health_and_reflection
from mainstay.server.grpc.lazy_import import require_grpc
from mainstay.server.grpc.operations_service import OperationsService

if TYPE_CHECKING:
    from grpc.aio import Server

STREAMS_PER_CONNECTION_MAX = 256
METADATA_BYTES_MAX = 16 * 1024
IDLE_MAX_MS = 60_000  # without a call: idle connections must not keep new ones out for long


async def serve_grpc(
    gateway: OperationGateway,
    settings: GrpcSettings,
    address: str,
    stop: asyncio.Event,
    *,
    rate_limiter: ApiRateLimiter | None = None,
    on_listening: Callable[[int], None] | None = None,
) -> None:
    """Serve until `stop` is set, and then until running calls have ended, at most `drain_s` longer. `on_listening` is
    called with the port ("127.0.0.1:0" takes a free one). `rate_limiter` is shared with HTTP, so that a key has one
    rate limit. Raises ConfigError."""
    is_local = is_local_address(address)
    if not is_local and not gateway.people.has_usable_keys:
        raise ConfigError(f"gRPC is not served on {address} without an API key: make one with `mainstay user key`")
    require_grpc()
    import grpc

    authenticator = GrpcAuthenticator(gateway, settings, rate_limiter or ApiRateLimiter(), is_local=is_local)
    handler = CallHandler(gateway, authenticator, read_timeout_s=settings.read_timeout_s)
    pool = create_descriptor_pool()
    server = grpc.aio.server(options=_server_options(settings), maximum_concurrent_rpcs=settings.calls_max)
    server.add_generic_rpc_handlers(
        (AgentService(handler).create_handler(), OperationsService(handler, pool).create_handler())
    )
    health = add_health_and_reflection(server, authenticator, pool, settings.find_unready)
    port = _bind_port(server, settings, address)
    await server.start()
    await health.set_serving()
    try:
        if on_listening is not None:
            on_listening(port)
        await stop.wait()
    finally:
        await health.set_not_serving()
        shutdown = asyncio.ensure_future(server.stop(settings.drain_s + 2.0))  # accepts no new calls
        try:
            await handler.stop(settings.drain_s)
        finally:  # also when cancelled
            await server.stop(0)
            await shutdown


def _server_options(settings: GrpcSettings) -> list[tuple[str, int | str]]:
    return [
        ("grpc.so_reuseport", 0),  # otherwise two servers on one port would share the calls
        ("grpc.max_receive_message_length", settings.message_bytes_max),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", METADATA_BYTES_MAX),
        ("grpc.absolute_max_metadata_size", METADATA_BYTES_MAX),
        ("grpc.compression_enabled_algorithms_bitset", 1),  # none: a small message could decompress into gigabytes
        ("grpc.max_allowed_incoming_connections", settings.connections_max),
        ("grpc.max_concurrent_streams", min(STREAMS_PER_CONNECTION_MAX, settings.calls_max)),
        ("grpc.server_handshake_timeout_ms", int(settings.handshake_timeout_s * 1000)),
        ("grpc.max_connection_idle_ms", IDLE_MAX_MS),  # clients connect again with their next call
        ("grpc.keepalive_time_ms", 60 * 1000),  # finds clients that vanished
        ("grpc.keepalive_timeout_ms", 20 * 1000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 10 * 1000),  # more often ends the connection
        ("grpc.http2.max_ping_strikes", 2),
    ]


def _bind_port(server: Server, settings: GrpcSettings, address: str) -> int:
    from grpc import ssl_server_credentials

    if bool(settings.certificate) != bool(settings.private_key):
        raise ConfigError("server.tls needs both a certificate and its key")
    try:
        if settings.certificate:
            pair = (Path(settings.private_key).read_bytes(), Path(settings.certificate).read_bytes())
            port = server.add_secure_port(address, ssl_server_credentials([pair]))
        else:
            port = server.add_insecure_port(address)
    except OSError as error:
        raise ConfigError(f"server.tls: {error.filename} cannot be read: {error.strerror}") from None
    except RuntimeError:
        port = 0
    if not port:
        raise ConfigError(
            f"gRPC cannot be served on {address}: the port is in use, or this is not an address of this machine"
        )
    return port
