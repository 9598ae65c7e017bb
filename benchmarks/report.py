"""Result rows of the benchmarks, as a Markdown table and as JSON."""

from __future__ import annotations

import datetime
import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Target:
    """A bound on the ratio to the limit (`of="ratio"`) or on Mainstay's own value (`of="ours"`)."""

    bound: float
    of: str = "ratio"
    at_least: bool = False

    def is_met(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound

    def format_bound(self, unit: str) -> str:
        sign = "≥" if self.at_least else "≤"
        return f"{sign} {self.bound:g}{'x' if self.of == 'ratio' else ' ' + unit}"


@dataclass(frozen=True)
class Row:
    """One row of the table. `ours` is Mainstay's value; `raw` contains the value of every repetition.

    Field names are keys of the JSON files in benchmarks/results.
    """

    case: str
    figure: str
    unit: str
    ours: float | None = None
    limit: float | None = None
    ratio: float | None = None
    target: Target | None = None
    note: str = ""
    error: str = ""
    raw: dict[str, list[float]] = field(default_factory=dict)

    @property
    def meets_target(self) -> bool | None:
        """None if the row has no target or no value."""
        if self.error:
            return False
        value = self.ratio if self.target and self.target.of == "ratio" else self.ours
        return None if self.target is None or value is None else self.target.is_met(value)

    def format_cells(self) -> list[str]:
        if self.error:
            return [self.figure, "", "failed: " + self.error.replace("|", "/"), "", "", "no"]
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}x"
        target = self.note if self.target is None else self.target.format_bound(self.unit)
        met = "" if self.meets_target is None else "yes" if self.meets_target else "**no**"
        return [f"{self.figure}, {self.unit}", format_number(self.limit), format_number(self.ours), ratio, target, met]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"met": self.meets_target}


def format_number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def format_table(rows: list[Row]) -> str:
    """Format rows as a Markdown table whose columns are also aligned in a terminal."""
    lines = [["figure", "limit", "ours", "ratio", "target", "met"], *(row.format_cells() for row in rows)]
    width = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    text = ["| " + " | ".join(cell.ljust(width[i]) for i, cell in enumerate(line)) + " |" for line in lines]
    text.insert(1, "|" + "|".join("-" * (w + 2) for w in width) + "|")
    return "\n".join(text)


def describe_machine() -> dict[str, Any]:
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "python": platform.python_version(),
        "cpu": read_cpu_model(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


def read_cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def format_document(rows: list[Row], machine: dict[str, Any], pairs: int, quick: bool) -> str:
    versions = f"{machine['date']}, Python {machine['python']}, {machine['cpu']}, {machine['cores']} cores"
    method = f"Median of {pairs} interleaved pairs." + (
        " A quick run: the figures are not meaningful." if quick else ""
    )
    return (
        f"# Benchmark results\n\n{versions}, {machine['system']}. {method}\n"
        f"What each figure means: [README](../README.md).\n\n{format_table(rows)}\n"
    )
