"""Metrics: counters, gauges and histograms in memory, and their Prometheus text format.

The number of time series is bounded: sessions, people and workspaces are never labels, and beyond a limit the values of
other labels become `other`. Written by hand: an increment costs a sixth of prometheus-client's, and its text format
alone would replace 38 lines with 28.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

SERIES_MAX = 200  # time series of one metric
OTHER_LABEL = "other"

# The buckets that OpenTelemetry's conventions for generative AI recommend.
DURATION_BUCKETS_S = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
TOKEN_BUCKETS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
_WORD = re.compile(r"[\w./:+@-]{1,100}", re.ASCII)
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})

LabelValues = tuple[str, ...]


class MetricSample(msgspec.Struct, frozen=True):
    """One current value, with its labels."""

    value: float
    labels: Mapping[str, str] = {}


class Gauge(msgspec.Struct, frozen=True):
    """A metric whose values are read at the time of a scrape."""

    name: str
    help: str
    samples: Sequence[MetricSample]
    kind: Literal["gauge", "counter"] = "gauge"

    def lines(self) -> Iterator[str]:
        yield from _format_header(self.name, self.help, self.kind)
        for sample in self.samples:
            yield f"{self.name}{_format_labels(sample.labels)} {_format_number(sample.value)}"


class Counter:
    """A value that only grows. A counter without labels starts at zero."""

    def __init__(self, name: str, help: str, labels: LabelValues = ()) -> None:
        self.name = name
        self._help = help
        self._labels = labels
        self._values: dict[LabelValues, float] = {} if labels else {(): 0.0}

    def add(self, *values: str, amount: float = 1.0) -> None:
        key = _limit_series(values, self._values)
        self._values[key] = self._values.get(key, 0.0) + amount

    def lines(self) -> Iterator[str]:
        yield from _format_header(self.name, self._help, "counter")
        for values, number in self._values.items():
            yield f"{self.name}{_format_labels(dict(zip(self._labels, values, strict=True)))} {_format_number(number)}"


class Histogram:
    """Counts observed values in buckets."""

    def __init__(self, name: str, help: str, buckets: Sequence[float], labels: LabelValues = ()) -> None:
        self.name = name
        self._help = help
        self._buckets = buckets
        self._labels = labels
        self._values: dict[LabelValues, tuple[list[int], list[float]]] = {}

    def observe(self, value: float, *values: str) -> None:
        key = _limit_series(values, self._values)
        if (series := self._values.get(key)) is None:
            series = self._values[key] = [0] * (len(self._buckets) + 1), [0.0]
        counts, total = series
        counts[bisect_left(self._buckets, value)] += 1
        total[0] += value

    def lines(self) -> Iterator[str]:
        yield from _format_header(self.name, self._help, "histogram")
        for values, (counts, total) in self._values.items():
            labels = dict(zip(self._labels, values, strict=True))
            cumulative = 0
            for upper_bound, count in zip((*self._buckets, float("inf")), counts, strict=True):
                cumulative += count
                yield f"{self.name}_bucket{_format_labels({**labels, 'le': _format_number(upper_bound)})} {cumulative}"
            yield f"{self.name}_sum{_format_labels(labels)} {_format_number(total[0])}"
            yield f"{self.name}_count{_format_labels(labels)} {cumulative}"


Metric = Gauge | Counter | Histogram


def render_metrics(metrics: Iterable[Metric]) -> str:
    """Return the text of a scrape. Metrics without values are left out."""
    text_lines: list[str] = []
    for metric in metrics:
        lines = list(metric.lines())
        if len(lines) > 2:
            text_lines += lines
    return "\n".join(text_lines) + "\n"


def safe_label(text: str) -> str:
    """Return the text if it is usable as a label value, else `other`: models and plugins may send any text."""
    return text if _WORD.fullmatch(text) else OTHER_LABEL


def _limit_series(values: LabelValues, known: Mapping[LabelValues, object]) -> LabelValues:
    if values in known or len(known) < SERIES_MAX:
        return values
    return (OTHER_LABEL,) * len(values)


def _format_header(name: str, help: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {help}"
    yield f"# TYPE {name} {kind}"


def _format_labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items()) + "}"


def _format_number(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))
