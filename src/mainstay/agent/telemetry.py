"""From the configuration to whoever sends traces to a collector, and counts for `/metrics`."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol
from urllib.parse import urlsplit

from mainstay import __version__
from mainstay.agent.models import entries_of
from mainstay.config.check_telemetry import wrong_endpoint, wrong_headers
from mainstay.config.schema import Config
from mainstay.config.schema_observability import TelemetrySettings
from mainstay.core.errors import ConfigError
from mainstay.core.following import Reader
from mainstay.core.ports import Store
from mainstay.observe.counting import CountingReader, Counts
from mainstay.observe.exporter import Exporter, Sent
from mainstay.observe.otlp import request_of
from mainstay.observe.spans import Attributes, Model, Telling
from mainstay.observe.traces import TraceReader
from mainstay.providers.catalogue import PLACES
from mainstay.providers.dial import Dialler, Route
from mainstay.providers.http1 import Broken, Connection

log = logging.getLogger("mainstay.observe")

TRACES = "/v1/traces"
ANSWER_BYTES_MAX = 64 * 1024


class Seen(Protocol):
    """A workspace, as an `observing.Sight` has it."""

    @property
    def config(self) -> Config: ...
    @property
    def store(self) -> Store: ...
    @property
    def hide(self) -> Callable[[str], str]: ...
    @property
    def model(self) -> str: ...
    @property
    def heads(self) -> Mapping[str, int]: ...


class Telemetry:
    """What the workspaces of one process share: one exporter to each collector, one set of counters."""

    def __init__(self, *, counting: bool = False) -> None:
        self.begun = time.time()
        self.counts = Counts() if counting else None
        self.exporters: dict[tuple[object, ...], Exporter] = {}
        self._collectors: list[Collector] = []

    def readers(self, seen: Seen) -> list[Reader]:
        """Who follows the journals of a workspace for this, from its `heads` on; nobody, if nothing is wanted of it."""
        settings = seen.config.telemetry
        telling = telling_of(seen.config, seen.hide, seen.model)
        made: list[Reader] = []
        if settings.endpoint:
            made.append(TraceReader(seen.store, self._exporter(settings), telling, settings.sample, seen.heads))
        if self.counts is not None and settings.metrics:
            made.append(CountingReader(self.counts, telling, seen.heads))
        return made

    def _exporter(self, settings: TelemetrySettings) -> Exporter:
        key = (settings.endpoint, tuple(settings.headers.items()), settings.service)
        if (known := self.exporters.get(key)) is None:
            collector = Collector(settings.endpoint, settings.headers)
            self._collectors.append(collector)
            about = resource(settings.service)

            def wrap(blocks: Sequence[bytes]) -> bytes:
                return request_of(about, __version__, blocks)

            known = self.exporters[key] = Exporter(collector.send, wrap)
        return known

    async def close(self) -> None:
        for exporter in self.exporters.values():
            await exporter.close()
        for collector in self._collectors:
            collector.close()


def resource(service: str) -> Attributes:
    """Who sends these."""
    return {
        "service.name": service,
        "service.version": __version__,
        "service.instance.id": f"{socket.gethostname()}:{os.getpid()}",
        "telemetry.sdk.name": "mainstay",
        "telemetry.sdk.language": "python",
        "telemetry.sdk.version": __version__,
    }


def telling_of(config: Config, clean: Callable[[str], str], model: str = "") -> Telling:
    """`model`: that an agent was given in code."""
    content = config.telemetry.content
    return Telling(workspace=config.workspace, models=models_of(config, model), clean=clean, content=content)


def models_of(config: Config, model: str = "") -> dict[str, Model]:
    """Who answers to which name: journals know a model by its own, or by that with its provider's before it."""
    found: dict[str, Model] = {}
    for entry in reversed(entries_of(model or None, config)):  # the first one last: it is meant by a name that two have
        provider, _, name = entry.model.partition("/")
        given = config.providers.get(provider)
        address = entry.base_url or (given.base_url if given is not None else None)
        place = PLACES.get(provider)
        host = urlsplit(address or (place.base_url if place is not None else "")).hostname or ""
        found[name] = found[entry.model] = Model(provider, name, host)
    return found


class Collector:
    """A place that takes OTLP over HTTP, and the connection to it, which is kept."""

    def __init__(self, endpoint: str, headers: Mapping[str, str]) -> None:
        """Raises ConfigError."""
        self._dialler = Dialler()
        if said := wrong_endpoint(endpoint) or wrong_headers(headers):
            raise ConfigError(said)
        base = endpoint.rstrip("/")
        self._route: Route = self._dialler.route(base if base.endswith(TRACES) else base + TRACES)
        self._headers = {
            **headers,
            "Content-Type": "application/x-protobuf",
            "User-Agent": f"mainstay/{__version__}",
        }
        self._kept: Connection | None = None

    async def send(self, body: bytes) -> Sent:
        request = self._route.request(self._headers, body)
        kept, self._kept = self._kept, None
        try:
            if kept is not None and kept.alive:
                try:
                    return await self._ask(kept, request)
                except Broken:
                    pass  # it had closed the connection meanwhile
            return await self._ask(await self._dialler.connect(self._route), request)
        except (Broken, OSError, ValueError) as error:
            what = str(error) or type(error).__name__
            return Sent(0, trouble=f"{self._route.host}:{self._route.port} cannot be reached ({what})")

    async def _ask(self, connection: Connection, request: bytes) -> Sent:
        try:
            connection.send(request)
            head = await connection.head()
            size = 0
            while size < ANSWER_BYTES_MAX and (more := await connection.read()):
                size += len(more)
        except BaseException:
            connection.close()
            raise
        if connection.over and connection.keeps and connection.alive:
            self._kept = connection
        else:
            connection.close()
        after = head.headers.get("retry-after", "")
        return Sent(head.status, float(after) if after.isdigit() and len(after) < 9 else None)

    def close(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()
