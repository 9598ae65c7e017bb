"""Opens the gateway's network listeners (HTTP and gRPC), applies changed settings, and shuts down gracefully."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING

from mainstay import __version__
from mainstay.agent.gc_tuning import tune_interpreter
from mainstay.config.schema_gateway import ServerSettings
from mainstay.core.errors import ConfigError
from mainstay.core.future_types import AnyFuture
from mainstay.gateway.service import GatewayService
from mainstay.server.connection_limits import ConnectionLimits
from mainstay.server.open_files import raise_open_file_limit

if TYPE_CHECKING:
    from mainstay.server.grpc.authentication import GrpcSettings
    from mainstay.server.http_app import HttpApp
    from mainstay.server.http_state import HttpSettings

log = logging.getLogger("mainstay.gateway")

OnListening = Callable[[str, str], object]  # called with the addresses of HTTP and gRPC ("": none)
RESTART_SETTINGS = ("host", "port", "grpc_port", "tls", "connections_max", "logs")  # settings that need a restart
GRPC_RESTART_SETTINGS = ("rate_per_min", "streams_max", "body_bytes_max")


def is_loopback_host(host: str) -> bool:
    """True if only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def run_listeners(
    service: GatewayService, stop: asyncio.Event, stop_now: asyncio.Event, on_listening: OnListening
) -> None:
    """Listen and start the service. Serves until `stop` is set, and then until running turns have ended, at most
    `drain_s` longer; when `stop_now` is set, it ends at once. Raises ConfigError."""
    settings = service.config.server
    if not is_loopback_host(settings.host) and not service.people.has_usable_keys:
        advice = "make one with `mainstay user add NAME` and `mainstay user key NAME`"
        raise ConfigError(f"the server does not listen on {settings.host} without an API key: {advice}")
    try:
        from mainstay.server.uvicorn_server import bind_socket
    except ImportError as error:
        raise ConfigError(f"this needs a library ({error}): pip install -e '.[serve]'") from None
    connection_limits = _limit_connections(settings)
    with bind_socket(settings.host, settings.port) as sock:
        app = _create_http_app(service, settings, sock)
        tasks = [
            asyncio.ensure_future(_serve_http(service, app, sock, connection_limits, (stop, stop_now))),
            asyncio.ensure_future(_start_service(service, stop)),
        ]
        grpc_address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        if settings.grpc_port is None:
            grpc_address.set_result("")
        else:
            grpc_settings = _build_grpc_settings(service, connection_limits.connections_max)
            tasks.append(
                asyncio.ensure_future(_serve_grpc(service, app, grpc_settings, (stop, stop_now), grpc_address))
            )
        try:
            waiting: set[AnyFuture] = {*tasks, grpc_address}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if grpc_address.done():
                service.listen_addresses = tuple(
                    address for address in (_format_url(settings, sock), grpc_address.result()) if address
                )
                service.on_reload = lambda before: _apply_settings(service, app, settings, sock)
                on_listening(_format_url(settings, sock), grpc_address.result())
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not stop.is_set():
                stop_now.set()  # a listener failed: do not wait for turns
            stop.set()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks:
            task.result()


async def _start_service(service: GatewayService, stop: asyncio.Event) -> None:
    """Start the service; `/readyz` reports its progress meanwhile."""
    await _run_until(service.start(), stop)
    tune_interpreter()
    await stop.wait()


def _apply_settings(service: GatewayService, app: HttpApp, initial: ServerSettings, sock: socket.socket) -> list[str]:
    """Apply changed settings from the next request on. Return the settings that differ from those at the start; some
    of them need a restart, and say so."""
    current = service.config.server
    app.configure(_build_http_settings(service, initial.host, sock))
    restart_only = [*RESTART_SETTINGS, *(GRPC_RESTART_SETTINGS if initial.grpc_port is not None else ())]
    changed = [name for name in current.__struct_fields__ if getattr(current, name) != getattr(initial, name)]
    return [f"server.{name} (at the next start)" if name in restart_only else f"server.{name}" for name in changed]


def _format_url(settings: ServerSettings, sock: socket.socket) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{'https' if settings.tls.certificate else 'http'}://{host}:{sock.getsockname()[1]}"


def _create_http_app(service: GatewayService, settings: ServerSettings, sock: socket.socket) -> HttpApp:
    from mainstay.server.http_app import create_app
    from mainstay.server.openai.routes import create_openai_routes

    http_settings = _build_http_settings(service, settings.host, sock)
    return create_app(service.gateway, http_settings, mounts=service.build_mounts(), routes=create_openai_routes())


def _build_http_settings(service: GatewayService, host: str, sock: socket.socket) -> HttpSettings:
    """Return the current settings, with the host that it listens on: that decides whether a key is required."""
    from mainstay.server.http_state import HttpSettings

    settings = service.config.server
    return HttpSettings(
        host=host,
        port=sock.getsockname()[1],
        keys=service.key_requirement,
        hosts=settings.hosts,
        origins=settings.origins,
        body_bytes_max=settings.body_bytes_max,
        rate_per_min=settings.rate_per_min,
        streams_max=settings.streams_max,
        version=__version__,
        workspace=service.config.workspace,
        find_unready=service.find_unready,
        render_metrics=service.build_metrics_page if service.config.telemetry.metrics else None,
    )


def _limit_connections(settings: ServerSettings) -> ConnectionLimits:
    """Raise the limit of open files, and return limits of each listener that leave a reserve of it for files."""
    open_files = raise_open_file_limit()
    listeners = 1 if settings.grpc_port is None else 2
    connections_max = open_files.share_connections(settings.connections_max, listeners)
    if connections_max < settings.connections_max:
        log.warning(
            "server.connections_max is %d, but the limit of %d open files allows %d%s; raise it (LimitNOFILE=, ulimit)",
            settings.connections_max,
            open_files.files_max,
            connections_max,
            " of HTTP and as many of gRPC" if listeners == 2 else "",
        )
    return ConnectionLimits.for_connections(connections_max, settings.body_bytes_max, open_files.descriptor_max)


async def _serve_http(
    service: GatewayService,
    app: HttpApp,
    sock: socket.socket,
    limits: ConnectionLimits,
    stop_events: tuple[asyncio.Event, asyncio.Event],
) -> None:
    from mainstay.server.uvicorn_server import UvicornOptions, create_tls_context, serve_asgi

    stop, stop_now = stop_events
    settings = service.config.server
    tls = create_tls_context(settings.tls.certificate, settings.tls.key) if settings.tls.certificate else None

    async def drain() -> None:
        await _run_until(service.drain(service.config.server.drain_s), stop_now)

    await serve_asgi(
        app, sock, stop, app.drain, UvicornOptions(limits=limits, tls=tls, drain=drain, on_stopped=app.close)
    )


async def _run_until(work: Coroutine[object, None, None], event: asyncio.Event) -> None:
    """Run something until it ends or the event is set, which cancels it."""
    task, waiter = asyncio.ensure_future(work), asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((task, waiter), return_when=asyncio.FIRST_COMPLETED)
    finally:
        finished = task.done()
        for future in (task, waiter):
            future.cancel()
        await asyncio.gather(task, waiter, return_exceptions=True)
    if finished:
        task.result()  # raises its error


def _build_grpc_settings(service: GatewayService, connections_max: int) -> GrpcSettings:
    from mainstay.server.grpc.authentication import GrpcSettings

    settings = service.config.server
    return GrpcSettings(
        workspace=service.config.workspace,
        keys=service.key_requirement,
        needs_key=lambda: service.key_requirement != "auto",
        certificate=settings.tls.certificate,
        private_key=settings.tls.key,
        message_bytes_max=settings.body_bytes_max,
        connections_max=connections_max,
        calls_max=settings.connections_max,
        rate_per_min=settings.rate_per_min,
        streams_max=settings.streams_max,
        drain_s=settings.drain_s,
        find_unready=service.find_unready,
    )


async def _serve_grpc(
    service: GatewayService,
    app: HttpApp,
    grpc_settings: GrpcSettings,
    stop_events: tuple[asyncio.Event, asyncio.Event],
    bound_address: asyncio.Future[str],
) -> None:
    from mainstay.server.grpc.server import serve_grpc

    stop, stop_now = stop_events
    settings = service.config.server
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    server = serve_grpc(
        service.gateway,
        grpc_settings,
        f"{host}:{settings.grpc_port}",
        stop,
        rate_limiter=app.state.rate_limiter,
        on_listening=lambda port: bound_address.set_result(f"{host}:{port}"),
    )
    await _run_until(server, stop_now)
