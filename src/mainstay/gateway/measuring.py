"""What `/metrics` says: what was counted, and how things stand at this very moment."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from mainstay import __version__
from mainstay.agent.opened import Opened
from mainstay.agent.telemetry import Telemetry
from mainstay.metering.resilient import Resilient
from mainstay.observe.exporter import Exporter
from mainstay.observe.metrics import Gauge, Metric, Sample, label, rendered

_BUILD = Gauge("mainstay_build_info", "Which release this is.", (Sample(1.0, {"version": __version__}),))
More = Callable[[], Iterable[Gauge]]


def scrape(telemetry: Telemetry, opened: list[Opened], undelivered: int, more: Iterable[More] = ()) -> str:
    """Of the workspaces that are open, all together. `more`: whoever else has something to say."""
    found: list[Metric] = [_BUILD]
    if telemetry.counts is not None:
        found += telemetry.counts.metrics()
    found += _standing(opened, undelivered)
    found += _resting(opened)
    found += _sending(list(telemetry.exporters.values()))
    for tell in more:
        found += tell()
    found += _process(telemetry.begun)
    return rendered(found)


def _one(name: str, help: str, value: float) -> Gauge:
    return Gauge(name, help, (Sample(value),))


def _total(name: str, help: str, value: float) -> Gauge:
    return Gauge(name, help, (Sample(value),), "counter")


def _standing(opened: list[Opened], undelivered: int) -> Iterator[Gauge]:
    loads = [one.lanes.load() for one in opened]
    hubs = [one.services.hub for one in opened]
    pending = sum(len(one.services.approvals) for one in opened)
    yield _one("mainstay_workspaces_open", "Workspaces that are open.", len(opened))
    yield _one("mainstay_lanes_awake", "Sessions that are in memory.", sum(len(one.lanes) for one in opened))
    yield _one("mainstay_turns_running", "Turns under way.", sum(running for running, _ in loads))
    yield _one("mainstay_inputs_waiting", "Inputs that wait for their turn.", sum(waiting for _, waiting in loads))
    yield _one("mainstay_approvals_pending", "Turns that wait for an approval.", pending)
    yield _one("mainstay_outbox_pending", "Messages on their way to a chat platform.", undelivered)
    yield _one("mainstay_watchers", "Those who watch sessions.", sum(one.watching for one in hubs))
    missed = sum(one.missed for one in hubs)
    yield _total("mainstay_watchers_missed_events_total", "Events lost on watchers that were too slow.", missed)


def _resting(opened: list[Opened]) -> Iterator[Gauge]:
    """Of the models that are asked where nobody chose another."""
    found: dict[str, float] = {}
    for one in opened:
        provider = one.services.choose("")
        for name, seconds in provider.resting() if isinstance(provider, Resilient) else ():
            found[label(name)] = max(seconds, found.get(label(name), 0.0))
    samples = tuple(Sample(float(seconds > 0), {"model": name}) for name, seconds in found.items())
    yield Gauge("mainstay_breaker_open", "1: this model failed too often, and is left alone.", samples)


def budget_gauges(used: Mapping[str, float]) -> Iterator[Gauge]:
    """By budget: the share of it that is used, without saying by whom."""
    samples = tuple(Sample(share, {"budget": name}) for name, share in used.items())
    yield Gauge("mainstay_budget_used_ratio", "Share of a budget, by whoever has used most of theirs.", samples)


def _sending(exporters: list[Exporter]) -> Iterator[Gauge]:
    if not exporters:
        return
    yield _total("mainstay_spans_sent_total", "Spans that a collector took.", sum(one.sent for one in exporters))
    dropped: dict[str, int] = {"full": 0, "refused": 0, "end": 0}
    for exporter in exporters:
        for why, count in exporter.dropped.items():
            dropped[why] += count
    samples = tuple(Sample(count, {"reason": why}) for why, count in dropped.items())
    yield Gauge("mainstay_spans_dropped_total", "Spans that no collector took.", samples, "counter")
    waiting = sum(one.waiting_bytes for one in exporters)
    yield _one("mainstay_spans_waiting_bytes", "What waits to be sent to a collector.", waiting)


def _process(begun: float) -> Iterator[Gauge]:
    """As Prometheus calls it, of every process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = used.ru_utime + used.ru_stime
    yield _total("process_cpu_seconds_total", "CPU time of this process, user and system.", cpu)
    yield _one("process_start_time_seconds", "When this process began, since 1970.", begun)
    yield _one("process_resident_memory_bytes", "Memory of this process.", _resident(used.ru_maxrss))
    if (open_files := _open_files()) is not None:
        yield _one("process_open_fds", "Files and sockets that are open.", open_files)


def _resident(most: int) -> int:
    """Now, where the system says so; else the most that it ever was."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return most if sys.platform == "darwin" else most * 1024


def _open_files() -> int | None:
    try:
        return len(os.listdir("/dev/fd")) - 1  # but for the one that it took to look
    except OSError:
        return None
