"""Renders the Prometheus metrics of `/metrics`: counters of the telemetry, and gauges of the current state."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from mainstay import __version__
from mainstay.agent.telemetry import Telemetry
from mainstay.metering.resilient_provider import ResilientProvider
from mainstay.observe.metrics import Gauge, Metric, MetricSample, render_metrics, safe_label
from mainstay.observe.span_exporter import SpanExporter
from mainstay.operations.runtime_protocols import Runtime

_BUILD_INFO = Gauge("mainstay_build_info", "The version of Mainstay.", (MetricSample(1.0, {"version": __version__}),))
GaugeSource = Callable[[], Iterable[Gauge]]


def build_metrics_page(
    telemetry: Telemetry, runtimes: Sequence[Runtime], undelivered: int, gauge_sources: Iterable[GaugeSource] = ()
) -> str:
    """Return the metrics page. Values of all open workspaces are summed up; `gauge_sources` give further gauges."""
    metrics: list[Metric] = [_BUILD_INFO]
    if telemetry.metrics is not None:
        metrics += telemetry.metrics.metrics()
    metrics += _activity_gauges(runtimes, undelivered)
    metrics += _circuit_breaker_gauges(runtimes)
    metrics += _span_export_gauges(list(telemetry.exporters.values()))
    for source in gauge_sources:
        metrics += source()
    metrics += _process_gauges(telemetry.started_at_s)
    return render_metrics(metrics)


def _gauge(name: str, help: str, value: float) -> Gauge:
    return Gauge(name, help, (MetricSample(value),))


def _counter(name: str, help: str, value: float) -> Gauge:
    return Gauge(name, help, (MetricSample(value),), "counter")


def _activity_gauges(runtimes: Sequence[Runtime], undelivered: int) -> Iterator[Gauge]:
    loads = [runtime.lanes.count_load() for runtime in runtimes]
    hubs = [runtime.services.hub for runtime in runtimes]
    pending = sum(len(runtime.services.approvals) for runtime in runtimes)
    yield _gauge("mainstay_workspaces_open", "Open workspaces.", len(runtimes))
    yield _gauge(
        "mainstay_lanes_awake", "Sessions that are in memory.", sum(len(runtime.lanes) for runtime in runtimes)
    )
    yield _gauge("mainstay_turns_running", "Running turns.", sum(running for running, _ in loads))
    yield _gauge("mainstay_inputs_waiting", "Inputs that wait for their turn.", sum(waiting for _, waiting in loads))
    yield _gauge("mainstay_approvals_pending", "Turns that wait for an approval.", pending)
    yield _gauge("mainstay_outbox_pending", "Messages that are not yet delivered to a chat platform.", undelivered)
    yield _gauge("mainstay_watchers", "Subscribers to live events.", sum(hub.watcher_count for hub in hubs))
    missed = sum(hub.missed_total for hub in hubs)
    yield _counter("mainstay_watchers_missed_events_total", "Events dropped because a subscriber was too slow.", missed)


def _circuit_breaker_gauges(runtimes: Sequence[Runtime]) -> Iterator[Gauge]:
    """Yield the state of the circuit breakers of each workspace's default model and its fallbacks."""
    open_for_s: dict[str, float] = {}
    for runtime in runtimes:
        provider = runtime.services.provider_for("")
        for name, seconds in provider.list_breaker_waits() if isinstance(provider, ResilientProvider) else ():
            open_for_s[safe_label(name)] = max(seconds, open_for_s.get(safe_label(name), 0.0))
    samples = tuple(MetricSample(float(seconds > 0), {"model": name}) for name, seconds in open_for_s.items())
    yield Gauge("mainstay_breaker_open", "1: the model's circuit breaker is open after repeated failures.", samples)


def budget_gauges(used_shares: Mapping[str, float]) -> Iterator[Gauge]:
    """Yield the used share of each budget. Labels name the budget only, not the person or session."""
    samples = tuple(MetricSample(share, {"budget": name}) for name, share in used_shares.items())
    yield Gauge("mainstay_budget_used_ratio", "Used share of a budget, the highest of all its holders.", samples)


def _span_export_gauges(exporters: list[SpanExporter]) -> Iterator[Gauge]:
    if not exporters:
        return
    yield _counter(
        "mainstay_spans_sent_total",
        "Spans accepted by a collector.",
        sum(exporter.sent_count for exporter in exporters),
    )
    dropped: dict[str, int] = {"full": 0, "refused": 0, "end": 0}
    for exporter in exporters:
        for reason, count in exporter.dropped_counts.items():
            dropped[reason] += count
    samples = tuple(MetricSample(count, {"reason": reason}) for reason, count in dropped.items())
    yield Gauge("mainstay_spans_dropped_total", "Spans that were dropped.", samples, "counter")
    waiting = sum(exporter.queued_bytes for exporter in exporters)
    yield _gauge("mainstay_spans_waiting_bytes", "Bytes that wait to be sent to a collector.", waiting)


def _process_gauges(started_at: float) -> Iterator[Gauge]:
    """Yield the standard process metrics of Prometheus clients."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = used.ru_utime + used.ru_stime
    yield _counter("process_cpu_seconds_total", "CPU time of this process, user and system.", cpu)
    yield _gauge("process_start_time_seconds", "Start time of this process, in seconds since 1970.", started_at)
    yield _gauge("process_resident_memory_bytes", "Resident memory of this process.", _resident_bytes(used.ru_maxrss))
    if (open_files := _count_open_files()) is not None:
        yield _gauge("process_open_fds", "Open files and sockets.", open_files)


def _resident_bytes(max_rss: int) -> int:
    """Return the resident memory in bytes; without /proc the maximum so far (`ru_maxrss`, KiB except on macOS)."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return max_rss if sys.platform == "darwin" else max_rss * 1024


def _count_open_files() -> int | None:
    try:
        return len(os.listdir("/dev/fd")) - 1  # without the one that listdir itself opened
    except OSError:
        return None
