"""`serve_grpc`: the gateway on a port, with bounds on everything that a client could do too much of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mainstay.core.errors import ConfigError
from mainstay.gateway.gateway import Gateway
from mainstay.gateway.rates import Rates
from mainstay.server.grpc.beside import add_beside
from mainstay.server.grpc.entry import Entry, Grpc, is_private
from mainstay.server.grpc.library import load_grpc
from mainstay.server.grpc.service import AgentService

STREAMS_PER_CONNECTION = 256
METADATA_BYTES_MAX = 16 * 1024


async def serve_grpc(
    gateway: Gateway,
    settings: Grpc,
    address: str,
    stop: asyncio.Event,
    *,
    rates: Rates | None = None,
    listening: Callable[[int], None] | None = None,
) -> None:
    """Serves until `stop` is set, and then for as long as calls need, `drain_s` at most. `listening` is told the port
    (of "127.0.0.1:0": any that is free). `rates` are shared with HTTP: a key has one allowance. Raises ConfigError."""
    private = is_private(address)
    if not private and not gateway.people.has_keys:
        raise ConfigError(f"gRPC is not served on {address} without an API key: make one with `mainstay user key`")
    library = load_grpc()
    entry = Entry(gateway, settings, rates or Rates(), private=private)
    service = AgentService(gateway, entry, library.grpc, unread_s=settings.unread_s)
    server = library.grpc.aio.server(options=_options(settings), maximum_concurrent_rpcs=settings.calls_max)
    server.add_generic_rpc_handlers((service.handlers(),))
    health = add_beside(library, server, entry)
    port = _bind(library.grpc, server, settings, address)
    await server.start()
    await health.open()
    try:
        if listening is not None:
            listening(port)
        await stop.wait()
    finally:
        await health.shut()
        ending = asyncio.ensure_future(server.stop(settings.drain_s + 2.0))  # from now on nobody new comes in
        try:
            await service.stop(settings.drain_s)
        finally:  # also when there is no time for it
            await server.stop(0)
            await ending


def _options(settings: Grpc) -> list[tuple[str, int]]:
    return [
        ("grpc.so_reuseport", 0),  # two servers on one port would each get some of the calls
        ("grpc.max_receive_message_length", settings.message_bytes_max),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", METADATA_BYTES_MAX),
        ("grpc.absolute_max_metadata_size", METADATA_BYTES_MAX),
        ("grpc.compression_enabled_algorithms_bitset", 1),  # none: a few bytes could become gigabytes
        ("grpc.max_allowed_incoming_connections", settings.connections_max),
        ("grpc.max_concurrent_streams", min(STREAMS_PER_CONNECTION, settings.calls_max)),
        ("grpc.server_handshake_timeout_ms", int(settings.handshake_s * 1000)),
        ("grpc.max_connection_idle_ms", 10 * 60 * 1000),
        ("grpc.keepalive_time_ms", 60 * 1000),  # who is gone without a word is found out
        ("grpc.keepalive_timeout_ms", 20 * 1000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 10 * 1000),  # more often is abuse, and ends the connection
        ("grpc.http2.max_ping_strikes", 2),
    ]


def _bind(grpc: Any, server: Any, settings: Grpc, address: str) -> int:
    if bool(settings.certificate) != bool(settings.private_key):
        raise ConfigError("server.tls needs both a certificate and its key")
    try:
        if settings.certificate:
            pair = (Path(settings.private_key).read_bytes(), Path(settings.certificate).read_bytes())
            port: int = server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
        else:
            port = server.add_insecure_port(address)
    except OSError as error:
        raise ConfigError(f"server.tls: {error.filename} cannot be read: {error.strerror}") from None
    except RuntimeError:
        port = 0
    if not port:
        raise ConfigError(f"gRPC cannot be served on {address}: the port is taken, or no address of this machine")
    return port
