"""Where the gateway is reached: HTTP with both of its APIs, gRPC, and how all of that ends."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from typing import Any

from mainstay import __version__
from mainstay.agent.staying import settle
from mainstay.config.schema_gateway import ServerSettings
from mainstay.core.errors import ConfigError
from mainstay.gateway.service import Service

Told = Callable[[str, str], object]  # the addresses of HTTP and gRPC, once both can be reached
AT_START = ("host", "port", "grpc_port", "tls", "connections_max", "logs")  # settings that are read only then
GRPC_AT_START = ("rate_per_min", "streams_max", "body_bytes_max")


def is_private(host: str) -> bool:
    """Only this very machine can reach it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def listen(service: Service, stop: asyncio.Event, now: asyncio.Event, told: Told) -> None:
    """Opens the doors, and begins the service behind them. Until `stop` is set, and then for as long as turns need,
    `drain_s` at most; `now`: no longer at all."""
    settings = service.config.server
    if not is_private(settings.host) and not service.people.has_keys:
        said = "make one with `mainstay user add NAME` and `mainstay user key NAME`"
        raise ConfigError(f"the server does not listen on {settings.host} without an API key: {said}")
    try:
        from mainstay.server.web import bind
    except ImportError as error:
        raise ConfigError(f"this needs a library ({error}): pip install -e '.[serve]'") from None
    with bind(settings.host, settings.port) as at:
        app = _app(service, settings, at)
        doing = [asyncio.ensure_future(_web(service, app, at, stop, now)), asyncio.ensure_future(_begin(service, stop))]
        grpc_at: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        if settings.grpc_port is None:
            grpc_at.set_result("")
        else:
            doing.append(asyncio.ensure_future(_grpc(service, app, (stop, now), grpc_at)))
        try:
            waiting: set[asyncio.Future[Any]] = {*doing, grpc_at}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if grpc_at.done():
                service.at = tuple(one for one in (_url(settings, at), grpc_at.result()) if one)
                service.otherwise = lambda before: _reconfigure(service, app, settings, at)
                told(_url(settings, at), grpc_at.result())
                await asyncio.wait(doing, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not stop.is_set():
                now.set()  # something is wrong: nobody waits for turns then
            stop.set()
            await asyncio.gather(*doing, return_exceptions=True)
        for one in doing:
            one.result()


async def _begin(service: Service, stop: asyncio.Event) -> None:
    """Whoever watches can ask how it goes meanwhile (`/readyz`)."""
    await _either(service.begin(), stop)
    settle()
    await stop.wait()


def _reconfigure(service: Service, app: Any, begun: ServerSettings, at: socket.socket) -> list[str]:
    """What is configured otherwise counts from the next request on; some of it only from the next start on. In words,
    of what differs from how it `begun`."""
    now = service.config.server
    app.configure(_settings(service, begun.host, at))
    late = [*AT_START, *(GRPC_AT_START if begun.grpc_port is not None else ())]
    differs = [one for one in now.__struct_fields__ if getattr(now, one) != getattr(begun, one)]
    return [f"server.{one} (at the next start)" if one in late else f"server.{one}" for one in differs]


def _url(settings: ServerSettings, at: socket.socket) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{'https' if settings.tls.certificate else 'http'}://{host}:{at.getsockname()[1]}"


def _app(service: Service, settings: ServerSettings, at: socket.socket) -> Any:
    from mainstay.server.http_app import make_app
    from mainstay.server.openai.routes import openai_routes

    web = _settings(service, settings.host, at)
    return make_app(service.gateway, web, mounts=service.mounts(), routes=openai_routes())


def _settings(service: Service, host: str, at: socket.socket) -> Any:
    """As configured now, with the address that it listens on: who comes in without a key hangs on that."""
    from mainstay.server.doors import Web

    settings = service.config.server

    return Web(
        host=host,
        port=at.getsockname()[1],
        keys=service.keys,
        hosts=settings.hosts,
        origins=settings.origins,
        body_bytes_max=settings.body_bytes_max,
        rate_per_min=settings.rate_per_min,
        streams_max=settings.streams_max,
        version=__version__,
        workspace=service.config.workspace,
        ready=service.unready,
        metrics=service.metrics if service.config.telemetry.metrics else None,
        workspaces=service.workspaces.names,
    )


async def _web(service: Service, app: Any, at: socket.socket, stop: asyncio.Event, now: asyncio.Event) -> None:
    from mainstay.server.crowd import Bounds
    from mainstay.server.web import Serving, serve_web, tls_context

    settings = service.config.server
    tls = tls_context(settings.tls.certificate, settings.tls.key) if settings.tls.certificate else None
    bounds = Bounds.of(settings.connections_max, settings.body_bytes_max)

    async def drain() -> None:
        await _either(service.drain(service.config.server.drain_s), now)

    await serve_web(app, at, stop, app.drain, Serving(bounds=bounds, tls=tls, drain=drain, last=app.close))


async def _either(work: Any, now: asyncio.Event) -> None:
    doing, hurried = asyncio.ensure_future(work), asyncio.ensure_future(now.wait())
    try:
        await asyncio.wait((doing, hurried), return_when=asyncio.FIRST_COMPLETED)
    finally:
        finished = doing.done()
        for one in (doing, hurried):
            one.cancel()
        await asyncio.gather(doing, hurried, return_exceptions=True)
    if finished:
        doing.result()  # raises what went wrong with it


async def _grpc(
    service: Service, app: Any, ending: tuple[asyncio.Event, asyncio.Event], told: asyncio.Future[str]
) -> None:
    from mainstay.server.grpc.entry import Grpc
    from mainstay.server.grpc.serving import serve_grpc

    stop, now = ending
    settings = service.config.server
    given = Grpc(
        workspace=service.config.workspace,
        keys=service.keys,
        needs_key=lambda: service.keys != "auto",
        certificate=settings.tls.certificate,
        private_key=settings.tls.key,
        message_bytes_max=settings.body_bytes_max,
        connections_max=settings.connections_max,
        calls_max=settings.connections_max,
        rate_per_min=settings.rate_per_min,
        streams_max=settings.streams_max,
        drain_s=settings.drain_s,
    )
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    serving = serve_grpc(
        service.gateway,
        given,
        f"{host}:{settings.grpc_port}",
        stop,
        rates=app.doors.rates,
        listening=lambda port: told.set_result(f"{host}:{port}"),
    )
    await _either(serving, now)
