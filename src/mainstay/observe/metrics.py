"""Metrics: counters and histograms in memory, and the text in which Prometheus reads them.

Names and their labels are few and stay few: no session, no person, no workspace is ever a label, and of whatever else a
label may say there is a bound, beyond which it says `other`. By hand: a library for it (prometheus-client, 60 ms of CPU
to import) would be asked for nothing but this.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

SERIES_MAX = 200  # of one metric
OTHER = "other"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# As the conventions for generative AI recommend.
DURATIONS_S = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
_WORD = re.compile(r"[\w./:+@-]{1,100}", re.ASCII)
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})

Labels = tuple[str, ...]


class Sample(msgspec.Struct, frozen=True):
    """One value, as of now."""

    value: float
    labels: Mapping[str, str] = {}


class Gauge(msgspec.Struct, frozen=True):
    """Something that is looked at when somebody asks."""

    name: str
    help: str
    samples: Sequence[Sample]
    kind: Literal["gauge", "counter"] = "gauge"

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, self.help, self.kind)
        for one in self.samples:
            yield f"{self.name}{_labelled(one.labels)} {_number(one.value)}"


class Counter:
    """Only ever grows. One without labels is there from the beginning, at zero."""

    def __init__(self, name: str, help: str, labels: Labels = ()) -> None:
        self.name = name
        self._help = help
        self._labels = labels
        self._values: dict[Labels, float] = {} if labels else {(): 0.0}

    def add(self, *values: str, by: float = 1.0) -> None:
        key = _bounded(values, self._values)
        self._values[key] = self._values.get(key, 0.0) + by

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, self._help, "counter")
        for values, number in self._values.items():
            yield f"{self.name}{_labelled(dict(zip(self._labels, values, strict=True)))} {_number(number)}"


class Histogram:
    def __init__(self, name: str, help: str, buckets: Sequence[float], labels: Labels = ()) -> None:
        self.name = name
        self._help = help
        self._buckets = buckets
        self._labels = labels
        self._values: dict[Labels, tuple[list[int], list[float]]] = {}

    def observe(self, number: float, *values: str) -> None:
        key = _bounded(values, self._values)
        if (found := self._values.get(key)) is None:
            found = self._values[key] = [0] * (len(self._buckets) + 1), [0.0]
        found[0][bisect_left(self._buckets, number)] += 1
        found[1][0] += number

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, self._help, "histogram")
        for values, (counts, total) in self._values.items():
            labels = dict(zip(self._labels, values, strict=True))
            below = 0
            for edge, count in zip((*self._buckets, float("inf")), counts, strict=True):
                below += count
                yield f"{self.name}_bucket{_labelled({**labels, 'le': _number(edge)})} {below}"
            yield f"{self.name}_sum{_labelled(labels)} {_number(total[0])}"
            yield f"{self.name}_count{_labelled(labels)} {below}"


Metric = Gauge | Counter | Histogram


def rendered(metrics: Iterable[Metric]) -> str:
    """The text of a scrape; nothing is said of a metric that has no values."""
    made: list[str] = []
    for metric in metrics:
        lines = list(metric.lines())
        if len(lines) > 2:
            made += lines
    return "\n".join(made) + "\n"


def label(text: str) -> str:
    """What a model or a plugin made up is not a label."""
    return text if _WORD.fullmatch(text) else OTHER


def _bounded(values: Labels, known: Mapping[Labels, object]) -> Labels:
    if values in known or len(known) < SERIES_MAX:
        return values
    return (OTHER,) * len(values)


def _head(name: str, help: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {help}"
    yield f"# TYPE {name} {kind}"


def _labelled(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items()) + "}"


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))
