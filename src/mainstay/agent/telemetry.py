"""Telemetry set-up: trace export to an OTLP collector over HTTP, and counters for `/metrics`."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol
from urllib.parse import urlsplit

from mainstay import __version__
from mainstay.agent.model_providers import list_failover_entries
from mainstay.config.check_telemetry import find_endpoint_problem, find_header_problem
from mainstay.config.schema import Config
from mainstay.config.schema_judges_budgets_telemetry import TelemetrySettings
from mainstay.core.errors import ConfigError
from mainstay.core.http_response_parser import ConnectionBroken
from mainstay.core.ports import Store
from mainstay.core.projection_ports import Projection
from mainstay.core.provider_manifest import find_telemetry_name
from mainstay.observe.otlp_encoder import encode_request
from mainstay.observe.span_exporter import CollectorResponse, SpanExporter
from mainstay.observe.span_types import Attributes, ModelEndpoint, TelemetryOptions
from mainstay.observe.traces import TraceProjection
from mainstay.observe.turn_metrics import MetricsProjection, TurnMetrics
from mainstay.providers.registry import find_provider
from mainstay.providers.wire.connector import Connector, HttpRoute
from mainstay.providers.wire.http1 import HttpConnection

log = logging.getLogger("mainstay.observe")

TRACES_PATH = "/v1/traces"
RESPONSE_BYTES_MAX = 64 * 1024


class TelemetryDependencies(Protocol):
    """What telemetry needs of a workspace. `ObservabilityDependencies` is one."""

    @property
    def config(self) -> Config: ...
    @property
    def store(self) -> Store: ...
    @property
    def redact_text(self) -> Callable[[str], str]: ...
    @property
    def model(self) -> str: ...
    @property
    def heads(self) -> Mapping[str, int]: ...


class Telemetry:
    """Telemetry that all workspaces of a process share: one exporter per collector, one set of counters."""

    def __init__(self, *, with_metrics: bool = False) -> None:
        self.started_at_s = time.time()
        self.metrics = TurnMetrics() if with_metrics else None
        self.exporters: dict[tuple[object, ...], SpanExporter] = {}
        self._collectors: list[OtlpCollectorClient] = []

    def build_projections(self, workspace: TelemetryDependencies) -> list[Projection]:
        """Return the projections for traces and metrics of a workspace, as configured; they begin at its `heads`."""
        settings = workspace.config.telemetry
        options = build_telemetry_options(workspace.config, workspace.redact_text, workspace.model)
        readers: list[Projection] = []
        if settings.endpoint:
            readers.append(
                TraceProjection(
                    workspace.store, self._get_exporter(settings), options, settings.sample, workspace.heads
                )
            )
        if self.metrics is not None and settings.metrics:
            readers.append(MetricsProjection(self.metrics, options, workspace.heads))
        return readers

    def _get_exporter(self, settings: TelemetrySettings) -> SpanExporter:
        key = (settings.endpoint, tuple(settings.headers.items()), settings.service)
        if (exporter := self.exporters.get(key)) is None:
            collector = OtlpCollectorClient(settings.endpoint, settings.headers)
            self._collectors.append(collector)
            attributes = build_resource(settings.service)

            def wrap(blocks: Sequence[bytes]) -> bytes:
                return encode_request(attributes, __version__, blocks)

            exporter = self.exporters[key] = SpanExporter(collector.send, wrap)
        return exporter

    async def close(self) -> None:
        for exporter in self.exporters.values():
            await exporter.close()
        for collector in self._collectors:
            collector.close()


def build_resource(service: str) -> Attributes:
    """Return the OpenTelemetry resource attributes of this process."""
    return {
        "service.name": service,
        "service.version": __version__,
        "service.instance.id": f"{socket.gethostname()}:{os.getpid()}",
        "telemetry.sdk.name": "mainstay",
        "telemetry.sdk.language": "python",
        "telemetry.sdk.version": __version__,
    }


def build_telemetry_options(config: Config, redact: Callable[[str], str], model: str = "") -> TelemetryOptions:
    """Return what the traces and metrics of a workspace may contain. `model`: the `model` argument of the agent."""
    content = config.telemetry.content
    return TelemetryOptions(
        workspace=config.workspace, models=index_models(config, model), redact=redact, include_content=content
    )


def index_models(config: Config, model: str = "") -> dict[str, ModelEndpoint]:
    """Return the configured models by name: journals name a model with or without its provider's prefix."""
    models: dict[str, ModelEndpoint] = {}
    # the first one last: it wins a name that two models have
    for entry in reversed(list_failover_entries(model or None, config)):
        provider, _, name = entry.model.partition("/")
        settings = config.providers.get(provider)
        address = entry.base_url or (settings.base_url if settings is not None else None)
        component = find_provider(provider) if not address else None
        host = urlsplit(address or (component.base_url if component is not None else "")).hostname or ""
        models[name] = models[entry.model] = ModelEndpoint(find_telemetry_name(provider), name, host)
    return models


class OtlpCollectorClient:
    """Client of an OTLP/HTTP collector; keeps one connection alive."""

    def __init__(self, endpoint: str, headers: Mapping[str, str]) -> None:
        """Raises ConfigError."""
        self._connector = Connector()
        if problem := find_endpoint_problem(endpoint) or find_header_problem(headers):
            raise ConfigError(problem)
        base = endpoint.rstrip("/")
        self._route: HttpRoute = self._connector.find_route(base if base.endswith(TRACES_PATH) else base + TRACES_PATH)
        self._headers = {
            **headers,
            "Content-Type": "application/x-protobuf",
            "User-Agent": f"mainstay/{__version__}",
        }
        self._idle_connection: HttpConnection | None = None

    async def send(self, body: bytes) -> CollectorResponse:
        """Post a body and return the status; status 0 if the collector cannot be reached."""
        request = self._route.build_request(self._headers, body)
        connection, self._idle_connection = self._idle_connection, None
        try:
            if connection is not None and connection.is_alive:
                try:
                    return await self._send_request(connection, request)
                except ConnectionBroken:
                    pass  # the collector had closed the idle connection
            return await self._send_request(await self._connector.connect(self._route), request)
        except (ConnectionBroken, OSError, ValueError) as error:
            reason = str(error) or type(error).__name__
            return CollectorResponse(0, error=f"{self._route.host}:{self._route.port} cannot be reached ({reason})")

    async def _send_request(self, connection: HttpConnection, request: bytes) -> CollectorResponse:
        try:
            connection.send(request)
            head = await connection.read_head()
            size = 0
            while size < RESPONSE_BYTES_MAX and (chunk := await connection.read()):
                size += len(chunk)
        except BaseException:
            connection.close()
            raise
        if connection.is_complete and connection.keep_alive and connection.is_alive:
            self._idle_connection = connection
        else:
            connection.close()
        retry_after = head.headers.get("retry-after", "")
        return CollectorResponse(
            head.status, float(retry_after) if retry_after.isdigit() and len(retry_after) < 9 else None
        )

    def close(self) -> None:
        connection, self._idle_connection = self._idle_connection, None
        if connection is not None:
            connection.close()
