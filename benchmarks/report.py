"""What was measured, as a table for people and as JSON."""

from __future__ import annotations

import datetime
import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Target:
    """A bound on the ratio to the limit, or on our own value."""

    bound: float
    of: str = "ratio"
    at_least: bool = False

    def met(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound

    def text(self, unit: str) -> str:
        sign = "≥" if self.at_least else "≤"
        return f"{sign} {self.bound:g}{'x' if self.of == 'ratio' else ' ' + unit}"


@dataclass(frozen=True)
class Row:
    """One line of the table. `raw` holds every repetition."""

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
    def met(self) -> bool | None:
        if self.error:
            return False
        value = self.ratio if self.target and self.target.of == "ratio" else self.ours
        return None if self.target is None or value is None else self.target.met(value)

    def cells(self) -> list[str]:
        if self.error:
            return [self.figure, "", "failed: " + self.error.replace("|", "/"), "", "", "no"]
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}x"
        target = self.note if self.target is None else self.target.text(self.unit)
        met = "" if self.met is None else "yes" if self.met else "**no**"
        return [f"{self.figure}, {self.unit}", number(self.limit), number(self.ours), ratio, target, met]

    def data(self) -> dict[str, Any]:
        return asdict(self) | {"met": self.met}


def number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def table(rows: list[Row]) -> str:
    """A Markdown table whose columns also line up in a terminal."""
    lines = [["figure", "limit", "ours", "ratio", "target", "met"], *(row.cells() for row in rows)]
    width = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    text = ["| " + " | ".join(cell.ljust(width[i]) for i, cell in enumerate(line)) + " |" for line in lines]
    text.insert(1, "|" + "|".join("-" * (w + 2) for w in width) + "|")
    return "\n".join(text)


def machine() -> dict[str, Any]:
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "python": platform.python_version(),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def document(rows: list[Row], where: dict[str, Any], pairs: int, quick: bool) -> str:
    about = f"{where['date']}, Python {where['python']}, {where['cpu']}, {where['cores']} cores, {where['system']}."
    how = f"Median of {pairs} interleaved pairs." + (" A smoke run: the figures mean nothing." if quick else "")
    return f"# Benchmark results\n\n{about} {how}\nWhat each figure means: [README](../README.md).\n\n{table(rows)}\n"
