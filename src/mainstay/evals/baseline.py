"""Baseline of an evaluation: the results of an earlier run in a file beside the cases, to detect regressions."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from mainstay.core.errors import ConfigError
from mainstay.evals.results import CaseResult, EvalRun

FILE_BYTES_MAX = 16 * 1024 * 1024
_FLOAT_TOLERANCE = 1e-9  # rounding: 0.90 is not worse than 0.95 by more than 0.05


class BaselineEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """The earlier result of a case."""

    result: Literal["passed", "failed", "error"]
    score: Annotated[float, Meta(ge=0, le=1)] | None = None


class Baseline(msgspec.Struct, frozen=True):
    version: Literal[1]
    cases: dict[str, BaselineEntry]


class BaselineComparison(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={"regressions": "worse", "improvements": "better", "known_failures": "known"},
):
    """Differences to the baseline, by case name. `known_failures` failed in the baseline too."""

    regressions: dict[str, str] = {}  # with the reason
    improvements: dict[str, str] = {}
    missing: tuple[str, ...] = ()  # in the baseline, but no longer a case
    extra: tuple[str, ...] = ()  # not in the baseline yet
    known_failures: frozenset[str] = frozenset()


def read_baseline(path: Path) -> Baseline:
    """Read a baseline file. Raises ConfigError."""
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"the baseline {path} cannot be read: {error.strerror}") from None
    if len(raw) > FILE_BYTES_MAX:
        raise ConfigError(f"the baseline {path} is larger than {FILE_BYTES_MAX} bytes")
    try:
        return msgspec.json.decode(raw, type=Baseline)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not a baseline file: {error}; create one with --save-baseline") from None


def build_baseline(run: EvalRun, previous: Baseline | None) -> Baseline:
    """Build the baseline of a run. Entries of `previous` stay for cases that were not run."""
    cases = dict(previous.cases) if previous is not None else {}
    for result in run.results:
        if result.result != "skipped":
            cases[result.name] = BaselineEntry(result.result, result.score)
    return Baseline(1, cases)


def format_baseline(baseline: Baseline) -> str:
    """Format as JSON with one line per case, so that a diff is readable in a review."""
    lines = [f"    {_to_json(name)}: {_to_json(entry)}" for name, entry in baseline.cases.items()]
    return '{\n  "version": 1,\n  "cases": {\n' + ",\n".join(lines) + "\n  }\n}\n"


def _to_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def compare_with_baseline(
    run: EvalRun, baseline: Baseline, tolerance: float, all_names: Collection[str]
) -> BaselineComparison:
    """Compare a run with a baseline. `all_names`: the names of all cases, also of those that were not run."""
    worse: dict[str, str] = {}
    better: dict[str, str] = {}
    known: set[str] = set()
    for result in run.results:
        entry = baseline.cases.get(result.name)
        if entry is None or result.result == "skipped":
            continue
        if result.result != "passed" and entry.result != "passed":
            known.add(result.name)
        if change := _compare_result(result, entry, tolerance):
            (worse if change[0] < 0 else better)[result.name] = change[1]
    return BaselineComparison(
        regressions=worse,
        improvements=better,
        missing=tuple(name for name in baseline.cases if name not in all_names),
        extra=tuple(result.name for result in run.results if result.name not in baseline.cases),
        known_failures=frozenset(known),
    )


def _compare_result(result: CaseResult, entry: BaselineEntry, tolerance: float) -> tuple[int, str] | None:
    if (result.result == "passed") != (entry.result == "passed"):
        return (1, "it passes now") if result.result == "passed" else (-1, "it passed before")
    if result.score is None or entry.score is None:
        return None
    change = result.score - entry.score
    if abs(change) <= tolerance + _FLOAT_TOLERANCE:
        return None
    return (-1 if change < 0 else 1), f"{entry.score:.2f} before, {result.score:.2f} now"


def list_failing_cases(run: EvalRun, comparison: BaselineComparison | None, *, strict: bool) -> list[str]:
    """Return the cases that make the run fail: regressions, and failures except known ones (`strict`: all failures)."""
    known = comparison.known_failures if comparison is not None and not strict else frozenset[str]()
    worse = comparison.regressions if comparison is not None else {}
    return [
        result.name
        for result in run.results
        if (result.result != "passed" and result.name not in known) or result.name in worse
    ]
